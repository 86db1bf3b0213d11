//! A zone: its records, its signatures, and the records that deny all others.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::key::SigningKey;
use crate::message::OwnedRecord;
use crate::name::Name;
use crate::{EXPIRATION, INCEPTION, rtype};

/// How a zone denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Not at all: it is not signed.
    None,
    /// With NSEC (RFC 4034 section 4).
    Nsec,
    /// With NSEC3 (RFC 5155).
    Nsec3 {
        /// How often names are hashed again.
        iterations: u16,
        /// What they are hashed with.
        salt: Vec<u8>,
        /// Whether delegations without DS records are left out.
        opt_out: bool,
    },
}

/// The verdict that a validator has to reach about a name's zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Signed, all the way from the anchor.
    Secure,
    /// Provably not signed, or not in a way that anybody knows.
    Insecure,
    /// Signed, but its proofs of denial do not say enough: who forges can have it taken for unsigned.
    Open,
    /// It should be signed, and is not, or wrongly.
    Bogus,
}

/// The records of one name, by type.
pub type Node = BTreeMap<u16, Vec<OwnedRecord>>;

/// A zone.
pub struct Zone {
    /// Its apex.
    pub apex: Name,
    /// What is to be found about it.
    pub status: Status,
    /// How it denies.
    pub denial: Denial,
    /// The keys that sign the DNSKEY records and the others; none: it is not signed.
    pub keys: Option<[SigningKey; 2]>,
    /// When its signatures start and end.
    pub times: [u32; 2],
    /// Its names with records of their own.
    pub nodes: BTreeMap<Name, Node>,
    /// NSEC records by owner.
    nsec: BTreeMap<Name, OwnedRecord>,
    /// NSEC3 records by hash.
    nsec3: BTreeMap<Vec<u8>, OwnedRecord>,
    signatures: RefCell<BTreeMap<(Name, u16), OwnedRecord>>,
}

impl Zone {
    /// A zone without records.
    pub fn new(apex: Name, status: Status, denial: Denial, keys: Option<[SigningKey; 2]>) -> Self {
        Self {
            apex,
            status,
            denial,
            keys,
            times: [INCEPTION, EXPIRATION],
            nodes: BTreeMap::new(),
            nsec: BTreeMap::new(),
            nsec3: BTreeMap::new(),
            signatures: RefCell::default(),
        }
    }

    /// Adds a record of the name that `labels` make in front of the apex.
    pub fn add(&mut self, labels: &str, rtype: u16, data: impl Into<Vec<u8>>) {
        let owner = self.apex.below(labels);
        let record = OwnedRecord::new(&owner, rtype, data);
        self.nodes.entry(owner).or_default().entry(rtype).or_default().push(record);
    }

    /// Adds its DNSKEY records, and makes the records that deny. Nothing is added afterwards.
    pub fn finish(&mut self) {
        if let Some([ksk, zsk]) = self.keys.clone() {
            self.add("", rtype::DNSKEY, &*ksk.dnskey);
            if zsk.dnskey != ksk.dnskey {
                self.add("", rtype::DNSKEY, &*zsk.dnskey);
            }
        }
        match self.denial.clone() {
            Denial::None => {}
            Denial::Nsec => self.chain_names(),
            Denial::Nsec3 { iterations, salt, opt_out } => {
                let numbers = [0, 0, (iterations >> 8) as u8, iterations as u8, salt.len() as u8];
                self.add("", rtype::NSEC3PARAM, [&numbers[..], &salt].concat());
                self.chain_hashes(&numbers[2..], &salt, opt_out);
            }
        }
    }

    fn chain_names(&mut self) {
        let names: Vec<_> = self.nodes.keys().cloned().collect();
        for (at, owner) in names.iter().enumerate() {
            let next = &names[(at + 1) % names.len()];
            let mut types = self.types_at(owner);
            types.extend([rtype::RRSIG, rtype::NSEC]);
            let data = [next.wire(), &bitmap(&mut types)].concat();
            let mut record = OwnedRecord::new(owner, rtype::NSEC, data);
            record.ttl = MINIMUM;
            self.nsec.insert(owner.clone(), record);
        }
    }

    fn chain_hashes(&mut self, numbers: &[u8], salt: &[u8], opt_out: bool) {
        let mut hashed = BTreeMap::new();
        for (owner, node) in &self.nodes {
            if opt_out && self.is_cut(owner) && !node.contains_key(&rtype::DS) {
                continue;
            }
            let mut types = self.types_at(owner);
            if !self.is_cut(owner) || node.contains_key(&rtype::DS) {
                types.push(rtype::RRSIG);
            }
            hashed.insert(self.hash(owner), types);
            for above in owner.chain().skip(1).take_while(|name| *name != self.apex) {
                if above.is_within(&self.apex) {
                    hashed.entry(self.hash(&above)).or_default();
                }
            }
        }
        let hashes: Vec<_> = hashed.keys().cloned().collect();
        for (at, (hash, mut types)) in hashed.into_iter().enumerate() {
            let next = &hashes[(at + 1) % hashes.len()];
            let head = [&[1, u8::from(opt_out)], &numbers[..2], &[salt.len() as u8], salt].concat();
            let bits = if types.is_empty() { Vec::new() } else { bitmap(&mut types) };
            let data = [&*head, &[20], next, &bits].concat();
            let owner = self.apex.child(&base32(&hash));
            let mut record = OwnedRecord::new(&owner, rtype::NSEC3, data);
            record.ttl = MINIMUM;
            self.nsec3.insert(hash, record);
        }
    }

