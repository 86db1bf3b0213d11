//! What a crossing between two cores costs: our ring beside rtrb, crossbeam-channel and DPDK's `rte_ring`.
//!
//! Like with like: every ring copies its values, of 8 bytes (what DPDK programs pass: a pointer), of 64 (a
//! packet), and ours also of 416 (a miss). `n` is how many are pushed and popped at a time. With one core, a
//! batch is pushed and popped by turns: instructions, and the ring's lines stay where they are. With two, one
//! thread pushes and one pops, each pinned to a core: what a hop costs, both sides running at once.

use arrayvec::ArrayVec;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use pmdns_bench::{Cycles, cpus, pin};
use pmdns_engine::ring::{RingReceiver, RingSender, ring};

const CAPACITY: usize = 1024;
/// Values of one iteration with two cores, so that starting the thread does not count.
const VALUES: u64 = 8192;
/// Batches of one iteration with one core.
const ROUNDS: u64 = 64;

type Group<'c> = BenchmarkGroup<'c, Cycles>;

/// A pushing end. What did not fit stays in the batch.
trait Push<T>: Send {
    fn push<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize;
}

/// A popping end, which takes as many as the batch has room for.
trait Pop<T>: Send {
    fn pop<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize;
}

impl<T: Send> Push<T> for RingSender<T> {
    fn push<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        self.push_batch(batch)
    }
}

impl<T: Send> Pop<T> for RingReceiver<T> {
    fn pop<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        self.pop_batch(batch, N)
    }
}

impl<T: Send> Push<T> for rtrb::Producer<T> {
    fn push<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let count = self.slots().min(batch.len());
        let Ok(chunk) = self.write_chunk_uninit(count) else { return 0 };
        chunk.fill_from_iter(batch.drain(..count))
    }
}

impl<T: Send> Pop<T> for rtrb::Consumer<T> {
    fn pop<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let count = self.slots().min(batch.remaining_capacity());
        let Ok(chunk) = self.read_chunk(count) else { return 0 };
        batch.extend(chunk);
        count
    }
}

impl<T: Send> Push<T> for crossbeam_channel::Sender<T> {
    fn push<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let count = batch.len();
        while let Some(value) = batch.pop() {
            if let Err(refused) = self.try_send(value) {
                batch.push(refused.into_inner());
                break;
            }
        }
        count - batch.len()
    }
}

impl<T: Send> Pop<T> for crossbeam_channel::Receiver<T> {
    fn pop<const N: usize>(&mut self, batch: &mut ArrayVec<T, N>) -> usize {
        let before = batch.len();
        batch.extend(self.try_iter().take(N - before));
        batch.len() - before
    }
}

#[cfg(feature = "rte-ring")]
mod rte {
    use arrayvec::ArrayVec;
    use pmdns_nics::dpdk::{Eal, ValueReceiver, ValueSender};

    use super::{Pop, Push};

    impl<const WORDS: usize> Push<[u64; WORDS]> for ValueSender<WORDS> {
        fn push<const N: usize>(&mut self, batch: &mut ArrayVec<[u64; WORDS], N>) -> usize {
            let count = self.push_batch(batch);
            batch.drain(..count);
            count
        }
    }

    impl<const WORDS: usize> Pop<[u64; WORDS]> for ValueReceiver<WORDS> {
        fn pop<const N: usize>(&mut self, batch: &mut ArrayVec<[u64; WORDS], N>) -> usize {
            self.pop_batch(batch)
        }
    }

    /// DPDK without huge pages, devices or files.
    pub(super) fn eal() -> Option<Eal> {
        let arguments = "--no-huge --no-shconf --no-pci -m 64 --no-telemetry".split(' ');
        let arguments: Vec<String> = arguments.map(str::to_owned).collect();
        Eal::init("ring", &arguments).inspect_err(report).ok()
    }

    #[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
    fn report(error: &pmdns_nics::dpdk::EalError) {
        eprintln!("no rte_ring: {error}");
    }
}

/// Pushes and pops batches of `N` by turns.
fn one_core<T: Copy, const N: usize>(
    rounds: u64,
    value: T,
    ends: (impl Push<T>, impl Pop<T>),
    cycles: &Cycles,
) -> u64 {
    let (mut sender, mut receiver) = ends;
    let mut batch = ArrayVec::<T, N>::new();
    batch.extend([value; N]);
    let start = cycles.now();
    for _ in 0..rounds {
        assert_eq!(sender.push(&mut batch), N);
        assert_eq!(receiver.pop(&mut batch), N);
    }
    std::hint::black_box(&batch);
    cycles.now() - start
}

