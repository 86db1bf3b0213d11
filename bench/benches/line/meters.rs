//! The line's own meters, printed.

use pmdns_bench::RigFeed;
use pmdns_config::StageName;

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn print_meters(feed: &RigFeed, what: &str) {
    let counters = feed.rig.workers[0].counters();
    let mut whole = 0.0;
    for (stage, meter) in StageName::ALL.iter().zip(&counters.meters) {
        if meter.batches > 0 {
            let ticks = meter.ticks as f64 / meter.exits.total().max(1) as f64;
            whole += ticks;
            eprint!("{} {ticks:.1}  ", stage.name());
        }
    }
    eprintln!("| stages in all {whole:.1} cycles/packet, {what}");
}
