//! Stage: the answer, written into the frame the query came in.
//!
//! The client's question stays where it is, letter case and all. Behind it go the records, each TTL
//! counted down, and an OPT record if and only if the client sent one; around it the headers turn round.

mod options;

use std::sync::Arc;

use crate::cache::{Cache, Entry, Head, Words, ttl_offset};
use crate::fixed::FixedAnswers;
use crate::packet::{Answer, Flags, Layout, Packet};
use crate::policy::Ruleset;
use crate::ports::Ports;
use crate::ratelimit::{Limiter, Verdict};
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, PLAIN_UDP_SIZE, Rcode, flag, header, question_len};
use crate::wire::edns::{self, ExtendedError, OPT_DATA_LEN, OPT_LEN, opt, option};
use crate::wire::ip::{
    ETHERNET_LEN, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, UDP_LEN, swap_halves, udp, v4, v6,
};
use crate::wire::{field16, put16};
use crate::{Context, Stage, StageName};
use options::{Buffer, Options};

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
    rules: Arc<Ruleset>,
    fixed: Option<Arc<FixedAnswers>>,
    ports: Ports,
    max_udp_size: u16,
    /// Our name, for clients that ask for it (RFC 5001); empty: none.
    nsid: Box<[u8]>,
    /// How fast one client may provoke errors.
    errors: Limiter,
}

/// Where headers start in a frame. Every function that takes it is inlined, so that for plain frames, which
/// nearly all are, the compiler knows the numbers.
#[derive(Clone, Copy)]
struct Offsets {
    l3: usize,
    l4: usize,
    dns: usize,
    ipv6: bool,
}

impl Offsets {
    /// IPv4 without VLAN tags and options.
    const PLAIN: Self = Self {
        l3: ETHERNET_LEN,
        l4: ETHERNET_LEN + IPV4_MIN_LEN,
        dns: ETHERNET_LEN + IPV4_MIN_LEN + UDP_LEN,
        ipv6: false,
    };

    #[inline(always)]
    fn of(layout: Layout) -> Self {
        Self {
            l3: usize::from(layout.l3),
            l4: usize::from(layout.l4),
            dns: layout.dns(),
            ipv6: layout.flags.has(Flags::IPV6),
        }
    }

    #[inline(always)]
    fn are_plain(layout: Layout) -> bool {
        // A header of IPv6 is longer: these offsets are of IPv4.
        usize::from(layout.l3) == Self::PLAIN.l3 && usize::from(layout.l4) == Self::PLAIN.l4
    }
}

/// What an answer consists of besides its records.
#[derive(Clone, Copy)]
struct Outline {
    rcode: Rcode,
    /// RA, AA, AD and TC.
    flags: u16,
    /// ANCOUNT, NSCOUNT and ARCOUNT, without OPT, as one number of 48 bits.
    counts: u64,
    body_len: usize,
}

impl Outline {
    /// An answer without records.
    fn bare(rcode: Rcode, flags: u16) -> Self {
        Self { rcode, flags, counts: 0, body_len: 0 }
    }

    /// As much of an entry as `room` bytes can take.
    #[inline]
    fn of(head: &Head, packet: &Packet, room: usize) -> Self {
        let mut flags = flag::RA;
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
        let least_len = usize::from(head.optional_at);
        if head.flags & Head::TOO_LONG != 0 {
            Self::bare(head.rcode, flags | flag::TC)
        } else if body_len <= room {
            Self { rcode: head.rcode, flags, counts: head.counts, body_len }
        } else if least_len <= room {
            // RFC 2181 section 9: leaving out what is not needed is no truncation.
            let counts = head.counts & !head.optional_counts(query.dnssec_ok());
            Self { rcode: head.rcode, flags, counts, body_len: least_len }
        } else {
            Self::bare(head.rcode, flags | flag::TC)
        }
    }
}

impl Encode {
    /// An encode stage that answers from `cache` and `rules`, out of `ports`, in `max_udp_size` bytes of
    /// UDP payload at most.
    pub fn new(cache: Arc<Cache>, rules: Arc<Ruleset>, ports: Ports, max_udp_size: u16) -> Self {
        let errors = Limiter::off(cache.seed());
        Self { cache, rules, fixed: None, ports, max_udp_size, nsid: Box::default(), errors }
    }

    /// The same stage, with a limit on error replies.
    pub fn limited(self, errors: Limiter) -> Self {
        Self { errors, ..self }
    }

