//! Stage: the answer, written into the frame the query came in.
//!
//! The client's question stays where it is, letter case and all. Behind it go the records, each TTL
//! counted down, and an OPT record if and only if the client sent one; around it the headers turn round.

use std::sync::Arc;

use crate::cache::{Cache, Entry, Head, Words, ttl_offset};
use crate::packet::{Answer, Flags, Layout, Packet};
use crate::policy::LocalData;
use crate::ports::Ports;
use crate::step::{Reason, Step};
use crate::wire::dns::{
    HEADER_LEN, OPT_LEN, PLAIN_UDP_SIZE, Rcode, flag, header, put_opt, question_len,
};
use crate::wire::ip::{
    IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN, pseudo_header, seal_ipv4, swap_halves,
    turn_round, udp, v4, v6,
};
use crate::wire::{be16, be32, put16, put32};
use crate::{Context, Stage, StageName};

/// TTL and hop limit of our packets.
const HOPS: u8 = 64;
/// Don't-fragment flag of an IPv4 header.
const IPV4_DONT_FRAGMENT: u16 = 0x4000;
/// The flags of a query that its answer repeats.
const REPEATED_FLAGS: u16 = flag::OPCODE | flag::RD | flag::CD;

/// The last stage.
#[derive(Clone, Debug)]
pub struct Encode {
    cache: Arc<Cache>,
    local: Arc<LocalData>,
    ports: Ports,
    max_udp_size: u16,
}

/// What an answer consists of besides its records.
#[derive(Clone, Copy)]
struct Outline {
    rcode: Rcode,
    /// AA, AD and TC.
    flags: u16,
    counts: [u16; 3],
    body_len: usize,
}

impl Outline {
    /// An answer without records.
    fn bare(rcode: Rcode, flags: u16) -> Self {
        Self { rcode, flags, counts: [0; 3], body_len: 0 }
    }

    /// As much of an entry as `room` bytes can take.
    #[inline]
    fn of(head: &Head, packet: &Packet, room: usize) -> Self {
        let mut flags = 0;
        if head.flags & Head::AUTHORITATIVE != 0 {
            flags |= flag::AA;
        }
        // RFC 6840 section 5.8: AD only for clients that show they understand it.
        let query = packet.query();
        if head.flags & Head::AUTHENTIC != 0 && (query.flags() & flag::AD != 0 || query.dnssec_ok())
        {
            flags |= flag::AD;
        }
        let body_len = usize::from(head.body_len);
        let without_additional = usize::from(head.additional_at);
        if head.flags & Head::TOO_LONG != 0 {
            Self::bare(head.rcode, flags | flag::TC)
        } else if body_len <= room {
            Self { rcode: head.rcode, flags, counts: head.counts, body_len }
        } else if without_additional <= room {
            // RFC 2181 section 9: leaving out additional records is no truncation.
            let [answers, authorities, _] = head.counts;
            let counts = [answers, authorities, 0];
            Self { rcode: head.rcode, flags, counts, body_len: without_additional }
        } else {
            Self::bare(head.rcode, flags | flag::TC)
        }
    }
}

impl Encode {
    /// An encode stage that answers from `cache` and `local`, out of `ports`, in `max_udp_size` bytes of
    /// UDP payload at most.
    pub fn new(cache: Arc<Cache>, local: Arc<LocalData>, ports: Ports, max_udp_size: u16) -> Self {
        Self { cache, local, ports, max_udp_size }
    }

    /// Answers with an entry that need not be in the cache.
    pub fn answer_with(&self, packet: &mut Packet, entry: &Entry, context: &Context) -> Step {
        self.answer_from(packet, &entry.words(), context.seconds, || true)
    }

