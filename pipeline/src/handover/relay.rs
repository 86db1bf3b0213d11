//! The way for frames between both processes: what comes to the one and is for the other, and what leaves by a port of the other.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pmdns_config::Config;
use pmdns_config::narrow::to_u8;
use pmdns_handover::Passed;
use pmdns_nics::RelayEnd;

use crate::sockets::OpenSockets;

/// The way to the next process.
#[derive(Debug)]
pub(super) struct RelayToNext {
    /// The names of the ports, by number.
    ports: Vec<String>,
    /// This process's end, and the one that passes.
    ends: Option<(Arc<RelayEnd>, OwnedFd)>,
}

impl RelayToNext {
    /// There is none yet.
    pub(super) fn new(config: &Config) -> Self {
        Self { ports: config.ports.iter().map(|port| port.name.clone()).collect(), ends: None }
    }

    /// Makes another one, for another process.
    pub(super) fn renew(&mut self) {
        let made = RelayEnd::pair().map(|(near, far)| (Arc::new(near), far));
        let told = |error| tracing::warn!("who waits for an upstream may get no answer: {error}");
        self.ends = made.map_err(told).ok();
    }

    /// This process's end. The other one is closed here: it ends with the process that has it.
    pub(super) fn take_end(&mut self) -> Option<Arc<RelayEnd>> {
        self.ends.take().map(|(near, _)| near)
    }

    /// What passes: these sockets, and the other end.
    pub(super) fn passed<'s>(
        &'s self,
        sockets: &'s OpenSockets,
    ) -> (Vec<Passed>, Vec<BorrowedFd<'s>>) {
        let (mut passed, mut descriptors) = sockets.passed();
        if let Some((_, far)) = &self.ends {
            passed.push(Passed::Relay(self.ports.clone()));
            descriptors.push(far.as_fd());
        }
        (passed, descriptors)
    }
}

/// The way to the process before.
#[derive(Debug)]
pub(crate) struct RelayToBefore {
    /// This process's end.
    pub(crate) end: Arc<RelayEnd>,
    /// By its number in the process before: the number of the port here.
    pub(crate) ports: Vec<Option<u8>>,
}

impl RelayToBefore {
    /// The one that has come with an offer.
    pub(crate) fn of(config: &Config, sockets: &mut OpenSockets) -> Option<Self> {
        let (before, end) = sockets.take_relay()?;
        let told = |error: &_| {
            tracing::warn!("who waits for the process before may get no answer: {error}")
        };
        let end = Arc::new(RelayEnd::passed(end).inspect_err(told).ok()?);
        let number = |name: &String| config.port_of_name(name).map(to_u8);
        Some(Self { end, ports: before.iter().map(number).collect() })
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::PortSettings;

    use super::*;

    fn config(ports: &[&str]) -> Config {
        let ports = ports.iter().map(|name| PortSettings::new(name, "net_tap0")).collect();
        Config { ports, ..Config::default() }
    }

    #[test]
    fn ports_are_known_by_their_names_though_their_numbers_differ() {
        let mut relay = RelayToNext::new(&config(&["a", "b", "c"]));
        let none = OpenSockets::default();
        assert!(relay.passed(&none).0.is_empty() && relay.take_end().is_none());
        relay.renew();
        let (passed, descriptors) = relay.passed(&none);
        let descriptors = descriptors.iter().map(|end| end.try_clone_to_owned().unwrap()).collect();
        let mut sockets = OpenSockets::named(passed, descriptors);
        let before = RelayToBefore::of(&config(&["c", "d", "a"]), &mut sockets).unwrap();
        assert_eq!(before.ports, [Some(2), None, Some(0)]);
        assert!(sockets.passed().0.is_empty());
        assert!(relay.take_end().is_some() && relay.passed(&none).0.is_empty());
    }
}
