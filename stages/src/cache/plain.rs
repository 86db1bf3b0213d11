//! Plain replies: addresses of the very name that was asked for, and nothing else. Nearly every answer is one, and is read
//! in one pass. [`super::scrub`] reads all others, and would keep the same of a plain one.

use arrayvec::ArrayVec;
use pmdns_config::narrow::{to_u8, to_u16};

use super::key::Key;
use super::lifetimes::Lifetimes;
use crate::wire::dns::{HEADER_LEN, RECORD_FIXED_LEN, flag, header, rtype};
use crate::wire::edns::{OPT_DATA_LEN, OPT_LEN};
use crate::wire::{be16, be32};

/// Addresses of a plain reply, at most.
const MAX_ADDRESSES: usize = 16;
/// A record's owner, which points to the question, and what stands between it and the data.
const BEFORE_DATA: usize = 2 + RECORD_FIXED_LEN;
/// Where the TTL stands in a record.
const TTL_AT: usize = 6;
/// Where the length of the data stands in a record.
const LEN_AT: usize = 10;
/// An owner that points to the question's name.
const POINTER: [u8; 2] = [0xc0, 12];
const _: () = assert!(POINTER[1] as usize == HEADER_LEN);

/// The parts of a plain reply that are kept.
pub(super) struct Plain<'m> {
    /// The records, as they came.
    pub(super) body: &'m [u8],
    /// Offsets of the TTL fields in the body.
    pub(super) ttls: ArrayVec<u16, MAX_ADDRESSES>,
    /// The least TTL, in seconds.
    pub(super) ttl: u32,
}

impl<'m> Plain<'m> {
    /// Reads the reply to `key`, whose question ends at `start`. `None`: it is not plain, may be malformed, or has TTLs that
    /// are out of bounds.
    pub(super) fn read(
        message: &'m [u8],
        key: &Key<'_>,
        start: usize,
        lifetimes: &Lifetimes,
    ) -> Option<Self> {
        let data_len = match key.qtype {
            rtype::A => 4,
            rtype::AAAA => 16,
            _ => return None,
        };
        let has_rcode = be16(message, header::FLAGS)? & flag::RCODE != 0;
        let count = usize::from(be16(message, header::ANCOUNT)?);
        let has_authority = be16(message, header::NSCOUNT)? != 0;
        // Nobody points to the root, which is shorter than a pointer.
        let is_root = key.name.len() == 1;
        if has_rcode || has_authority || is_root || count == 0 || count > MAX_ADDRESSES {
            return None;
        }
        let len = BEFORE_DATA + data_len;
        let (records, rest) = message.get(start..)?.split_at_checked(count * len)?;
        if records.len() > lifetimes.max_body || !ends_plainly(message, rest) {
            return None;
        }
        let [[a, b], [c, d]] = [key.qtype, key.qclass].map(u16::to_be_bytes);
        let head = [POINTER[0], POINTER[1], a, b, c, d];
        let mut this = Self { body: records, ttls: ArrayVec::new(), ttl: u32::MAX };
        for (at, record) in (0..).step_by(len).zip(records.chunks_exact(len)) {
            let has_head = record.first_chunk() == Some(&head);
            let ttl = be32(record, TTL_AT)?;
            let is_bounded = lifetimes.bound(ttl) == ttl;
            if !has_head || !is_bounded || record[LEN_AT..BEFORE_DATA] != [0, to_u8(data_len)] {
                return None;
            }
            this.ttl = this.ttl.min(ttl);
            this.ttls.push(to_u16(at + TTL_AT));
        }
        Some(this)
    }
}

