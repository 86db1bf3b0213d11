//! The answer cache: hits in L2, L3 and DRAM, inserts, and hits beside a writer.
//!
//! Hits are the lookup stage's: index, entry, comparison, a batch of packets that parse has been through.
//! The filter of criterion chooses cases: `--bench cache -- hit/uniform/1M`. 10M names take 1.7 GiB.

use std::sync::atomic::{AtomicBool, Ordering};

use criterion::measurement::Measurement;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pmdns_bench::kit::{act, cache_bytes};
use pmdns_bench::traffic::{Random, Spread, entry_number, query_frames};
use pmdns_bench::{Cycles, Feed, Kit, cpus, pin, short, typical, wanted};
use pmdns_stages::cache::{Entry, Inserted, Writer};
use pmdns_stages::lookup::Lookup;
use pmdns_stages::{StageName, Step};

const BATCH: usize = 32;
/// A name takes about 150 bytes: in L2, in L3, in DRAM, and far beyond what the TLB covers.
const NAMES: [usize; 4] = [1_000, 10_000, 1_000_000, 10_000_000];
/// Queries before they repeat: many more entries than any cache of the processor holds.
const QUERIES: usize = 1 << 19;
/// Entries made ahead for inserts.
const ENTRIES: usize = 1 << 20;
/// Batches of a busy core in the 10 ms between two times that it hands over its notes.
const BATCHES_TO_HANDING_OVER: usize = 1000;
/// Inserts timed together: room is made for many at a time.
const INSERTS: usize = 64;

fn hits(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("cache/hit");
    for names in NAMES {
        let cases =
            ["uniform", "zipf"].map(|spread| format!("cache/hit/{spread}/{}", short(names)));
        if !wanted(&cases.each_ref().map(String::as_str)) {
            continue;
        }
        let mut kit = Kit::filled(names);
        kit.note_pages();
        report_memory(&kit, names);
        for spread in [Spread::Uniform, Spread::Zipf] {
            let draws = spread.draw(names, QUERIES.min(names * 8));
            let mut feed = Feed::new(query_frames(&draws), BATCH);
            for size in [1, BATCH] {
                feed.resize(size);
                group.throughput(Throughput::Elements(size as u64));
                let id = BenchmarkId::new(format!("{}/{}", spread.name(), short(names)), size);
                let mut lookup = Lookups::new(&kit);
                let (mut asked, mut found) = (0, 0);
                group.bench_function(id, |b| {
                    b.iter_custom(|iterations| {
                        typical(iterations, || {
                            let (took, hits) = lookup.batch(&mut kit, &mut feed);
                            (asked, found) = (asked + size, found + hits);
                            took
                        })
                    });
                });
                assert!(found * 1000 >= asked * 999, "{found} of {asked} names are cached");
            }
        }
    }
    group.finish();
}

/// Hits in batches, without and with notes of them for prefetch and eviction (docs/adr/0012).
fn noted(c: &mut Criterion<Cycles>) {
    const NAMES: usize = 10_000;
    if !wanted(&["cache/noted/off", "cache/noted/on"]) {
        return;
    }
    let mut kit = Kit::filled(NAMES);
    let mut feed = Feed::new(query_frames(&Spread::Zipf.draw(NAMES, NAMES * 8)), BATCH);
    let mut group = c.benchmark_group("cache/noted");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, is_on) in [("off", false), ("on", true)] {
        let mut lookup = Lookups::new(&kit);
        if is_on {
            lookup.stage = kit.stages.lookup.clone().with_samples(true);
        }
        let mut batches = 0;
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| {
                typical(iterations, || {
                    batches += 1;
                    if let Some(sampler) = lookup.stage.sampler()
                        && batches % BATCHES_TO_HANDING_OVER == 0
                    {
                        sampler.drain().for_each(drop);
                    }
                    lookup.batch(&mut kit, &mut feed).0
                })
            });
        });
    }
    group.finish();
}

/// The lookup stage, timed.
struct Lookups {
    stage: Lookup,
    cycles: Cycles,
}

impl Lookups {
    fn new(kit: &Kit) -> Self {
        Self { stage: kit.stages.lookup.clone(), cycles: Cycles::new() }
    }

