//! What a crossing between two cores costs: our ring, and crossbeam-channel, for packets and misses.
//!
//! One thread pushes, one pops; the figure is time per value, both sides running at once.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use pmdns::ring::ring;

const CAPACITY: usize = 1024;

type Group<'c> = BenchmarkGroup<'c, WallTime>;

/// As large as a packet (64 bytes) and as a miss (416 bytes).
type PacketSized = [u64; 8];
type MissSized = [u64; 52];

fn through_ring<T: Send + Copy + 'static, const N: usize>(value: T, count: u64) -> Duration {
    let (mut sender, mut receiver) = ring::<T>(CAPACITY);
    let start = Instant::now();
    let pusher = std::thread::spawn(move || {
        let mut left = count;
        let mut batch = ArrayVec::<T, N>::new();
        while left > 0 || !batch.is_empty() {
            while left > 0 && !batch.is_full() {
                batch.push(value);
                left -= 1;
            }
            if sender.push_batch(&mut batch) == 0 {
                std::hint::spin_loop();
            }
        }
    });
    let mut seen = 0;
    let mut batch = ArrayVec::<T, N>::new();
    while seen < count {
        if receiver.pop_batch(&mut batch, N) == 0 {
            std::hint::spin_loop();
        }
        seen += batch.len() as u64;
        std::hint::black_box(&batch);
        batch.clear();
    }
    pusher.join().expect("the pusher ends");
    start.elapsed()
}

fn through_channel<T: Send + Copy + 'static>(value: T, count: u64) -> Duration {
    let (sender, receiver) = crossbeam_channel::bounded::<T>(CAPACITY);
    let start = Instant::now();
    let pusher = std::thread::spawn(move || {
        let mut left = count;
        while left > 0 {
            match sender.try_send(value) {
                Ok(()) => left -= 1,
                Err(_) => std::hint::spin_loop(),
            }
        }
    });
    let mut seen = 0;
    while seen < count {
        match receiver.try_recv() {
            Ok(value) => {
                std::hint::black_box(value);
                seen += 1;
            }
            Err(_) => std::hint::spin_loop(),
        }
    }
    pusher.join().expect("the pusher ends");
    start.elapsed()
}

/// Takes values of one size across, each way. One iteration is a thousand values, so that starting the
/// thread does not count.
fn cross<T: Send + Copy + 'static>(group: &mut Group<'_>, name: &str, value: T) {
    let id = |way, size| BenchmarkId::new(format!("{name}/{way}"), size);
    group.bench_function(id("ring", 1), |b| {
        b.iter_custom(|n| through_ring::<T, 1>(value, n * 1000))
    });
    group.bench_function(id("ring", 32), |b| {
        b.iter_custom(|n| through_ring::<T, 32>(value, n * 1000))
    });
    group.bench_function(id("channel", 1), |b| b.iter_custom(|n| through_channel(value, n * 1000)));
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    cross::<PacketSized>(&mut group, "packet", [7; 8]);
    cross::<MissSized>(&mut group, "miss", [7; 52]);
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
