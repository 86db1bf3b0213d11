//! From an upstream's message to an entry: which records are kept, and how long they live.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::entry::{Entry, Head, Key, MAX_RECORDS, Parts};
use crate::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header, rtype};
use crate::wire::name::{equal, length};
use crate::wire::record::{Record, Records, Section, follow_name, skip_name};
use crate::wire::{be16, be32, put32};

/// A record type, and where its data has names: bytes before them, how many, bytes after them.
type NamesInData = (u16, usize, usize, usize);

/// The types in use whose data may have compressed names (RFC 1035 section 3.3, RFC 3597 section 4).
const NAMES_IN_DATA: [NamesInData; 6] = [
    (2, 0, 1, 0),  // NS
    (5, 0, 1, 0),  // CNAME
    (6, 0, 2, 20), // SOA
    (12, 0, 1, 0), // PTR
    (15, 2, 1, 0), // MX
    (33, 6, 1, 0), // SRV: need not be, but was
];

/// Bytes of a TTL.
const TTL_LEN: usize = 4;

/// How long answers are kept.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// TTLs below are raised to it, in seconds.
    pub min_ttl: u32,
    /// TTLs above are lowered to it, in seconds.
    pub max_ttl: u32,
    /// The longest a negative answer is kept, in seconds.
    pub max_negative_ttl: u32,
    /// A body longer than this is not kept: the entry only says TC=1.
    pub max_body: usize,
}

impl Lifetimes {
    /// A record's TTL within bounds.
    fn bound(&self, ttl: u32) -> u32 {
        // RFC 2181 section 8: a TTL with the top bit set is zero.
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        ttl.max(self.min_ttl).min(self.max_ttl)
    }
}

/// Why an upstream's message is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is not a well-formed response.
    Malformed,
    /// It is not about what was asked.
    OtherQuestion,
}

impl Entry {
    /// An answer made of an upstream's message: the records as they are, without OPT, TTLs bounded, and
    /// those of a negative answer bounded by the SOA's minimum (RFC 2308 section 5).
    ///
    /// What must not be kept (failures, negative answers without SOA) expires at once, at `now`. An
    /// extended rcode (RFC 6891 section 6.1.3) is between the upstream and us; it becomes SERVFAIL.
    ///
    /// The question is compared without regard to letter case; whoever varied the case compares it first.
    pub fn from_reply(
        message: &[u8],
        key: Key<'_>,
        hash: u64,
        now: u32,
        lifetimes: &Lifetimes,
    ) -> Result<Self, Unusable> {
        let question_end = check_question(message, &key)?;
        let mut image = Image::collect(message, question_end, &key, lifetimes)?;
        let flags = be16(message, header::FLAGS).unwrap_or(0);
        let rcode = match image.extended_rcode {
            0 => Rcode((flags & flag::RCODE) as u8),
            _ => Rcode::SERVFAIL,
        };
        let ttl = image.settle_ttl(rcode, lifetimes);
        let mut entry_flags = if flags & flag::AD != 0 { Head::AUTHENTIC } else { 0 };
        if image.is_negative(rcode) {
            entry_flags |= Head::NEGATIVE;
        }
        if !image.fits(lifetimes) {
            image.cut(image.optional_at(rcode, &key));
        }
        if !image.fits(lifetimes) {
            entry_flags |= Head::TOO_LONG;
            image.forget();
        }
        Ok(Self::new(&Parts {
            key,
            hash,
            learnt: now,
            expires: now.saturating_add(ttl),
            rcode,
            flags: entry_flags,
            counts: image.counts,
            body: &image.body,
            optional_at: image.optional_at(rcode, &key),
            ttls: &image.ttls,
        }))
    }
}

