//! Questions for IPv6 addresses that wait for the IPv4 addresses of their names (RFC 6147).

use std::collections::HashMap;
use std::rc::Rc;

use pmdns_stages::cache::Entry;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;

use super::hashed::HashedMap;
use super::pending::Ticket;
use super::question::Question;

/// The outcome of a question for IPv6 addresses: an answer without any and the network it is for, or none for this reason.
pub(crate) type WithoutIpv6 = Result<(Entry, Option<Subnet>), ExtendedError>;

/// The questions that wait, and the questions that they wait for. Their number is bounded by the pending table.
#[derive(Debug, Default)]
pub(crate) struct Ipv4Targets {
    by_target: HashedMap<Rc<Question>, Vec<Ticket>>,
    waiting: HashMap<Ticket, WithoutIpv6>,
}

impl Ipv4Targets {
    /// Lets the question of `ticket` wait for `target`.
    pub(crate) fn wait(&mut self, target: Question, ticket: Ticket, came: WithoutIpv6) {
        self.by_target.entry(Rc::new(target)).or_default().push(ticket);
        self.waiting.insert(ticket, came);
    }

    /// Whether a question waits.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    /// Another upstream has said more about a question that waits.
    pub(crate) fn update(&mut self, ticket: Ticket, came: WithoutIpv6) {
        self.waiting.insert(ticket, came);
    }

    /// Takes out those that wait for `target`.
    pub(crate) fn take(&mut self, target: &Question) -> Vec<(Ticket, WithoutIpv6)> {
        // Nearly always nothing waits, and `remove` would search.
        if self.by_target.is_empty() {
            return Vec::new();
        }
        let tickets = self.by_target.remove(target).unwrap_or_default();
        let waiting = &mut self.waiting;
        tickets.into_iter().filter_map(|one| Some((one, waiting.remove(&one)?))).collect()
    }
}
