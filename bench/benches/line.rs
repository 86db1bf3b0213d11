//! The whole line: fused and split, by batch size, by number of names, for what clients send, and under what should be dropped.
//!
//! `line/turn` is a worker's turn over the memory driver: RX queue, line, TX queue or pool, in cycles per packet.
//! `line/process` is the stages alone. The tables printed beside them are the line's own meters. Frames are
//! filled before each turn, which does not count, and so are in the first-level cache.

use criterion::measurement::Measurement;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use pmdns_bench::floods::{Flood, floods};
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_bench::{Cycles, Feed, Kit, Mixed, RigFeed, pin, short, typical, wanted};
use pmdns_stages::Step;

#[path = "line/churn.rs"]
mod churn;
#[path = "line/clients.rs"]
mod clients;
#[path = "line/metering.rs"]
mod metering;
#[path = "line/meters.rs"]
mod meters;
#[path = "line/policy.rs"]
mod policy;
#[path = "line/scale.rs"]
mod scale;
#[path = "line/split.rs"]
mod split;
#[path = "line/watched.rs"]
mod watched;

const BATCH: usize = 32;
const BATCHES: [usize; 5] = [1, 8, 16, 32, 64];
const NAMES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Names of what clients send.
const MIXED_NAMES: [usize; 3] = [10_000, 100_000, 1_000_000];
/// Queries before they repeat: more than any cache of the processor holds entries.
const QUERIES: usize = 400_000;
/// Turns before anything is measured: branch predictors and caches have seen every frame of a small case.
const WARM_TURNS: usize = 20_000;

fn hits(names: usize) -> Vec<Vec<u8>> {
    query_frames(&Spread::Uniform.draw(names, QUERIES.min(names * 8)))
}

/// Fused, every query a hit, over the memory driver.
fn fused(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("line/turn");
    group.throughput(Throughput::Elements(BATCH as u64));
    for names in NAMES {
        if !wanted(&[&format!("line/turn/fused/{}", short(names))]) {
            continue;
        }
        let feed = RigFeed::new("", names, hits(names), BATCH);
        turns(&mut group, feed, "fused", names);
    }
    group.finish();
}

/// What clients send: the turn, and the stages alone.
fn mixed(c: &mut Criterion<Cycles>) {
    let cycles = Cycles::new();
    let mut group = c.benchmark_group("line");
    group.throughput(Throughput::Elements(BATCH as u64));
    for names in MIXED_NAMES {
        let cases = ["turn", "process"].map(|case| format!("line/{case}/mixed/{}", short(names)));
        if !wanted(&[&cases[0], &cases[1]]) {
            continue;
        }
        let (mixed, queries) = (Mixed::new(names), QUERIES.min(names * 8));
        let feed = RigFeed::mixed(&mixed, queries, BATCH);
        turns(&mut group, feed, "turn/mixed", names);
        let mut kit = Kit::mixed(&mixed);
        let (mut line, mut feed) = (kit.line(), Feed::new(mixed.frames(queries), BATCH));
        group.bench_function(BenchmarkId::new("process/mixed", short(names)), |b| {
            b.iter_custom(|iterations| {
                typical(iterations, || process(&mut kit, &mut line, &mut feed, &cycles))
            });
        });
    }
    group.finish();
}

/// Turns of 32 queries, nearly all of which have to be hits.
fn turns(group: &mut BenchmarkGroup<'_, Cycles>, mut feed: RigFeed, case: &str, names: usize) {
    for _ in 0..WARM_TURNS {
        feed.turn();
    }
    meters::print_meters(&feed, &format!("{case}, {} names", short(names)));
    let (mut asked, mut hits) = (0, 0);
    group.bench_function(BenchmarkId::new(case, short(names)), |b| {
        b.iter_custom(|iterations| {
            typical(iterations, || {
                let (took, answered) = feed.turn();
                (asked, hits) = (asked + BATCH, hits + answered);
                took
            })
        });
    });
    assert!(hits * 1000 >= asked * 999, "{hits} of {asked} names are cached");
}

/// Every batch size, 10,000 names: the stages alone, and the turn.
fn batch_sizes(c: &mut Criterion<Cycles>) {
    let cycles = Cycles::new();
    let mut group = c.benchmark_group("line");
    let mut kit = Kit::filled(10_000);
    for size in BATCHES {
        if !wanted(&[&format!("line/process/batch/{size}"), &format!("line/turn/batch/{size}")]) {
            continue;
        }
        group.throughput(Throughput::Elements(size as u64));
        let (mut line, mut feed) = (kit.line(), Feed::new(hits(10_000), size));
        group.bench_function(BenchmarkId::new("process/batch", size), |b| {
            b.iter_custom(|iterations| {
                typical(iterations, || process(&mut kit, &mut line, &mut feed, &cycles))
            });
        });
        let settings = format!("[frames]\nbatch = {size}\n");
        let mut feed = RigFeed::new(&settings, 10_000, hits(10_000), size);
        group.bench_function(BenchmarkId::new("turn/batch", size), |b| {
            b.iter_custom(|iterations| typical(iterations, || feed.turn().0));
        });
    }
    group.finish();
}

/// The cycles of one batch through the stages.
fn process(
    kit: &mut Kit,
    line: &mut pmdns_engine::line::Line,
    feed: &mut Feed,
    cycles: &Cycles,
) -> u64 {
    feed.rearm();
    let start = cycles.start();
    kit.process(line, &mut feed.batch);
    let took = cycles.end(start);
    debug_assert!(feed.taking(Step::TRANSMIT) > 0, "hits are answered");
    took
}

/// What nobody should be able to spend our time with, beside a hit.
fn unwanted(c: &mut Criterion<Cycles>) {
    let mut group = c.benchmark_group("line/flood");
    group.throughput(Throughput::Elements(BATCH as u64));
    for Flood { name, config, frames } in floods(10_000) {
        if !wanted(&[&format!("line/flood/{name}")]) {
            continue;
        }
        let mut feed = RigFeed::new(config, 10_000, frames, BATCH);
        group.bench_function(name, |b| {
            b.iter_custom(|iterations| typical(iterations, || feed.turn().0));
        });
    }
    group.finish();
}

fn others(c: &mut Criterion<Cycles>) {
    metering::bench(c);
    if wanted(&["line/split"]) {
        split::report();
    }
    if wanted(&["line/scale"]) {
        scale::report();
    }
    if wanted(&["line/policy"]) {
        policy::report();
    }
    if wanted(&["line/clients"]) {
        clients::report();
    }
    if wanted(&["line/watched"]) {
        watched::report();
    }
    if wanted(&["line/churn"]) {
        churn::report();
    }
}

fn pinned(c: &mut Criterion<Cycles>) {
    pin(0);
    fused(c);
    mixed(c);
    batch_sizes(c);
    unwanted(c);
    others(c);
}

criterion_group! {
    name = all;
    config = pmdns_bench::criterion();
    targets = pinned
}
criterion_main!(all);
