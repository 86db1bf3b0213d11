//! Packets over a port for the slow path: kind and receiver in the one number that a packet carries.

use pmdns_config::narrow::low_u32;

use crate::query_sources::Owner;

/// Where the kind stands in the number, above the owner.
const KIND_AT: u32 = 32;

/// The kind of a packet that takes the step [`REPLY`](crate::Step::REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram to the UDP port that this query left from.
    Reply(Owner),
    /// The first fragment of such a datagram. The others are dropped, so the query has to be asked again over TCP.
    Fragment(Owner),
    /// A message that the query did not reach the upstream (RFC 792, RFC 4443 section 3.1).
    Unreachable(Owner),
    /// A message that the query was too long for a link on its way (RFC 1191, RFC 4443 section 3.2).
    TooBig(Owner),
    /// Where a next hop is: an ARP reply, an announcement, or a neighbour advertisement.
    Neighbor,
}

impl Arrival {
    /// The arrival as [`Packet::key`](crate::Packet). Of an owner that no table can hold it is as good as nothing.
    pub fn key(self) -> u64 {
        let (kind, owner) = match self {
            Self::Neighbor => return 1 << KIND_AT,
            Self::Reply(owner) => (2, owner),
            Self::Fragment(owner) => (3, owner),
            Self::Unreachable(owner) => (4, owner),
            Self::TooBig(owner) => (5, owner),
        };
        owner.to_word().map_or(0, |word| kind << KIND_AT | u64::from(word))
    }

    /// The arrival in a packet's key; `None`: there is none.
    pub fn of_key(key: u64) -> Option<Self> {
        let owner = Owner::of_word(low_u32(key));
        match key >> KIND_AT {
            1 => (low_u32(key) == 0).then_some(Self::Neighbor),
            2 => owner.map(Self::Reply),
            3 => owner.map(Self::Fragment),
            4 => owner.map(Self::Unreachable),
            5 => owner.map(Self::TooBig),
            _ => None,
        }
    }

    /// The query it is about, if it is about one.
    #[inline]
    pub fn owner(self) -> Option<Owner> {
        match self {
            Self::Reply(owner)
            | Self::Fragment(owner)
            | Self::Unreachable(owner)
            | Self::TooBig(owner) => Some(owner),
            Self::Neighbor => None,
        }
    }

    /// The thread of the slow path that it is for. Next hops are the business of thread 0.
    #[inline]
    pub fn thread(self) -> u8 {
        self.owner().map_or(0, |owner| owner.thread)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(owner: Owner) -> [Arrival; 5] {
        [
            Arrival::Reply(owner),
            Arrival::Fragment(owner),
            Arrival::Unreachable(owner),
            Arrival::TooBig(owner),
            Arrival::Neighbor,
        ]
    }

    proptest! {
        #[test]
        fn an_arrival_is_read_as_it_was_written(
            thread in 0..=Owner::MAX_THREAD, slot in 0..=Owner::MAX_SLOT,
        ) {
            for arrival in kinds(Owner { thread, slot }) {
                prop_assert_eq!(Arrival::of_key(arrival.key()), Some(arrival));
                let for_thread = if arrival == Arrival::Neighbor { 0 } else { thread };
                prop_assert_eq!(arrival.thread(), for_thread);
            }
        }

        #[test]
        fn any_key_is_one_arrival_or_none(
            kind in prop_oneof![0u64..7, any::<u64>().prop_map(|kind| kind >> 32)], word: u32,
        ) {
            let key = kind << KIND_AT | u64::from(word);
            if let Some(arrival) = Arrival::of_key(key) {
                prop_assert_eq!(arrival.key(), key);
            }
        }
    }

    #[test]
    fn a_packet_that_just_came_is_no_arrival() {
        assert_eq!(Arrival::of_key(0), None);
    }

    #[test]
    fn owners_beyond_the_bounds_are_nobody() {
        for owner in
            [Owner { thread: u8::MAX, slot: 0 }, Owner { thread: 0, slot: Owner::MAX_SLOT + 1 }]
        {
            assert_eq!(Arrival::of_key(Arrival::Reply(owner).key()), None, "{owner:?}");
        }
    }
}
