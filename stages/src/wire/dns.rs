//! The DNS message: header, question, and what a query asks (RFC 1035 section 4).

use super::edns::{Edns, Requested};
use super::{be16, be32, field16, name};
use crate::packet::{Flags, Layout};

/// The fixed header (RFC 1035 section 4.1.1).
pub const HEADER_LEN: usize = 12;
/// QTYPE and QCLASS behind a qname.
pub const QUESTION_FIXED_LEN: usize = 4;
/// TYPE, CLASS, TTL and RDLENGTH behind an owner name.
pub const RECORD_FIXED_LEN: usize = 10;
/// Records in the additional section of a query, at most: OPT, and TSIG or SIG(0).
const MAX_ADDITIONAL: u16 = 2;
/// Records of a query before them, at most: the SOA of an IXFR query.
const MAX_BEFORE: u32 = 1;
/// Labels of all names that those records belong to, at most: OPT belongs to the root, and the names of keys are short.
const MAX_OWNER_LABELS: usize = 16;
/// What a client without EDNS can take (RFC 1035 section 4.2.1).
pub const PLAIN_UDP_SIZE: u16 = 512;

/// Offsets in the header.
pub mod header {
    /// Query id.
    pub const ID: usize = 0;
    /// Flags and rcode.
    pub const FLAGS: usize = 2;
    /// Questions.
    pub const QDCOUNT: usize = 4;
    /// Answer records.
    pub const ANCOUNT: usize = 6;
    /// Authority records.
    pub const NSCOUNT: usize = 8;
    /// Additional records.
    pub const ARCOUNT: usize = 10;
}

/// Bits of the header's flags.
pub mod flag {
    /// Response.
    pub const QR: u16 = 1 << 15;
    /// Authoritative answer.
    pub const AA: u16 = 1 << 10;
    /// Truncated.
    pub const TC: u16 = 1 << 9;
    /// Recursion desired.
    pub const RD: u16 = 1 << 8;
    /// Recursion available.
    pub const RA: u16 = 1 << 7;
    /// Authentic data (RFC 4035 section 3.2.3).
    pub const AD: u16 = 1 << 5;
    /// Checking disabled (RFC 4035 section 3.2.2).
    pub const CD: u16 = 1 << 4;
    /// The four bits of the opcode.
    pub const OPCODE: u16 = 0xf << 11;
    /// The four bits of the rcode.
    pub const RCODE: u16 = 0xf;
}

/// Record and query types this program treats specially.
pub mod rtype {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Name server.
    pub const NS: u16 = 2;
    /// Alias.
    pub const CNAME: u16 = 5;
    /// Start of authority.
    pub const SOA: u16 = 6;
    /// Name of an address.
    pub const PTR: u16 = 12;
    /// Host information; says nothing but that ANY is not answered in full (RFC 8482).
    pub const HINFO: u16 = 13;
    /// Text.
    pub const TXT: u16 = 16;
    /// Signature of a whole message (RFC 2931).
    pub const SIG: u16 = 24;
    /// IPv6 address (RFC 3596).
    pub const AAAA: u16 = 28;
    /// Alias of a whole tree (RFC 6672).
    pub const DNAME: u16 = 39;
    /// EDNS (RFC 6891).
    pub const OPT: u16 = 41;
    /// Digest of a key of the zone below (RFC 4034 section 5).
    pub const DS: u16 = 43;
    /// Signature of a record set (RFC 4034 section 3).
    pub const RRSIG: u16 = 46;
    /// Denial of existence (RFC 4034 section 4).
    pub const NSEC: u16 = 47;
    /// Denial of existence by hashes (RFC 5155).
    pub const NSEC3: u16 = 50;
    /// The first of the types that are no data (RFC 6895 section 3.1).
    pub const FIRST_META: u16 = 128;
    /// Transaction signature (RFC 8945).
    pub const TSIG: u16 = 250;
    /// Incremental zone transfer.
    pub const IXFR: u16 = 251;
    /// Zone transfer.
    pub const AXFR: u16 = 252;
    /// Mailbox-related records, obsolete.
    pub const MAILB: u16 = 253;
    /// Mail agent records, obsolete.
    pub const MAILA: u16 = 254;
    /// Any type.
    pub const ANY: u16 = 255;
}

/// The Internet class.
pub const CLASS_IN: u16 = 1;
/// The Chaos class, in which servers are asked about themselves (RFC 4892).
pub const CLASS_CH: u16 = 3;
/// No class: nothing is of it (RFC 2136 section 2.4).
pub const CLASS_NONE: u16 = 254;

/// A response code; those above 15 need an OPT record (RFC 6891 section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rcode(pub u8);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The query is malformed.
    pub const FORMERR: Self = Self(1);
    /// The server failed.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not do this kind of query.
    pub const NOTIMP: Self = Self(4);
    /// The server will not answer this client or this question.
    pub const REFUSED: Self = Self(5);
    /// A name exists that should not; of a made one, that it would be too long (RFC 6672 section 2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// The EDNS version is not supported.
    pub const BADVERS: Self = Self(16);
    /// The server cookie is not one of ours, and has to be (RFC 7873).
    pub const BADCOOKIE: Self = Self(23);
}

