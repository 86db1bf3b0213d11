//! From an upstream's message to an entry: which records are kept, and how long they live.

use arrayvec::ArrayVec;
use pmdns_config::narrow::to_u16;

use super::entry::{Entry, EntryParts, Head};
use super::image::Image;
use super::key::Key;
use super::lifetimes::Lifetimes;
use super::plain::Plain;
use super::scrub::{Scrubbed, Unusable};
use crate::wire::be16;
use crate::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, Rcode, flag, header};
use crate::wire::labels::Labels;
use crate::wire::name::{equal, length};
use crate::wire::rdata::{self, Part};
use crate::wire::record::WireRecord;

impl Entry {
    /// An answer made of an upstream's message: the records that belong to the question ([`Scrubbed`]), with their TTLs
    /// bounded. Those of a negative answer are bounded by the SOA's minimum too (RFC 2308 section 5). With it comes how
    /// many records did not belong to the question.
    ///
    /// What must not be kept (failures, negative answers without SOA) expires at once, at `now`. An
    /// extended rcode (RFC 6891 section 6.1.3) is between the upstream and us; it becomes SERVFAIL.
    ///
    /// The question is compared without regard to letter case. The code that varied the case compares it
    /// first. An entry of addresses is made in this `memory` ([`Entry::into_memory`]).
    pub fn scrub(
        message: &[u8],
        key: Key<'_>,
        hash: u64,
        now: u32,
        lifetimes: &Lifetimes,
        memory: Vec<u64>,
    ) -> Result<(Self, usize), Unusable> {
        let question_end = check_question(message, &key)?;
        if let Some(plain) = Plain::read(message, &key, question_end, lifetimes) {
            return Ok((Self::of_plain(&plain, message, key, hash, now, memory), 0));
        }
        Self::scrub_any(message, question_end, key, hash, now, lifetimes)
    }

    pub(super) fn of_plain(
        plain: &Plain<'_>,
        message: &[u8],
        key: Key<'_>,
        hash: u64,
        now: u32,
        memory: Vec<u64>,
    ) -> Self {
        Self::new_in(
            memory,
            &EntryParts {
                key,
                hash,
                learnt: now,
                expires: now.saturating_add(plain.ttl),
                rcode: Rcode::NOERROR,
                flags: authentic(message),
                counts: [to_u16(plain.ttls.len()), 0, 0],
                body: plain.body,
                optional_at: to_u16(plain.body.len()),
                ttls: &plain.ttls,
            },
        )
    }

    /// [`Entry::scrub`], for any reply whose question, which is the right one, ends at `question_end`.
    pub(super) fn scrub_any(
        message: &[u8],
        question_end: usize,
        key: Key<'_>,
        hash: u64,
        now: u32,
        lifetimes: &Lifetimes,
    ) -> Result<(Self, usize), Unusable> {
        let mut labels = Labels::new(message);
        let scrubbed = Scrubbed::read(&mut labels, &key)?;
        let flags = be16(message, header::FLAGS).unwrap_or(0);
        let rcode = match scrubbed.extended_rcode {
            0 => Rcode((flags & flag::RCODE) as u8),
            _ => Rcode::SERVFAIL,
        };
        if scrubbed.says_nothing(&labels, rcode) {
            return Err(Unusable::NoAnswer);
        }
        let mut image = Image::write(&scrubbed, &mut labels, question_end, lifetimes)
            .ok_or(Unusable::Malformed)?;
        // RFC 2308 section 2: there is no such name, or no such record.
        let is_negative =
            rcode == Rcode::NXDOMAIN || (rcode == Rcode::NOERROR && !scrubbed.is_answered);
        let ttl = image.settle_ttl(rcode, is_negative, lifetimes);
        let mut entry_flags = authentic(message);
        if is_negative {
            entry_flags |= Head::NEGATIVE;
        }
        if !image.fits(lifetimes) {
            entry_flags |= Head::TOO_LONG;
            image.forget();
        }
        let entry = Self::new(&EntryParts {
            key,
            hash,
            learnt: now,
            expires: now.saturating_add(ttl),
            rcode,
            flags: entry_flags,
            counts: image.counts,
            body: &image.body,
            // The answer needs all that is kept.
            optional_at: to_u16(image.body.len()),
            ttls: &image.ttls,
        });
        Ok((entry, scrubbed.dropped))
    }

    /// [`Entry::scrub`], for those who do not count.
    pub fn from_reply(
        message: &[u8],
        key: Key<'_>,
        hash: u64,
        now: u32,
        lifetimes: &Lifetimes,
    ) -> Result<Self, Unusable> {
        Self::scrub(message, key, hash, now, lifetimes, Vec::new()).map(|(entry, _)| entry)
    }
}

/// The entry's flag for what the upstream says of signatures.
fn authentic(message: &[u8]) -> u8 {
    let says_so = be16(message, header::FLAGS).unwrap_or(0) & flag::AD != 0;
    if says_so { Head::AUTHENTIC } else { 0 }
}

/// Checks that `message` is a response with exactly the question of `key`, and says where that ends.
fn check_question(message: &[u8], key: &Key<'_>) -> Result<usize, Unusable> {
    let flags = be16(message, header::FLAGS).ok_or(Unusable::Malformed)?;
    // Offsets in an entry have 16 bits, as has the length of a message over TCP.
    let is_response = flags & flag::QR != 0 && flags & flag::OPCODE == 0;
    if !is_response || message.len() > usize::from(u16::MAX) {
        return Err(Unusable::Malformed);
    }
    // No name begins with another whole one, so the right name has the right length.
    let name_end = HEADER_LEN + key.name.len();
    let asked = message.get(HEADER_LEN..).ok_or(Unusable::Malformed)?;
    let same = be16(message, header::QDCOUNT) == Some(1)
        && !key.name.is_empty()
        && asked.get(..key.name.len()).is_some_and(|name| equal(name, key.name))
        && be16(message, name_end) == Some(key.qtype)
        && be16(message, name_end + 2) == Some(key.qclass);
    if same {
        return Ok(name_end + QUESTION_FIXED_LEN);
    }
    let is_name = length(asked).is_some();
    Err(if is_name { Unusable::OtherQuestion } else { Unusable::Malformed })
}

/// Where names start in a record that may be compressed: its owner, and those in its data.
pub(super) fn names_of(message: &[u8], record: &WireRecord) -> ArrayVec<usize, 3> {
    let mut names = ArrayVec::from_iter([record.start]);
    // What is read here has been written by us: it is well-formed.
    let _ = rdata::parts(message, record.rtype, record.data_at..record.end, |part| match part {
        Part::Name { at, may_compress: true } => names.try_push(at).ok(),
        _ => Some(()),
    });
    names
}
