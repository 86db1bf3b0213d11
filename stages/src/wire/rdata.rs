//! The parts of each type's data: which bytes are names, and whether it is well-formed.
//!
//! The measure is BIND 9.18's reading of the same bytes, and a little stricter where dnspython or hickory is;
//! `stages/tests/data/rdata.txt` has the verdicts. Types that are not here are opaque (RFC 3597).

mod check;
mod keys;
mod pieces;
mod regex;
mod service;

use std::ops::Range;

use self::pieces::{Head, are_texts, text_len};
use super::labels::name_end;

/// A part of a record's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A name starts here.
    Name {
        /// Where.
        at: usize,
        /// Whether it may be compressed when it is written (RFC 3597 section 4).
        may_compress: bool,
    },
    /// Bytes without names.
    Bytes(Range<usize>),
}

/// The fields of data, one after the other.
#[derive(Clone, Copy)]
enum Field {
    /// A name of the types of RFC 1035, which may be compressed.
    Name,
    /// A name of a later type. Some compress it, and everybody reads that; nobody may write it (RFC 3597 section 4).
    Plain,
    /// So many bytes.
    Fixed(usize),
    /// A byte that says how many follow.
    Text,
    /// One such string or more, up to the end.
    Texts,
    /// So many bytes at least, up to the end.
    Rest(usize),
    /// What a function finds well-formed, up to the end.
    Checked(fn(&[u8]) -> bool),
    /// A string that a function finds well-formed.
    CheckedText(fn(&[u8]) -> bool),
    /// A head that says itself how long it is, and whether a name follows. `None`: it is malformed.
    Head(fn(&[u8]) -> Option<Head>),
    /// Names up to the end.
    Names,
}

/// The fields of a type's data; `None`: it is opaque.
fn fields(rtype: u16, data: &[u8]) -> Option<&'static [Field]> {
    use Field::{Checked, CheckedText, Fixed, Head, Name, Names, Plain, Rest, Text, Texts};
    Some(match rtype {
        1 => &[Fixed(4)], // A
        // NS, MD, MF, CNAME, MB, MG, MR, PTR
        2..=5 | 7..=9 | 12 => &[Name],
        6 => &[Name, Name, Fixed(20)],                // SOA
        11 => &[Checked(check::well_known_services)], // WKS
        13 => &[Text, Text],                          // HINFO
        14 => &[Name, Name],                          // MINFO
        15 => &[Fixed(2), Name],                      // MX
        // TXT, NINFO, SPF, AVC, RESINFO, WALLET
        16 | 56 | 99 | 258 | 261 | 262 => &[Texts],
        17 | 58 => &[Plain, Plain], // RP, TALINK
        // AFSDB, RT, KX, LP
        18 | 21 | 36 | 107 => &[Fixed(2), Plain],
        19 => &[CheckedText(check::x25_address)],
        20 => &[Text, Checked(check::text_or_nothing)], // ISDN
        // NSAP, EID, NIMLOC, DHCID, OPENPGPKEY
        22 | 31 | 32 | 49 | 61 => &[Rest(1)],
        39 => &[Plain],                                  // DNAME
        46 => &[Head(check::signature), Plain, Rest(1)], // RRSIG
        25 => &[Head(keys::key), Rest(0)],
        26 => &[Fixed(2), Plain, Plain],             // PX
        27 => &[Checked(check::position)],           // GPOS
        28 => &[Fixed(16)],                          // AAAA
        29 => &[Checked(check::location)],           // LOC
        30 => &[Plain, Checked(check::first_types)], // NXT
        33 => &[Fixed(6), Plain],                    // SRV
        34 => &[Checked(check::atm_address)],
        35 => &[
            Fixed(4),
            CheckedText(check::letters),
            Text,
            CheckedText(regex::is_substitution),
            Plain,
        ], // NAPTR
        37 => &[Rest(6)],                       // CERT
        38 => &[Head(check::address_suffix)],   // A6
        42 => &[Checked(check::prefixes)],      // APL
        43 | 32769 => &[Checked(keys::digest)], // DS, DLV
        44 => &[Checked(keys::fingerprint)],    // SSHFP
        45 => &[Head(check::ipsec_gateway), Rest(1)],
        47 => &[Plain, Checked(check::some_types)], // NSEC
        48 | 60 => &[Head(keys::zone_key), Rest(1)], // DNSKEY, CDNSKEY
        50 => &[Checked(check::hashed_denial)],     // NSEC3
        51 => &[Checked(check::hash_parameters)],   // NSEC3PARAM
        52 | 53 => &[Rest(4)],                      // TLSA, SMIMEA
        55 => &[Head(keys::host_identity), Names],  // HIP
        57 => &[Head(keys::record_key), Rest(1)],   // RKEY
        59 | 32768 => &[Checked(keys::child_digest)], // CDS, TA
        62 => &[Checked(check::synchronization)],   // CSYNC
        63 => &[Checked(keys::zone_digest)],        // ZONEMD
        // SVCB, HTTPS: priority 0 is an alias, which has no parameters (RFC 9460 section 2.4.2).
        64 | 65 if data.starts_with(&[0, 0]) => &[Fixed(2), Plain],
        64 | 65 => &[Fixed(2), Plain, Checked(service::parameters)],
        104 | 106 => &[Fixed(10)],               // NID, L64
        105 | 108 => &[Fixed(6)],                // L32, EUI48
        109 => &[Fixed(8)],                      // EUI64
        256 => &[Rest(5)],                       // URI
        257 => &[Checked(check::authorization)], // CAA
        259 => &[Checked(check::object)],        // DOA
        260 => &[Head(check::multicast_relay)],  // AMTRELAY
        _ => return None,
    })
}

