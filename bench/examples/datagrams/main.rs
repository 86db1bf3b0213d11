//! The cost of datagrams by sockets of the kernel for the thread that sends and receives them. It uses a call for
//! each, `sendmmsg` and `recvmmsg`, or io_uring. `cargo run --release -p pmdns-bench --example datagrams [ROUNDS]`, as
//! root, because it makes two network namespaces of its own.
//!
//! Times are of the thread's own CPU clock, in nanoseconds for each datagram. The far end answers on the same thread, but
//! its time does not count. The ways take turns in each round. A way's ratio is to a call for each in the same round.

mod life;
mod paths;
mod ways;

use std::error::Error;
use std::io;
use std::net::UdpSocket;

use core_affinity::CoreId;

use life::{LAP, Life};
use paths::{ANSWER, Path, paths};
use ways::{Hands, MAX_BATCH, Way, cpu_time};

/// Laps of one way in a round.
const LAPS: usize = 32;
const BATCHES: [usize; 4] = [1, 2, 8, MAX_BATCH];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Send {
        is_connected: bool,
    },
    Receive {
        is_connected: bool,
    },
    /// A batch's socket from the first call to the last, as a slow path thread has one for each.
    Life,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(31);
    let paths = paths()?;
    core_affinity::set_for_current(CoreId { id: 1 });
    let mut hands = Hands::new()?;
    println!("| path | what | batch | a call each, ns | sendmmsg | and recvmmsg | io_uring |");
    println!("|---|---|---|---|---|---|---|");
    for path in &paths {
        for work in [
            Work::Send { is_connected: true },
            Work::Send { is_connected: false },
            Work::Receive { is_connected: true },
            Work::Receive { is_connected: false },
            Work::Life,
        ] {
            for batch in BATCHES {
                compare(path, work, batch, rounds, &mut hands)?;
            }
        }
    }
    Ok(())
}

/// Measures all ways in turn, and prints a row.
fn compare(
    path: &Path,
    work: Work,
    batch: usize,
    rounds: usize,
    hands: &mut Hands,
) -> io::Result<()> {
    let mut ratios = [const { Vec::new() }; Way::ALL.len()];
    let mut alone = Vec::new();
    for round in 0..=rounds {
        let mut took = [0.0; Way::ALL.len()];
        for turn in 0..Way::ALL.len() {
            let way = (round + turn) % Way::ALL.len();
            took[way] = measure(path, work, batch, Way::ALL[way], hands)?;
        }
        // The first round only warms up.
        if round > 0 {
            alone.push(took[0]);
            ratios.iter_mut().zip(took).for_each(|(ratios, ns)| ratios.push(ns / took[0]));
        }
    }
    let [_, sends, both, ring] = ratios.map(|ratios| spread(ratios, 2));
    println!(
        "| {} | {work} | {batch} | {} | {sends} | {both} | {ring} |",
        path.name,
        spread(alone, 0)
    );
    Ok(())
}

/// The nanoseconds of the thread for each datagram.
fn measure(path: &Path, work: Work, batch: usize, way: Way, hands: &mut Hands) -> io::Result<f64> {
    let mut took = 0;
    let is_connected = match work {
        Work::Send { is_connected } | Work::Receive { is_connected } => is_connected,
        Work::Life => {
            let mut life = Life::new(path, batch, way)?;
            for _ in 0..LAPS {
                took += life.lap(hands)?;
            }
            return Ok(took as f64 / (LAPS * LAP) as f64);
        }
    };
    let near = UdpSocket::bind((path.near, 0))?;
    let address = near.local_addr()?;
    if is_connected {
        near.connect(path.far_address)?;
    }
    let to = (!is_connected).then_some(path.far_address);
    near.set_nonblocking(true)?;
    for _ in 0..LAPS {
        if matches!(work, Work::Receive { .. }) {
            for _ in 0..LAP {
                path.far.send_to(&ANSWER, address)?;
            }
            let start = cpu_time();
            for _ in 0..LAP / batch {
                hands.receive(way, &near, batch, !is_connected)?;
            }
            took += cpu_time() - start;
        } else {
            let start = cpu_time();
            for _ in 0..LAP / batch {
                hands.send(way, &near, batch, to)?;
            }
            took += cpu_time() - start;
            for _ in 0..LAP {
                path.far.recv(&mut [0; 512])?;
            }
        }
    }
    Ok(took as f64 / (LAPS * LAP) as f64)
}

/// The median, and from the lowest to the highest.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [Some(low), Some(median), Some(high)] =
        [0, values.len() / 2, values.len().saturating_sub(1)].map(|index| values.get(index))
    else {
        return "no rounds".into();
    };
    format!("{median:.digits$} ({low:.digits$} – {high:.digits$})")
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Send { is_connected: true } => "send, connected",
            Self::Send { is_connected: false } => "send, unconnected",
            Self::Receive { is_connected: true } => "receive, connected",
            Self::Receive { is_connected: false } => "receive, unconnected",
            Self::Life => "a socket's life",
        })
    }
}