    /// What it counts error replies with.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.errors
    }

    /// The same stage, which has the fixed answers, and gives clients that ask for it the name `nsid`.
    pub fn introducing(self, fixed: Arc<FixedAnswers>, nsid: Option<&str>) -> Self {
        let nsid = nsid.unwrap_or_default().as_bytes().into();
        Self { fixed: Some(fixed), nsid, ..self }
    }

    /// Answers from these rules from now on, and gives back those it had.
    pub fn exchange(&mut self, rules: &mut Arc<Ruleset>) {
        std::mem::swap(&mut self.rules, rules);
    }

    /// The rules it answers from.
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// Answers with an entry that need not be in the cache.
    pub fn answer_with(&self, packet: &mut Packet, entry: &Entry, context: &Context) -> Step {
        let offsets = Offsets::of(packet.layout);
        let mut buffer = Buffer::default();
        let options = buffer.options_of(packet, &self.nsid);
        self.answer_from(packet, offsets, options, &entry.words(), context.seconds, || true)
    }

    /// Answers as the packet says. Nearly all answers have no options, and pay for none.
    #[inline(always)]
    fn answer(&self, packet: &mut Packet, options: Options<'_>, context: &Context) -> Step {
        let offsets = Offsets::of(packet.layout);
        match packet.answer {
            Answer::Cached(found) => {
                let entry = self.cache.view(found);
                let (now, is_whole) = (context.seconds, || entry.is_valid());
                if Offsets::are_plain(packet.layout) {
                    return self.answer_from(
                        packet,
                        Offsets::PLAIN,
                        options,
                        &entry,
                        now,
                        is_whole,
                    );
                }
                self.answer_from(packet, offsets, options, &entry, now, is_whole)
            }
            Answer::Local(found) => match self.rules.entry(found) {
                Some(entry) => {
                    self.answer_from(packet, offsets, options, &entry.words(), 0, || true)
                }
                None => self.answer_anew(packet, context),
            },
            Answer::Fixed(which) => {
                match self.fixed.as_ref().and_then(|fixed| fixed.entry(which)) {
                    Some(entry) => {
                        self.answer_from(packet, offsets, options, &entry.words(), 0, || true)
                    }
                    None => self.answer_bare(packet, options, Rcode::REFUSED, 0),
                }
            }
            Answer::Rcode(rcode) => self.answer_bare(packet, options, rcode, 0),
            Answer::Truncated => self.answer_bare(packet, options, Rcode::NOERROR, flag::TC),
            Answer::None => {
                debug_assert!(false, "a stage sent a packet to encode without an answer");
                self.answer_bare(packet, options, Rcode::SERVFAIL, 0)
            }
        }
    }

    /// Whether this reply would be one error too many. What answers anything provokes nothing but errors, so a loop ends here
    /// that nothing else has stopped.
    #[cold]
    #[inline(never)]
    fn is_one_too_many(&mut self, packet: &Packet, rcode: Rcode, context: &Context) -> bool {
        let is_provoked = match rcode {
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS => true,
            // The operator's rules refuse names, which only real queries ask for.
            Rcode::REFUSED => packet.extended_error != Some(ExtendedError::BLOCKED),
            _ => false,
        };
        // A right cookie shows that the client is where it says.
        if !is_provoked || self.errors.is_off() || packet.layout.flags.has(Flags::RIGHT_COOKIE) {
            return false;
        }
        let client = self.errors.client(packet);
        self.errors.judge(packet, client, context.now) != Verdict::Pass
    }

    #[inline(never)]
    fn answer_with_options(&self, packet: &mut Packet, context: &Context) -> Step {
        let mut buffer = Buffer::default();
        let options = buffer.options_of(packet, &self.nsid);
        self.answer(packet, options, context)
    }

    /// Answers a packet that was judged by another ruleset than ours: the rules were changed while it was on its
    /// way. What ours say holds, and if that is nothing, the query becomes a miss.
    #[cold]
    fn answer_anew(&self, packet: &mut Packet, context: &Context) -> Step {
        packet.answer = Answer::None;
        match self.rules.judge(packet) {
            // An alias has to be followed, and then the rules are asked again.
            Some(step) if step != Step::at(StageName::Encode) => step,
            None if !packet.refuse_unless_recursive() => Step::SLOW_PATH,
            _ => self.answer_with_options(packet, context),
        }
    }

    /// Answers from an entry's words, wherever they are, TTLs counted down to `seconds`.
    ///
    /// `is_whole` says whether everything read so far was one entry. If it was not, the entry has just
    /// been evicted: the query, which is still in the frame, becomes a miss.
    #[inline(always)]
    fn answer_from(
        &self,
        packet: &mut Packet,
        offsets: Offsets,
        options: Options<'_>,
        entry: &impl Words,
        seconds: u32,
        is_whole: impl Fn() -> bool,
    ) -> Step {
        let head = Head::read(entry);
        if !is_whole() {
            return Step::SLOW_PATH;
        }
        let layout = packet.layout;
        let options = match options.has_more_than_essential()
            && usize::from(head.body_len) > self.room_for_records(layout, options.all)
        {
            true => options.essential,
            false => options.all,
        };
        let outline = Outline::of(&head, packet, self.room_for_records(layout, options));
        let Some(body) = open(packet, offsets, outline.body_len, options) else {
            return Step::drop(Reason::AnswerTooLong);
        };
        let elapsed = seconds.saturating_sub(head.learnt);
        let sum = put_records(body, outline.body_len, entry, &head, elapsed);
        if !is_whole() {
            restore_kept(packet, options);
            return Step::SLOW_PATH;
        }
        self.close(packet, offsets, &outline, options, sum)
    }

    /// Bytes that records may take in the answer to this query.
    #[inline]
    fn room_for_records(&self, layout: Layout, options: &[u8]) -> usize {
        let (size, opt) = if layout.flags.has(Flags::EDNS) {
            (layout.udp_size.clamp(PLAIN_UDP_SIZE, self.max_udp_size), OPT_LEN + options.len())
        } else {
            (PLAIN_UDP_SIZE, 0)
        };
        usize::from(size).saturating_sub(HEADER_LEN + question_len(layout.name_len) + opt)
    }

    /// Answers without records.
    #[inline]
    fn answer_bare(
        &self,
        packet: &mut Packet,
        options: Options<'_>,
        rcode: Rcode,
        flags: u16,
    ) -> Step {
        let offsets = Offsets::of(packet.layout);
        let options = options.all;
        match open(packet, offsets, 0, options) {
            Some(_) => {
                // What is not implemented has no recursion either.
                let available = if rcode == Rcode::NOTIMP { 0 } else { flag::RA };
                let outline = Outline::bare(rcode, flags | available);
                self.close(packet, offsets, &outline, options, Sum::default())
            }
            None => Step::drop(Reason::AnswerTooLong),
        }
    }

    /// Writes everything around the records, which are in place, and turns the packet round.
    ///
    /// The checksums are made of what is written, not read back from where it was written: a load of bytes
    /// that have just been stored in smaller pieces waits for all of them.
    #[inline(always)]
    fn close(
        &self,
        packet: &mut Packet,
        offsets: Offsets,
        outline: &Outline,
        options: &[u8],
        records: Sum,
    ) -> Step {
        let Packet { layout, question_sum, .. } = *packet;
        let Offsets { l3, l4, dns, ipv6 } = offsets;
        let offload = self.ports[usize::from(packet.frame.port())].checksum_offload;
        let frame = packet.frame.bytes_mut();
        if let Some(ethernet) = frame.first_chunk_mut::<ETHERNET_LEN>() {
            swap_halves::<12>(ethernet);
        }
        let (ip, datagram) = frame[l3..].split_at_mut(l4 - l3);
        let len = datagram.len() as u16;
        let addresses = put_ip(ip, ipv6, len, offload);
        let pseudo = addresses.add16(u16::from(PROTOCOL_UDP)).add16(len);
        let (udp, message) = datagram.split_at_mut(dns - l4);
        let question = Sum::default().add16(question_sum);
        let body = question.add_at(question_len(layout.name_len), records);
        let message = put_message(message, layout, outline, self.max_udp_size, options, body);
        put_udp(udp, len, pseudo, (!offload).then_some(message));
        if offload {
            packet.frame.offload_checksums(layout.l3, layout.l4 - layout.l3, ipv6);
        }
        Step::TRANSMIT
    }
}

