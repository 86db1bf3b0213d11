//! One name and type may be asked in many variants at once: for each client subnet, each scope, with or without DO and
//! CD. A reply does not say which variant it is for. So each datagram of a forger could match any of them, if he has
//! them all asked (CVE-2025-5994). Only [`MAX_OVER_UDP`] variants are asked over UDP; the others go over TCP.
//!
//! Pure.

use std::collections::hash_map::Entry;

use arrayvec::ArrayVec;

use crate::questions::hashed::HashedMap;
use crate::questions::pending::Ticket;

/// Variants of a question asked over UDP at once.
pub(crate) const MAX_OVER_UDP: usize = 4;

/// The variants asked over UDP now, by the hash of their common part ([`Question::kin`](super::question::Question::kin)). Their
/// number is bounded by the pending table.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    over_udp: HashedMap<u64, ArrayVec<Ticket, MAX_OVER_UDP>>,
}

impl Variants {
    /// Whether the question of `ticket` may be asked over UDP. If so, its place is taken until [`Variants::end`].
    pub(crate) fn may_use_udp(&mut self, kin: u64, ticket: Ticket) -> bool {
        let tickets = self.over_udp.entry(kin).or_default();
        tickets.contains(&ticket) || tickets.try_push(ticket).is_ok()
    }

    /// The question of `ticket` has ended.
    pub(crate) fn end(&mut self, kin: u64, ticket: Ticket) {
        let Entry::Occupied(mut tickets) = self.over_udp.entry(kin) else { return };
        tickets.get_mut().retain(|other| *other != ticket);
        if tickets.get().is_empty() {
            tickets.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::query;

    use super::*;
    use crate::questions::pending::{Admission, Pending, tests::limits};
    use crate::upstreams::query::tests::question;

    fn tickets(count: usize) -> Vec<Ticket> {
        let mut pending = Pending::new(limits(2 * count, 1, 1));
        let mut ticket = |number| match pending.begin(
            crate::questions::prefixes::ClientPrefix::OURS,
            &question(&query(&format!("n{number}.example. A"))),
            |_| (),
        ) {
            Admission::Leads(ticket) => ticket,
            other => panic!("{other:?}"),
        };
        (0..count).map(&mut ticket).collect()
    }

    #[test]
    fn cve_2025_5994_a_handful_of_variants_is_asked_over_udp_at_once() {
        let mut variants = Variants::default();
        let plain = question(&query("www.example. A"));
        let validated = question(&query("www.example. A").edns(1232, true));
        assert!(plain.kin() == validated.kin() && plain.hash() != validated.hash());
        let (kin, of_other_type) = (plain.kin(), question(&query("www.example. AAAA")).kin());
        let tickets = tickets(20);
        let over_udp: Vec<bool> =
            tickets.iter().map(|ticket| variants.may_use_udp(kin, *ticket)).collect();
        let first = |count: usize| (0..20).map(|at| at < count).collect::<Vec<_>>();
        assert_eq!(over_udp, first(MAX_OVER_UDP));
        assert!(variants.may_use_udp(kin, tickets[0]), "once it may, it may");
        assert!(variants.may_use_udp(of_other_type, tickets[19]), "another type");
        variants.end(kin, tickets[2]);
        assert!(variants.may_use_udp(kin, tickets[9]));
        assert!(!variants.may_use_udp(kin, tickets[10]));
        for ticket in tickets {
            variants.end(kin, ticket);
            variants.end(of_other_type, ticket);
        }
        assert!(variants.over_udp.is_empty());
    }
}
