//! Frames and packets for tests and benches, as a client would send them, byte by byte.

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_nics::{Frame, FramePool, HeapPool};

use crate::cache::{Entry, EntryParts, Head, Key, Lifetimes};
use crate::neighbor::Neighbor;
use crate::packet::{Batch, Packet};
use crate::parse::Parse;
use crate::ports::Ports;
use crate::wire::dns::{CLASS_IN, HEADER_LEN, flag};
use crate::wire::ip::{
    self, IPV6_LEN, PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, UDP_LEN, seal_ipv4, udp, v4, v6,
};
use crate::wire::name::Seed;
use crate::wire::record::{Records, Section};
use crate::wire::{dns, edns, put16, put32};
use crate::{Context, Exits, Stage, Step};

/// Our hardware address in tests.
pub const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The client's hardware address in tests.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xc1];
/// Our IPv4 address in tests.
pub const OUR_IPV4: [u8; 4] = [10, 77, 0, 2];
/// Our IPv6 address in tests.
pub const OUR_IPV6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// A query to be put into a frame. Every field is free to be wrong.
#[derive(Clone, Debug)]
pub struct QueryFrame {
    /// Qname in wire format.
    pub name: Vec<u8>,
    /// Type asked for.
    pub qtype: u16,
    /// Class asked for.
    pub qclass: u16,
    /// Query id.
    pub id: u16,
    /// Flags word.
    pub flags: u16,
    /// UDP size and DO bit of the OPT record, if there shall be one.
    pub edns: Option<(u16, bool)>,
    /// The OPT record's options, in wire form.
    pub options: Vec<u8>,
    /// VLAN tags, outermost first.
    pub vlans: Vec<u16>,
    /// Options of the IPv4 header, a multiple of four bytes.
    pub ipv4_options: Vec<u8>,
    /// Source address: 4 or 16 bytes.
    pub source: Vec<u8>,
    /// Destination address, as long as the source.
    pub destination: Vec<u8>,
    /// Source UDP port.
    pub source_port: u16,
    /// Destination UDP port.
    pub destination_port: u16,
    /// Bytes behind the IP packet.
    pub padding: usize,
}

/// A query like `query("www.example. A")`, from 10.77.0.1, recursion desired, no EDNS.
pub fn query(text: &str) -> QueryFrame {
    let (name, qtype) = text.split_once(' ').expect("a name and a type");
    QueryFrame {
        name: name_of(name),
        qtype: type_of(qtype),
        qclass: CLASS_IN,
        id: 0x1234,
        flags: flag::RD,
        edns: None,
        options: Vec::new(),
        vlans: Vec::new(),
        ipv4_options: Vec::new(),
        source: vec![10, 77, 0, 1],
        destination: OUR_IPV4.to_vec(),
        source_port: 40_000,
        destination_port: 53,
        padding: 0,
    }
}

/// `www.example.` in wire format. No escapes.
pub fn name_of(text: &str) -> Vec<u8> {
    let mut name = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        name.push(to_u8(label.len()));
        name.extend_from_slice(label.as_bytes());
    }
    name.push(0);
    name
}

fn type_of(text: &str) -> u16 {
    match text {
        "A" => 1,
        "NS" => 2,
        "CNAME" => 5,
        "SOA" => 6,
        "PTR" => 12,
        "MX" => 15,
        "TXT" => 16,
        "AAAA" => 28,
        "SRV" => 33,
        "DNAME" => 39,
        "DS" => 43,
        "DNSKEY" => 48,
        "HTTPS" => 65,
        "ANY" => 255,
        _ => text.strip_prefix("TYPE").and_then(|n| n.parse().ok()).expect("a known type or TYPEn"),
    }
}

impl QueryFrame {
    /// The same query over IPv6.
    pub fn over_ipv6(mut self) -> Self {
        self.source = [OUR_IPV6[..15].to_vec(), vec![1]].concat();
        self.destination = OUR_IPV6.to_vec();
        self
    }

    /// The same query with an OPT record.
    pub fn edns(mut self, udp_size: u16, dnssec_ok: bool) -> Self {
        self.edns = Some((udp_size, dnssec_ok));
        self
    }

    /// The same query with one more option in its OPT record.
    pub fn option(mut self, code: u16, data: &[u8]) -> Self {
        self.options.extend_from_slice(&code.to_be_bytes());
        self.options.extend_from_slice(&to_u16(data.len()).to_be_bytes());
        self.options.extend_from_slice(data);
        self
    }

    /// The DNS message.
    pub fn message(&self) -> Vec<u8> {
        let mut message = vec![0; HEADER_LEN];
        put16(&mut message, dns::header::ID, self.id);
        put16(&mut message, dns::header::FLAGS, self.flags);
        put16(&mut message, dns::header::QDCOUNT, 1);
        message.extend_from_slice(&self.name);
        message.extend_from_slice(&self.qtype.to_be_bytes());
        message.extend_from_slice(&self.qclass.to_be_bytes());
        if let Some((size, dnssec_ok)) = self.edns {
            put16(&mut message, dns::header::ARCOUNT, 1);
            let start = message.len();
            message.extend_from_slice(&edns::opt(size, dns::Rcode::NOERROR, dnssec_ok));
            put16(&mut message, start + edns::OPT_DATA_LEN, to_u16(self.options.len()));
            message.extend_from_slice(&self.options);
        }
        message
    }

