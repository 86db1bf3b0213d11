//! The changes of operators that hold, for the process that takes over.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::services::Services;
use crate::clients::ClientTableThread;
use crate::handover::HandOver;
use crate::runtime::ChangesForNext;

impl Services<'_> {
    /// Tells what holds, once the next process has greeted. Says whether the greeting may be read now: that makes the offer, and
    /// from then on no change is made.
    pub(super) fn offer_changes(&mut self, hand_over: &mut HandOver, now: Instant) -> bool {
        if !hand_over.is_greeted() {
            self.clients.iter_mut().for_each(ClientTableThread::pass_nothing);
            // A greeting that comes after this look waits for the next one.
            return hand_over.is_under_way();
        }
        let of_clients = match &mut self.clients {
            Some(clients) => clients.pass(now),
            None => Some(ChangesForNext::begin(false)),
        };
        let Some(of_clients) = of_clients else { return false };
        let refused = |error: io::Error| {
            format!(
                "changes at run time cannot pass: {error}; remove some, or stop the running process, then start this one"
            )
        };
        hand_over.set_changes(of_clients.and_then(|one| self.with_others(one)).map_err(refused));
        true
    }

    /// The changes of clients, and all others.
    fn with_others(&self, mut changes: ChangesForNext) -> io::Result<(OwnedFd, bool)> {
        let of_config = self.reloader.overlay().passing().chain(self.limiter.changes());
        changes.add(self.runtime.changes().chain(of_config))?;
        let has_clients = changes.has_clients;
        Ok((changes.sealed()?, has_clients))
    }
}
