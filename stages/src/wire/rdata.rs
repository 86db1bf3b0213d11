//! The parts of each type's data: which bytes are names.
//!
//! A name may be compressed, so it is read, and written anew. All else passes bit for bit, well-formed or not: it is for
//! the client to judge (RFC 3597 section 3). `stages/tests/data/rdata.txt` has what BIND, Unbound and dnsdist relay.

use std::ops::Range;

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

/// A head of so many bytes, and whether a name follows it.
type Head = (usize, bool);

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
    /// All bytes up to the end.
    Rest,
    /// A head that says itself how long it is, and whether a name follows. `None`: it is malformed.
    Head(fn(&[u8]) -> Option<Head>),
    /// Names up to the end.
    Names,
}

/// The fields of a type's data; `None`: it has no names.
fn fields(rtype: u16) -> Option<&'static [Field]> {
    use Field::{Fixed, Head, Name, Names, Plain, Rest, Text};
    Some(match rtype {
        1 => &[Fixed(4)], // A
        // NS, MD, MF, CNAME, MB, MG, MR, PTR
        2..=5 | 7..=9 | 12 => &[Name],
        6 => &[Name, Name, Fixed(20)], // SOA
        14 => &[Name, Name],           // MINFO
        15 => &[Fixed(2), Name],       // MX
        17 | 58 => &[Plain, Plain],    // RP, TALINK
        // AFSDB, RT, KX, LP
        18 | 21 | 36 | 107 => &[Fixed(2), Plain],
        23 | 39 => &[Plain],                        // NSAP-PTR, DNAME
        24 | 46 => &[Fixed(18), Plain, Rest],       // SIG, RRSIG
        26 => &[Fixed(2), Plain, Plain],            // PX
        28 => &[Fixed(16)],                         // AAAA
        30 | 47 => &[Plain, Rest],                  // NXT, NSEC
        33 => &[Fixed(6), Plain],                   // SRV
        35 => &[Fixed(4), Text, Text, Text, Plain], // NAPTR
        38 => &[Head(address_suffix)],              // A6
        45 => &[Head(ipsec_gateway), Rest],         // IPSECKEY
        55 => &[Head(host_identity), Names],        // HIP
        64 | 65 => &[Fixed(2), Plain, Rest],        // SVCB, HTTPS
        260 => &[Head(multicast_relay)],            // AMTRELAY
        _ => return None,
    })
}

/// How data are taken that do not fit the fields of their type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// They are malformed: pmdns reads the data of this type itself, or nobody else takes them.
    Malformed,
    /// Fields at the end may be missing, and there may be more bytes. What is there has to be whole, as its names may be
    /// compressed (RFC 3597 section 4).
    Part,
    /// They are bytes without names.
    Opaque,
}

impl Otherwise {
    fn of(rtype: u16) -> Self {
        match rtype {
            // A, CNAME, SOA, AAAA, DNAME, RRSIG, NSEC
            1 | 5 | 6 | 28 | 39 | 46 | 47 => Self::Malformed,
            // NSAP-PTR, NXT, A6, IPSECKEY, HIP, TALINK, AMTRELAY
            23 | 30 | 38 | 45 | 55 | 58 | 260 => Self::Opaque,
            _ => Self::Part,
        }
    }
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
    let Some(fields) = fields(rtype) else { return each(Part::Bytes(data)) };
    let is_whole = match Otherwise::of(rtype) {
        Otherwise::Malformed => true,
        Otherwise::Part => false,
        Otherwise::Opaque => {
            if walk(message, fields, data.clone(), true, |_| Some(())).is_none() {
                return each(Part::Bytes(data));
            }
            true
        }
    };
    walk(message, fields, data, is_whole, each)
}

/// Walks over data by its fields: all of them, and no more, if the data `is_whole`.
fn walk(
    message: &[u8],
    fields: &[Field],
    data: Range<usize>,
    is_whole: bool,
    mut each: impl FnMut(Part) -> Option<()>,
) -> Option<()> {
    let mut at = data.start;
    for field in fields {
        let rest = message.get(at..data.end)?;
        if rest.is_empty() && !is_whole {
            return Some(());
        }
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
    match at == data.end {
        true => Some(()),
        false if is_whole => None,
        false => each(Part::Bytes(at..data.end)),
    }
}

impl Field {
    /// How many bytes of `rest` it takes before a name, and whether there is one.
    fn measure(self, rest: &[u8]) -> Option<Head> {
        match self {
            Self::Name | Self::Plain | Self::Names => Some((0, true)),
            Self::Fixed(len) => Some((len, false)),
            Self::Rest => Some((rest.len(), false)),
            Self::Text => rest.first().map(|len| (1 + usize::from(*len), false)),
            Self::Head(head) => head(rest),
        }
    }
}

/// An A6 record (RFC 2874 section 3.1): length of the prefix, the rest of the address, the name of the prefix.
fn address_suffix(rest: &[u8]) -> Option<Head> {
    let prefix = *rest.first()?;
    let octets = 16_usize.checked_sub(usize::from(prefix / 8))?;
    (prefix <= 128).then_some((1 + octets, prefix > 0))
}

/// An IPSECKEY record up to its key (RFC 4025 section 2.1).
fn ipsec_gateway(rest: &[u8]) -> Option<Head> {
    let [_, kind, _] = rest.first_chunk()?;
    gateway(*kind).map(|(len, is_name)| (3 + len, is_name))
}

/// An AMTRELAY record (RFC 8777 section 4.2).
fn multicast_relay(rest: &[u8]) -> Option<Head> {
    let [_, kind] = rest.first_chunk()?;
    gateway(kind & 0x7f).map(|(len, is_name)| (2 + len, is_name))
}

/// How long an address of this kind is, and whether it is a name.
fn gateway(kind: u8) -> Option<Head> {
    match kind {
        0 => Some((0, false)),
        1 => Some((4, false)),
        2 => Some((16, false)),
        3 => Some((0, true)),
        _ => None,
    }
}

/// A HIP record up to its servers (RFC 8005 section 5): length of the tag, algorithm, length of the key, both.
fn host_identity(rest: &[u8]) -> Option<Head> {
    let [tag, _, high, low] = *rest.first_chunk()?;
    Some((4 + usize::from(tag) + usize::from(u16::from_be_bytes([high, low])), false))
}