impl Stage for Encode {
    const NAME: StageName = StageName::Encode;

    #[inline]
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        if let Answer::Rcode(rcode) = packet.answer
            && self.is_one_too_many(packet, rcode, context)
        {
            return Step::drop(Reason::ErrorLimited);
        }
        match Options::are_none(packet) {
            true => self.answer(packet, Options::NONE, context),
            false => self.answer_with_options(packet, context),
        }
    }
}

/// Makes the frame as long as an answer with `body_len` bytes of records and these options, and gives the
/// place for the records: that many bytes rounded up to whole words.
#[inline(always)]
fn open<'p>(
    packet: &'p mut Packet,
    offsets: Offsets,
    body_len: usize,
    options: &[u8],
) -> Option<&'p mut [u8]> {
    let layout = packet.layout;
    let opt = if layout.flags.has(Flags::EDNS) { OPT_LEN + options.len() } else { 0 };
    let start = offsets.dns + HEADER_LEN + question_len(layout.name_len);
    packet.frame.resize(start + body_len + opt).ok()?;
    packet.frame.buffer_mut().get_mut(start..start + body_len.next_multiple_of(8))
}

/// Writes an entry's records as they are `elapsed` seconds after they were learnt, and gives their sum.
/// `body` is `len` bytes rounded up to whole words.
#[inline(always)]
fn put_records(body: &mut [u8], len: usize, entry: &impl Words, head: &Head, elapsed: u32) -> Sum {
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
fn restore_kept(packet: &mut Packet, options: &[u8]) {
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

/// Writes the DNS header and the OPT record of an answer, and gives the message's sum. Question and records
/// are in place; `body` is their sum.
#[inline(always)]
fn put_message(
    message: &mut [u8],
    layout: Layout,
    outline: &Outline,
    udp_size: u16,
    options: &[u8],
    body: Sum,
) -> Sum {
    let edns = layout.flags.has(Flags::EDNS);
    let end = message.len();
    let Some((header, rest)) = message.split_first_chunk_mut::<HEADER_LEN>() else {
        return Sum::default();
    };
    let mut sum = body;
    let (rest, tail) = rest.split_at_mut(rest.len().saturating_sub(options.len()));
    if edns && let Some(place) = rest.last_chunk_mut::<OPT_LEN>() {
        let mut record = opt(udp_size, outline.rcode, layout.flags.has(Flags::DO));
        put16(&mut record, OPT_DATA_LEN, options.len() as u16);
        *place = record;
        let end = end - options.len();
        sum = sum.add_at(end - OPT_LEN, Sum::default().add_bytes(place));
        if !options.is_empty() {
            tail.copy_from_slice(options);
            sum = sum.add_at(end, Sum::default().add_bytes(options));
        }
    }
    let asked = field16(header, header::FLAGS);
    let flags = flag::QR
        | asked & REPEATED_FLAGS
        | outline.flags
        | u16::from(outline.rcode.0) & flag::RCODE;
    let counts = (u64::from(layout.name_len > 0) << 48) + outline.counts + u64::from(edns);
    put16(header, header::FLAGS, flags);
    header[header::QDCOUNT..].copy_from_slice(&counts.to_be_bytes());
    sum.add16(field16(header, header::ID)).add16(flags).add64(counts)
}

/// Writes what an IP header says of our datagram, sends it back where it came from, and gives the sum of
/// its addresses.
#[inline(always)]
fn put_ip(ip: &mut [u8], ipv6: bool, udp_len: u16, offload: bool) -> Sum {
    if ipv6 {
        let Some(header) = ip.first_chunk_mut::<IPV6_LEN>() else { return Sum::default() };
        let addresses = Sum::default().add_bytes(&header[v6::SOURCE..]);
        put16(header, v6::PAYLOAD_LEN, udp_len);
        header[v6::HOP_LIMIT] = HOPS;
        swap_halves::<32>(&mut header[v6::SOURCE..]);
        return addresses;
    }
    let total_len = ip.len() as u16 + udp_len;
    let Some((header, options)) = ip.split_first_chunk_mut::<IPV4_MIN_LEN>() else {
        return Sum::default();
    };
    let addresses = Sum::default().add_bytes(&header[v4::SOURCE..]);
    // Identification, fragmentation, TTL and protocol: with the checksum they make eight bytes.
    let fixed =
        u64::from(IPV4_DONT_FRAGMENT) << 32 | u64::from(HOPS) << 24 | u64::from(PROTOCOL_UDP) << 16;
    // Of a checksum that the port will write, nothing. Options of zeros add nothing to it either.
    let checksum = match offload {
        true => 0,
        false => addresses.add16(field16(header, 0)).add16(total_len).add64(fixed).checksum(),
    };
    put16(header, v4::TOTAL_LEN, total_len);
    header[v4::ID..v4::SOURCE].copy_from_slice(&(fixed | u64::from(checksum)).to_be_bytes());
    swap_halves::<8>(&mut header[v4::SOURCE..]);
    // The client's IP options are not ours to send back (RFC 791 section 3.1: 0 ends the list).
    options.fill(0);
    addresses
}

/// Turns the header of a datagram of `len` bytes round. `pseudo` is the sum of the pseudo-header, which is all
/// there is to write if the port completes the checksum; otherwise `message` is the sum of what follows.
#[inline(always)]
fn put_udp(udp: &mut [u8], len: u16, pseudo: Sum, message: Option<Sum>) {
    let Some(header) = udp.first_chunk_mut::<UDP_LEN>() else { return };
    let [source, destination] = [field16(header, udp::SOURCE), field16(header, udp::DESTINATION)];
    let checksum = match message {
        None => pseudo.folded(),
        Some(message) => {
            let ports = pseudo.add16(source).add16(destination).add16(len);
            // RFC 768: a sum of zero is sent as all ones, for zero means no checksum.
            match ports.add_at(0, message).checksum() {
                0 => 0xffff,
                sum => sum,
            }
        }
    };
    let [source, destination, len, checksum] = [source, destination, len, checksum].map(u64::from);
    *header = (destination << 48 | source << 32 | len << 16 | checksum).to_be_bytes();
}
