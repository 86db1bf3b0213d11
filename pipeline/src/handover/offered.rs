//! What an offer has beside the sockets: it is of the moment, and a crash leaves nothing of it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use pmdns_config::Config;
use pmdns_handover::{FromIncoming, Offer, Passed, PassedDevice, PassedHop};

use super::answers::AnswersToNext;
use super::relay::RelayToNext;
use crate::sockets::OpenSockets;

/// What is of the moment.
#[derive(Debug)]
pub(super) struct Offered {
    /// Devices that this process can close, and where next hops are.
    devices: Vec<PassedDevice>,
    hops: Vec<PassedHop>,
    pub(super) relay: RelayToNext,
    pub(super) answers: AnswersToNext,
    /// Changes of operators in memory, and whether those of clients are among them; or why they cannot pass.
    changes: Option<Result<(OwnedFd, bool), String>>,
}

impl Offered {
    /// Nothing is known yet.
    pub(super) fn new(config: &Config) -> Self {
        let (devices, hops, changes) = Default::default();
        let (relay, answers) = (RelayToNext::new(config), AnswersToNext::new(config));
        Self { devices, hops, relay, answers, changes }
    }

    /// Makes ways to another process.
    pub(super) fn renew(&mut self) {
        self.relay.renew();
        self.answers.renew();
    }

    pub(super) fn set_ports(&mut self, devices: Vec<PassedDevice>, hops: Vec<PassedHop>) {
        (self.devices, self.hops) = (devices, hops);
    }

    pub(super) fn set_changes(&mut self, changes: Result<(OwnedFd, bool), String>) {
        self.changes = Some(changes);
    }

    /// Why a greeting gets no offer.
    pub(super) fn refusal(&self, message: &FromIncoming) -> Option<String> {
        let changes = self.changes.as_ref().filter(|_| matches!(message, FromIncoming::Hello(_)));
        changes.and_then(|changes| changes.as_ref().err().cloned())
    }

    /// The offer, with these sockets.
    pub(super) fn offer(&self, sockets: &OpenSockets) -> Offer {
        let passed = self.passed(sockets).0;
        let (devices, hops) = (self.devices.clone(), self.hops.clone());
        Offer { passed, devices, hops, ..Offer::default() }
    }

    /// What passes, and the descriptors of that in the same order.
    pub(super) fn passed<'s>(
        &'s self,
        sockets: &'s OpenSockets,
    ) -> (Vec<Passed>, Vec<BorrowedFd<'s>>) {
        let (mut passed, mut descriptors) = self.relay.passed(sockets);
        if let Some((way, end)) = self.answers.passed() {
            passed.push(way);
            descriptors.push(end);
        }
        if let Some(Ok((memory, has_clients))) = &self.changes {
            passed.push(Passed::Changes { has_clients: *has_clients });
            descriptors.push(memory.as_fd());
        }
        (passed, descriptors)
    }

    /// The turn is over: what it has not passed may change before the next one.
    pub(super) fn drop_changes(&mut self) {
        self.changes = None;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use pmdns_handover::{Hello, PROTOCOL};

    use super::*;

    #[test]
    fn changes_pass_in_one_offer_and_a_greeting_is_refused_if_they_cannot() {
        let (mut offered, none) = (Offered::new(&Config::default()), OpenSockets::default());
        let greeting = Hello { protocol: PROTOCOL, version: "1".to_owned(), keeper: None };
        let greeting = FromIncoming::Hello(greeting);
        let memory = || File::open("/dev/null").unwrap().into();
        offered.set_changes(Ok((memory(), true)));
        assert_eq!(offered.refusal(&greeting), None);
        let passed = offered.offer(&none).passed;
        assert_eq!(passed, [Passed::Changes { has_clients: true }]);
        let mut sockets = OpenSockets::named(passed, vec![memory()]);
        assert!(sockets.take_changes().is_some_and(|(_, has_clients)| has_clients));
        assert!(sockets.take_changes().is_none());
        offered.drop_changes();
        assert!(offered.offer(&none).passed.is_empty());
        offered.set_changes(Err("too many".to_owned()));
        assert_eq!(offered.refusal(&greeting), Some("too many".to_owned()));
        assert_eq!(offered.refusal(&FromIncoming::Serving), None);
        assert!(offered.offer(&none).passed.is_empty());
    }
}
