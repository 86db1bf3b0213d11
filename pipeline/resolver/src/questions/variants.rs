//! One name and type may be asked in many variants at once: for each client subnet, each scope, with or without DO and
//! CD. A reply does not say which variant it is for. So each datagram of a forger could match any of them, if he has
//! them all asked (CVE-2025-5994). Only [`MAX_OVER_UDP`] variants are asked over UDP; the others go over TCP.
//!
//! Pure.

use arrayvec::ArrayVec;
use pmdns_stages::cache::Key;
use pmdns_stages::wire::name::Seed;

use crate::questions::hashed::HashedMap;
use crate::questions::pending::Ticket;

/// Variants of a question asked over UDP at once.
pub(crate) const MAX_OVER_UDP: usize = 4;

/// The variants asked over UDP now, by a hash of their common part. Their number is bounded by the pending table.
#[derive(Debug, Default)]
pub(crate) struct Variants {
    over_udp: HashedMap<u64, ArrayVec<Ticket, MAX_OVER_UDP>>,
}

impl Variants {
    /// Whether the question of `ticket` may be asked over UDP. If so, its place is taken until [`Variants::end`].
    pub(crate) fn may_use_udp(&mut self, key: Key<'_>, ticket: Ticket, seed: Seed) -> bool {
        let tickets = self.over_udp.entry(kin(key, seed)).or_default();
        tickets.contains(&ticket) || tickets.try_push(ticket).is_ok()
    }

    /// The question of `ticket` has ended.
    pub(crate) fn end(&mut self, key: Key<'_>, ticket: Ticket, seed: Seed) {
        let kin = kin(key, seed);
        let Some(tickets) = self.over_udp.get_mut(&kin) else { return };
        tickets.retain(|other| *other != ticket);
        if tickets.is_empty() {
            self.over_udp.remove(&kin);
        }
    }
}

/// Hash of the part of the question that a reply repeats.
fn kin(key: Key<'_>, seed: Seed) -> u64 {
    Key { flags: 0, ..key }.hash(seed, seed.hash(key.name))
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::{name_of, query};

    use super::*;
    use crate::questions::pending::{Admission, Pending, tests::limits};
    use crate::upstreams::query::tests::question;

    fn tickets(count: usize) -> Vec<Ticket> {
        let mut pending = Pending::new(limits(2 * count, 1, 1));
        let mut ticket = |number| match pending.begin(
            crate::questions::prefixes::ClientPrefix::OURS,
            question(&query(&format!("n{number}.example. A"))),
            |_| (),
        ) {
            Admission::Leads(ticket) => ticket,
            other => panic!("{other:?}"),
        };
        (0..count).map(&mut ticket).collect()
    }

    #[test]
    fn cve_2025_5994_a_handful_of_variants_is_asked_over_udp_at_once() {
        let (seed, mut variants) = (Seed::new([3; 16]), Variants::default());
        let name = name_of("www.example");
        let key = |qtype, flags| Key { name: &name, qtype, qclass: 1, flags };
        let tickets = tickets(20);
        let over_udp: Vec<bool> = (0..)
            .zip(&tickets)
            .map(|(flags, ticket)| variants.may_use_udp(key(1, flags), *ticket, seed))
            .collect();
        let first = |count: usize| (0..20).map(|at| at < count).collect::<Vec<_>>();
        assert_eq!(over_udp, first(MAX_OVER_UDP));
        assert!(variants.may_use_udp(key(1, 0), tickets[0], seed), "once it may, it may");
        assert!(variants.may_use_udp(key(28, 0), tickets[19], seed), "another type");
        variants.end(key(1, 2), tickets[2], seed);
        assert!(variants.may_use_udp(key(1, 9), tickets[9], seed));
        assert!(!variants.may_use_udp(key(1, 10), tickets[10], seed));
        for ticket in tickets {
            variants.end(key(1, 0), ticket, seed);
            variants.end(key(28, 0), ticket, seed);
        }
        assert!(variants.over_udp.is_empty());
    }
}
