//! What must be true of every answer, whatever was asked, and of the records in it.

use hickory_proto::op::Message;
use hickory_proto::rr::{Name, RData, RecordType};
use pmdns_stages::cache::Lifetimes;
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header, rtype};
use pmdns_stages::wire::ip::{
    ETHERTYPE, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6, TYPE_QINQ, TYPE_VLAN,
    UDP_LEN, VLAN_LEN, pseudo_header, udp, v4, v6,
};
use pmdns_stages::wire::name;
use pmdns_stages::wire::record::{Records, WireRecord};
use pmdns_stages::wire::{be16, be32};

/// The UDP size that rigs are configured with.
const MAX_UDP_SIZE: u16 = 1232;
/// Aliases of one answer, at most.
const MAX_ALIASES: usize = 16;
/// What a client without EDNS can take.
const PLAIN_UDP_SIZE: u16 = 512;

/// The UDP datagram in a frame, and what stands before it.
struct Datagram<'f> {
    header: &'f [u8],
    addresses: &'f [u8],
    bytes: &'f [u8],
}

impl<'f> Datagram<'f> {
    /// Reads a frame as a client would. `None`: it has no whole datagram.
    fn read(frame: &'f [u8]) -> Option<Self> {
        let mut at = ETHERTYPE;
        while matches!(be16(frame, at)?, TYPE_VLAN | TYPE_QINQ) {
            at += VLAN_LEN;
        }
        let ip = frame.get(at + 2..)?;
        let (addresses, protocol, start, len) = match be16(frame, at)? {
            TYPE_IPV4 => {
                let (start, total) = (usize::from(ip.first()? & 0xf) * 4, be16(ip, v4::TOTAL_LEN)?);
                let addresses = ip.get(v4::SOURCE..IPV4_MIN_LEN)?;
                (addresses, ip[v4::PROTOCOL], start, usize::from(total).checked_sub(start)?)
            }
            TYPE_IPV6 => {
                let len = usize::from(be16(ip, v6::PAYLOAD_LEN)?);
                (ip.get(v6::SOURCE..IPV6_LEN)?, ip[v6::NEXT_HEADER], IPV6_LEN, len)
            }
            _ => return None,
        };
        let (header, bytes) = ip.get(..start + len)?.split_at(start);
        let is_whole = protocol == PROTOCOL_UDP && len >= UDP_LEN + HEADER_LEN;
        is_whole.then_some(Self { header, addresses, bytes })
    }

    fn message(&self) -> &'f [u8] {
        &self.bytes[UDP_LEN..]
    }
}

/// The DNS message in a frame; `None` if there is none.
pub(crate) fn message(frame: &[u8]) -> Option<&[u8]> {
    Datagram::read(frame).map(|datagram| datagram.message())
}

/// Checks that the frame `sent` is a sound answer to the frame `asked`, if it is one to a query at all. Whether others can
/// read its records depends on who made them.
pub(crate) fn answers(asked: &[u8], sent: &[u8]) {
    let Some(answer) = Datagram::read(sent).filter(|one| be16(one.bytes, udp::SOURCE) == Some(53))
    else {
        return;
    };
    let query = Datagram::read(asked).expect("only whole queries are answered").message();
    let is_ipv4 = answer.header[0] >> 4 == 4;
    assert!(!is_ipv4 || Sum::default().add_bytes(answer.header).is_right(), "the IPv4 checksum");
    let sum = pseudo_header(answer.addresses, PROTOCOL_UDP, answer.bytes.len() as u16);
    assert!(sum.add_bytes(answer.bytes).is_right(), "the UDP checksum");
    let message = answer.message();
    let word = |message: &[u8], at| be16(message, at).expect("both have a whole header");
    let flags = word(message, header::FLAGS);
    assert_eq!(word(message, header::ID), word(query, header::ID));
    assert_ne!(flags & flag::QR, 0);
    let repeated = flag::OPCODE | flag::RD;
    assert_eq!(flags & repeated, word(query, header::FLAGS) & repeated);
    match word(message, header::QDCOUNT) {
        // RFC 7873 section 5.4: a query may have a cookie and no question.
        0 => assert!(
            flags & flag::RCODE != 0 || word(query, header::QDCOUNT) == 0,
            "a question that was understood is in its answer"
        ),
        _ => {
            let asked = name::length(&query[HEADER_LEN..]).expect("a question has a name");
            let question = HEADER_LEN..HEADER_LEN + asked + QUESTION_FIXED_LEN;
            assert_eq!(message[question.clone()], query[question], "the client's own letters");
            whole_records(message);
        }
    }
    let room = Message::from_vec(query)
        .ok()
        .and_then(|query| query.edns)
        .map_or(PLAIN_UDP_SIZE, |edns| edns.max_payload().clamp(PLAIN_UDP_SIZE, MAX_UDP_SIZE));
    if flags & flag::RCODE != u16::from(Rcode::FORMERR.0) {
        assert!(
            message.len() <= usize::from(room),
            "{} bytes for a client that takes {room}",
            message.len()
        );
    }
    let answers = word(message, header::ANCOUNT);
    assert!(flags & flag::TC == 0 || answers == 0, "what is cut has no half answers");
}

