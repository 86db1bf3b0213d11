//! The cost of a frame pool, and the waits at it, by the mempool driver that keeps free frames: run it once with each
//! (docs/adr/0033-free-frames-wait-in-a-lock-free-stack.md).
//!
//! * `cached`: bursts of 32 out of a core's cache, as a data core that receives and transmits.
//! * `refills`: 1,024 frames taken, then given back, so that the cache is refilled from the pool and flushed to it.
//! * `bare`: a pool without caches: each frame is taken and given back by itself, as by threads that are no data cores.
//! * `beside`: the same as `refills` on one CPU, while threads without caches do nothing else and preempt each other on
//!   the other CPU.
//! * `resolving`: the same, but they work between two frames for as long as a miss takes.
//!
//! Times are of the thread's own CPU clock: time in which it waits for the CPU does not count, time in which it spins does.
//! The arguments go to the EAL:
//! `cargo run --release -p pmdns-nics --example pool -- --no-pci --no-huge --no-shconf -m 128 --mbuf-pool-ops-name=ring_mp_mc`
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of the example are small"
)]

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_nics::dpdk::{Eal, Mempool};
use pmdns_nics::{Burst, Frame, adopt_data_thread, release};

/// Short enough that most runs are not interrupted.
const FRAMES_PER_RUN: usize = 32_768;
const RUNS: usize = 301;
/// Frames that a thread holds at a time: more than its cache does.
const HELD: usize = 1024;
/// Threads that share a CPU, and how long the one beside them runs.
const PREEMPTED: usize = 4;
const BESIDE_NS: u64 = 1_000_000_000;
const WORK_NS: u64 = 5_000;
/// A turn that takes longer has waited: it takes some 30 µs otherwise.
const LONG_NS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let eal = Eal::init("pool", &arguments)?;
    let pool = Mempool::new("frames", 16_383, None)?;
    let small = Mempool::new("small", 2_047, None)?;
    let data = std::thread::spawn(move || {
        pin(1);
        let _adopted = adopt_data_thread().expect("there is room for one");
        let mut held = Vec::with_capacity(HELD);
        report("cached", || {
            let mut burst: Burst = (0..32).filter_map(|_| pool.take()).collect();
            release(&mut burst);
            32
        });
        report("refills", || turn(&pool, &mut held, HELD));
        report("bare", || turn(&small, &mut held, 32));
        beside("beside", 0, &pool, &mut held);
        beside("resolving", WORK_NS, &pool, &mut held);
    });
    data.join().map_err(|_| "the thread ended")?;
    Ok(eal.close()?)
}

/// Takes so many frames and gives them back.
fn turn(pool: &Mempool, held: &mut Vec<Frame>, count: usize) -> usize {
    held.extend((0..count).filter_map(|_| pool.take()));
    held.drain(..).count()
}

fn report(what: &str, mut turn: impl FnMut() -> usize) {
    let mut samples: Vec<f64> = (0..RUNS)
        .map(|_| {
            let (start, mut frames) = (cpu_time(), 0);
            while frames < FRAMES_PER_RUN {
                frames += turn();
            }
            (cpu_time() - start) as f64 / frames as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!(
        "{what:9} median {:6.2} ns, tenth {:6.2} ns per frame",
        samples[RUNS / 2],
        samples[RUNS / 10]
    );
}

fn beside(what: &str, work_ns: u64, pool: &Mempool, held: &mut Vec<Frame>) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..PREEMPTED {
            scope.spawn(|| {
                pin(0);
                let mut held = Vec::with_capacity(HELD);
                while !stop.load(Ordering::Relaxed) {
                    turn(pool, &mut held, 1);
                    let start = cpu_time();
                    while cpu_time() - start < work_ns {}
                }
            });
        }
        let (begin, mut turns) = (cpu_time(), Vec::new());
        while cpu_time() - begin < BESIDE_NS {
            let start = cpu_time();
            turn(pool, held, HELD);
            turns.push(cpu_time() - start);
        }
        stop.store(true, Ordering::Relaxed);
        turns.sort_unstable();
        let long: Vec<u64> = turns.iter().copied().filter(|ns| *ns > LONG_NS).collect();
        println!(
            "{what:9} {} turns in {} ms, longest {} us; {} of over {} us took {} ms",
            turns.len(),
            BESIDE_NS / 1_000_000,
            turns.last().unwrap_or(&0) / 1000,
            long.len(),
            LONG_NS / 1000,
            long.iter().sum::<u64>() / 1_000_000
        );
    });
    println!("lost      {} frames", pool.in_use());
}

/// Keeps the calling thread on a CPU.
fn pin(cpu: usize) {
    // SAFETY: a set of CPUs is bits, for which zeroes are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 and 1 are inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is as long as is said.
    let code = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(code, 0, "this needs CPUs 0 and 1");
}

/// Nanoseconds for which the calling thread has run.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the value can be written.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0, "every Linux has this clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
