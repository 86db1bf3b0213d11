//! The cost of a frame on a port that does nothing: the driver interface alone.
//!
//! Receives bursts from `net_null` and transmits them again, in three ways:
//!
//! * `c`: DPDK's inline functions behind the C shim, raw mbuf pointers.
//! * `rust`: the same functions written in Rust over `rte_eth_fp_ops`, raw mbuf pointers.
//! * `frames`: our `RxQueue` and `TxQueue`, with `Frame`s, as a worker uses them.
//!
//! The arguments go to the EAL. Pin it, and give it hugepages, or the memory is measured:
//! `taskset -c 1 cargo run --release -p pmdns-nics --example net_null -- --no-pci --in-memory -m 128`
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of the example are small"
)]

use std::error::Error;
use std::ptr::null_mut;
use std::time::Instant;

use dpdk_sys::{burst, rte_mbuf, shim_rx_burst, shim_tx_burst};
use pmdns_nics::dpdk::{Eal, Mempool};
use pmdns_nics::{Burst, Nic, PortPlan, Queues, Rss};

/// Short enough that most runs are not interrupted, on a machine that others use too.
const FRAMES_PER_RUN: usize = 32_768;
const RUNS: usize = 601;
const BURSTS: [usize; 3] = [1, 8, 32];
const WAYS: [&str; 3] = ["c", "rust", "frames"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let eal = Eal::init("net_null", &arguments)?;
    let pool = Mempool::new("frames", 16_383, None)?;
    let port = eal.open(&settings(), 0)?;
    let plan = PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };
    let (nic, mut queues) = port.start(&plan, &pool)?;
    println!("{}, {RUNS} runs of {FRAMES_PER_RUN} frames", pmdns_nics::dpdk::version());
    for burst in BURSTS {
        // Each run takes all ways in turn, so that a noisy neighbour meets them all.
        let mut results: [Vec<Sample>; 3] = Default::default();
        for _ in 0..RUNS {
            results[0].push(measure(burst, || in_c(burst)));
            results[1].push(measure(burst, || in_rust(burst)));
            results[2].push(measure(burst, || with_frames(&mut queues, burst)));
        }
        for (way, mut samples) in WAYS.into_iter().zip(results) {
            samples.sort_by(|a, b| a.ns.total_cmp(&b.ns));
            let (tenth, median) = (&samples[RUNS / 10], &samples[RUNS / 2]);
            println!(
                "burst {burst:2} {way:6} median {:6.2} ns {:6.1} cycles, tenth {:6.2} ns per frame",
                median.ns, median.cycles, tenth.ns
            );
        }
    }
    drop(queues);
    Box::new(nic).close();
    println!("frames in use at the end: {}", pool.in_use());
    drop(pool);
    Ok(eal.close()?)
}

/// The cost of one frame.
struct Sample {
    ns: f64,
    cycles: f64,
}

fn measure(burst: usize, mut turn: impl FnMut()) -> Sample {
    let turns = FRAMES_PER_RUN / burst;
    let (start, ticks) = (Instant::now(), tsc());
    for _ in 0..turns {
        turn();
    }
    let cycles = tsc().wrapping_sub(ticks) as f64;
    let ns = start.elapsed().as_nanos() as f64;
    let frames = (turns * burst) as f64;
    Sample { ns: ns / frames, cycles: cycles / frames }
}

#[inline(always)]
fn in_c(burst: usize) {
    let mut mbufs: [*mut rte_mbuf; 32] = [null_mut(); 32];
    // SAFETY: port 0 runs, its queue is used by this thread alone, and there is room for the burst.
    let received = unsafe { shim_rx_burst(0, 0, mbufs.as_mut_ptr(), burst as u16) };
    // SAFETY: as above, and the mbufs are those just received.
    let sent = unsafe { shim_tx_burst(0, 0, mbufs.as_mut_ptr(), received) };
    assert_eq!(usize::from(sent), burst);
}

#[inline(always)]
fn in_rust(burst: usize) {
    let mut mbufs: [*mut rte_mbuf; 32] = [null_mut(); 32];
    // SAFETY: port 0 runs, its queue is used by this thread alone, and there is room for the burst.
    let received = unsafe { burst::rx_burst(0, 0, mbufs.as_mut_ptr(), burst as u16) };
    // SAFETY: as above, and the mbufs are those just received.
    let sent = unsafe { burst::tx_burst(0, 0, mbufs.as_mut_ptr(), received) };
    assert_eq!(usize::from(sent), burst);
}

#[inline(always)]
fn with_frames(queues: &mut Queues, burst: usize) {
    let mut frames = Burst::new();
    queues.rx[0].receive(&mut frames, burst);
    let sent = queues.tx[0].transmit(&mut frames);
    assert_eq!(sent, burst);
}

#[cfg(target_arch = "x86_64")]
fn tsc() -> u64 {
    // SAFETY: reads a counter that every x86-64 has.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> u64 {
    0
}

fn settings() -> pmdns_config::PortSettings {
    pmdns_config::PortSettings {
        checksum_offload: false,
        link_wait_ms: 0,
        ..pmdns_config::PortSettings::new("null", "net_null0,size=64")
    }
}
