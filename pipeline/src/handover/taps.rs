//! Ports that are TAPs: for a moment both processes have queues of each.

use std::io;
use std::os::fd::BorrowedFd;

use pmdns_config::{Config, PortSettings, interface_made};
use pmdns_handover::PassedTap;
use pmdns_nics::dpdk::{TapQueues, TapSteering};

/// The TAPs of a process.
#[derive(Debug, Default)]
pub(crate) struct Taps(Vec<TapSteering>);

/// The TAPs before this process has opened its own queues, with those that the process before has.
pub(crate) struct TapsBefore(Vec<(String, TapQueues)>);

impl TapsBefore {
    /// Counts queues. Without a process before, whose TAPs these are, none is of another: the kernel always shows one.
    pub(crate) fn of(config: &Config, before: Option<&[PassedTap]>) -> Self {
        let interfaces = config.ports.iter().filter_map(|port| interface_made(&port.device));
        let queues = |name: &str| {
            let taps = before?;
            let tap = taps.iter().find(|tap| tap.interface == name);
            let first = tap.map_or(0, |tap| tap.first);
            Some(TapQueues { first, count: TapSteering::queues(name).saturating_sub(first) })
        };
        let before = |name: &str| (name.to_owned(), queues(name).unwrap_or_default());
        Self(interfaces.map(before).collect())
    }

    /// The same ones, once the ports have started. Rights are needed, so this comes before they go.
    pub(crate) fn opened(self) -> Result<Taps, String> {
        let open = |(name, before): (String, TapQueues)| TapSteering::new(&name, before);
        let told =
            |why| format!("what comes to a TAP, for which this process has no right ({why}),");
        self.0.into_iter().map(open).collect::<io::Result<_>>().map(Taps).map_err(told)
    }
}

impl Taps {
    /// This process has everything, though another one has queues.
    pub(super) fn take(&self) -> io::Result<()> {
        self.0.iter().try_for_each(TapSteering::to_own)
    }

    /// The process before has everything again.
    pub(super) fn give_back(&self) -> io::Result<()> {
        self.0.iter().try_for_each(TapSteering::to_before)
    }

    /// The next process has all of its queues. None of them may be moved when those of this one close.
    pub(super) fn make_room(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(TapSteering::make_room)
    }

    /// What the next process has to know of each.
    pub(super) fn passed(&self) -> Vec<PassedTap> {
        let passed = |tap: &TapSteering| PassedTap {
            interface: tap.interface().to_owned(),
            first: tap.own().first,
        };
        self.0.iter().map(passed).collect()
    }

    /// What each interface is there by, though every queue of a process closes.
    pub(super) fn holders(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(TapSteering::holder).collect()
    }
}

/// Whether a port is over AF_XDP.
pub(super) fn is_over_af_xdp(port: &PortSettings) -> bool {
    port.device.starts_with("net_af_xdp")
}