/// Whether nothing follows the records of the answer but an OPT record that leaves the rcode as it is.
fn ends_plainly(message: &[u8], rest: &[u8]) -> bool {
    match be16(message, header::ARCOUNT) {
        Some(0) => true,
        Some(1) => rest.split_first_chunk::<OPT_LEN>().is_some_and(|(opt, data)| {
            let is_opt = opt[0] == 0 && be16(opt, 1) == Some(rtype::OPT) && opt[5] == 0;
            let len = be16(opt, OPT_DATA_LEN).unwrap_or(0);
            is_opt && usize::from(len) <= data.len()
        }),
        _ => false,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cache::Entry;
    use crate::testing::{name_of, query};
    use crate::wire::put16;

    const LIFETIMES: Lifetimes =
        Lifetimes { min_ttl: 5, max_ttl: 86_400, max_negative_ttl: 900, max_body: 200 };

    /// A reply with these TTLs, one for each address, and where its question ends.
    fn reply(name: &str, is_ipv6: bool, ttls: &[u32], opt: Option<u8>) -> (Vec<u8>, usize) {
        let question = if is_ipv6 { format!("{name} AAAA") } else { format!("{name} A") };
        let mut message = query(&question).message();
        let start = message.len();
        put16(&mut message, header::FLAGS, flag::QR | flag::AD);
        put16(&mut message, header::ANCOUNT, to_u16(ttls.len()));
        for ttl in ttls {
            message.extend(POINTER);
            message.extend([0, if is_ipv6 { 28 } else { 1 }, 0, 1]);
            message.extend(ttl.to_be_bytes());
            let data: &[u8] = if is_ipv6 { &[7; 16] } else { &[7; 4] };
            message.extend(to_u16(data.len()).to_be_bytes());
            message.extend(data);
        }
        if let Some(data_len) = opt {
            put16(&mut message, header::ARCOUNT, 1);
            message.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, data_len]);
            message.extend(std::iter::repeat_n(9, data_len.into()));
        }
        (message, start)
    }

    #[test]
    fn addresses_of_the_name_are_plain() {
        let key = |name, qtype| Key { name, qtype, qclass: 1, flags: 0 };
        let name = name_of("www.example.");
        for (ttls, opt) in [(&[9, 7][..], None), (&[7], Some(0)), (&[86_400, 7], Some(12))] {
            let (message, start) = reply("www.example.", true, ttls, opt);
            let plain = Plain::read(&message, &key(&name, 28), start, &LIFETIMES).unwrap();
            assert_eq!((plain.ttl, plain.ttls.len()), (7, ttls.len()));
        }
        for ttls in [&[7; 13][..], &[7, 86_401], &[4]] {
            let (message, start) = reply("www.example.", false, ttls, None);
            assert!(Plain::read(&message, &key(&name, 1), start, &LIFETIMES).is_none(), "{ttls:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_plain_is_kept_as_by_the_code_for_any_reply(
            name in prop_oneof![Just("."), Just("a."), Just("www.example.")],
            is_ipv6 in any::<bool>(),
            ttls in proptest::collection::vec(prop_oneof![9 => 5..86_401_u32, 1 => any::<u32>()], 0..18),
            opt in proptest::option::of(0..20_u8),
            damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
            cut in 0..3_usize,
        ) {
            let (mut message, start) = reply(name, is_ipv6, &ttls, opt);
            message.truncate(message.len() - cut);
            // The question is compared before.
            if let Some((at, byte)) = damage {
                let places: Vec<usize> = (2..4).chain(6..12).chain(start..message.len()).collect();
                message[places[at.index(places.len())]] = byte;
            }
            let name = name_of(name);
            let qtype = if is_ipv6 { rtype::AAAA } else { rtype::A };
            let key = Key { name: &name, qtype, qclass: 1, flags: 0 };
            if let Some(plain) = Plain::read(&message, &key, start, &LIFETIMES) {
                let any = Entry::scrub_any(&message, start, key, 99, 1000, &LIFETIMES);
                prop_assert_eq!(Ok((Entry::of_plain(&plain, &message, key, 99, 1000, Vec::new()), 0)), any);
            }
        }
    }
}
