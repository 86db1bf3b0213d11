//! Ports that are TAPs: for a moment both processes have queues of each.

use std::io;
use std::os::fd::BorrowedFd;

use pmdns_config::{Config, PortSettings, interface_made};
use pmdns_handover::PassedTap;
use pmdns_nics::PortPlan;
use pmdns_nics::dpdk::{TapQueues, TapSteering};

use super::process::cannot_pass;

/// The TAPs of a process.
#[derive(Debug, Default)]
pub(crate) struct Taps(Vec<TapSteering>);

impl Taps {
    /// Those of this process's ports, which have started with these queues, beside those of the process before. Rights are
    /// needed, so this comes before they go. An error is what keeps other processes from taking over.
    pub(crate) fn opened(
        config: &Config,
        plans: &[PortPlan],
        before: &[PassedTap],
    ) -> Result<Self, String> {
        let open = |(port, plan): (&PortSettings, &PortPlan)| {
            let interface = interface_made(&port.device)?;
            let before = before.iter().find(|tap| tap.interface == interface);
            let before = before.map(|tap| TapQueues { first: tap.first, count: tap.count });
            let count = plan.rx_queues.max(plan.tx_queues).into();
            let opened = TapSteering::new(interface, before.unwrap_or_default(), count);
            Some(opened.map_err(|why| cannot_pass(format!("what comes to {interface} ({why})"))))
        };
        let opened = config.ports.iter().zip(plans).filter_map(open).collect::<Result<_, _>>();
        // A crash loses the interface, then.
        opened.map(Self).inspect_err(|why| tracing::warn!("no other process can take over: {why}"))
    }

    /// This process has everything, though another one has queues.
    pub(super) fn take(&self) -> io::Result<()> {
        self.0.iter().try_for_each(TapSteering::to_own)
    }

    /// No other process has queues.
    pub(super) fn be_alone(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(TapSteering::be_alone)
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
        let passed = |tap: &TapSteering| {
            let TapQueues { first, count } = tap.own();
            PassedTap { interface: tap.interface().to_owned(), first, count }
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
