//! `pmdns run`: serve until told to stop.
//!
//! `opened` binds what the configuration names, `ports` starts the ports, `instance` is the main thread of a process that serves.

mod announce;
mod calls;
mod error;
mod instance;
mod opened;
mod passing;
mod passing_changes;
mod passing_ports;
mod ports;
mod relay;
mod reopened_ports;
mod services;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::Config;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use self::error::RunError;
use self::instance::Instance;
use self::instance::InstanceParts;
use self::opened::Opened;
use self::ports::{Beside, StartedPorts};
use crate::control::reload::Written;
use crate::handover::{
    HandOver, HandoverError, LeftByCrash, OpenedForNext, RelayToBefore, TakeOver, Taps, adopted,
    known_hops,
};
use crate::runtime::{OpenChanges, PassedChanges, unix_time};
use pmdns_control::report::Report;
use pmdns_nics::dpdk;
use pmdns_nics::machine::Machine;
use pmdns_streams::quic_steering::QuicGeneration;

/// What there was before this process.
pub enum Before {
    /// Nothing that is there still.
    Nothing,
    /// A process that runs, from which this one takes over.
    Process(TakeOver),
    /// A process that has crashed.
    Crash(LeftByCrash),
}

/// Serves with `config`, which was `written` so at `path`, and with the changes that operators have made at run time before, until
/// SIGINT or SIGTERM. Returns the final counters. SIGHUP has the rules read anew. If there was nothing `before` it, the machine
/// meets every [condition](crate::machine::CONDITIONS).
pub fn run(
    config: &Config,
    written: Written,
    path: &Path,
    before: Before,
) -> Result<Report, RunError> {
    // Asked first, because the EAL pins this thread to its main core.
    let Machine { cores, .. } = Machine::this();
    let stop = flag_of(&[SIGINT, SIGTERM]).map_err(RunError::Signal)?;
    let hangup = flag_of(&[SIGHUP]).map_err(RunError::Signal)?;
    let has_predecessor = !matches!(before, Before::Nothing);
    let (mut take_over, left) = match before {
        Before::Nothing => (None, None),
        Before::Process(take_over) => (Some(take_over), None),
        Before::Crash(left) => (None, Some(left)),
    };
    dpdk::share_devices(take_over.is_some());
    let taken = take_over.as_mut().map(|before| before.take_sockets(&stop));
    let (of_crash, left) = left.map(LeftByCrash::into_parts).unzip();
    let mut sockets = taken.or(of_crash).unwrap_or_default();
    // From its offer on, the running process makes and keeps no more changes.
    let passed = sockets.take_changes().map(|(memory, of)| PassedChanges::read(memory, of));
    let passed = passed.transpose().map_err(HandoverError::Refused)?;
    let changes = OpenChanges::read(config, unix_time(), passed)?;
    let (base, config) = (config, &changes.config.clone());
    let is_beside = take_over.is_some();
    let is_second = take_over.as_ref().is_some_and(TakeOver::is_second);
    let generation = QuicGeneration { is_beside, is_second };
    let opened = Opened::open((base, config), changes, &mut sockets, generation)?;
    let copies = opened.copies(config).map_err(RunError::Copy)?;
    let quic = opened.quic_steering().map_err(RunError::Copy)?;
    let devices = take_over.as_ref().map(TakeOver::devices).unwrap_or_default();
    let hops = take_over.as_ref().map(|before| known_hops(config, before.hops()));
    let beside = Beside { is_there: is_beside, is_first: is_second, devices };
    let mut ports = StartedPorts::start(config, opened.has_streams(), &cores, beside)?;
    ports.passed.taps = sockets.take_taps();
    ports.passed.relay = RelayToBefore::of(config, &mut sockets);
    ports.passed.engine.hops = hops.unwrap_or_default();
    if has_predecessor {
        ports.passed.engine.memory = adopted(config, sockets.take_cache());
    }
    let queues = take_over.as_ref().map(TakeOver::taps).unwrap_or_default();
    let taps = Taps::opened(config, &ports.topology.ports, queues);
    let xdp = std::mem::take(&mut ports.steerings);
    let beside = ports.eal.files_beside(is_second);
    let for_next = OpenedForNext { copies, taps, quic, xdp, is_second, beside };
    let hand_over = HandOver::open(config, &mut sockets, left, for_next)?;
    if let (Some(_), Some(why)) = (&take_over, hand_over.obstacle()) {
        return Err(HandoverError::Refused(why.to_owned()).into());
    }
    // What this configuration has no use for is closed.
    drop(sockets);
    let parts = InstanceParts { written, path, opened, ports, hand_over, take_over };
    let mut instance = Instance::start(config, parts, &cores)?;
    while (!stop.load(Ordering::Relaxed) || instance.is_inheriting()) && !instance.has_ended() {
        instance.turn(hangup.swap(false, Ordering::Relaxed));
        instance.nap();
    }
    instance.stop()
}

/// A flag that these signals set.
fn flag_of(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
