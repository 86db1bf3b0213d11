//! The simulator: a whole pmdns, its clients, its upstreams, its operator and its machine in one thread, driven by a seed.
//!
//! Each seed gives one history, always the same one. docs/simulator.md describes the model and the checks. This replays
//! a history that has failed:
//!
//! ```text
//! scripts/test.sh simulator
//! PMDNS_SEED=7 scripts/test.sh simulator
//! ```

#![cfg(debug_assertions)]
#![expect(clippy::expect_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

mod blocks;
mod cache;
mod calm;
mod checks;
mod clients;
mod history;
mod internet;
mod link;
mod lookups;
mod manners;
mod operator;
mod servers;
mod setup;
mod signed;
#[path = "../../engine/tests/stepping/mod.rs"]
mod stepping;
mod storm;
mod trace;
mod truth;

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use history::Summary;

/// Seeds that every run of all tests lives through.
const FEW: u64 = 20;

/// Lives through a seed. A panic is a failure like any other.
fn run(seed: u64, is_printed: bool) -> Result<Summary, String> {
    let lived = catch_unwind(|| history::run(seed, is_printed));
    lived.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let (mut succeeded, mut right, mut looked_up) = (0, 0, 0);
    for seed in 0..8 {
        let [first, second] = [(); 2].map(|()| run(seed, false).expect("it ends well"));
        assert_eq!(first, second, "seed {seed}");
        succeeded += first.succeeded;
        right += first.looked_up[0];
        looked_up += first.looked_up[1];
    }
    assert!(succeeded > 300 && right > 300, "{succeeded} {right}");
    assert!(2 * right > looked_up, "{right} of {looked_up} lookups were compared to the end");
}

/// `PMDNS_SEED`: that one, with its trace. `PMDNS_SIMULATOR_SECONDS`: as many as fit, from `PMDNS_FIRST_SEED` on. Else a few.
#[test]
fn histories() {
    if let Some(seed) = number("PMDNS_SEED") {
        match run(seed, true) {
            Ok(summary) => println!("seed {seed} ends well: {summary:?}"),
            Err(why) => panic!("seed {seed}: {why}"),
        }
        return;
    }
    let seconds = number("PMDNS_SIMULATOR_SECONDS");
    let first = number("PMDNS_FIRST_SEED").unwrap_or(0);
    let last = if seconds.is_some() { u64::MAX } else { first + FEW };
    let began = Instant::now();
    let is_over = || seconds.is_some_and(|most| began.elapsed() >= Duration::from_secs(most));
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) && !is_over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    if let Err(why) = run(seed, false) {
                        failed.store(true, Ordering::Relaxed);
                        println!("PMDNS_SEED={seed}: {why}");
                    }
                }
            });
        }
    });
    let lived = next.load(Ordering::Relaxed).min(last) - first;
    println!("{lived} seeds in {:.1} s, from {first} on", began.elapsed().as_secs_f64());
    assert!(!failed.load(Ordering::Relaxed), "a history has failed; PMDNS_SEED replays it");
}