/// Checks that `message` is a response with exactly the question of `key`, and says where that ends.
fn check_question(message: &[u8], key: &Key<'_>) -> Result<usize, Unusable> {
    let flags = be16(message, header::FLAGS).ok_or(Unusable::Malformed)?;
    // Offsets in an entry have 16 bits, as has the length of a message over TCP.
    let is_response = flags & flag::QR != 0 && flags & flag::OPCODE == 0;
    if !is_response || message.len() > usize::from(u16::MAX) {
        return Err(Unusable::Malformed);
    }
    let asked = message.get(HEADER_LEN..).ok_or(Unusable::Malformed)?;
    let name_len = length(asked).ok_or(Unusable::Malformed)?;
    let name_end = HEADER_LEN + name_len;
    let same = be16(message, header::QDCOUNT) == Some(1)
        && equal(&asked[..name_len], key.name)
        && be16(message, name_end) == Some(key.qtype)
        && be16(message, name_end + 2) == Some(key.qclass);
    if same { Ok(name_end + QUESTION_FIXED_LEN) } else { Err(Unusable::OtherQuestion) }
}

/// Where data of this type has names that may be compressed; `None`: nowhere.
fn names_in_data(rtype: u16) -> Option<&'static NamesInData> {
    NAMES_IN_DATA.iter().find(|(one, ..)| *one == rtype)
}

/// Whether the names in a record's data end in the data, and lead backwards if they are compressed: the
/// message's end is not where it was when they are passed on. `may_be` is asked about their bytes.
fn data_is_whole(
    message: &[u8],
    record: &Record,
    may_be: impl Fn(Range<usize>) -> bool + Copy,
) -> bool {
    let Some((_, before, names, after)) = names_in_data(record.rtype) else {
        return true;
    };
    let names_end =
        (0..*names).try_fold(record.data_at + before, |at, _| follow_name(message, at, may_be));
    names_end.is_some_and(|end| end + after == record.end)
}

/// Where names start in a record that may be compressed: its owner, and those in its data.
pub(super) fn names_of(message: &[u8], record: &Record) -> ArrayVec<usize, 3> {
    let mut names = ArrayVec::from_iter([record.start]);
    if let Some((_, before, count, _)) = names_in_data(record.rtype) {
        let first = Some(record.data_at + before);
        let all = std::iter::successors(first, |at| skip_name(message, *at));
        names.extend(all.take(*count));
    }
    names
}

/// The records of a reply as they will be sent, and what they say about the answer's life.
struct Image {
    body: Vec<u8>,
    ttls: Vec<u16>,
    counts: [u16; 3],
    /// Where the authority section starts, and where it ends.
    authority: Range<u16>,
    extended_rcode: u8,
    /// Whether a record of the type asked for is in the answer section, rather than only aliases.
    is_answered: bool,
    /// The least TTL.
    min_ttl: Option<u32>,
    /// TTL for a negative answer: the lesser of the SOA record's own TTL and its minimum field.
    negative_ttl: Option<u32>,
}

impl Image {
    fn collect(
        message: &[u8],
        question_end: usize,
        key: &Key<'_>,
        lifetimes: &Lifetimes,
    ) -> Result<Self, Unusable> {
        let mut image = Self {
            body: Vec::with_capacity(message.len() - question_end),
            ttls: Vec::new(),
            counts: [0; 3],
            authority: 0..0,
            extended_rcode: 0,
            is_answered: false,
            min_ttl: None,
            negative_ttl: None,
        };
        let mut is_cut = false;
        for record in Records::new(message).map_err(|_| Unusable::Malformed)? {
            let record = record.map_err(|_| Unusable::Malformed)?;
            if !data_is_whole(message, &record, |_| true) {
                return Err(Unusable::Malformed);
            }
            let is_additional = record.section == Section::Additional;
            if matches!(record.rtype, rtype::OPT | rtype::TSIG) {
                // RFC 6891 section 6.1.1, RFC 8945 section 5.1: nowhere else.
                if !is_additional {
                    return Err(Unusable::Malformed);
                }
                if record.rtype == rtype::OPT {
                    image.extended_rcode = (record.ttl >> 24) as u8;
                }
                is_cut = true;
            }
            // What follows an OPT record is left out with it: having moved, it could not be pointed at.
            if !is_cut {
                image.keep(message, &record, question_end, key, lifetimes);
                if !image.is_steady(message, &record, question_end) {
                    return Err(Unusable::Malformed);
                }
            }
            let end = image.body.len() as u16;
            match record.section {
                Section::Answer => image.authority = end..end,
                Section::Authority => image.authority.end = end,
                Section::Additional => {}
            }
        }
        Ok(image)
    }

