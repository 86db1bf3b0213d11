//! Keys that sign zones, always the same ones.

use std::rc::Rc;

use ed448_goldilocks::SigningKey as Ed448KeyPair;
use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _,
};

use crate::message::OwnedRecord;
use crate::name::Name;
use crate::rsa::PrivateKey;
use crate::rtype;

/// Keys that cannot be made of a name.
const FIXED: &str = include_str!("keys.txt");
/// What stands before a digest in an RSA signature (RFC 8017 section 9.2).
const SHA1_PREFIX: &[u8] = b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14";
const SHA256_PREFIX: &[u8] =
    b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20";
const SHA512_PREFIX: &[u8] =
    b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40";

/// A key pair with its public half as a DNSKEY record's data.
#[derive(Clone)]
pub struct SigningKey {
    /// The data of its DNSKEY record.
    pub dnskey: Vec<u8>,
    signer: Rc<Signer>,
}

enum Signer {
    Rsa(PrivateKey),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Ed448(Box<Ed448KeyPair>),
}

impl SigningKey {
    /// The key of a zone; `role` is `ksk`, `zsk` or `csk`.
    pub fn of_zone(zone: &Name, role: &str, algorithm: u8) -> Self {
        let found = FIXED.lines().find_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            let [owner, of, kind, first, second] = fields[..] else { return None };
            (owner == zone.to_string() && of == role).then_some((kind, unhex(first), unhex(second)))
        });
        let (signer, public) = match found {
            None if algorithm == 16 => {
                let seed = digest(&SHA512, format!("{zone} {role}").as_bytes());
                let pair = Ed448KeyPair::try_from(&seed.as_ref()[..57])
                    .expect("every 57 bytes are a seed");
                let public = pair.verifying_key().to_bytes().to_vec();
                (Signer::Ed448(Box::new(pair)), public)
            }
            None => {
                let seed = digest(&SHA256, format!("{zone} {role}").as_bytes());
                let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref())
                    .expect("every 32 bytes are a seed");
                let public = pair.public_key().as_ref().to_vec();
                (Signer::Ed25519(pair), public)
            }
            Some((curve @ ("p256" | "p384"), private, public)) => {
                let curve = match curve {
                    "p256" => &ECDSA_P256_SHA256_FIXED_SIGNING,
                    _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
                };
                let point = [&[4], &*public].concat();
                let pair = EcdsaKeyPair::from_private_key_and_public_key(
                    curve,
                    &private,
                    &point,
                    &SystemRandom::new(),
                )
                .expect("keys.txt has whole key pairs");
                (Signer::Ecdsa(pair), public)
            }
            Some((exponent, modulus, private)) => {
                let exponent: u32 = exponent.parse().expect("keys.txt has small exponents");
                let bytes = exponent.to_be_bytes();
                let bytes = &bytes[exponent.leading_zeros() as usize / 8..];
                let public = [&[bytes.len() as u8], bytes, &modulus].concat();
                (Signer::Rsa(PrivateKey::new(&modulus, &private)), public)
            }
        };
        let flags = if role == "zsk" { 256_u16 } else { 257 };
        let dnskey = [&flags.to_be_bytes()[..], &[3, algorithm], &public].concat();
        Self { dnskey, signer: Rc::new(signer) }
    }

    /// Its algorithm's number.
    pub fn algorithm(&self) -> u8 {
        self.dnskey[3]
    }

    /// Its tag (RFC 4034 appendix B).
    pub fn tag(&self) -> u16 {
        let bytes = self.dnskey.iter().enumerate();
        let sum: u32 =
            bytes.map(|(at, byte)| u32::from(*byte) << if at % 2 == 0 { 8 } else { 0 }).sum();
        (sum + (sum >> 16)) as u16
    }

    /// The data of a DS record for it, of `zone`, with a digest of that type.
    pub fn ds(&self, zone: &Name, digest_type: u8) -> Vec<u8> {
        let algorithm = match digest_type {
            1 => &SHA1_FOR_LEGACY_USE_ONLY,
            4 => &digest::SHA384,
            _ => &SHA256,
        };
        let digest = digest(algorithm, &[zone.lower().wire(), &self.dnskey].concat());
        let fixed = [&self.tag().to_be_bytes()[..], &[self.algorithm(), digest_type]].concat();
        [&fixed, digest.as_ref()].concat()
    }

    /// The signature of bytes.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        match &*self.signer {
            Signer::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
            Signer::Ed448(pair) => pair.sign_raw(bytes).to_bytes().to_vec(),
            Signer::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), bytes);
                signature.expect("the system has random numbers").as_ref().to_vec()
            }
            Signer::Rsa(key) => {
                let (prefix, hash) = match self.algorithm() {
                    5 | 7 => (SHA1_PREFIX, &SHA1_FOR_LEGACY_USE_ONLY),
                    10 => (SHA512_PREFIX, &SHA512),
                    _ => (SHA256_PREFIX, &SHA256),
                };
                key.sign(prefix, digest(hash, bytes).as_ref())
            }
        }
    }

    /// The RRSIG of a set of records (RFC 4034 section 3.1.8.1).
    pub fn sign_set(&self, signer: &Name, set: &[OwnedRecord], times: [u32; 2]) -> OwnedRecord {
        let first = &set[0];
        let mut head = first.rtype.to_be_bytes().to_vec();
        head.extend([self.algorithm(), first.owner.signed_count()]);
        head.extend([first.ttl, times[1], times[0]].map(u32::to_be_bytes).concat());
        head.extend(self.tag().to_be_bytes());
        head.extend(signer.lower().wire());
        let signature = self.sign(&signed_bytes(&head, &first.owner, set));
        let data = [head, signature].concat();
        OwnedRecord { rtype: rtype::RRSIG, data, ..first.clone() }
    }

    /// Signs `rrsig`'s own fields again, whatever they say, for this set.
    pub fn sign_again(&self, rrsig: &mut OwnedRecord, set: &[OwnedRecord]) {
        let Some((_, end)) = Name::parse(&rrsig.data, crate::message::SIGNER_AT) else { return };
        let mut head = rrsig.data[..end].to_vec();
        head[crate::message::SIGNER_AT..].make_ascii_lowercase();
        let labels = usize::from(head[3]);
        let owner = set.first().map_or_else(Name::root, |record| record.owner.clone());
        let owner = match owner.count().checked_sub(labels) {
            Some(more) if more > 0 && !owner.is_wildcard() => {
                Name::of_labels([&b"*"[..]].into_iter().chain(owner.labels().skip(more)))
            }
            _ => owner,
        };
        let signature = self.sign(&signed_bytes(&head, &owner, set));
        rrsig.data = [head, signature].concat();
    }
}

/// What is signed: the RRSIG's fields, and the records in canonical form and order.
fn signed_bytes(head: &[u8], owner: &Name, set: &[OwnedRecord]) -> Vec<u8> {
    let mut data: Vec<_> = set.iter().map(OwnedRecord::canonical_data).collect();
    data.sort();
    data.dedup();
    let (rtype, class) = set.first().map_or((0, 1), |record| (record.rtype, record.class));
    let mut bytes = head.to_vec();
    for data in data {
        bytes.extend(owner.lower().wire());
        bytes.extend(rtype.to_be_bytes());
        bytes.extend(class.to_be_bytes());
        bytes.extend(&head[4..8]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(data);
    }
    bytes
}

fn unhex(text: &str) -> Vec<u8> {
    let text = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    let pairs = text.as_bytes().chunks(2);
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    pairs.map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