    /// The frame around [`QueryFrame::message`].
    pub fn frame_bytes(&self) -> Vec<u8> {
        self.frame_around(&self.message())
    }

    /// The frame around any UDP payload.
    pub fn frame_around(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = [OUR_MAC, CLIENT_MAC].concat();
        for vlan in &self.vlans {
            frame.extend_from_slice(&TYPE_VLAN.to_be_bytes());
            frame.extend_from_slice(&vlan.to_be_bytes());
        }
        let ipv6 = self.source.len() == 16;
        frame.extend_from_slice(&(if ipv6 { TYPE_IPV6 } else { TYPE_IPV4 }).to_be_bytes());
        let udp_len = to_u16(UDP_LEN + payload.len());
        if ipv6 {
            let at = frame.len();
            frame.resize(at + IPV6_LEN, 0);
            let header = &mut frame[at..];
            header[0] = 0x60;
            put16(header, v6::PAYLOAD_LEN, udp_len);
            header[v6::NEXT_HEADER] = PROTOCOL_UDP;
            header[v6::HOP_LIMIT] = 64;
            header[v6::SOURCE..v6::DESTINATION].copy_from_slice(&self.source);
            header[v6::DESTINATION..].copy_from_slice(&self.destination);
        } else {
            frame.extend_from_slice(&self.ipv4_header(udp_len));
        }
        let mut datagram = vec![0; UDP_LEN];
        put16(&mut datagram, udp::SOURCE, self.source_port);
        put16(&mut datagram, udp::DESTINATION, self.destination_port);
        put16(&mut datagram, udp::LEN, udp_len);
        datagram.extend_from_slice(payload);
        let addresses = [self.source.as_slice(), &self.destination].concat();
        let sum =
            ip::pseudo_header(&addresses, PROTOCOL_UDP, udp_len).add_bytes(&datagram).checksum();
        put16(&mut datagram, udp::CHECKSUM, if sum == 0 { 0xffff } else { sum });
        frame.extend_from_slice(&datagram);
        frame.resize(frame.len() + self.padding, 0);
        frame
    }

    fn ipv4_header(&self, udp_len: u16) -> Vec<u8> {
        let len = ip::IPV4_MIN_LEN + self.ipv4_options.len();
        let mut header = vec![0; ip::IPV4_MIN_LEN];
        header[0] = 0x40 | to_u8(len / 4);
        put16(&mut header, v4::TOTAL_LEN, to_u16(len) + udp_len);
        header[v4::TTL] = 64;
        header[v4::PROTOCOL] = PROTOCOL_UDP;
        header[v4::SOURCE..v4::SOURCE + 4].copy_from_slice(&self.source);
        header[v4::DESTINATION..v4::DESTINATION + 4].copy_from_slice(&self.destination);
        header.extend_from_slice(&self.ipv4_options);
        seal_ipv4(&mut header);
        header
    }

    /// A packet that just arrived with this query, from a pool of its own.
    pub fn packet(&self) -> Packet {
        Packet::arrived(frame_of(&self.frame_bytes()), 0)
    }
}

/// A record of a reply whose owner is the qname: section (0 answer, 1 authority, 2 additional), type, TTL,
/// data.
pub type ReplyRecord = (usize, u16, u32, Vec<u8>);

/// The reply of an upstream to `query`, with these records.
pub fn reply(query: &QueryFrame, records: &[ReplyRecord]) -> Vec<u8> {
    let mut message = query.message();
    message.truncate(HEADER_LEN + query.name.len() + dns::QUESTION_FIXED_LEN);
    put16(&mut message, dns::header::FLAGS, flag::QR | flag::RA | query.flags);
    put16(&mut message, dns::header::ARCOUNT, 0);
    for section in 0..3 {
        let mut count = 0;
        for (_, rtype, ttl, data) in records.iter().filter(|record| record.0 == section) {
            message.extend_from_slice(&[0xc0, to_u8(HEADER_LEN)]);
            message.extend_from_slice(&rtype.to_be_bytes());
            message.extend_from_slice(&CLASS_IN.to_be_bytes());
            message.extend_from_slice(&ttl.to_be_bytes());
            message.extend_from_slice(&to_u16(data.len()).to_be_bytes());
            message.extend_from_slice(data);
            count += 1;
        }
        put16(&mut message, dns::header::ANCOUNT + 2 * section, count);
    }
    message
}