/// Tells `each` the parts of a record's data in their order. `None`: it is malformed, or `each` says so.
///
/// Names are not followed: the code that reads them has a budget for that.
pub fn parts(
    message: &[u8],
    rtype: u16,
    data: Range<usize>,
    mut each: impl FnMut(Part) -> Option<()>,
) -> Option<()> {
    // Lawful in types without fields, but some libraries refuse the whole message.
    if data.is_empty() {
        return None;
    }
    let Some(fields) = fields(rtype, message.get(data.clone())?) else {
        return each(Part::Bytes(data));
    };
    let mut at = data.start;
    for field in fields {
        let rest = message.get(at..data.end)?;
        let (len, name) = field.measure(rest)?;
        if len > rest.len() {
            return None;
        }
        if len > 0 {
            each(Part::Bytes(at..at + len))?;
        }
        at += len;
        let may_compress = matches!(field, Field::Name);
        let names = if matches!(field, Field::Names) { usize::MAX } else { usize::from(name) };
        for _ in 0..names {
            if at == data.end && names > 1 {
                break;
            }
            // A name that runs past the data would be read from another record (CVE-2026-10822).
            let end = name_end(message, at).filter(|end| *end <= data.end)?;
            each(Part::Name { at, may_compress })?;
            at = end;
        }
    }
    (at == data.end).then_some(())
}

impl Field {
    /// How many bytes of `rest` it takes before a name, and whether there is one.
    fn measure(self, rest: &[u8]) -> Option<Head> {
        let whole = |is_right: bool| is_right.then_some((rest.len(), false));
        match self {
            Self::Name | Self::Plain | Self::Names => Some((0, true)),
            Self::Fixed(len) => Some((len, false)),
            Self::Rest(least) => whole(rest.len() >= least),
            Self::Text => text_len(rest).map(|len| (len, false)),
            Self::Texts => whole(!rest.is_empty() && are_texts(rest)),
            Self::Checked(is_right) => whole(is_right(rest)),
            Self::CheckedText(is_right) => {
                let len = text_len(rest)?;
                is_right(&rest[1..len]).then_some((len, false))
            }
            Self::Head(head) => head(rest),
        }
    }
}
