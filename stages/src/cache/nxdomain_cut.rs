//! NXDOMAIN for a name is NXDOMAIN for every name below it (RFC 8020).

use pmdns_config::narrow::to_u16;

use super::entry::{Entry, EntryParts, Head, ttl_offset};
use super::image::POINTER;
use super::key::{Key, NameBuffer};
use super::reply::names_of;
use crate::wire::dns::{HEADER_LEN, Rcode};
use crate::wire::record::Records;
use crate::wire::{be16, put16};

impl Entry {
    /// The answer to `key` that follows from this one: that a name at or above the key's does not exist. `None` if
    /// it does not say that.
    ///
    /// An NXDOMAIN behind an alias says that the alias's target does not exist; the alias does, and there may be
    /// names below it (RFC 8020 section 2). The records need not change, not even the proof of a signed zone. It
    /// denies the next closer name, which is the same for all names below. Only compression pointers do, for
    /// everything stands behind a longer question now.
    pub fn cut_for(&self, key: Key<'_>, hash: u64) -> Option<Self> {
        let head = self.head();
        let mut buffer = NameBuffer::default();
        let denied = self.key(&mut buffer);
        let shift = key.name.len().checked_sub(denied.name.len())?;
        let same = (denied.qclass, denied.flags) == (key.qclass, key.flags);
        // What policy put in the place of an answer is about that answer only, and not marked as a denial.
        let is_marked = head.flags & (Head::NEGATIVE | Head::TOO_LONG) == Head::NEGATIVE;
        let is_denial = is_marked && head.rcode == Rcode::NXDOMAIN && head.counts()[0] == 0;
        if !same || !is_denial {
            return None;
        }
        let body = self.moved(u16::try_from(shift).ok()?)?;
        let words = self.words();
        let ttls = (0..usize::from(head.ttl_count)).map(|at| to_u16(ttl_offset(&words, &head, at)));
        Some(Self::new(&EntryParts {
            key,
            hash,
            learnt: head.learnt,
            expires: head.expires,
            rcode: head.rcode,
            flags: head.flags,
            counts: head.counts(),
            body: &body,
            optional_at: head.optional_at,
            ttls: &ttls.collect::<Vec<_>>(),
        }))
    }

    /// The records as they are when they stand so much further from the start of the message.
    fn moved(&self, shift: u16) -> Option<Vec<u8>> {
        let mut message = self.message();
        let start = message.len() - usize::from(self.head().body_len);
        let mut pointers = Vec::new();
        for record in Records::new(&message).ok()? {
            let names = names_of(&message, &record.ok()?);
            pointers.extend(names.into_iter().filter_map(|name| pointer_in(&message, name)));
        }
        for at in pointers {
            let target = be16(&message, at)? & !POINTER;
            let moved = target.checked_add(shift)?;
            // What points into the header would have to stay, and nothing can point as far as beyond 16383.
            if usize::from(target) < HEADER_LEN || moved & POINTER != 0 {
                return None;
            }
            put16(&mut message, at, POINTER | moved);
        }
        Some(message.split_off(start))
    }
}

/// Where the compression pointer is that ends the name at `at`, if one does.
fn pointer_in(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*message.get(at)?) {
            0 => return None,
            label @ 1..=63 => at += 1 + label,
            _ => return Some(at),
        }
    }
}