    /// The types that a name's denial lists: of a delegation only what belongs to this zone.
    fn types_at(&self, owner: &Name) -> Vec<u16> {
        self.nodes.get(owner).map(|node| node.keys().copied().collect()).unwrap_or_default()
    }

    /// Whether `name` is where another zone begins.
    pub fn is_cut(&self, name: &Name) -> bool {
        *name != self.apex && self.nodes.get(name).is_some_and(|node| node.contains_key(&rtype::NS))
    }

    /// Whether a name exists, be it without records.
    pub fn exists(&self, name: &Name) -> bool {
        self.nodes.contains_key(name) || self.is_empty_non_terminal(name)
    }

    /// Whether a name exists only because of names below.
    pub fn is_empty_non_terminal(&self, name: &Name) -> bool {
        let mut from = self.nodes.range(name..);
        !self.nodes.contains_key(name) && from.next().is_some_and(|(next, _)| next.is_within(name))
    }

    /// The records of a name and type.
    pub fn set(&self, owner: &Name, rtype: u16) -> Option<&Vec<OwnedRecord>> {
        self.nodes.get(owner)?.get(&rtype)
    }

    /// The signature of a set, which may have a wildcard's owner; none if the zone does not sign it.
    pub fn signature(&self, set: &[OwnedRecord]) -> Option<OwnedRecord> {
        let [ksk, zsk] = self.keys.as_ref()?;
        let first = set.first()?;
        if first.rtype == rtype::NS && self.is_cut(&first.owner) {
            return None;
        }
        let key = if first.rtype == rtype::DNSKEY { ksk } else { zsk };
        let mut signatures = self.signatures.borrow_mut();
        let kept = signatures
            .entry((first.owner.clone(), first.rtype))
            .or_insert_with(|| key.sign_set(&self.apex, set, self.times));
        Some(kept.clone())
    }

    /// A set with its signature.
    pub fn signed(&self, set: &[OwnedRecord]) -> Vec<OwnedRecord> {
        set.iter().cloned().chain(self.signature(set)).collect()
    }

    /// The NSEC or NSEC3 record of a name that exists.
    pub fn matching(&self, name: &Name) -> Option<&OwnedRecord> {
        match self.denial {
            Denial::None => None,
            Denial::Nsec => self.nsec.get(name),
            Denial::Nsec3 { .. } => self.nsec3.get(&self.hash(name)),
        }
    }

    /// The NSEC or NSEC3 record whose range a name lies in.
    pub fn covering(&self, name: &Name) -> Option<&OwnedRecord> {
        let before = match self.denial {
            Denial::None => None,
            Denial::Nsec => self.nsec.range(..name).next_back(),
            Denial::Nsec3 { .. } => {
                let before = self.nsec3.range(..self.hash(name)).next_back();
                return before.or_else(|| self.nsec3.last_key_value()).map(|(_, record)| record);
            }
        };
        before.map(|(_, record)| record)
    }

    /// All NSEC or NSEC3 records.
    pub fn denials(&self) -> impl Iterator<Item = &OwnedRecord> {
        self.nsec.values().chain(self.nsec3.values())
    }

    /// The hash of a name (RFC 5155 section 5).
    pub fn hash(&self, name: &Name) -> Vec<u8> {
        let Denial::Nsec3 { iterations, salt, .. } = &self.denial else { return Vec::new() };
        hash(name, *iterations, salt)
    }
}

/// TTL of denials, in seconds: the SOA record's last number.
pub const MINIMUM: u32 = 600;

/// The hash of a name with these parameters (RFC 5155 section 5).
pub fn hash(name: &Name, iterations: u16, salt: &[u8]) -> Vec<u8> {
    let mut bytes = name.lower().wire().to_vec();
    for _ in 0..=iterations {
        bytes.extend(salt);
        bytes = digest(&SHA1_FOR_LEGACY_USE_ONLY, &bytes).as_ref().to_vec();
    }
    bytes
}

/// Base32 with the extended hex alphabet (RFC 4648 section 7), in lower case; of whole groups of five bytes.
pub fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(5) {
        let group = group.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for place in (0..8).rev() {
            let digit = group >> (5 * place) & 31;
            text.push(char::from(b"0123456789abcdefghijklmnopqrstuv"[digit as usize]));
        }
    }
    text
}

/// A bitmap of types (RFC 4034 section 4.1.2).
pub fn bitmap(types: &mut Vec<u16>) -> Vec<u8> {
    types.sort_unstable();
    types.dedup();
    let mut bytes = Vec::new();
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0_u8; 32];
        for rtype in window {
            bits[usize::from(rtype & 0xff) / 8] |= 0x80 >> (rtype % 8);
        }
        let len = usize::from(window[window.len() - 1] & 0xff) / 8 + 1;
        bytes.extend([(window[0] >> 8) as u8, len as u8]);
        bytes.extend(&bits[..len]);
    }
    bytes
}
