//! Sets of records with their signatures, and the check of these (RFC 4035 section 5.3).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::crypto;
use crate::ede;
use crate::limits::{Halt, Meter, hash_us};
use crate::message::{CLASS_IN, CanonicalRecord, Message, Section, Unread, rtype};
use crate::name::{self, Name};
use crate::rdata::{Key, Signature};

/// Signatures of one set, at most.
const MAX_SIGNATURES: usize = 16;

/// A zone whose keys are trusted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) name: Name,
    pub(crate) keys: Vec<Key>,
}

/// A message in sets.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) message: Message,
    /// In the order of section, owner and type.
    pub(crate) sets: Vec<Set>,
}

/// Records with the same owner and type in one section, and the signatures that cover them; indices into a message.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) section: Section,
    pub(crate) rtype: u16,
    owner: usize,
    pub(crate) records: Vec<usize>,
    pub(crate) signatures: Vec<usize>,
}

/// What comes of checking a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// A signature is good.
    Good {
        /// For how many seconds the records are.
        max_ttl: u32,
        /// Labels of the name that was signed.
        labels: usize,
    },
    /// None is, with an extended error.
    Bad(u16),
}

impl Set {
    /// Whether there is nothing but signatures.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl Reply {
    /// Reads a message.
    pub(crate) fn read(bytes: &[u8], meter: &mut Meter) -> Result<Self, Unread> {
        let message = Message::read(bytes, meter.limits.records)?;
        meter.cost.records += u32::try_from(message.records.len()).unwrap_or(u32::MAX);
        let sets = group(&message.records);
        Ok(Self { message, sets })
    }

    /// What stands for a message that cannot be read.
    pub(crate) fn empty() -> Self {
        Self { message: Message { rcode: 0, records: Vec::new() }, sets: Vec::new() }
    }

    /// The set in this section; it may have signatures only.
    pub(crate) fn find(&self, section: Section, owner: &[u8], rtype: u16) -> Option<usize> {
        let compare = |set: &Set| {
            let key = (set.section, self.owner(set), set.rtype);
            key.cmp(&(section, owner, rtype))
        };
        self.sets.binary_search_by(compare).ok()
    }

    pub(crate) fn owner(&self, set: &Set) -> &[u8] {
        &self.message.records[set.owner].owner
    }

    pub(crate) fn records(&self, set: &Set) -> impl Iterator<Item = &CanonicalRecord> {
        set.records.iter().map(|at| &self.message.records[*at])
    }

