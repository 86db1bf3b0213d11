//! An answer of local records: its records in the wire format, and whether it fits.

use pmdns_config::LocalRecord;
use pmdns_config::narrow::to_u8;

use super::{LocalZone, text};
use crate::policy::local_error::LocalDataError;
use crate::wire::dns::{CLASS_IN, HEADER_LEN, Rcode, question_len, rtype};
use crate::wire::edns::OPT_LEN;
use crate::wire::labels::name_end;
use crate::wire::name::MAX_NAME;
use crate::wire::rdata::{self, Part};

/// What records and everything else around them but EDNS options can take of an answer over a stream. Clients over UDP get
/// TC=1 where it is too much for them.
const MAX_RECORD_BYTES: usize = u16::MAX as usize - 1024;

/// A compression pointer to the question (RFC 1035 section 4.1.4).
pub(super) const QUESTION: [u8; 2] = [0xc0, to_u8(HEADER_LEN)];

/// How long clients keep a denial by a rule, or that a name without a zone has no such record, in seconds. So a name that is
/// allowed again is there a minute later.
const DENIAL_TTL: u32 = 60;
/// Serial number, refresh, retry, expire and minimum of the SOA record that says so, as in RFC 6303 section 3.
const DENIAL_TIMERS: [u32; 5] = [1, 3600, 1200, 604_800, DENIAL_TTL];
/// Who answers for such a record: `nobody.invalid.`, as in RFC 6303 section 3.
const NOBODY: &[u8] = b"\x06nobody\x07invalid\0";

/// The answer to a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) rcode: Rcode,
    /// The wire image of the answer and then the authority section.
    pub(crate) bytes: Vec<u8>,
    /// Records in the answer section.
    pub(crate) answers: u16,
    /// Records in the authority section.
    pub(crate) authorities: u16,
    /// Whether its last alias leads to a name that is not ours, which is to be resolved.
    pub(crate) leads_on: bool,
}

/// More records than a message has room for: each has 11 bytes at least. Their set is refused, so they need not differ.
const ENOUGH: usize = u16::MAX as usize / 11;

/// The records of one name and type.
#[derive(Clone)]
pub(super) struct RecordSet<'r> {
    pub(super) rtype: u16,
    pub(super) ttl: u32,
    pub(super) data: Vec<&'r [u8]>,
}

impl<'r> RecordSet<'r> {
    pub(super) fn add(&mut self, record: &'r LocalRecord) {
        // RFC 2181 section 5.2: the records of a set have one TTL; section 5: and are different.
        self.ttl = self.ttl.min(record.ttl);
        let is_known =
            |set: &Self| set.data.iter().any(|data| is_same(set.rtype, data, &record.data));
        if self.data.len() > ENOUGH || !is_known(self) {
            self.data.push(&record.data);
        }
    }
}

/// Whether data of a type are the same: names are, whatever the case of their letters (RFC 4343 section 3).
fn is_same(rtype: u16, one: &[u8], other: &[u8]) -> bool {
    one == other
        || one.eq_ignore_ascii_case(other)
            && in_lower_case(rtype, one) == in_lower_case(rtype, other)
}

/// Data with its names in lower case.
fn in_lower_case(rtype: u16, data: &[u8]) -> Vec<u8> {
    let mut lower = data.to_vec();
    // What is malformed has no names from there on.
    let _ = rdata::parts(data, rtype, 0..data.len(), |part| {
        if let Part::Name { at, .. } = part {
            lower.get_mut(at..name_end(data, at)?)?.make_ascii_lowercase();
        }
        Some(())
    });
    lower
}

impl Reply {
    /// No records, and nothing wrong with that.
    pub(crate) fn empty() -> Self {
        Self {
            rcode: Rcode::NOERROR,
            bytes: Vec::new(),
            answers: 0,
            authorities: 0,
            leads_on: false,
        }
    }

    /// One record of the name that is asked for.
    pub(crate) fn of(rtype: u16, ttl: u32, data: &[u8]) -> Self {
        Self::of_all(rtype, ttl, vec![data])
    }

    /// A record of the name that is asked for with each of these data.
    pub(crate) fn of_all(rtype: u16, ttl: u32, data: Vec<&[u8]>) -> Self {
        let mut reply = Self::empty();
        reply.answers = reply.put(&QUESTION, &RecordSet { rtype, ttl, data });
        reply
    }

    /// That a name does not exist, or has no such records, and for how many seconds that holds. No zone of anybody says so, so the
    /// SOA record (RFC 2308 section 5) is that of the name that is asked for.
    pub(crate) fn denial(rcode: Rcode) -> Self {
        let mut reply = Self { rcode, ..Self::empty() };
        reply.deny_of_nobody(&QUESTION);
        reply
    }

    /// Adds the SOA record of a denial of this name, which no zone makes.
    pub(super) fn deny_of_nobody(&mut self, name: &[u8]) {
        let timers = DENIAL_TIMERS.map(u32::to_be_bytes).concat();
        let data = [name, NOBODY, &timers[..]].concat();
        let soa = RecordSet { rtype: rtype::SOA, ttl: DENIAL_TTL, data: vec![&data[..]] };
        self.authorities += self.put(name, &soa);
    }

    /// Adds records of this owner, and says how many.
    pub(super) fn put(&mut self, owner: &[u8], set: &RecordSet<'_>) -> u16 {
        for data in &set.data {
            self.bytes.extend_from_slice(owner);
            self.bytes.extend(set.rtype.to_be_bytes());
            self.bytes.extend(CLASS_IN.to_be_bytes());
            self.bytes.extend(set.ttl.to_be_bytes());
            // What is longer than that is refused as a whole.
            let data_len = u16::try_from(data.len()).unwrap_or(u16::MAX);
            self.bytes.extend(data_len.to_be_bytes());
            self.bytes.extend_from_slice(data);
        }
        u16::try_from(set.data.len()).unwrap_or(u16::MAX)
    }

    /// The reply, if it fits an answer. Then its lengths and counts fit their fields too.
    pub(super) fn checked(self, owner: &[u8], rtype: u16) -> Result<Self, LocalDataError> {
        // A wildcard answers for names of any length.
        let is_wildcard = LocalZone::above_wildcard(owner).is_some();
        let name_len = if is_wildcard { MAX_NAME } else { owner.len() };
        let room = MAX_RECORD_BYTES - HEADER_LEN - question_len(to_u8(name_len)) - OPT_LEN;
        if self.bytes.len() > room {
            let bytes = self.bytes.len();
            return Err(LocalDataError::TooLong { name: text(owner), rtype, bytes, room });
        }
        Ok(self)
    }
}