/// Checks that a message has as many whole records as it says.
fn whole_records(message: &[u8]) {
    let whole = Records::new(message).expect("one question").filter(Result::is_ok).count();
    let counts = [header::ANCOUNT, header::NSCOUNT, header::ARCOUNT];
    let counted: usize = counts.map(|at| usize::from(be16(message, at).unwrap_or(0))).iter().sum();
    assert_eq!(whole, counted, "as many whole records as it says");
}

/// Checks that `answer` has whole records, and only those of the question's own chain of aliases.
/// They have to be those of the message `upstream`, `elapsed` seconds later.
pub(crate) fn own_records(upstream: &[u8], answer: &[u8], lifetimes: &Lifetimes, elapsed: u32) {
    whole_records(answer);
    // Data that this library refuses are for the client to judge.
    let Ok(ours) = Message::from_vec(answer) else { return };
    if ours.metadata.truncation {
        return;
    }
    assert!(ours.additionals.is_empty(), "nobody asked for those");
    let question = ours.queries.first().expect("the client's question");
    let mut chain = vec![question.name().to_lowercase()];
    for _ in 0..=MAX_ALIASES {
        let next = ours.answers.iter().find_map(|record| {
            let RData::CNAME(target) = &record.data else { return None };
            let target = target.to_lowercase();
            let leads_on = chain.contains(&record.name.to_lowercase()) && !chain.contains(&target);
            leads_on.then_some(target)
        });
        chain.extend(next);
    }
    let leads_to = |zone: &Name| chain.iter().any(|name| zone.to_lowercase().zone_of(name));
    for record in &ours.answers {
        let is_link = chain.contains(&record.name.to_lowercase());
        assert!(is_link || leads_to(&record.name), "{} is not asked for", record.name);
    }
    for record in &ours.authorities {
        let is_proof =
            matches!(u16::from(record.record_type()), rtype::NSEC | rtype::NSEC3 | rtype::RRSIG);
        let is_denial = record.record_type() == RecordType::SOA && leads_to(&record.name);
        assert!(is_proof || is_denial, "{record}");
    }
    let Ok(theirs) = Message::from_vec(upstream) else { return };
    let has_tree = theirs.answers.iter().any(|one| u16::from(one.record_type()) == rtype::DNAME);
    let all = || theirs.answers.iter().chain(&theirs.authorities);
    for ours in ours.answers.iter().chain(&ours.authorities) {
        let same = |theirs: &&hickory_proto::rr::Record| {
            let ttl = if theirs.ttl > i32::MAX as u32 { 0 } else { theirs.ttl };
            let most = ttl.max(lifetimes.min_ttl).min(lifetimes.max_ttl).saturating_sub(elapsed);
            // Names in data that this library does not know may have been compressed.
            let is_known = matches!(
                ours.data,
                RData::A(_)
                    | RData::CNAME(_)
                    | RData::NS(_)
                    | RData::SOA(_)
                    | RData::MX(_)
                    | RData::TXT(_)
            );
            (&ours.name, ours.record_type()) == (&theirs.name, theirs.record_type())
                && (!is_known || ours.data == theirs.data)
                && ours.ttl <= most
        };
        let is_made = has_tree && ours.record_type() == RecordType::CNAME;
        assert!(is_made || all().any(|one| same(&one)), "{ours} is not what the upstream said");
    }
}

/// Whether two answers differ in nothing but TTLs.
pub(crate) fn same_but_for_ttls(left: &[u8], right: &[u8]) -> bool {
    without_ttls(left) == without_ttls(right)
}

fn without_ttls(message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for record in records(message) {
        bytes[record.ttl_at..record.ttl_at + 4].fill(0);
    }
    bytes
}

/// The records of a message up to an OPT or TSIG record, which is for the next hop only.
fn records(message: &[u8]) -> Vec<WireRecord> {
    let all = Records::new(message).expect("a message with one question");
    let all = all.map(|record| record.expect("whole records"));
    all.take_while(|record| !matches!(record.rtype, rtype::OPT | rtype::TSIG)).collect()
}

/// The question of a message: name, type, class. `None` if it has no whole one.
pub(crate) fn question(message: &[u8]) -> Option<(&[u8], u16, u16)> {
    let rest = message.get(HEADER_LEN..)?;
    let (name, rest) = rest.split_at(name::length(rest)?);
    let fixed = be32(rest, 0)?;
    Some((name, (fixed >> 16) as u16, fixed as u16))
}
