//! Questions that wait for another one, their target: that of their alias, or the IPv4 addresses of their names (RFC 6147).

use std::collections::HashMap;
use std::rc::Rc;

use pmdns_stages::cache::{Alias, Entry};
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;

use super::hashed::HashedMap;
use super::pending::Ticket;
use super::question::Question;

/// The questions that wait for each target, each with what it waits with. Their number is bounded by the pending table.
#[derive(Debug)]
pub(crate) struct Targets<W>(HashedMap<Rc<Question>, Vec<(Ticket, W)>>);

/// Questions that wait for the targets of their aliases.
pub(crate) type AliasTargets = Targets<Alias>;

impl<W> Targets<W> {
    /// Lets the question of `ticket` wait for `target`.
    pub(crate) fn wait(&mut self, target: Question, ticket: Ticket, with: W) {
        self.0.entry(Rc::new(target)).or_default().push((ticket, with));
    }

    /// Takes out those that wait for `target`.
    pub(crate) fn take(&mut self, target: &Question) -> Vec<(Ticket, W)> {
        // Nearly always nothing waits, and `remove` would search.
        if self.0.is_empty() { Vec::new() } else { self.0.remove(target).unwrap_or_default() }
    }
}

impl<W> Default for Targets<W> {
    fn default() -> Self {
        Self(HashedMap::default())
    }
}

/// The outcome of a question for IPv6 addresses: an answer without any and the network it is for, or none for this reason.
pub(crate) type WithoutIpv6 = Result<(Entry, Option<Subnet>), ExtendedError>;

/// Questions for IPv6 addresses that wait, and what they have got so far.
#[derive(Debug, Default)]
pub(crate) struct Ipv4Targets {
    targets: Targets<()>,
    waiting: HashMap<Ticket, WithoutIpv6>,
}

impl Ipv4Targets {
    /// Lets the question of `ticket` wait for `target`.
    pub(crate) fn wait(&mut self, target: Question, ticket: Ticket, came: WithoutIpv6) {
        self.targets.wait(target, ticket, ());
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
        let tickets = self.targets.take(target).into_iter();
        tickets.filter_map(|(one, ())| Some((one, self.waiting.remove(&one)?))).collect()
    }
}
