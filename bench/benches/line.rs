//! The whole line, fused on one core, over the memory driver: every query a hit.
//!
//! Criterion reports the time of one batch of 32 through RX queue, line and TX queue; the table printed
//! before it is the line's own meter: TSC ticks per packet and stage.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pmdns::testing::{Rig, config};
use pmdns_bench::numbered_query;
use pmdns_config::StageName;
use pmdns_nics::Burst;

const BATCH: usize = 32;

/// A rig with `names` cached names.
fn filled(names: usize) -> Rig {
    let mut rig = Rig::new(&config("[cache]\nsize = \"512MiB\"\n"));
    for index in 0..names {
        rig.learn(&numbered_query(index, names), &[(0, 1, 86_400, vec![192, 0, 2, 1])]);
    }
    rig
}

/// Sends one batch of queries through the rig. The frames that come back carry the next queries.
fn turn(rig: &mut Rig, queries: &[Vec<u8>], next: &mut usize, frames: &mut Burst) {
    for frame in frames.iter_mut() {
        let bytes = &queries[*next];
        *next = (*next + 1) % queries.len();
        frame.resize(bytes.len()).expect("queries fit");
        frame.bytes_mut().copy_from_slice(bytes);
    }
    rig.offer(0, frames);
    rig.workers[0].turn();
    let got = rig.far.rx[0].receive(frames, BATCH);
    assert_eq!(got, BATCH, "every query is answered");
}

fn whole_line(c: &mut Criterion) {
    let mut group = c.benchmark_group("line");
    group.throughput(Throughput::Elements(BATCH as u64)).measurement_time(Duration::from_secs(3));
    for names in [1_000, 10_000, 1_000_000] {
        let mut rig = filled(names);
        let queries: Vec<Vec<u8>> = (0..names.min(200_000))
            .map(|index| numbered_query(index * 7, names).frame_bytes())
            .collect();
        let mut frames: Burst = (0..BATCH).map(|_| rig.frame(&[])).collect();
        let mut next = 0;
        for _ in 0..20_000 {
            turn(&mut rig, &queries, &mut next, &mut frames);
        }
        print_meters(&rig, names);
        group.bench_function(format!("fused/{names}"), |b| {
            b.iter(|| turn(&mut rig, &queries, &mut next, &mut frames));
        });
    }
    group.finish();
}

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
fn print_meters(rig: &Rig, names: usize) {
    let counters = rig.workers[0].counters();
    let mut whole = 0.0;
    for (stage, meter) in StageName::ALL.iter().zip(&counters.meters) {
        let packets = meter.exits.total().max(1);
        let ticks = meter.ticks as f64 / packets as f64;
        whole += if meter.batches > 0 { ticks } else { 0.0 };
        eprintln!("{names:>9} names  {:<10} {ticks:>7.1} ticks/packet", stage.name());
    }
    eprintln!("{names:>9} names  stages in all {whole:>4.1} ticks/packet");
}

criterion_group!(all, whole_line);
criterion_main!(all);