/// The cache entry made of [`reply`], learnt at second `now`, where a client's subnet is read.
pub fn entry_of(query: &QueryFrame, records: &[ReplyRecord], now: u32, seed: Seed) -> Entry {
    let lifetimes =
        Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 300, max_body: 1232 };
    let mut flags = if query.edns.is_some_and(|(_, dnssec_ok)| dnssec_ok) { Key::DO } else { 0 };
    flags |= if query.flags & flag::CD != 0 { Key::CD } else { 0 };
    let says_subnet = |(code, _)| code == edns::option::SUBNET;
    if query.edns.is_some() && edns::Options::new(&query.options).any(says_subnet) {
        flags |= Key::SUBNET;
    }
    let key = Key { name: &query.name, qtype: query.qtype, qclass: query.qclass, flags };
    let hash = key.hash(seed, seed.hash(&query.name));
    let message = reply(query, records);
    let is_denial = records.iter().all(|record| record.0 == 1 && record.1 == dns::rtype::SOA);
    if is_denial && !records.is_empty() {
        return Entry::from_reply(&message, key, hash, now, &lifetimes)
            .expect("a well-formed reply");
    }
    as_they_are(&message, key, hash, now, &lifetimes)
}

/// An entry with all records of a reply. Encode takes any, while replies are scrubbed before they get there.
fn as_they_are(message: &[u8], key: Key<'_>, hash: u64, now: u32, lifetimes: &Lifetimes) -> Entry {
    let start = HEADER_LEN + key.name.len() + dns::QUESTION_FIXED_LEN;
    let mut body = message[start..].to_vec();
    let (mut ttls, mut counts, mut life) = (Vec::new(), [0; 3], lifetimes.max_ttl);
    let (mut is_answered, mut has_soa, mut ends) = (false, false, [0; 3]);
    for record in Records::new(message).expect("one question").flatten() {
        let ttl = record.ttl.min(lifetimes.max_ttl);
        put32(&mut body, record.ttl_at - start, ttl);
        ttls.push(to_u16(record.ttl_at - start));
        life = life.min(ttl);
        counts[record.section as usize] += 1;
        ends[record.section as usize..].fill(to_u16(record.end - start));
        has_soa |= record.rtype == dns::rtype::SOA;
        is_answered |= record.section == Section::Answer
            && (record.rtype == key.qtype || key.qtype == dns::rtype::ANY);
    }
    let mut flags = if message[3] & flag::AD.to_be_bytes()[1] != 0 { Head::AUTHENTIC } else { 0 };
    flags |= if is_answered { 0 } else { Head::NEGATIVE };
    let needs_authority = !is_answered || key.flags & Key::DO != 0;
    let mut optional_at = ends[usize::from(needs_authority)];
    if body.len() > lifetimes.max_body {
        body.truncate(optional_at.into());
        ttls.retain(|at| *at < optional_at);
        counts[usize::from(needs_authority) + 1..].fill(0);
    }
    if body.len() > lifetimes.max_body {
        (body, ttls, counts, optional_at) = (Vec::new(), Vec::new(), [0; 3], 0);
        flags |= Head::TOO_LONG;
    }
    let expires = if is_answered || has_soa { now + life } else { now };
    let rcode = dns::Rcode::NOERROR;
    let (body, ttls) = (&body, &ttls);
    Entry::new(&EntryParts {
        key,
        hash,
        learnt: now,
        expires,
        rcode,
        flags,
        counts,
        body,
        optional_at,
        ttls,
    })
}

/// A frame with these bytes, from a pool of its own.
pub fn frame_of(bytes: &[u8]) -> Frame {
    fill(HeapPool::new(1).take().expect("a fresh pool has a frame"), bytes)
}

/// A frame with these bytes, from `pool`.
pub fn frame_from(pool: &FramePool, bytes: &[u8]) -> Frame {
    fill(pool.take().expect("the pool is large enough for the test"), bytes)
}

fn fill(mut frame: Frame, bytes: &[u8]) -> Frame {
    frame.resize(bytes.len()).expect("test frames fit a buffer");
    frame.bytes_mut().copy_from_slice(bytes);
    frame
}

/// A context at `seconds` after the start, with a clock of a thousand ticks a second.
pub fn at(seconds: u32) -> Context {
    Context { now: u64::from(seconds) * 1000, seconds }
}

/// Runs one packet through one stage and says where it goes.
pub fn act_once<S: Stage>(stage: &mut S, packet: Packet, context: &Context) -> Packet {
    let mut batch = Batch::new();
    batch.push(packet);
    batch[0].step = Step::at(S::NAME);
    stage.process(&mut batch, context, &mut Exits::default());
    batch.pop().expect("the batch holds one packet")
}

/// Hosts at one end of a link: what they say of their addresses.
pub struct Hosts {
    /// Their ports.
    pub ports: Ports,
    parse: Parse,
    neighbor: Neighbor,
}

impl Hosts {
    /// Those with these ports.
    pub fn new(ports: Ports) -> Self {
        let seed = Seed::new([5; 16]);
        let parse = Parse::new(Ports::clone(&ports), seed);
        let neighbor = Neighbor::new(Ports::clone(&ports), 1_000_000, seed);
        Self { ports, parse, neighbor }
    }

    /// What becomes of a frame here.
    pub fn take(&mut self, bytes: &[u8]) -> Packet {
        let packet = act_once(&mut self.parse, Packet::arrived(frame_of(bytes), 0), &at(0));
        match packet.step == Step::at(Neighbor::NAME) {
            true => act_once(&mut self.neighbor, packet, &at(0)),
            false => packet,
        }
    }
}
