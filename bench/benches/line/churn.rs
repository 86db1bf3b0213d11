//! A full cache under random names: what throughput the names in use keep.
//!
//! One core answers queries for a hot set. Misses go over a ring to the other core, which inserts them again. In the
//! rest of its time it inserts random names, at a given rate or without pause. The cache is full all the time.
//! Throughput is hits per cycle of the line. The ratio is to a cache without writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_bench::kit::cache_bytes;
use pmdns_bench::traffic::{Random, Spread, entry_number, query_frames};
use pmdns_bench::{Cycles, Feed, Kit, cpus, pin, typical_of};
use pmdns_engine::ring::{RingReceiver, ring};
use pmdns_stages::Step;
use pmdns_stages::cache::Writer;
use pmdns_stages::wire::name::Seed;

const BATCH: usize = 32;
/// Names in use.
const HOT: usize = 10_000;
/// Names the cache has room for: far beyond the processor's caches.
const ROOM: usize = 1_000_000;
/// Names nobody asks for again come from so many.
const COLD: usize = 9_000_000;
const LASTING: Duration = Duration::from_secs(2);
const RATES: [(&str, u64); 4] = [
    ("nobody writes", 0),
    ("100k random names/s", 100_000),
    ("1M random names/s", 1_000_000),
    ("random names without pause", u64::MAX),
];

/// What the reading core saw.
struct Seen {
    hits: u64,
    asked: u64,
    /// Of each batch.
    cycles: Vec<u64>,
    inserted: u64,
}

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    if cpus() < 2 {
        return eprintln!("line/churn: needs two CPUs");
    }
    eprintln!("line/churn: {HOT} hot names, a full cache of {ROOM}");
    let mut alone = None;
    for (name, per_second) in RATES {
        let mut seen = run(per_second);
        let hit_ratio = seen.hits as f64 / seen.asked as f64;
        let rate = BATCH as f64 * hit_ratio / typical_of(&mut seen.cycles);
        let base = *alone.get_or_insert(rate);
        eprintln!(
            "  {name:<27} {:>6.1} cycles per hit  {:.3} of alone  hit ratio {:.5}  {:>9} inserted/s",
            1.0 / rate,
            rate / base,
            hit_ratio,
            seen.inserted / LASTING.as_secs(),
        );
    }
}

fn run(per_second: u64) -> Seen {
    let mut kit = Kit::new("", cache_bytes(ROOM));
    kit.fill(ROOM + ROOM / 2);
    kit.fill(HOT);
    let seed = kit.cache.seed();
    let writer = std::mem::replace(&mut kit.writer, Kit::new("", 2 << 20).writer);
    let (mut misses, missed) = ring::<usize>(4096);
    let draws = Spread::Uniform.draw(HOT, HOT * 8);
    let mut feed = Feed::new(query_frames(&draws), BATCH);
    let (mut line, cycles) = (kit.line(), Cycles::new());
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || write(writer, missed, per_second, seed, stop));
        pin(0);
        let mut seen = Seen { hits: 0, asked: 0, cycles: Vec::new(), inserted: 0 };
        let mut at = 0;
        let start = Instant::now();
        while start.elapsed() < LASTING {
            feed.rearm();
            let before = cycles.now();
            kit.process(&mut line, &mut feed.batch);
            seen.cycles.push(cycles.now() - before);
            seen.asked += BATCH as u64;
            for (packet, name) in feed.batch.iter().zip(draws.iter().cycle().skip(at)) {
                match packet.step {
                    Step::TRANSMIT => seen.hits += 1,
                    // A full ring refuses: the name is asked for again soon enough.
                    _ => drop(misses.push(*name)),
                }
            }
            at = (at + BATCH) % draws.len();
        }
        stop.store(true, Ordering::Relaxed);
        seen.inserted = writing.join().expect("the writer does not panic");
        seen
    })
}

/// Learns what was missed, and random names in between. Says how many it inserted.
fn write(
    mut writer: Writer,
    mut missed: RingReceiver<usize>,
    per_second: u64,
    seed: Seed,
    stop: &AtomicBool,
) -> u64 {
    pin(1);
    let cycles = Cycles::new();
    let mut random = Random::new(1);
    let gap = cycles.per_second().checked_div(per_second).unwrap_or(u64::MAX >> 1);
    let mut due = cycles.now() + gap;
    let mut inserted = 0;
    while !stop.load(Ordering::Relaxed) {
        while let Some(name) = missed.pop() {
            writer.insert(&entry_number(name, seed));
            inserted += 1;
        }
        if cycles.now() >= due {
            due += gap;
            writer.insert(&entry_number(ROOM + random.below(COLD), seed));
            inserted += 1;
        }
    }
    inserted
}