    /// Looks the next batch up: the cycles it took, and the hits.
    fn batch(&mut self, kit: &mut Kit, feed: &mut Feed) -> (u64, usize) {
        feed.rearm();
        kit.bring_to(StageName::Lookup, &mut feed.batch);
        let start = self.cycles.start();
        act(&mut self.stage, &mut feed.batch, &kit.context);
        (self.cycles.end(start), feed.taking(Step::ANSWER))
    }
}

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
fn report_memory(kit: &Kit, names: usize) {
    let stats = kit.writer.stats();
    eprintln!(
        "{:>4} names: {:.1} bytes each, index included; {} of {} MiB, pages {:?}; {} lost in the index",
        short(names),
        stats.bytes_used as f64 / stats.entries as f64,
        stats.bytes_used >> 20,
        kit.arena.bytes >> 20,
        kit.arena.page,
        stats.index_evicted,
    );
}

fn inserts(c: &mut Criterion<Cycles>) {
    if !wanted(&["cache/insert/new", "cache/insert/replace", "cache/insert/when_full"]) {
        return;
    }
    let mut group = c.benchmark_group("cache/insert");
    let seed = Kit::new("", 2 << 20).cache.seed();
    let entries: Vec<Entry> = (0..ENTRIES).map(|number| entry_number(number, seed)).collect();
    let cycles = Cycles::new();
    group.throughput(Throughput::Elements(INSERTS as u64));
    let mut case = |name: &str, bytes: usize, fill: usize, refill: bool, expected: Inserted| {
        let mut kit = Kit::new("", bytes);
        kit.fill(fill);
        let mut next = entries.chunks_exact(INSERTS);
        let mut once = || {
            let chunk = next.next().unwrap_or_else(|| {
                if refill {
                    kit = Kit::new("", bytes);
                }
                next = entries.chunks_exact(INSERTS);
                next.next().expect("there are entries")
            });
            let start = cycles.start();
            let became = chunk.iter().map(|entry| kit.writer.insert(entry));
            let right = became.filter(|became| *became == expected).count();
            let took = cycles.end(start);
            // The same tag in the same bucket replaces, once in many millions.
            assert!(right + 1 >= INSERTS, "{right} of {INSERTS} became {expected:?}");
            took
        };
        group.bench_function(name, |b| b.iter_custom(|n| typical(n, &mut once)));
    };
    case("new", cache_bytes(ENTRIES), 0, true, Inserted::New);
    case("replace", cache_bytes(2 * ENTRIES), ENTRIES, false, Inserted::Replaced);
    // A cache for a hundredth of the names: each pass finds none of them left.
    case("when_full", cache_bytes(ENTRIES / 100), ENTRIES, false, Inserted::New);
    group.finish();
}

/// Hits of 10,000 names, while the other core inserts, replaces, or does nothing.
fn beside_a_writer(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("cache/hit_beside_writer");
    group.throughput(Throughput::Elements(BATCH as u64));
    if cpus() < 2 || !pin(0) {
        return;
    }
    let names = 10_000;
    let draws = Spread::Uniform.draw(names, 1 << 16);
    for (name, per_second) in [
        ("none", 0),
        ("100k_per_second", 100_000),
        ("1M_per_second", 1_000_000),
        ("without_pause", u64::MAX),
    ] {
        let mut kit = Kit::new("", 16 << 20);
        kit.fill(names);
        let mut feed = Feed::new(query_frames(&draws), BATCH);
        let mut lookup = Lookups::new(&kit);
        // Its place is taken by the writer of a cache that nobody reads.
        let writer = std::mem::replace(&mut kit.writer, Kit::new("", 2 << 20).writer);
        let seed = kit.cache.seed();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| write_until(&stop, writer, names, per_second, seed));
            group.bench_function(name, |b| {
                b.iter_custom(|iterations| {
                    typical(iterations, || lookup.batch(&mut kit, &mut feed).0)
                });
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

/// Inserts random ones of the names again, so that all stay cached and their entries wander through the log.
fn write_until(
    stop: &AtomicBool,
    mut writer: Writer,
    names: usize,
    per_second: u64,
    seed: pmdns_stages::wire::name::Seed,
) {
    pin(1);
    let entries: Vec<Entry> = (0..names).map(|number| entry_number(number, seed)).collect();
    let cycles = Cycles::new();
    let mut random = Random::new(1);
    let gap = cycles.per_second().checked_div(per_second).unwrap_or(u64::MAX >> 1);
    let mut due = cycles.now() + gap;
    while !stop.load(Ordering::Relaxed) {
        if cycles.now() < due {
            std::hint::spin_loop();
            continue;
        }
        due += gap;
        writer.insert(&entries[random.below(names)]);
    }
}

criterion_group! {
    name = all;
    config = pmdns_bench::criterion();
    targets = hits, noted, inserts, beside_a_writer
}
criterion_main!(all);
