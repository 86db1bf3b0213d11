//! What NSEC3 records prove (RFC 5155 section 8).
//!
//! The records' signatures by the zone have been checked before they come here.

use crate::crypto::{self, HASH_LEN};
use crate::limits::{Halt, Meter};
use crate::message::{CanonicalRecord, rtype};
use crate::name;
use crate::nsec::{Cut, lacks};
use crate::rdata::Types;

type Hash = [u8; HASH_LEN];

/// The records of one zone with the same parameters.
#[derive(Debug)]
pub(crate) struct Nsec3<'m> {
    zone: &'m [u8],
    salt: &'m [u8],
    iterations: u16,
    records: Vec<One<'m>>,
    hashes: Vec<(Vec<u8>, Hash)>,
}

/// A record that can prove something.
#[derive(Debug)]
struct One<'m> {
    owner: Hash,
    next: Hash,
    is_opt_out: bool,
    types: Types<'m>,
}

/// A proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The claim is proved.
    Holds,
    /// The claim cannot be proved because of unsigned delegations (opt-out) or too many iterations, so the name counts
    /// as insecure.
    Insecure,
    /// Nothing is proved.
    Fails,
}

/// The closest name above one that does not exist, and whether unsigned delegations may stand between.
struct Closest<'n> {
    name: &'n [u8],
    is_opt_out: bool,
}

/// The labels of NSEC3 owners: base32 with the extended hex alphabet (RFC 4648 section 7), in small letters.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
/// Characters of a hash.
const TEXT_LEN: usize = HASH_LEN * 8 / 5;
/// RFC 5155 sections 11 and 3.1.2.1.
const SHA1: u8 = 1;
const OPT_OUT: u8 = 1;

impl<'m> Nsec3<'m> {
    /// Records of the zone; those with other parameters than the first are ignored (RFC 5155 section 8.2).
    pub(crate) fn read(
        records: impl Iterator<Item = &'m CanonicalRecord>,
        zone: &'m [u8],
    ) -> Option<Self> {
        let mut this: Option<Self> = None;
        for record in records {
            let Some((one, salt, iterations)) = One::read(record, zone) else { continue };
            let new = || Self { zone, salt, iterations, records: Vec::new(), hashes: Vec::new() };
            let this = this.get_or_insert_with(new);
            if this.salt == salt && this.iterations == iterations {
                this.records.push(one);
            }
        }
        this
    }

    /// Whether to hash with these parameters would cost too much for any zone.
    pub(crate) fn is_costly(&self, meter: &Meter) -> bool {
        self.iterations > meter.limits.nsec3_iterations
    }

    fn hash(&mut self, name: &[u8], meter: &mut Meter) -> Result<Hash, Halt> {
        if let Some((_, hash)) = self.hashes.iter().find(|(one, _)| one == name) {
            return Ok(*hash);
        }
        meter.hash(crypto::nsec3_cost(name, self.salt, self.iterations))?;
        let hash = crypto::nsec3_hash(name, self.salt, self.iterations);
        self.hashes.push((name.to_vec(), hash));
        Ok(hash)
    }

