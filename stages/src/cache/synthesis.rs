//! Answers with other addresses in the place of those that upstreams gave (RFC 6147).

use pmdns_config::narrow::{low_u16, to_u16};

use super::alias::{expand, write_out};
use super::entry::{Entry, Head};
use super::image::POINTER;
use super::key::Key;
use super::lifetimes::Lifetimes;
use crate::wire::dns::{CLASS_IN, HEADER_LEN, Rcode, flag, header, rtype};
use crate::wire::name::equal;
use crate::wire::record::{Records, Section, WireRecord};
use crate::wire::{be16, put16};

/// The longest message that records are added to: room for one more with any names is left.
const FULL: usize = u16::MAX as usize - 1024;
/// Pointers lead to places before this one (RFC 1035 section 4.1.4).
const POINTED: usize = POINTER as usize ^ 0xffff;

/// The synthesis of an answer from one with addresses.
#[derive(Clone, Copy, Debug)]
pub struct Synthesis<'k> {
    /// The question for AAAA records that it answers.
    pub key: Key<'k>,
    /// The hash of that.
    pub hash: u64,
    /// The second in which it is made.
    pub now: u32,
    /// No record lives longer, in seconds.
    pub max_ttl: u32,
    /// Whether all that it is made of was authentic.
    pub is_authentic: bool,
}

impl Entry {
    /// The addresses of this type, A or AAAA, in the answer; those of another length are left out.
    pub fn addresses<const LENGTH: usize>(&self) -> Vec<[u8; LENGTH]> {
        let message = self.message();
        answer_section(&message).filter_map(|record| address(&message, &record)).collect()
    }

    /// The seconds for which resolvers may still remember that there is no such record, if the answer says so by an SOA
    /// record.
    pub fn negative_ttl(&self, now: u32) -> Option<u32> {
        let message = self.message();
        let mut records = Records::new(&message).ok()?.map_while(Result::ok);
        let soa =
            records.find(|one| one.section == Section::Authority && one.rtype == rtype::SOA)?;
        Some(soa.ttl.saturating_sub(age(&self.head(), now)))
    }

    /// The same aliases, and for each of its addresses those that `made` puts in their place. `None`: there are none.
    pub fn with_addresses<const LENGTH: usize, I: Iterator<Item = [u8; 16]>>(
        &self,
        made: impl Fn([u8; LENGTH]) -> I,
        what: &Synthesis<'_>,
        lifetimes: &Lifetimes,
    ) -> Option<Self> {
        let Synthesis { key, hash, now, max_ttl, is_authentic } = *what;
        let (source, head) = (self.message(), self.head());
        let age = age(&head, now);
        let mut message = vec![0; HEADER_LEN];
        message.extend_from_slice(key.name);
        message.extend(key.qtype.to_be_bytes());
        message.extend(key.qclass.to_be_bytes());
        let (mut count, mut addresses, mut owner) = (0u16, 0, Owner::default());
        for record in answer_section(&source) {
            if is_alias(&source, &record) {
                write_out(&source, &record, age, &mut message)?;
                count += 1;
            }
            for address in address(&source, &record).into_iter().flat_map(&made) {
                owner.write(&source, record.start, key.name, &mut message)?;
                message.extend(rtype::AAAA.to_be_bytes());
                message.extend(CLASS_IN.to_be_bytes());
                message.extend(record.ttl.saturating_sub(age).to_be_bytes());
                message.extend(to_u16(address.len()).to_be_bytes());
                message.extend(address);
                (count, addresses) = (count + 1, addresses + 1);
                if message.len() > FULL {
                    break;
                }
            }
            if message.len() > FULL {
                break;
            }
        }
        if addresses == 0 {
            return None;
        }
        let authentic = if is_authentic { flag::AD } else { 0 };
        put16(&mut message, header::FLAGS, flag::QR | authentic);
        put16(&mut message, header::QDCOUNT, 1);
        put16(&mut message, header::ANCOUNT, count);
        // The records have been within bounds before, and have grown older since.
        let max_ttl = lifetimes.max_ttl.min(max_ttl);
        let lifetimes = Lifetimes { min_ttl: 0, max_ttl, ..*lifetimes };
        let mut entry = Self::from_reply(&message, key, hash, now, &lifetimes).ok()?;
        if message.len() > FULL {
            entry = entry.shortened();
        }
        let kept = head.flags & Head::TOO_LONG | Head::REWRITTEN;
        entry.set_flags(entry.head().flags | kept);
        Some(entry)
    }

    /// The answer to another question that a rule has made of this one: the rcode without records.
    pub fn denied_as(&self, key: Key<'_>, hash: u64, rcode: Rcode, flags: u8) -> Self {
        // The proof, if there is one, is about the same name.
        let mut entry = match (flags, self.head().counts()) {
            (0, [0, ..]) => self.with_records_of(key, self),
            _ => self.without_records(key, rcode, flags),
        };
        entry.words[0] = hash;
        entry
    }
}

/// The owner of the record that was written last.
#[derive(Default)]
pub(super) struct Owner {
    name: Vec<u8>,
    at: usize,
}

impl Owner {
    /// Writes the name at `start` of a message, by a pointer if that name has just been written, or is that of the question.
    pub(super) fn write(
        &mut self,
        source: &[u8],
        start: usize,
        qname: &[u8],
        to: &mut Vec<u8>,
    ) -> Option<()> {
        let mut name = Vec::new();
        expand(source, start, &mut name)?;
        let known = match () {
            () if equal(&name, qname) => Some(HEADER_LEN),
            () if name == self.name && self.at < POINTED => Some(self.at),
            () => None,
        };
        if let Some(at) = known {
            to.extend((POINTER | low_u16(at as u64)).to_be_bytes());
        } else {
            self.at = to.len();
            to.extend_from_slice(&name);
            self.name = name;
        }
        Some(())
    }
}

/// How long an answer has been there. Records by rules do not age.
fn age(head: &Head, now: u32) -> u32 {
    if head.ttl_count == 0 { 0 } else { now.saturating_sub(head.learnt) }
}

fn answer_section(message: &[u8]) -> impl Iterator<Item = WireRecord> {
    let records = Records::new(message).into_iter().flatten().map_while(Result::ok);
    records.take_while(|record| record.section == Section::Answer)
}

/// The address in a record of type A or AAAA, by its length.
fn address<const LENGTH: usize>(message: &[u8], record: &WireRecord) -> Option<[u8; LENGTH]> {
    let wanted = if LENGTH == 4 { rtype::A } else { rtype::AAAA };
    let data = message.get(record.data_at..record.end).filter(|_| record.rtype == wanted)?;
    data.try_into().ok()
}

/// Whether a record belongs to an alias: it leads on, or signs one that does.
fn is_alias(message: &[u8], record: &WireRecord) -> bool {
    let rtype = match record.rtype {
        rtype::RRSIG => be16(message, record.data_at).unwrap_or(0),
        rtype => rtype,
    };
    matches!(rtype, rtype::CNAME | rtype::DNAME)
}