/// A DNS query in a frame. Its layout was checked by parse, so its getters cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct View<'f> {
    message: &'f [u8],
    layout: Layout,
}

impl<'f> View<'f> {
    /// The query at the start of `message`, as `layout` describes it.
    #[inline]
    pub(crate) fn new(message: &'f [u8], layout: Layout) -> Self {
        Self { message, layout }
    }

    /// The client's query id.
    #[inline]
    pub fn id(self) -> u16 {
        u16::from_be_bytes([self.message[0], self.message[1]])
    }

    /// The flags and rcode word.
    #[inline]
    pub fn flags(self) -> u16 {
        be16(self.message, header::FLAGS).unwrap_or(0)
    }

    /// The qname in wire format, in the client's letter case.
    #[inline]
    pub fn name(self) -> &'f [u8] {
        &self.message[HEADER_LEN..HEADER_LEN + usize::from(self.layout.name_len)]
    }

    /// The question as the client wrote it: qname, type, class.
    #[inline]
    pub fn question(self) -> &'f [u8] {
        &self.message[HEADER_LEN..HEADER_LEN + question_len(self.layout.name_len)]
    }

    /// What parse found out.
    #[inline]
    pub fn layout(self) -> Layout {
        self.layout
    }

    /// Type asked for.
    #[inline]
    pub fn qtype(self) -> u16 {
        self.layout.qtype
    }

    /// Whether the client wants DNSSEC records (RFC 3225).
    #[inline]
    pub fn dnssec_ok(self) -> bool {
        self.layout.flags.has(Flags::DO)
    }
}

/// Length of a question whose name is `name_len` long; 0 without a name.
#[inline(always)]
pub fn question_len(name_len: u8) -> usize {
    match name_len {
        0 => 0,
        len => usize::from(len) + QUESTION_FIXED_LEN,
    }
}

/// QDCOUNT of one, and no other count.
const ONE_QUESTION: u64 = 1 << 48;

/// The four counts of a header as one number.
#[inline(always)]
fn counts(header: &[u8; HEADER_LEN]) -> u64 {
    header.last_chunk().map_or(0, |counts| u64::from_be_bytes(*counts))
}

/// The length of a name in one byte; 0: there is none.
#[inline(always)]
pub fn name_len(length: Option<usize>) -> u8 {
    length.map_or(0, |length| length as u8)
}

/// What a query asks, read from the bytes of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Length of the qname; 0 if it cannot be repeated.
    pub name_len: u8,
    /// Type asked for.
    pub qtype: u16,
    /// Class asked for.
    pub qclass: u16,
    /// The client's OPT record, if it sent one.
    pub edns: Option<Edns>,
    /// What is wrong with it; `None`: nothing.
    pub error: Option<Rcode>,
}

impl Asked {
    const NOTHING: Self = Self { name_len: 0, qtype: 0, qclass: 0, edns: None, error: None };

    /// Reads a query of at least [`HEADER_LEN`] bytes that is not a response.
    pub fn read(message: &[u8]) -> Self {
        let name = message.get(HEADER_LEN..).unwrap_or_default();
        let name_len = name_len(name::length(name));
        let may_be_plain = Self::may_be_plain(message);
        let plain = may_be_plain.then(|| Self::read_plain(message, name_len)).flatten();
        plain.unwrap_or_else(|| Self::read_any(message, name_len))
    }

    /// Whether the header is that of a query like nearly all: recursion desired, one question, and no record or one behind it.
    #[inline(always)]
    pub fn may_be_plain(message: &[u8]) -> bool {
        let Some(header) = message.first_chunk::<HEADER_LEN>() else { return false };
        let is_usual = field16(header, header::FLAGS) & (flag::OPCODE | flag::RD) == flag::RD;
        is_usual && counts(header) & !1 == ONE_QUESTION
    }

    /// Reads such a query, whose name is `name_len` long (0: there is none). Its question is about data of class IN. Behind it
    /// is nothing, or an OPT record of version 0 without options. `None`: it is another one.
    #[inline(always)]
    pub fn read_plain(message: &[u8], name_len: u8) -> Option<Self> {
        let mut asked = Self::read_question(message, name_len)?;
        let is_data = matches!(asked.qtype, 1..rtype::FIRST_META | rtype::ANY..);
        if asked.qclass != CLASS_IN || !is_data || asked.qtype == rtype::OPT {
            return None;
        }
        let rest = &message[HEADER_LEN + question_len(asked.name_len)..];
        if message.first_chunk().is_some_and(|header| counts(header) == ONE_QUESTION) {
            return rest.is_empty().then_some(asked);
        }
        asked.edns = Some(Edns::read_plain(rest)?);
        Some(asked)
    }

