//! Workers side by side: a table of what each costs beside others, from one to a worker for each CPU.
//!
//! All of them answer hits on the memory driver, each from a queue of its own. The product is "one cache". The control is
//! "caches of their own", in which they share nothing. What it loses the processor takes, by caches, power and threads of
//! one core. The quotient of both is the efficiency of sharing.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_bench::kit::rig;
use pmdns_bench::traffic::{Spread, query_frames};
use pmdns_bench::{Cycles, cpus, pin, typical_of};
use pmdns_engine::worker::Worker;
use pmdns_nics::{Burst, FramePool, RxQueue, TxQueue};

const NAMES: usize = 10_000;
const BATCH: usize = 32;
const LASTING: Duration = Duration::from_millis(700);
/// Each number of workers is run so often, with one cache and with caches of their own by turns.
const ROUNDS: usize = 7;

/// A worker, and the far ends of its queues.
struct Post {
    worker: Worker,
    into: Box<dyn TxQueue>,
    out: Box<dyn RxQueue>,
    pool: FramePool,
}

#[expect(clippy::print_stderr, reason = "a bench reports to its terminal")]
pub(crate) fn report() {
    eprintln!(
        "line/scale: {NAMES} names, all hits, batch {BATCH}; cycles per packet of each worker"
    );
    let mut alone = None;
    for workers in 1..=cpus() {
        let mut rounds: Vec<[f64; 2]> = (0..ROUNDS)
            .map(|_| [run(one_cache(workers)), run(caches_of_their_own(workers))])
            .collect();
        let of = |[shared, apart]: &[f64; 2]| apart / shared;
        rounds.sort_by(|one, other| of(one).total_cmp(&of(other)));
        let ratio = |round: usize| of(&rounds[round]);
        let (low, median, high) = (ratio(0), ratio(ROUNDS / 2), ratio(ROUNDS - 1));
        let [shared, apart] = rounds[ROUNDS / 2];
        let base = *alone.get_or_insert(shared);
        eprintln!(
            "  {workers:>2} workers: one cache {shared:>6.1}  caches of their own {apart:>6.1}  efficiency of sharing \
             {median:.3} ({low:.3} to {high:.3})  a worker beside one alone {:.3}",
            base / shared,
        );
    }
}

/// So many workers over one cache.
fn one_cache(workers: usize) -> Vec<Post> {
    let cores: Vec<String> = (1..=workers).map(|core| core.to_string()).collect();
    posts(&format!("[[placement]]\ncores = [{}]\n", cores.join(", ")))
}

/// So many workers, each with a cache of its own.
fn caches_of_their_own(workers: usize) -> Vec<Post> {
    (0..workers).flat_map(|_| posts("")).collect()
}

fn posts(settings: &str) -> Vec<Post> {
    let rig = rig(settings, NAMES);
    let far = rig.far.tx.into_iter().zip(rig.far.rx);
    let workers = rig.workers.into_iter().zip(far);
    let post = |(worker, (into, out))| Post { worker, into, out, pool: rig.pool.clone() };
    workers.map(post).collect()
}

/// The cycles of a packet, of the mean worker, while all of them work.
fn run(posts: Vec<Post>) -> f64 {
    let (count, stop) = (posts.len() as f64, AtomicBool::new(false));
    let start = Barrier::new(posts.len() + 1);
    std::thread::scope(|scope| {
        let (start, stop) = (&start, &stop);
        let started = posts.into_iter().enumerate();
        let threads: Vec<_> = started
            .map(|(number, post)| {
                scope.spawn(move || {
                    pin(number);
                    work(post, start, stop)
                })
            })
            .collect();
        start.wait();
        std::thread::sleep(LASTING);
        stop.store(true, Ordering::Relaxed);
        let cycles =
            threads.into_iter().map(|thread| thread.join().expect("a worker does not panic"));
        cycles.sum::<f64>() / count
    })
}

/// Answers hits until `stop` is set, and says how many cycles each took. Feeding the worker does not count.
fn work(mut post: Post, start: &Barrier, stop: &AtomicBool) -> f64 {
    let queries = query_frames(&Spread::Uniform.draw(NAMES, NAMES * 8));
    let mut next = queries.iter().cycle();
    let mut frames: Burst = std::iter::from_fn(|| post.pool.take()).take(BATCH).collect();
    let (clock, mut cycles) = (Cycles::new(), Vec::new());
    start.wait();
    while !stop.load(Ordering::Relaxed) {
        for (frame, query) in frames.iter_mut().zip(&mut next) {
            frame.resize(query.len()).expect("a query fits a frame");
            frame.bytes_mut().copy_from_slice(query);
        }
        post.into.transmit(&mut frames);
        let before = clock.now();
        post.worker.turn();
        cycles.push(clock.now() - before);
        post.out.receive(&mut frames, BATCH);
        assert_eq!(frames.len(), BATCH, "all are hits");
    }
    typical_of(&mut cycles) / BATCH as f64
}