    /// The types of a name; `None`: its record is not there.
    fn types_at(&mut self, name: &[u8], meter: &mut Meter) -> Result<Option<Types<'m>>, Halt> {
        let hash = self.hash(name, meter)?;
        Ok(self.records.iter().find(|one| one.owner == hash).map(|one| one.types))
    }

    /// Whether no name has the hash of this one, and if so, whether that is for signed names only.
    fn covered(&mut self, name: &[u8], meter: &mut Meter) -> Result<Option<bool>, Halt> {
        let hash = self.hash(name, meter)?;
        Ok(self.records.iter().find(|one| one.covers(&hash)).map(|one| one.is_opt_out))
    }

    /// The closest encloser of a name that does not exist (RFC 5155 section 8.3).
    fn closest<'n>(
        &mut self,
        name: &'n [u8],
        meter: &mut Meter,
    ) -> Result<Option<Closest<'n>>, Halt> {
        let mut next_closer = name;
        for above in name::upwards(name).skip(1).take_while(|one| name::is_within(one, self.zone)) {
            if let Some(types) = self.types_at(above, meter)? {
                if types.ends_names() {
                    return Ok(None);
                }
                let covered = self.covered(next_closer, meter)?;
                return Ok(covered.map(|is_opt_out| Closest { name: above, is_opt_out }));
            }
            next_closer = above;
        }
        Ok(None)
    }

    /// Whether there is neither the name nor a wildcard for it (RFC 5155 section 8.4).
    pub(crate) fn denies_name(&mut self, name: &[u8], meter: &mut Meter) -> Result<Proof, Halt> {
        if self.is_costly(meter) {
            return Ok(Proof::Insecure);
        }
        if self.types_at(name, meter)?.is_some() {
            return Ok(Proof::Fails);
        }
        let Some(closest) = self.closest(name, meter)? else { return Ok(Proof::Fails) };
        let Some(wildcard) = name::wildcard(closest.name) else { return Ok(Proof::Fails) };
        Ok(match self.covered(&wildcard, meter)? {
            None => Proof::Fails,
            // RFC 5155 section 9.2.
            Some(_) if closest.is_opt_out => Proof::Insecure,
            Some(_) => Proof::Holds,
        })
    }

    /// Whether the name has no records of this type, itself or by a wildcard (RFC 5155 sections 8.5 to 8.7).
    pub(crate) fn denies_type(
        &mut self,
        name: &[u8],
        qtype: u16,
        meter: &mut Meter,
    ) -> Result<Proof, Halt> {
        if self.is_costly(meter) {
            return Ok(Proof::Insecure);
        }
        if let Some(types) = self.types_at(name, meter)? {
            return Ok(if is_lacking(types, name, qtype) { Proof::Holds } else { Proof::Fails });
        }
        let Some(closest) = self.closest(name, meter)? else { return Ok(Proof::Fails) };
        let Some(wildcard) = name::wildcard(closest.name) else { return Ok(Proof::Fails) };
        Ok(match self.types_at(&wildcard, meter)? {
            Some(types) if !is_lacking(types, &wildcard, qtype) => Proof::Fails,
            // An unsigned delegation, or an empty name above such ones, may be what has no records.
            _ if closest.is_opt_out => Proof::Insecure,
            Some(_) => Proof::Holds,
            None => Proof::Fails,
        })
    }

    /// Whether no name comes closer than the last `labels` labels (RFC 5155 section 8.8).
    pub(crate) fn denies_closer(
        &mut self,
        name: &[u8],
        labels: usize,
        meter: &mut Meter,
    ) -> Result<Proof, Halt> {
        if self.is_costly(meter) {
            return Ok(Proof::Insecure);
        }
        Ok(match self.covered(name::last(name, labels + 1), meter)? {
            None => Proof::Fails,
            Some(true) => Proof::Insecure,
            Some(false) => Proof::Holds,
        })
    }

    /// The kind of a name without DS records; `None`: nothing is proved (RFC 5155 sections 8.6 and 8.9).
    pub(crate) fn cut(&mut self, name: &[u8], meter: &mut Meter) -> Result<Option<Cut>, Halt> {
        if self.is_costly(meter) {
            return Ok(Some(Cut::Unsigned));
        }
        if let Some(types) = self.types_at(name, meter)? {
            let is_answer = !types.has(rtype::DS) && !types.has(rtype::SOA);
            let cut = if types.has(rtype::NS) { Cut::Unsigned } else { Cut::Inside(None) };
            return Ok(is_answer.then_some(cut));
        }
        let closest = self.closest(name, meter)?;
        Ok(closest.map(|one| if one.is_opt_out { Cut::Unsigned } else { Cut::NoName }))
    }
}

/// Whether a name lacks a type. About a name without any type the record says only that it exists.
fn is_lacking(types: Types<'_>, name: &[u8], qtype: u16) -> bool {
    if qtype == rtype::ANY { types == Types::default() } else { lacks(types, name, qtype) }
}

impl<'m> One<'m> {
    fn read(record: &'m CanonicalRecord, zone: &[u8]) -> Option<(Self, &'m [u8], u16)> {
        let is_here = record.rtype == rtype::NSEC3 && name::parent(&record.owner) == Some(zone);
        let data = &*record.data;
        let [algorithm, flags, high, low, salt_len, rest @ ..] = data else { return None };
        let (salt, rest) = rest.split_at_checked(usize::from(*salt_len))?;
        let (hash_len, rest) = rest.split_first()?;
        let (next, types) = rest.split_at_checked(usize::from(*hash_len))?;
        if !is_here || *algorithm != SHA1 || *flags > OPT_OUT {
            return None;
        }
        let one = Self {
            owner: hash_of(&record.owner)?,
            next: next.try_into().ok()?,
            is_opt_out: *flags == OPT_OUT,
            types: Types::read(types)?,
        };
        Some((one, salt, u16::from_be_bytes([*high, *low])))
    }

    fn covers(&self, hash: &Hash) -> bool {
        match self.owner < self.next {
            true => self.owner < *hash && *hash < self.next,
            false => self.owner < *hash || *hash < self.next,
        }
    }
}

/// The hash in the first label of an owner.
fn hash_of(owner: &[u8]) -> Option<Hash> {
    let (length, text) = owner.split_first()?;
    let text = text.get(..usize::from(*length)).filter(|text| text.len() == TEXT_LEN)?;
    let mut hash = [0; HASH_LEN];
    for (eight, five) in text.chunks(8).zip(hash.chunks_mut(5)) {
        let mut bits = 0u64;
        for letter in eight {
            bits = bits << 5 | ALPHABET.iter().position(|one| one == letter)? as u64;
        }
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(hash)
}

/// The text of a hash.
#[cfg(test)]
pub(crate) fn base32(hash: &Hash) -> [u8; TEXT_LEN] {
    let mut text = [0; TEXT_LEN];
    for (at, letter) in text.iter_mut().enumerate() {
        let bit = |bit: usize| usize::from(hash[bit / 8] >> (7 - bit % 8) & 1);
        let value = (0..5).fold(0, |value, low| value << 1 | bit(at * 5 + low));
        *letter = ALPHABET[value];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let hash: Hash = std::array::from_fn(|at| (at * 37) as u8);
        let owner = [&[32][..], &base32(&hash), &[0]].concat();
        assert_eq!(hash_of(&owner), Some(hash));
        assert_eq!(hash_of(&owner[1..]), None);
    }
}