    /// The signatures of a set that can be read.
    pub(crate) fn signatures(&self, set: &Set) -> impl Iterator<Item = Signature<'_>> {
        set.signatures.iter().filter_map(|at| Signature::read(&self.message.records[*at]))
    }

    /// Whether the set has a signature that claims to be this zone's.
    pub(crate) fn is_signed_by(&self, set: &Set, zone: &[u8]) -> bool {
        self.signatures(set).any(|one| one.signer == zone)
    }

    /// Whether a signature of the zone over this set is good.
    pub(crate) fn check(
        &self,
        set: &Set,
        zone: &Zone,
        now: u64,
        meter: &mut Meter,
    ) -> Result<Checked, Halt> {
        if set.signatures.len() > MAX_SIGNATURES {
            return Err(Halt::Over);
        }
        let is_sound = !set.is_empty() && self.records(set).all(|record| record.is_sound);
        let (mut why, mut checks) = (ede::RRSIGS_MISSING, 0);
        for signature in self.signatures(set).filter(|one| one.signer == &*zone.name) {
            let seconds = match self.acceptable(set, &signature, zone, now) {
                Ok(seconds) if is_sound => seconds,
                Ok(_) => {
                    why = ede::BOGUS;
                    continue;
                }
                // What is wrong with a key says more than what is wrong with time.
                Err(reason) if why == ede::RRSIGS_MISSING => {
                    why = reason;
                    continue;
                }
                Err(_) => continue,
            };
            let keys = zone
                .keys
                .iter()
                .filter(|key| key.tag == signature.tag && key.algorithm == signature.algorithm);
            why = ede::BOGUS;
            let mut signed = None;
            for key in keys {
                if checks >= meter.limits.checks_per_set {
                    return Err(Halt::Over);
                }
                checks += 1;
                let signed = signed.get_or_insert_with(|| self.signed_by(set, &signature));
                let check_us = crypto::check_us(key) + hash_us(signed.len());
                meter.check(check_us)?;
                if crypto::verify(key, signed, signature.bytes) {
                    let max_ttl = signature.original_ttl.min(seconds);
                    return Ok(Checked::Good { max_ttl, labels: usize::from(signature.labels) });
                }
                meter.fail(check_us);
            }
        }
        Ok(Checked::Bad(why))
    }

    /// Whether the signature may be checked at all, and for how many seconds it is good.
    fn acceptable(
        &self,
        set: &Set,
        signature: &Signature<'_>,
        zone: &Zone,
        now: u64,
    ) -> Result<u32, u16> {
        let owner = self.owner(set);
        let labels = usize::from(signature.labels);
        // Fewer labels than the zone has would make a wildcard above it (CVE-2026-11721).
        let is_here = name::is_within(owner, &zone.name)
            && labels >= name::labels(&zone.name)
            && labels <= name::signed_labels(owner);
        if !is_here || !crypto::knows_algorithm(signature.algorithm) {
            return Err(ede::BOGUS);
        }
        signature.seconds_left(now)
    }

    /// What is signed (RFC 4034 section 3.1.8.1, RFC 4035 section 5.3.2).
    fn signed_by(&self, set: &Set, signature: &Signature<'_>) -> Vec<u8> {
        let owner = self.owner(set);
        let labels = usize::from(signature.labels);
        let (star, above) = if labels < name::signed_labels(owner) {
            (&b"\x01*"[..], name::last(owner, labels))
        } else {
            (&b""[..], owner)
        };
        let data: BTreeSet<&[u8]> = self.records(set).map(|record| &*record.data).collect();
        let mut signed = signature.head.to_vec();
        for data in data {
            signed.extend_from_slice(star);
            signed.extend_from_slice(above);
            signed.extend(set.rtype.to_be_bytes());
            signed.extend(CLASS_IN.to_be_bytes());
            signed.extend(signature.original_ttl.to_be_bytes());
            // Canonical data are no longer than 65535 octets.
            let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
            signed.extend(length.to_be_bytes());
            signed.extend_from_slice(data);
        }
        signed
    }
}

/// The sets of a message; records of other classes and OPT are in none.
fn group(records: &[CanonicalRecord]) -> Vec<Set> {
    let covered = |record: &CanonicalRecord| match Signature::read(record) {
        Some(signature) => signature.covered,
        None => record.rtype,
    };
    let mut order: Vec<(usize, u16)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.class == CLASS_IN && record.rtype != rtype::OPT)
        .map(|(at, record)| (at, covered(record)))
        .collect();
    order.sort_by(|(one, rtype), (other, other_type)| {
        let key = |at: usize| (records[at].section, &*records[at].owner);
        key(*one).cmp(&key(*other)).then(rtype.cmp(other_type)).then(one.cmp(other))
    });
    let mut sets: Vec<Set> = Vec::new();
    for (at, rtype) in order {
        let record = &records[at];
        let is_same = |set: &Set| {
            let first = &records[set.owner];
            set.rtype == rtype && first.section == record.section && first.owner == record.owner
        };
        if !sets.last().is_some_and(is_same) {
            let (records, signatures) = (Vec::new(), Vec::new());
            sets.push(Set { section: record.section, rtype, owner: at, records, signatures });
        }
        let Some(set) = sets.last_mut() else { continue };
        let is_signature = record.rtype == rtype::RRSIG && record.is_sound;
        if is_signature { &mut set.signatures } else { &mut set.records }.push(at);
    }
    debug_assert!(sets.is_sorted_by(|one, other| {
        let key = |set: &Set| (set.section, &*records[set.owner].owner, set.rtype);
        key(one).cmp(&key(other)) == Ordering::Less
    }));
    sets
}