    /// Answers from an entry's words, wherever they are, TTLs counted down to `seconds`.
    ///
    /// `is_whole` says whether everything read so far was one entry. If it was not, the entry has just
    /// been evicted: the query, which is still in the frame, becomes a miss.
    #[inline]
    fn answer_from(
        &self,
        packet: &mut Packet,
        entry: &impl Words,
        seconds: u32,
        is_whole: impl Fn() -> bool,
    ) -> Step {
        let head = Head::read(entry);
        if !is_whole() {
            return Step::SlowPath;
        }
        let outline = Outline::of(&head, packet, self.room_for_records(packet.layout));
        let Some(body) = open(packet, outline.body_len) else {
            return Step::Drop(Reason::AnswerTooLong);
        };
        copy_words(entry, head.body_at, body);
        let elapsed = seconds.saturating_sub(head.learnt);
        for index in 0..usize::from(head.ttl_count) {
            let at = ttl_offset(entry, &head, index);
            // Offsets rise; records that were left out lie beyond the body.
            let Some(ttl) = be32(body, at) else { break };
            put32(body, at, ttl.saturating_sub(elapsed));
        }
        if !is_whole() {
            return Step::SlowPath;
        }
        self.close(packet, &outline)
    }

    /// Bytes that records may take in the answer to this query.
    #[inline]
    fn room_for_records(&self, layout: Layout) -> usize {
        let (size, opt) = if layout.flags.has(Flags::EDNS) {
            (layout.udp_size.clamp(PLAIN_UDP_SIZE, self.max_udp_size), OPT_LEN)
        } else {
            (PLAIN_UDP_SIZE, 0)
        };
        usize::from(size).saturating_sub(HEADER_LEN + question_len(layout.name_len) + opt)
    }

    /// Answers without records.
    #[inline]
    fn answer_bare(&self, packet: &mut Packet, rcode: Rcode, flags: u16) -> Step {
        match open(packet, 0) {
            Some(_) => self.close(packet, &Outline::bare(rcode, flags)),
            None => Step::Drop(Reason::AnswerTooLong),
        }
    }

    /// Writes everything around the records, which are in place, and turns the packet round.
    #[inline]
    fn close(&self, packet: &mut Packet, outline: &Outline) -> Step {
        let layout = packet.layout;
        let (l3, l4, dns) =
            (usize::from(layout.l3), usize::from(layout.l4), usize::from(layout.dns));
        let frame = packet.frame.bytes_mut();
        let udp_len = (frame.len() - l4) as u16;
        put_message(&mut frame[dns..], layout, outline, self.max_udp_size);
        turn_round(frame, l3, layout.flags.has(Flags::IPV6));
        put_udp(&mut frame[l4..], udp_len);
        put_ip(&mut frame[l3..l4], layout, udp_len);
        self.seal(packet, udp_len);
        Step::Transmit
    }

    /// Computes the checksums, or leaves them to the port.
    #[inline]
    fn seal(&self, packet: &mut Packet, udp_len: u16) {
        let layout = packet.layout;
        let ipv6 = layout.flags.has(Flags::IPV6);
        let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
        let offload = self.ports[usize::from(packet.frame.port())].checksum_offload;
        let frame = packet.frame.bytes_mut();
        let addresses =
            if ipv6 { l3 + v6::SOURCE..l4 } else { l3 + v4::SOURCE..l3 + v4::SOURCE + 8 };
        let pseudo = pseudo_header(&frame[addresses], PROTOCOL_UDP, udp_len);
        if offload {
            put16(frame, l4 + udp::CHECKSUM, pseudo.folded());
            if !ipv6 {
                put16(frame, l3 + v4::CHECKSUM, 0);
            }
            packet.frame.offload_checksums(layout.l3, layout.l4 - layout.l3, ipv6);
            return;
        }
        // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
        let sum = match pseudo.add_bytes(&frame[l4..]).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        put16(frame, l4 + udp::CHECKSUM, sum);
        if !ipv6 {
            seal_ipv4(&mut frame[l3..l4]);
        }
    }
}

impl Stage for Encode {
    const NAME: StageName = StageName::Encode;

