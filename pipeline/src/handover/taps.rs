//! Ports that are TAPs: for a moment both processes have queues of each.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use pmdns_config::{Config, PortSettings, interface_made};
use pmdns_nics::dpdk::TapSteering;

/// The TAPs of a process.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    taps: Vec<TapSteering>,
    /// Whether the kernel may spread what comes, once the other process has no queues.
    is_ending: Cell<bool>,
}

/// The TAPs before this process has opened its own queues, with the queues that each has.
pub(crate) struct TapsBefore(Vec<(String, u32)>);

impl TapsBefore {
    /// Counts queues. Where no process is `beside` this one, none is of another: the kernel always shows one.
    pub(crate) fn of(config: &Config, is_beside: bool) -> Self {
        let interfaces = config.ports.iter().filter_map(|port| interface_made(&port.device));
        let queues = |name| if is_beside { TapSteering::queues(name) } else { 0 };
        Self(interfaces.map(|name| (name.to_owned(), queues(name))).collect())
    }

    /// The same ones, once the ports have started. Rights are needed, so this comes before they go.
    pub(crate) fn opened(self) -> Result<Taps, String> {
        let open = |(name, before): (String, u32)| TapSteering::new(&name, before);
        let told =
            |why| format!("what comes to a TAP, for which this process has no right ({why}),");
        let taps = self.0.into_iter().map(open).collect::<io::Result<_>>().map_err(told)?;
        Ok(Taps { taps, is_ending: Cell::new(false) })
    }
}

impl Taps {
    /// This process has everything, though the next one opens queues.
    pub(super) fn hold(&self) -> io::Result<()> {
        self.is_ending.set(false);
        self.taps.iter().try_for_each(TapSteering::to_first)
    }

    /// This process has everything, though the one before has queues.
    pub(super) fn take(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_later)
    }

    /// The next process has everything, though the queues of this one close.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_next)
    }

    /// The process before has everything again.
    pub(super) fn give_back(&self) -> io::Result<()> {
        self.taps.iter().try_for_each(TapSteering::to_earlier)
    }

    /// What each interface is there by, though every queue of a process closes.
    pub(super) fn holders(&self) -> Vec<BorrowedFd<'_>> {
        self.taps.iter().map(TapSteering::holder).collect()
    }

    /// There will be one process soon. Until the kernel has closed the queues of the other one, nothing may be led to these.
    pub(super) fn end(&self) {
        self.is_ending.set(true);
    }

    /// The kernel spreads what comes over all queues, if these are all of one process.
    pub(super) fn turn(&self) -> io::Result<()> {
        if self.is_ending.get() && self.taps.iter().all(TapSteering::is_alone) {
            self.is_ending.set(false);
            self.taps.iter().try_for_each(TapSteering::to_all)?;
        }
        Ok(())
    }
}

/// Whether a port is over AF_XDP.
pub(super) fn is_over_af_xdp(port: &PortSettings) -> bool {
    port.device.starts_with("net_af_xdp")
}
