//! The cost of block lists. `lists [NAMES]...` makes a list of so many names (default 100,000, 1,000,000 and
//! 10,000,000). It prints the time to load it, its memory, and the cost of a query for another name.

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use pmdns_bench::kit::{act, cache_bytes};
use pmdns_bench::rules::Rules;
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_bench::{Feed, Kit};
use pmdns_engine::testing::config;
use pmdns_stages::StageName;
use pmdns_stages::policy::Ruleset;
use pmdns_stages::wire::name::Seed;

const USUAL: [usize; 3] = [100_000, 1_000_000, 10_000_000];
/// Names that are asked for; none is on the list.
const ASKED: usize = 10_000;
const BATCH: usize = 32;
const BATCHES: usize = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut counts = Vec::new();
    for argument in std::env::args().skip(1) {
        counts.push(argument.parse()?);
    }
    if counts.is_empty() {
        counts = USUAL.into();
    }
    say("     names   file MiB    load s   bytes/name   policy ns/query")?;
    say(&format!("{:>10} {:>10} {:>9} {:>12} {:>17.1}", 0, 0, 0, 0, nanoseconds("")))?;
    for names in counts {
        say(&measure(names, &Rules::list(names)?)?)?;
    }
    Ok(())
}

fn say(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{text}")
}

/// One row of the table.
fn measure(names: usize, rules: &Rules) -> Result<String, Box<dyn Error>> {
    let config = config(&rules.settings);
    let start = Instant::now();
    let (ruleset, digest) = Ruleset::load(&config, Seed::new([7; 16]), 1)?;
    let load = start.elapsed().as_secs_f64();
    drop(ruleset);
    let mib = std::fs::metadata(&config.blocklists[0].file)?.len() as f64 / f64::from(1 << 20);
    let each = digest.bytes as f64 / digest.blocked_names as f64;
    let nanoseconds = nanoseconds(&rules.settings);
    Ok(format!("{names:>10} {mib:>10.1} {load:>9.2} {each:>12.1} {nanoseconds:>17.1}"))
}

/// What the policy stage takes for a query that goes on, over its whole batch.
fn nanoseconds(settings: &str) -> f64 {
    let mut kit = Kit::new(settings, cache_bytes(ASKED));
    let mut feed = Feed::new(query_frames(&Spread::Uniform.draw(ASKED, ASKED)), BATCH);
    let mut policy = kit.stages.policy.clone();
    let mut ticks = 0;
    for _ in 0..BATCHES {
        feed.rearm();
        kit.bring_to(StageName::Policy, &mut feed.batch);
        let start = kit.clock.now();
        act(&mut policy, &mut feed.batch, &kit.context);
        ticks += kit.clock.now() - start;
    }
    ticks as f64 * 1e9 / kit.clock.ticks_per_second() as f64 / (BATCH * BATCHES) as f64
}