    fn keep(
        &mut self,
        message: &[u8],
        record: &Record,
        question_end: usize,
        key: &Key<'_>,
        lifetimes: &Lifetimes,
    ) {
        debug_assert_eq!(self.body.len(), record.start - question_end, "pointers stay true");
        let ttl = lifetimes.bound(record.ttl);
        self.min_ttl = Some(self.min_ttl.map_or(ttl, |least| least.min(ttl)));
        if record.section == Section::Answer {
            self.is_answered |= record.rtype == key.qtype || key.qtype == rtype::ANY;
        }
        if record.section == Section::Authority && record.rtype == rtype::SOA {
            let minimum = lifetimes.bound(be32(message, record.end - 4).unwrap_or(0));
            let least = self.negative_ttl.map_or(ttl, |least| least.min(ttl));
            self.negative_ttl = Some(least.min(minimum));
        }
        let ttl_at = record.ttl_at - question_end;
        self.body.extend_from_slice(&message[record.start..record.end]);
        put32(&mut self.body, ttl_at, ttl);
        self.ttls.push(ttl_at as u16);
        self.counts[record.section as usize] += 1;
    }

    /// Whether the names of the record that was kept last stay what they are while TTLs count down: none may lead
    /// through a TTL. Names lead backwards, so what follows does not matter.
    fn is_steady(&self, message: &[u8], record: &Record, question_end: usize) -> bool {
        let place = |ttl: &u16| question_end + usize::from(*ttl);
        let holds_no_ttl = |bytes: Range<usize>| {
            let next = self.ttls.partition_point(|ttl| place(ttl) + TTL_LEN <= bytes.start);
            self.ttls.get(next).is_none_or(|ttl| place(ttl) >= bytes.end)
        };
        follow_name(message, record.start, holds_no_ttl).is_some()
            && data_is_whole(message, record, holds_no_ttl)
    }

    /// Where the records start that an answer can do without, as [`Head::optional_counts`] has it. A negative answer
    /// is its authority section, and with DNSSEC that has proofs (RFC 4035 section 3.1.3).
    fn optional_at(&self, rcode: Rcode, key: &Key<'_>) -> u16 {
        let needs_authority = self.is_negative(rcode) || key.flags & Key::DO != 0;
        if needs_authority { self.authority.end } else { self.authority.start }
    }

    /// Whether it says that there is no such name, or no such record (RFC 2308 section 2).
    fn is_negative(&self, rcode: Rcode) -> bool {
        rcode == Rcode::NXDOMAIN || (rcode == Rcode::NOERROR && !self.is_answered)
    }

    /// How long the answer is kept, in seconds. The records of a negative one live no longer than that.
    fn settle_ttl(&mut self, rcode: Rcode, lifetimes: &Lifetimes) -> u32 {
        // A failure is for those who wait for it; the slow path keeps account of failures (RFC 9520).
        if !matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN) {
            return 0;
        }
        let least = self.min_ttl.unwrap_or(0);
        if !self.is_negative(rcode) {
            return least;
        }
        // RFC 2308 section 5: without SOA it must not be kept. Aliases on the way may expire earlier.
        let ttl = self.negative_ttl.unwrap_or(0).min(least).min(lifetimes.max_negative_ttl);
        for at in self.ttls.iter().map(|at| usize::from(*at)) {
            let own = be32(&self.body, at).unwrap_or(0);
            put32(&mut self.body, at, own.min(ttl));
        }
        ttl
    }

    /// Whether it can be sent and kept as a whole.
    fn fits(&self, lifetimes: &Lifetimes) -> bool {
        self.body.len() <= lifetimes.max_body && self.ttls.len() <= MAX_RECORDS
    }

    /// Leaves out the records from `at` on, which an answer can do without: that is no truncation (RFC 2181 section 9).
    fn cut(&mut self, at: u16) {
        self.body.truncate(at.into());
        self.ttls.retain(|ttl| *ttl < at);
        self.counts[Section::Additional as usize] = 0;
        if at <= self.authority.start {
            self.counts[Section::Authority as usize] = 0;
            self.authority = at..at;
        }
    }

    /// Keeps nothing but the rcode and the time.
    fn forget(&mut self) {
        self.body.clear();
        self.ttls.clear();
        self.counts = [0; 3];
        self.authority = 0..0;
    }
}
