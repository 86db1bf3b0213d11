//! Ports whose device one process at a time can have: this process closes them for the next one, and opens what the one before has
//! closed. If the next one does not go on, this one opens them again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmdns_config::narrow::to_u8;
use pmdns_config::{Config, PortSettings};
use pmdns_engine::news::NewsBoard;
use pmdns_engine::ports::PortWatch;
use pmdns_handover::PassedDevice;
use pmdns_nics::Queues;

use super::error::RunError;
use super::ports::{RunningPorts, report_start};
use crate::handover::{is_exclusive, passed};

/// What could not be opened again is tried again after that time.
const RETRY: Duration = Duration::from_secs(1);
/// For so long what the process before has had is tried again: the kernel may hold what that one had when it crashed.
const SETTLING: Duration = Duration::from_secs(2);
/// The pause between these tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Such ports.
#[derive(Debug, Default)]
pub(super) struct ReopenedPorts {
    numbers: Vec<usize>,
    /// When those that are closed are opened again.
    due: Option<Instant>,
    /// What the process before has closed is tried next at the one time, and until the other.
    taken: Option<(Instant, Instant)>,
}

impl ReopenedPorts {
    /// Those of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let ports = config.ports.iter().enumerate().filter(|(_, port)| is_exclusive(port));
        Self { numbers: ports.map(|(number, _)| number).collect(), ..Self::default() }
    }

    /// Those with one of these devices.
    fn with(&self, config: &Config, devices: &[String]) -> impl Iterator<Item = usize> {
        let numbers = self.numbers.iter().copied();
        numbers.filter(|port| devices.contains(&config.ports[*port].device))
    }

    /// Whether what the process before has closed is about to be opened.
    pub(super) fn are_awaited(&self) -> bool {
        self.taken.is_some()
    }

    /// The process before has closed them.
    pub(super) fn take(&mut self, now: Instant) {
        self.taken = Some((now, now + SETTLING));
    }
}

impl RunningPorts {
    /// Whether this process has the device of each port.
    pub(super) fn has_all(&self) -> bool {
        self.nics.iter().all(|nic| nic.is_open())
    }

    /// Folders of files that drivers make when these ports are opened again.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        if self.reopened.numbers.is_empty() { Vec::new() } else { self.eal.page_folders() }
    }

    /// The devices that this process opens once they are closed.
    pub(super) fn wanted(&self, config: &Config) -> Vec<String> {
        let closed = self.reopened.numbers.iter().filter(|port| !self.nics[**port].is_open());
        closed.map(|port| config.ports[*port].device.clone()).collect()
    }

    /// Has the cores leave the queues of the ports with these devices. They close when the last queue is left.
    pub(super) fn close_wanted(
        &mut self,
        (config, wanted): (&Config, &[String]),
        watch: &mut PortWatch,
        news: &NewsBoard,
    ) {
        self.reopened.due = None;
        self.reopened.with(config, wanted).for_each(|port| {
            watch.close(port, self.relay.queues(port, &self.topology.ports[port]), news);
        });
    }

    /// Whether this process has none of these devices any more.
    pub(super) fn are_closed(&self, config: &Config, wanted: &[String], watch: &PortWatch) -> bool {
        !self.reopened.with(config, wanted).any(|port| watch.has_device(port))
    }

    /// Whether some are about to be closed.
    pub(super) fn are_closing(&self, watch: &PortWatch) -> bool {
        self.reopened.numbers.iter().any(|port| watch.is_closing(*port))
    }

    /// Whether one serves beside the next process, which has opened another device.
    pub(super) fn is_any_beside(&self, watch: &PortWatch) -> bool {
        self.reopened.numbers.iter().any(|port| watch.serves(*port))
    }

    /// Whether none is closed, so that nothing is left to be opened.
    pub(super) fn are_all_open(&self, watch: &PortWatch) -> bool {
        !self.reopened.numbers.iter().any(|port| watch.is_closed(*port))
    }

    /// Whether what the process before sends can leave by any of them.
    pub(super) fn can_all_send(&self, watch: &PortWatch) -> bool {
        let cannot_send = |port: &usize| watch.is_closed(*port) || watch.awaits_link(*port);
        !self.reopened.numbers.iter().any(cannot_send)
    }

    /// The devices that the next process opens when this one has closed them. What is closed already it opens at its start.
    pub(super) fn devices(&self, config: &Config, watch: &PortWatch) -> Vec<PassedDevice> {
        let serving = self.reopened.numbers.iter().filter(|port| watch.serves(**port));
        serving.map(|port| passed(&config.ports[*port], self.nics[*port].facts())).collect()
    }

    /// The next process has not opened them: each is opened again as soon as it is closed.
    pub(super) fn reopen_later(&mut self, now: Instant) {
        self.reopened.due = (!self.reopened.numbers.is_empty()).then_some(now);
    }

    /// Opens those again that are closed, if that is due.
    pub(super) fn reopen(
        &mut self,
        config: &Config,
        watch: &mut PortWatch,
        news: &NewsBoard,
        now: Instant,
    ) {
        if self.reopened.due.is_none_or(|due| now < due) {
            return;
        }
        let opened = self.open_closed(config, watch, news);
        let is_waiting = self.are_closing(watch);
        self.reopened.due =
            opened.as_ref().err().map(|_| now + RETRY).or_else(|| is_waiting.then_some(now));
        match opened {
            Ok(()) if is_waiting => {}
            Ok(()) => tracing::info!("the ports that were closed are open again"),
            Err(error) => tracing::error!(
                "{error}; that is tried again, and `pmdns upgrade` tries it with the rights of a new process"
            ),
        }
    }

    /// Opens those that the process before has closed. `None`: nothing is to be opened, or that is tried again.
    pub(super) fn open_taken(
        &mut self,
        config: &Config,
        watch: &mut PortWatch,
        news: &NewsBoard,
        now: Instant,
    ) -> Option<Result<(), RunError>> {
        let (_, until) = self.reopened.taken.filter(|(due, _)| *due <= now)?;
        let opened = self.open_closed(config, watch, news);
        let is_over = opened.is_ok() || now >= until;
        self.reopened.taken = (!is_over).then_some((now + PAUSE, until));
        is_over.then_some(opened)
    }

    /// Opens those that are closed.
    fn open_closed(
        &mut self,
        config: &Config,
        watch: &mut PortWatch,
        news: &NewsBoard,
    ) -> Result<(), RunError> {
        let mut outcome = Ok(());
        for port in self.reopened.numbers.clone() {
            if !watch.is_closed(port) {
                continue;
            }
            // One that cannot be opened keeps no other one closed.
            match self.open(&config.ports[port], port) {
                Ok(queues) => watch.opened(port, self.nics[port].as_ref(), queues, news),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    fn open(&mut self, settings: &PortSettings, number: usize) -> Result<Queues, RunError> {
        let (planned, before) = (self.nics[number].facts(), self.nics[number].stats());
        let checksum_offload = planned.checksum_offload;
        // Nothing waits for a link: the cores have to have the queues first.
        let settings = PortSettings { checksum_offload, link_wait_ms: 0, ..settings.clone() };
        let closed = self.eal.open(&settings, to_u8(number))?.alone();
        closed.serves_as(planned)?;
        let (nic, queues) = closed.start(&self.topology.ports[number], &self.mempool)?;
        report_start(&nic);
        self.nics[number] = Box::new(nic.after(before));
        Ok(queues)
    }
}
