//! A query: its question, read from the bytes of one datagram, and a view of one that parse has read (RFC 1035 section 4).

use pmdns_config::narrow::to_u8;

use super::dns::{
    CLASS_IN, HEADER_LEN, RECORD_FIXED_LEN, Rcode, flag, header, question_len, rtype,
};
use super::edns::{Edns, Requested};
use super::layout::{Flags, Layout};
use super::{be16, be32, field16, name};

/// Records in the additional section of a query, at most: OPT, and TSIG or SIG(0).
const MAX_ADDITIONAL: u16 = 2;
/// Records of a query before them, at most: the SOA of an IXFR query.
const MAX_BEFORE: u32 = 1;
/// Labels of all names that those records belong to, at most: OPT belongs to the root, and the names of keys are short.
const MAX_OWNER_LABELS: usize = 16;

/// A DNS query in a frame. Its layout was checked by parse, so its getters cannot fail.
#[derive(Clone, Copy, Debug)]
pub struct ClientQuery<'f> {
    message: &'f [u8],
    layout: Layout,
}

impl<'f> ClientQuery<'f> {
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

    /// The layout that parse found.
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
    length.map_or(0, to_u8)
}

/// A query, read from the bytes of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedQuery {
    /// Length of the qname; 0 if it cannot be repeated.
    pub name_len: u8,
    /// Type asked for.
    pub qtype: u16,
    /// Class asked for.
    pub qclass: u16,
    /// The client's OPT record, if it sent one.
    pub edns: Option<Edns>,
    /// Its error; `None`: none.
    pub error: Option<Rcode>,
}

impl ParsedQuery {
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
        let (qtype, qclass) = ((fixed >> 16) as u16, (fixed & 0xffff) as u16);
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
/// OPT record among the latter. `None`: they are malformed or too many. Bytes behind them mean nothing: there are clients
/// that send the whole of their buffer, and BIND, Unbound and dnsdist answer them.
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
    Some(edns)
}

/// Where the name ends that a record of a query belongs to. Nobody reads it, so a pointer ends it and is not followed.
/// To follow many of them would be work that the sender has not done.
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