    #[inline]
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        match packet.answer {
            Answer::Cached(found) => {
                let entry = self.cache.view(found);
                self.answer_from(packet, &entry, context.seconds, || entry.is_valid())
            }
            Answer::Local(index) => {
                self.answer_from(packet, &self.local.entry(index).words(), 0, || true)
            }
            Answer::Rcode(rcode) => self.answer_bare(packet, rcode, 0),
            Answer::Truncated => self.answer_bare(packet, Rcode::NOERROR, flag::TC),
            Answer::None => {
                debug_assert!(false, "a stage sent a packet to encode without an answer");
                self.answer_bare(packet, Rcode::SERVFAIL, 0)
            }
        }
    }
}

/// Makes the frame as long as an answer with `body_len` bytes of records and gives the place for them.
#[inline]
fn open(packet: &mut Packet, body_len: usize) -> Option<&mut [u8]> {
    let layout = packet.layout;
    let opt = if layout.flags.has(Flags::EDNS) { OPT_LEN } else { 0 };
    let start = usize::from(layout.dns) + HEADER_LEN + question_len(layout.name_len);
    packet.frame.resize(start + body_len + opt).ok()?;
    Some(&mut packet.frame.bytes_mut()[start..start + body_len])
}

/// Writes the DNS header and the OPT record of an answer; question and records are in place.
#[inline]
fn put_message(message: &mut [u8], layout: Layout, outline: &Outline, udp_size: u16) {
    let edns = layout.flags.has(Flags::EDNS);
    if edns && let Some(opt) = message.last_chunk_mut::<OPT_LEN>() {
        put_opt(opt, udp_size, outline.rcode, layout.flags.has(Flags::DO));
    }
    // The length is known here once, not at every field.
    let Some(header) = message.first_chunk_mut::<HEADER_LEN>() else { return };
    let asked = be16(header, header::FLAGS).unwrap_or(0);
    let flags = flag::QR | flag::RA | asked & REPEATED_FLAGS | outline.flags;
    put16(header, header::FLAGS, flags | u16::from(outline.rcode.0) & flag::RCODE);
    put16(header, header::QDCOUNT, u16::from(layout.name_len > 0));
    let [answers, authorities, additionals] = outline.counts;
    put16(header, header::ANCOUNT, answers);
    put16(header, header::NSCOUNT, authorities);
    put16(header, header::ARCOUNT, additionals + u16::from(edns));
}

/// Swaps the ports of a datagram and writes its length; its checksum is zero until it is sealed.
#[inline]
fn put_udp(datagram: &mut [u8], udp_len: u16) {
    let Some(header) = datagram.first_chunk_mut::<UDP_LEN>() else { return };
    swap_halves::<4>(header);
    put16(header, udp::LEN, udp_len);
    put16(header, udp::CHECKSUM, 0);
}

/// Writes what an IP header says of our datagram. Its addresses are in place, its checksum is not.
#[inline]
fn put_ip(ip: &mut [u8], layout: Layout, udp_len: u16) {
    if layout.flags.has(Flags::IPV6) {
        let Some(header) = ip.first_chunk_mut::<IPV6_LEN>() else { return };
        put16(header, v6::PAYLOAD_LEN, udp_len);
        header[v6::HOP_LIMIT] = HOPS;
        return;
    }
    let total_len = ip.len() as u16 + udp_len;
    let Some((header, options)) = ip.split_first_chunk_mut::<IPV4_MIN_LEN>() else { return };
    put16(header, v4::TOTAL_LEN, total_len);
    put16(header, v4::ID, 0);
    put16(header, v4::FRAGMENT, IPV4_DONT_FRAGMENT);
    header[v4::TTL] = HOPS;
    // The client's IP options are not ours to send back (RFC 791 section 3.1: 0 ends the list).
    options.fill(0);
}

/// Fills `body` with the entry's words from `from` on.
#[inline]
fn copy_words(entry: &impl Words, from: usize, body: &mut [u8]) {
    let mut chunks = body.chunks_exact_mut(8);
    let mut at = from;
    for chunk in &mut chunks {
        chunk.copy_from_slice(&entry.word(at).to_le_bytes());
        at += 1;
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        rest.copy_from_slice(&entry.word(at).to_le_bytes()[..rest.len()]);
    }
}
