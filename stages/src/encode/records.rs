//! The records of an answer: how many of an entry's there is room for, and writing them with their TTLs counted down.

use super::headers::Offsets;
use crate::cache::{Head, Words, ttl_offset};
use crate::packet::Packet;
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, Rcode, flag, question_len};
use crate::wire::edns::{self, OPT_LEN, option};
use crate::wire::layout::{Flags, Layout};

/// The parts of an answer besides its records.
#[derive(Clone, Copy)]
pub(super) struct Outline {
    pub(super) rcode: Rcode,
    /// RA, AA, AD and TC.
    pub(super) flags: u16,
    /// ANCOUNT, NSCOUNT and ARCOUNT, without OPT, as one number of 48 bits.
    pub(super) counts: u64,
    pub(super) body_len: usize,
}

impl Outline {
    /// An answer without records.
    pub(super) fn bare(rcode: Rcode, flags: u16) -> Self {
        Self { rcode, flags, counts: 0, body_len: 0 }
    }

    /// As much of an entry as `room` bytes can take.
    #[inline]
    pub(super) fn of(head: &Head, packet: &Packet, room: usize) -> Self {
        let mut flags = flag::RA;
        if head.flags & Head::AUTHORITATIVE != 0 {
            flags |= flag::AA;
        }
        // RFC 6840 section 5.8: AD only for clients that show they understand it.
        let dnssec_ok = packet.layout.flags.has(Flags::DO);
        let wants_ad = || dnssec_ok || packet.query().flags() & flag::AD != 0;
        if head.flags & Head::AUTHENTIC != 0 && wants_ad() {
            flags |= flag::AD;
        }
        let body_len = usize::from(head.body_len);
        let least_len = usize::from(head.optional_at);
        if head.flags & Head::TOO_LONG != 0 && !packet.layout.is_stream() {
            Self::bare(head.rcode, flags | flag::TC)
        } else if body_len <= room {
            Self { rcode: head.rcode, flags, counts: head.counts, body_len }
        } else if least_len <= room {
            // RFC 2181 section 9: leaving out what is not needed is no truncation.
            let counts = head.counts & !head.optional_counts(dnssec_ok);
            Self { rcode: head.rcode, flags, counts, body_len: least_len }
        } else {
            Self::bare(head.rcode, flags | flag::TC)
        }
    }
}

/// Makes the frame as long as an answer with `body_len` bytes of records and these options. Gives the place for the records:
/// that many bytes rounded up to whole words.
#[inline(always)]
pub(super) fn open<'p>(
    packet: &'p mut Packet,
    layout: Layout,
    offsets: Offsets,
    body_len: usize,
    options: &[u8],
) -> Option<&'p mut [u8]> {
    let opt = if layout.flags.has(Flags::EDNS) { OPT_LEN + options.len() } else { 0 };
    let start = offsets.dns + HEADER_LEN + question_len(layout.name_len);
    packet.frame.resize(start + body_len + opt).ok()?;
    packet.frame.buffer_mut().get_mut(start..start + body_len.next_multiple_of(8))
}

/// Writes an entry's records as they are `elapsed` seconds after they were learnt, and gives their sum.
/// `body` is `len` bytes rounded up to whole words.
#[inline(always)]
pub(super) fn put_records(
    body: &mut [u8],
    len: usize,
    entry: &impl Words,
    head: &Head,
    elapsed: u32,
) -> Sum {
    let mut sum = Sum::default();
    let (places, _) = body.as_chunks_mut::<8>();
    let words = entry.words(head.body_at, places.len());
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
        sum = sum.add_word(word);
    }
    let body = &mut body[..len];
    for index in 0..usize::from(head.ttl_count) {
        let at = ttl_offset(entry, head, index);
        // Offsets rise; records that were left out lie beyond the body.
        let Some(place) = body.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
            break;
        };
        let left = u32::from_be_bytes(*place).saturating_sub(elapsed).to_be_bytes();
        let change = Sum::default().take_away(u32::from_le_bytes(*place));
        sum = sum.add_at(at, change.add_word(u64::from(u32::from_le_bytes(left))));
        *place = left;
    }
    // The last word of a body that was cut has bytes of what was left out.
    if len == usize::from(head.body_len) { sum } else { Sum::default().add_bytes(body) }
}

/// Puts the answer's cookie and subnet back to where records have been written over them, for the packet becomes a
/// miss. They are the first of the options.
#[cold]
pub(super) fn restore_kept(packet: &mut Packet, options: &[u8]) {
    let layout = packet.layout;
    let places = [
        (option::COOKIE, layout.question_end()..layout.subnet_at()),
        (option::SUBNET, layout.subnet_at()..layout.kept_end()),
    ];
    if packet.frame.resize(layout.kept_end()).is_err() {
        return;
    }
    for (code, data) in edns::Options::new(options) {
        let place = places.iter().find(|(kept, _)| *kept == code).map(|(_, place)| place.clone());
        let place = place.and_then(|place| packet.frame.bytes_mut().get_mut(place));
        if let Some(place) = place.and_then(|place| place.get_mut(..data.len())) {
            place.copy_from_slice(data);
        }
    }
}
