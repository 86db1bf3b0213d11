//! The line cut in two, a core each: a table of where the cycles go.
//!
//! The first core also feeds, the second also takes the answers away, neither of which counts: cycles are those
//! of turns that found work. The slower core sets the pace: 1 / its cycles is the line's rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_bench::kit::rig;
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_bench::{cpus, pin};
use pmdns_config::StageName;
use pmdns_engine::counters::Counters;
use pmdns_nics::{Burst, MAX_BURST};

const NAMES: usize = 10_000;
const BATCHES: [usize; 5] = [1, 8, 16, 32, 64];
const LASTS: [StageName; 3] = [StageName::Parse, StageName::RateLimit, StageName::Lookup];
/// Packets on their way at a time: fewer than the ring and the queues have room for, so that none is lost.
const UNDER_WAY: usize = 512;
const LASTING: Duration = Duration::from_millis(500);

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    if cpus() < 2 {
        return eprintln!("line/split: needs two CPUs");
    }
    eprintln!(
        "line/split: {NAMES} names, all hits, cycles per packet in busy turns; lost: ring or queue full"
    );
    for last in LASTS {
        for batch in BATCHES {
            let [first, second] = run(last, batch);
            let (mine, theirs) = (per_packet(&first), per_packet(&second));
            eprintln!(
                "  cut behind {:<8} batch {batch:>2}: first core {mine:>6.1}  second core {theirs:>6.1}  \
                 slower {:>6.1}  ({} packets, {} lost)",
                last.name(),
                mine.max(theirs),
                packets(&first),
                packets(&first).saturating_sub(packets(&second)),
            );
        }
    }
}

/// Packets that came in.
fn packets(counters: &Counters) -> u64 {
    counters
        .flow(|link| {
            matches!(
                link,
                pmdns_engine::counters::Link::Rx(_) | pmdns_engine::counters::Link::RingFrom(_)
            )
        })
        .passed
}

fn per_packet(counters: &Counters) -> f64 {
    counters.tally.busy_ticks as f64 / packets(counters).max(1) as f64
}

/// Both workers' counters after a while of cutting the line behind `last`.
fn run(last: StageName, batch: usize) -> [Counters; 2] {
    let next = last.next().expect("no cut is behind the last stage").name();
    let settings = format!(
        "[frames]\nbatch = {batch}\n[[placement]]\nstages = \"parse..{}\"\ncores = [0]\nidle = \"spin\"\n\
         [[placement]]\nstages = \"{next}..encode\"\ncores = [1]\nidle = \"spin\"\n",
        last.name(),
    )
    .replace("parse..parse", "parse");
    let mut rig = rig(&settings, NAMES);
    let frames = query_frames(&Spread::Uniform.draw(NAMES, NAMES * 8));
    let mut second = rig.workers.pop().expect("two placements, two workers");
    let mut first = rig.workers.pop().expect("two placements, two workers");
    let (mut into, mut out) = (rig.far.tx.remove(0), rig.far.rx.remove(0));
    let (pool, stop) = (&rig.pool, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let drain = scope.spawn(move || {
            pin(1);
            let mut answers = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                second.turn();
                out.receive(&mut answers, MAX_BURST);
                pmdns_nics::release(&mut answers);
            }
            second.counters()
        });
        pin(0);
        let start = Instant::now();
        let mut next = frames.iter().cycle();
        while start.elapsed() < LASTING {
            let mut burst = Burst::new();
            while burst.len() < batch && pool.in_use() < UNDER_WAY {
                let Some(mut frame) = pool.take() else { break };
                let bytes = next.next().expect("a cycle does not end");
                frame.resize(bytes.len()).expect("a query fits a frame");
                frame.bytes_mut().copy_from_slice(bytes);
                burst.push(frame);
            }
            into.transmit(&mut burst);
            first.turn();
        }
        stop.store(true, Ordering::Relaxed);
        [first.counters(), drain.join().expect("the second core does not panic")]
    })
}