/// Takes `count` values from one core to another, `N` at a time.
fn two_cores<T: Copy + Send, const N: usize>(
    count: u64,
    value: T,
    ends: (impl Push<T>, impl Pop<T>),
    cycles: &Cycles,
) -> u64 {
    let (mut sender, mut receiver) = ends;
    let ready = &std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            ready.wait();
            let mut left = count;
            let mut batch = ArrayVec::<T, N>::new();
            while left > 0 || !batch.is_empty() {
                while left > 0 && !batch.is_full() {
                    batch.push(value);
                    left -= 1;
                }
                if sender.push(&mut batch) == 0 {
                    std::hint::spin_loop();
                }
            }
        });
        ready.wait();
        let start = cycles.now();
        let mut seen = 0;
        let mut batch = ArrayVec::<T, N>::new();
        while seen < count {
            if receiver.pop(&mut batch) == 0 {
                std::hint::spin_loop();
            }
            seen += batch.len() as u64;
            std::hint::black_box(&batch);
            batch.clear();
        }
        cycles.now() - start
    })
}

/// One kind of ring at one batch size, on one core and on two.
fn batches<T: Copy + Send, const N: usize, P: Push<T>, Q: Pop<T>>(
    group: &mut Group<'_>,
    name: &str,
    value: T,
    make: &impl Fn() -> (P, Q),
) {
    let cycles = Cycles::new();
    group.throughput(Throughput::Elements(ROUNDS * N as u64));
    group.bench_function(format!("one_core/{name}/{N}"), |b| {
        b.iter_custom(|n| one_core::<T, N>(n * ROUNDS, value, make(), &cycles));
    });
    if cpus() < 2 {
        return;
    }
    group.throughput(Throughput::Elements(VALUES));
    group.bench_function(format!("two_cores/{name}/{N}"), |b| {
        b.iter_custom(|n| two_cores::<T, N>(n * VALUES, value, make(), &cycles));
    });
}

/// One kind of ring at every batch size.
fn kind<T: Copy + Send, P: Push<T>, Q: Pop<T>>(
    group: &mut Group<'_>,
    name: &str,
    value: T,
    make: impl Fn() -> (P, Q),
) {
    batches::<T, 1, P, Q>(group, name, value, &make);
    batches::<T, 8, P, Q>(group, name, value, &make);
    batches::<T, 32, P, Q>(group, name, value, &make);
    batches::<T, 64, P, Q>(group, name, value, &make);
}

fn sized<const WORDS: usize>(group: &mut Group<'_>) {
    let (value, bytes) = ([7_u64; WORDS], 8 * WORDS);
    kind(group, &format!("ours/{bytes}B"), value, || ring(CAPACITY));
    kind(group, &format!("rtrb/{bytes}B"), value, || rtrb::RingBuffer::new(CAPACITY));
    let channel = || crossbeam_channel::bounded(CAPACITY);
    kind(group, &format!("channel/{bytes}B"), value, channel);
}

fn benches(c: &mut Criterion<Cycles>) {
    #[cfg(feature = "rte-ring")]
    let eal = rte::eal();
    pin(0);
    let mut group = c.benchmark_group("ring");
    group.sample_size(10).measurement_time(std::time::Duration::from_secs(1));
    sized::<1>(&mut group);
    sized::<8>(&mut group);
    kind(&mut group, "ours/416B", [7_u64; 52], || ring(CAPACITY));
    #[cfg(feature = "rte-ring")]
    if let Some(eal) = &eal {
        rte_rings::<1>(&mut group, eal);
        rte_rings::<8>(&mut group, eal);
    }
    group.finish();
}

#[cfg(feature = "rte-ring")]
fn rte_rings<const WORDS: usize>(group: &mut Group<'_>, eal: &pmdns_nics::dpdk::Eal) {
    let made = std::cell::Cell::new(0);
    kind(group, &format!("rte_ring/{}B", 8 * WORDS), [7_u64; WORDS], || {
        // Its name must be new as long as another ring lives.
        made.set(made.get() + 1);
        let name = format!("r{WORDS}-{}", made.get());
        pmdns_nics::dpdk::value_ring::<WORDS>(eal, &name, CAPACITY).expect("a small ring fits")
    });
}

criterion_group! {
    name = all;
    config = pmdns_bench::criterion();
    targets = benches
}
criterion_main!(all);
