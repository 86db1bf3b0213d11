//! Hit ratios of the eviction strategies on one trace, beside the best there can be.
//!
//! `cargo run --release -p pmdns-bench --example eviction [NAMES [REQUESTS]]`
//!
//! The trace is Zipf 0.9 over NAMES names at a thousand requests a second. In its middle third there is a scan: every
//! fourth request is for a name that is never asked again. The cache has room for a tenth of the names. It is the
//! product's own, with index, log, writer and popularity counts. The bound is Belady's: it knows the future and evicts
//! the entry that is needed last. An entry that is needed even later is not inserted.

use std::collections::BTreeSet;
use std::io::{self, Write};

use pmdns_bench::traffic::{Spread, entry_number};
use pmdns_config::Eviction;
use pmdns_config::narrow::to_u32;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::{Cache, Hit, Retention, Writer};
use pmdns_stages::wire::name::Seed;

/// Requests per second of the trace.
const RATE: usize = 1000;
/// Words of a line, lines of an entry, and what part of the cache is log.
const LINE_WORDS: usize = 8;
const ENTRY_LINES: usize = 2;
/// Lines that the writer keeps free, tail and all.
const SPARE_LINES: usize = 128;

const STRATEGIES: [(&str, Eviction); 4] = [
    ("fifo", Eviction::Fifo),
    ("lru", Eviction::Lru),
    ("lfu", Eviction::Lfu),
    ("hit_rate", Eviction::HitRate),
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let names: usize = arguments.next().unwrap_or(100_000);
    let requests: usize = arguments.next().unwrap_or(3_000_000);
    let (trace, room) = (trace(names, requests), names / 10);
    let best = belady(&trace, room);
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| strategy | hit ratio | of the best | appends per insert |\n|---|---|---|---|"
    )?;
    let percent = |hits: usize| hits as f64 * 100.0 / trace.len() as f64;
    for (name, eviction) in STRATEGIES {
        let (hits, appends) = replay(&trace, room, eviction);
        let of_best = hits as f64 * 100.0 / best as f64;
        writeln!(out, "| `{name}` | {:.2} % | {of_best:.1} % | {appends:.2} |", percent(hits))?;
    }
    writeln!(out, "| the best | {:.2} % | 100 % | |", percent(best))
}

/// Names by number, in the order they are asked for.
fn trace(names: usize, requests: usize) -> Vec<usize> {
    let draws = Spread::Zipf.draw(names, requests);
    let scan = requests / 3..requests * 2 / 3;
    let asked = draws.into_iter().enumerate();
    asked
        .map(|(at, name)| if scan.contains(&at) && at % 4 == 0 { names + at } else { name })
        .collect()
}

/// Hits of a cache with room for so many entries that evicts so, and how often it appends for an insert.
fn replay(trace: &[usize], room: usize, eviction: Eviction) -> (usize, f64) {
    let seed = Seed::new(*b"the same always.");
    // The index takes an eighth.
    let lines = (room * ENTRY_LINES + SPARE_LINES) * 8 / 7 + LINE_WORDS;
    let arena = Arena::heap(lines * LINE_WORDS);
    let (cache, writers) = Cache::new(arena, 1, seed).expect("the arena is large enough");
    let retention = Retention { eviction, ..Retention::default() };
    let mut writers = writers.into_iter().map(|writer: Writer| writer.with_retention(&retention));
    let mut writer = writers.next().expect("one shard has one writer");
    let mut hits = 0;
    for (at, name) in trace.iter().enumerate() {
        let entry = entry_number(*name, seed);
        let hash = entry.head().hash;
        if cache.find(hash).is_some() {
            hits += 1;
            writer.credit(Hit { hash, weight: 1 }, to_u32(at / RATE));
        } else {
            writer.insert(&entry);
        }
    }
    let stats = writer.stats();
    (hits, (stats.inserted + stats.kept) as f64 / stats.inserted as f64)
}

/// Hits of the best cache with room for so many entries.
fn belady(trace: &[usize], room: usize) -> usize {
    const NEVER: usize = usize::MAX;
    let names = trace.iter().max().map_or(0, |name| name + 1);
    let mut next_of_name = vec![NEVER; names];
    let mut next = vec![NEVER; trace.len()];
    for (at, name) in trace.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut next_of_name[*name], at);
    }
    // By when they are needed next, which no two are at the same time; what is not needed again is not kept.
    let mut kept = BTreeSet::new();
    let mut hits = 0;
    for (at, needed) in next.into_iter().enumerate() {
        hits += usize::from(kept.remove(&at));
        if needed != NEVER {
            kept.insert(needed);
        }
        if kept.len() > room {
            kept.pop_last();
        }
    }
    hits
}
