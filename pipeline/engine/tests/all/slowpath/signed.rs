//! A signed zone, `signed.`, as its resolver would answer from it: records with signatures (RFC 4034), made on the spot.

use std::path::PathBuf;

use domain::utils::base64;
use pmdns_config::{Dnssec, wire_name};
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header};
use pmdns_stages::wire::{be16, name, put16};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::driver::Driver;
use super::stub::Asked;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const DS: u16 = 43;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;
const DNSKEY: u16 = 48;

/// A day, in seconds.
const DAY: u32 = 86_400;
/// TTL of all records, in seconds.
pub(crate) const TTL: u32 = 300;

/// The zone and its only key.
pub(crate) struct Zone {
    key: Ed25519KeyPair,
}

impl Zone {
    /// The zone; it has the same key every time.
    pub(crate) fn new() -> Self {
        Self { key: Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap() }
    }

    /// Settings that trust its key, by way of a file that only one `test` writes.
    pub(crate) fn trusted(&self, test: &str) -> Dnssec {
        let file = format!("pmdns-signed-{}-{test}", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(file);
        let key = base64::encode_string(self.key.public_key().as_ref());
        std::fs::write(&path, format!("signed. 60 IN DNSKEY 257 3 15 {key}\n")).unwrap();
        Dnssec { validate: true, trust_anchor: Some(path), ..Dnssec::default() }
    }

    /// What is replied; names say what is the matter with them.
    pub(crate) fn reply(&self, asked: &Asked) -> Vec<u8> {
        let (owner, qtype) = question(asked);
        let address = [192, 0, 2, 1];
        let (fresh, now) = (TTL, Driver::date());
        match (&*owner, qtype) {
            ("signed", DNSKEY) => answer(asked, &[self.signed("signed", DNSKEY, &self.dnskey())]),
            ("www.signed" | "short.signed", A) => {
                let ttl = if owner.starts_with("short") { 7 } else { fresh };
                answer(asked, &[self.signed_for(&owner, A, &address, ttl, [now - DAY, now + DAY])])
            }
            ("old.signed", A) => {
                let times = [now - 2 * DAY, now - DAY];
                answer(asked, &[self.signed_for(&owner, A, &address, TTL, times)])
            }
            ("early.signed", A) => {
                let times = [now + DAY, now + 2 * DAY];
                answer(asked, &[self.signed_for(&owner, A, &address, TTL, times)])
            }
            ("bad.signed", A) => {
                let mut records = self.signed(&owner, A, &address);
                *records[0].last_mut().unwrap() ^= 1;
                answer(asked, &[records])
            }
            ("forged.signed", A) => {
                // Of a zone that is provably not signed, and nobody's signature.
                let mut signature = vec![0, 1, 15, 2];
                signature.extend([TTL, now + DAY, now - DAY].map(u32::to_be_bytes).concat());
                signature.extend([0, 7]);
                signature.extend(wire_name("open.signed").unwrap());
                signature.extend([0; 64]);
                let forged = record(&owner, A, TTL, &[192, 0, 2, 66]);
                answer(asked, &[vec![forged, record(&owner, RRSIG, TTL, &signature)]])
            }
            ("alias.signed", A) => {
                let target = wire_name("www.open.signed").unwrap();
                let alias = self.signed(&owner, CNAME, &target);
                answer(asked, &[alias, vec![record("www.open.signed", A, TTL, &address)]])
            }
            ("none.signed", A) => {
                let proof = self.denial("signed", "www.signed", &[NS, SOA, RRSIG, NSEC, DNSKEY]);
                denial(asked, 3, &[self.soa(), proof])
            }
            // All names that begin so are delegations that are not signed.
            (name, DS) if name.starts_with("open") => {
                let proof = self.denial(&owner, "www.signed", &[NS, RRSIG, NSEC]);
                denial(asked, 0, &[self.soa(), proof])
            }
            (_, DS) => {
                let proof = self.denial(&owner, "www.signed", &[A, RRSIG, NSEC]);
                denial(asked, 0, &[self.soa(), proof])
            }
            ("empty.open.signed", A) => asked.rcode(0),
            _ => answer(asked, &[vec![record(&owner, qtype, TTL, &address)]]),
        }
    }

    fn dnskey(&self) -> Vec<u8> {
        [&[1, 1, 3, 15], self.key.public_key().as_ref()].concat()
    }

    fn soa(&self) -> Vec<Vec<u8>> {
        let numbers = [1, 3600, 600, DAY, TTL].map(u32::to_be_bytes).concat();
        let root = [0];
        self.signed("signed", SOA, &[&root[..], &root, &numbers].concat())
    }

    fn denial(&self, owner: &str, next: &str, types: &[u16]) -> Vec<Vec<u8>> {
        // All types are below 56, so that seven bytes have a bit for each.
        let mut bits = [0; 7];
        for rtype in types {
            bits[usize::from(rtype / 8)] |= 0x80 >> (rtype % 8);
        }
        // RFC 4034 section 4.1.2: zeros at the end are left out.
        let len = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let data = [&*wire_name(next).unwrap(), &[0, len as u8], &bits[..len]].concat();
        self.signed(owner, NSEC, &data)
    }

    fn signed(&self, owner: &str, rtype: u16, data: &[u8]) -> Vec<Vec<u8>> {
        let now = Driver::date();
        self.signed_for(owner, rtype, data, TTL, [now - DAY, now + DAY])
    }

    /// A record and its signature (RFC 4034 section 3.1.8.1); the record comes with a TTL of [`TTL`] whatever the
    /// zone says.
    fn signed_for(
        &self,
        owner: &str,
        rtype: u16,
        data: &[u8],
        ttl: u32,
        [inception, expiration]: [u32; 2],
    ) -> Vec<Vec<u8>> {
        let mut signature = rtype.to_be_bytes().to_vec();
        signature.extend([15, owner.split('.').count() as u8]);
        signature.extend([ttl, expiration, inception].map(u32::to_be_bytes).concat());
        signature.extend(key_tag(&self.dnskey()).to_be_bytes());
        signature.extend(wire_name("signed").unwrap());
        let signed = [&*signature, &record(owner, rtype, ttl, data)].concat();
        signature.extend(self.key.sign(&signed).as_ref());
        vec![record(owner, rtype, TTL, data), record(owner, RRSIG, TTL, &signature)]
    }
}

/// The name and the type that are asked for.
pub(crate) fn question(asked: &Asked) -> (String, u16) {
    let mut rest = &asked.message[HEADER_LEN..];
    let qtype = be16(rest, name::length(rest).unwrap()).unwrap();
    let mut labels = Vec::new();
    while let Some(len @ 1..) = rest.first().copied() {
        let (label, after) = rest[1..].split_at(usize::from(len));
        labels.push(String::from_utf8(label.to_ascii_lowercase()).unwrap());
        rest = after;
    }
    (labels.join("."), qtype)
}

/// RFC 4034 appendix B.
fn key_tag(dnskey: &[u8]) -> u16 {
    let halves = dnskey.chunks(2).map(|half| u32::from(be16(half, 0).unwrap()));
    let sum: u32 = halves.sum();
    (sum + (sum >> 16)) as u16
}

fn record(owner: &str, rtype: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut record = wire_name(owner).unwrap().to_vec();
    record.extend(rtype.to_be_bytes());
    record.extend([0, 1]);
    record.extend(ttl.to_be_bytes());
    record.extend((data.len() as u16).to_be_bytes());
    record.extend(data);
    record
}

fn answer(asked: &Asked, records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    written(asked.rcode(0), header::ANCOUNT, records)
}

fn denial(asked: &Asked, rcode: u8, records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    written(asked.rcode(rcode), header::NSCOUNT, records)
}

/// The message with records in the section whose count stands at `count_at`, and with AD, which means nothing.
fn written(mut reply: Vec<u8>, count_at: usize, records: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let records = records.concat();
    let flags = be16(&reply, header::FLAGS).unwrap();
    put16(&mut reply, header::FLAGS, flags | flag::AD);
    put16(&mut reply, count_at, records.len() as u16);
    reply.extend(records.concat());
    reply
}
