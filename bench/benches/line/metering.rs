//! What metering costs: a station beside the same stage without one.
//!
//! The meters cannot be turned off. So a stage that does nothing runs over batches twice: at a station, which times and
//! counts, and in a bare loop. The difference is the cost of the meter. A hit passes five stations.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use pmdns_bench::{Cycles, Feed, Kit};
use pmdns_engine::station::{StageTimer, Station};
use pmdns_stages::{Context, Packet, Stage, StageName, Step};

const BATCH: usize = 32;

/// A stage that only passes packets on.
struct Pass;

impl Stage for Pass {
    const NAME: StageName = StageName::Policy;

    #[inline]
    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        black_box(packet);
        Step::ANSWER
    }
}

pub(crate) fn bench(c: &mut Criterion<Cycles>) {
    let kit = Kit::new("", 2 << 20);
    let frames = vec![pmdns_bench::numbered_query(0, 1).frame_bytes()];
    let mut feed = Feed::new(frames, BATCH);
    let here = Step::at(Pass::NAME);
    let mut group = c.benchmark_group("line/metering");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut station = Station::new(Some(Pass));
    group.bench_function("station", |b| {
        b.iter(|| {
            feed.batch.iter_mut().for_each(|packet| packet.step = here);
            let mut lap = StageTimer::start(kit.clock, 0);
            station.run(&mut feed.batch, &kit.context, &mut lap);
        });
    });
    group.bench_function("bare_loop", |b| {
        b.iter(|| {
            feed.batch.iter_mut().for_each(|packet| packet.step = here);
            if feed.batch.iter().any(|packet| packet.step == here) {
                for packet in feed.batch.iter_mut().filter(|packet| packet.step == here) {
                    packet.step = Pass.act(packet, &kit.context);
                }
            }
        });
    });
    group.throughput(Throughput::Elements(1));
    let mut lap = StageTimer::start(kit.clock, 0);
    group.bench_function("lap", |b| b.iter(|| black_box(lap.split())));
    group.finish();
}
