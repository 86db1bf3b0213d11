//! What the query log and heavy hitters cost hits: a table of turns that are watched beside turns that are not.
//!
//! Hits come at a million a second, so the threads on the other CPU can follow. Both feeds take turns, a while each, and each
//! round gives a difference.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pmdns_bench::RigFeed;
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_engine::testing::config;
use pmdns_insight::hitters::HeavyHitters;
use pmdns_insight::query_log::OpenLog;

const BATCH: usize = 32;
const NAMES: usize = 10_000;
const QUERIES: usize = 400_000;
const ROUNDS: usize = 21;
/// Turns of each in a round.
const TURNS: usize = 4_000;
/// Hits a second.
const RATE: usize = 1_000_000;
/// The CPU of the threads that read the records.
const OTHER_CPU: usize = 0;
/// How long the data core may take to see that it is watched, and a reader to listen.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is configured, and how.
const SETS: [(&str, &str); 4] = [
    ("dnstap, all", "[query_log]\nring = 1048576\ndnstap = \"/tmp/pmdns-bench.sock\"\n"),
    ("dnstap, 1 in 1,000", "[query_log]\nsample = 1000\ndnstap = \"/tmp/pmdns-bench.sock\"\n"),
    ("JSON lines, 1 in 1,000", "[query_log]\nsample = 1000\njson = \"/tmp/pmdns-bench.json\"\n"),
    ("heavy hitters", "[hitters]\nenabled = true\n"),
];

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    eprintln!("line/watched: cycles a packet, all hits, beside the same without; records lost");
    for (name, settings) in SETS {
        let Some(_reader) = Reader::start(settings) else {
            eprintln!("  {name:<24} fstrm_capture (package fstrm-bin) is missing");
            continue;
        };
        let frames = query_frames(&Spread::Uniform.draw(NAMES, QUERIES));
        let mut base = RigFeed::new("", NAMES, frames.clone(), BATCH);
        let mut feed = RigFeed::new(settings, NAMES, frames, BATCH);
        let config = config(settings);
        let (names, lender) = (feed.rig.rules.names(), &feed.rig.observers);
        let clock = feed.rig.gauges.clock;
        let log = OpenLog::open(&config, (names.clone(), feed.rig.gauges.upstreams.clone()))
            .expect("the log opens")
            .map(|log| log.start(&config, lender, clock, Some(OTHER_CPU)).expect("it starts"));
        let hitters = HeavyHitters::start(&config, lender, names, clock, Some(OTHER_CPU))
            .expect("the thread of heavy hitters starts");
        std::thread::sleep(PATIENCE);
        paced(&mut base);
        paced(&mut feed);
        let mut rounds: Vec<_> =
            (0..ROUNDS).map(|_| [paced(&mut base), paced(&mut feed)]).collect();
        rounds.sort_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
        let [base, with] = rounds[ROUNDS / 2];
        let [least, most] = [0, ROUNDS - 1].map(|at| rounds[at][1] - rounds[at][0]);
        let parts = log.iter().flat_map(|log| log.report());
        let lost: u64 = parts.map(|(_, counters)| counters.lost).sum::<u64>()
            + hitters.map_or(0, |hitters| hitters.counters().lost);
        let share = (with - base) * RATE as f64 / clock.ticks_of(Duration::from_secs(1)) as f64;
        eprintln!(
            "  {name:<24} {base:>6.1} -> {with:>6.1}  {:+.1} ({least:+.1} to {most:+.1}), {:.1} % of the core; lost {lost}",
            with - base,
            share * 100.0
        );
    }
}

/// The program that reads dnstap frames and throws them away. `None`: it is not installed.
struct Reader(Option<Child>);

impl Reader {
    fn start(settings: &str) -> Option<Self> {
        let Some((_, socket)) = settings.split_once("dnstap = \"") else { return Some(Self(None)) };
        let socket = socket.split('"').next().unwrap_or_default();
        let child = Command::new("taskset")
            .args(["-c", &OTHER_CPU.to_string(), "fstrm_capture", "-t", "protobuf:dnstap.Dnstap"])
            .args(["-u", socket, "-w", "/dev/null"])
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        std::thread::sleep(PATIENCE);
        Some(Self(Some(child)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The cycles of a packet, in one round at the rate.
fn paced(feed: &mut RigFeed) -> f64 {
    let clock = feed.rig.gauges.clock;
    let pace = clock.ticks_of(Duration::from_secs(1)) * BATCH as u64 / RATE as u64;
    let mut due = clock.now();
    feed.cycles(TURNS, || {
        while clock.now() < due {
            std::hint::spin_loop();
        }
        due += pace;
    })
}