    /// Reads any query, whose name behind the header is `name_len` long; 0: there is none.
    #[inline(never)]
    pub fn read_any(message: &[u8], name_len: u8) -> Self {
        let malformed = Self { error: Some(Rcode::FORMERR), ..Self::NOTHING };
        let Some(header) = message.first_chunk::<HEADER_LEN>() else { return malformed };
        let asked = match field16(header, header::QDCOUNT) {
            0 => Some(Self::NOTHING),
            1 => Self::read_question(message, name_len),
            _ => None,
        };
        let asked = asked.map_or(malformed, |asked| asked.with_records(message, header));
        match field16(header, header::FLAGS) & flag::OPCODE {
            0 => asked,
            // Other operations' messages are alike enough that mostly question and OPT record can be repeated.
            _ => Self { error: Some(Rcode::NOTIMP), ..asked },
        }
    }

    /// Reads what stands behind the question.
    fn with_records(self, message: &[u8], header: &[u8; HEADER_LEN]) -> Self {
        let count = |at| field16(header, at);
        let before = u32::from(count(header::ANCOUNT)) + u32::from(count(header::NSCOUNT));
        let start = HEADER_LEN + question_len(self.name_len);
        let Some(edns) = find_opt(message, start, before, count(header::ARCOUNT)) else {
            return Self { error: Some(Rcode::FORMERR), ..self };
        };
        let asked = Self { edns, ..self };
        // Only an IXFR query has records before the additional section: the SOA the client has.
        let is_query = self.name_len > 0 && (before == 0 || self.qtype == rtype::IXFR);
        Self { error: if is_query { asked.refusal() } else { Some(Rcode::FORMERR) }, ..asked }
    }

    #[inline(always)]
    fn read_question(message: &[u8], name_len: u8) -> Option<Self> {
        if name_len == 0 {
            return None;
        }
        let fixed = be32(message, HEADER_LEN + usize::from(name_len))?;
        let (qtype, qclass) = ((fixed >> 16) as u16, fixed as u16);
        Some(Self { name_len, qtype, qclass, ..Self::NOTHING })
    }

    /// What a well-formed query is answered with if a forwarder does not do such queries.
    fn refusal(&self) -> Option<Rcode> {
        if self.edns.is_some_and(|edns| edns.version != 0) {
            return Some(Rcode::BADVERS);
        }
        match self.qtype {
            // Types that never stand in a question (RFC 6891 6.1.1, RFC 6895 3.1).
            0 | rtype::OPT | rtype::FIRST_META..=rtype::TSIG => Some(Rcode::FORMERR),
            rtype::IXFR | rtype::AXFR => Some(Rcode::REFUSED),
            rtype::MAILA | rtype::MAILB => Some(Rcode::NOTIMP),
            _ if self.qclass != CLASS_IN => Some(Rcode::REFUSED),
            _ => None,
        }
    }
}

/// Walks over the records of a query: `before` of answer and authority, then `additional` ones, and gives the
/// OPT record among the latter. `None`: they are malformed, too many, or do not end the message.
fn find_opt(message: &[u8], start: usize, before: u32, additional: u16) -> Option<Option<Edns>> {
    if before > MAX_BEFORE || additional > MAX_ADDITIONAL {
        return None;
    }
    let mut edns = None;
    let mut at = start;
    let mut labels_left = MAX_OWNER_LABELS;
    for number in 0..before + u32::from(additional) {
        let fixed_at = skip_owner(message, at, &mut labels_left)?;
        let fixed: &[u8; RECORD_FIXED_LEN] = message.get(fixed_at..)?.first_chunk()?;
        let data_at = fixed_at + RECORD_FIXED_LEN;
        let end = data_at + usize::from(field16(fixed, 8));
        let data = message.get(data_at..end)?;
        if number >= before && field16(fixed, 0) == rtype::OPT {
            // RFC 6891 section 6.1.1: one OPT record at most, owned by the root.
            if edns.is_some() || message[at] != 0 {
                return None;
            }
            edns = Some(Edns::read(fixed, Requested::read(data, data_at)?));
        }
        at = end;
    }
    (at == message.len()).then_some(edns)
}

/// Where the name ends that a record of a query belongs to. Nobody reads it, so a pointer ends it and is not followed: to
/// follow many of them would be work that the sender has not done.
fn skip_owner(message: &[u8], start: usize, labels_left: &mut usize) -> Option<usize> {
    let mut at = start;
    loop {
        let label = usize::from(*message.get(at)?);
        if label.wrapping_sub(1) < name::MAX_LABEL {
            *labels_left = labels_left.checked_sub(1)?;
            at += 1 + label;
            continue;
        }
        return match label {
            _ if at - start >= name::MAX_NAME => None,
            0 => Some(at + 1),
            0xc0.. => {
                let target = usize::from(be16(message, at)? & 0x3fff);
                (HEADER_LEN..start).contains(&target).then_some(at + 2)
            }
            _ => None,
        };
    }
}
