//! A reply, read once: whole, bounded, and with its records in canonical form (RFC 4034 section 6.2).

use crate::name::{self, Form, Name};

/// Types that validation knows.
pub(crate) mod rtype {
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const DNAME: u16 = 39;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const DS: u16 = 43;
    pub(crate) const RRSIG: u16 = 46;
    pub(crate) const NSEC: u16 = 47;
    pub(crate) const DNSKEY: u16 = 48;
    pub(crate) const NSEC3: u16 = 50;
    pub(crate) const ANY: u16 = 255;
}

/// Class IN.
pub(crate) const CLASS_IN: u16 = 1;
/// NOERROR and NXDOMAIN (RFC 1035 section 4.1.1).
pub(crate) const NOERROR: u8 = 0;
pub(crate) const NXDOMAIN: u8 = 3;

/// The section of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Answer,
    Authority,
    Additional,
}

/// A record.
#[derive(Debug)]
pub(crate) struct CanonicalRecord {
    pub(crate) section: Section,
    pub(crate) owner: Name,
    pub(crate) rtype: u16,
    pub(crate) class: u16,
    pub(crate) ttl: u32,
    /// In canonical form, names not compressed.
    pub(crate) data: Box<[u8]>,
    /// Whether the data fit the type. Records whose data do not fit prove nothing.
    pub(crate) is_sound: bool,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) rcode: u8,
    pub(crate) records: Vec<CanonicalRecord>,
}

/// Why a message was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is no DNS message, or not a whole one.
    Malformed,
    /// It has too many records.
    TooMany,
}

impl Message {
    /// Reads a reply of at most `max_records` records. Further records are not read.
    pub(crate) fn read(bytes: &[u8], max_records: usize) -> Result<Self, Unread> {
        let count = |at| Some(usize::from(be16(bytes, at)?));
        let counts = || Some((count(4)?, [count(6)?, count(8)?, count(10)?]));
        let (questions, counts) = counts().ok_or(Unread::Malformed)?;
        if questions > 1 {
            return Err(Unread::Malformed);
        }
        if counts.iter().sum::<usize>() > max_records {
            return Err(Unread::TooMany);
        }
        let rcode = bytes[3] & 15;
        let records = Self::records(bytes, questions, counts).ok_or(Unread::Malformed)?;
        Ok(Self { rcode, records })
    }

    fn records(bytes: &[u8], questions: usize, counts: [usize; 3]) -> Option<Vec<CanonicalRecord>> {
        let mut at = 12;
        for _ in 0..questions {
            at = name::read(bytes, at, Form::Compressed, &mut Vec::new())? + 4;
        }
        let mut records = Vec::with_capacity(counts.iter().sum());
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        for (section, count) in sections.into_iter().zip(counts) {
            for _ in 0..count {
                let (record, end) = CanonicalRecord::read(bytes, at, section)?;
                records.push(record);
                at = end;
            }
        }
        Some(records)
    }
}

impl CanonicalRecord {
    /// Reads the record at `at`; returns where it ends, too.
    fn read(bytes: &[u8], at: usize, section: Section) -> Option<(Self, usize)> {
        let mut owner = Vec::new();
        let at = name::read(bytes, at, Form::Compressed, &mut owner)?;
        let (rtype, class) = (be16(bytes, at)?, be16(bytes, at + 2)?);
        let ttl = be32(bytes, at + 4)?;
        let start = at + 10;
        let end = start + usize::from(be16(bytes, at + 8)?);
        let raw = bytes.get(start..end)?;
        let canonical = canonical(&bytes[..end], start, rtype);
        let is_sound = canonical.is_some();
        let data = canonical.unwrap_or_else(|| raw.to_vec()).into();
        // RFC 2181 section 8: with the highest bit set, a TTL is zero.
        let ttl = if ttl >> 31 == 0 { ttl } else { 0 };
        Some((Self { section, owner: owner.into(), rtype, class, ttl, data, is_sound }, end))
    }
}

/// A part of a record's data.
#[derive(Clone, Copy)]
enum DataPart {
    Bytes(usize),
    Text,
    Name(Form),
    Rest,
}

/// The parts of a type's data. Types that are not listed here have no name to expand or to convert to lower case (RFC
/// 3597 section 4, RFC 4034 section 6.2, RFC 6840 section 5.1).
fn parts(rtype: u16) -> &'static [DataPart] {
    use DataPart::{Bytes, Rest, Text};
    const NAME: DataPart = DataPart::Name(Form::Compressed);
    match rtype {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME
        2..=5 | 7..=9 | 12 | 39 => &[NAME],
        // SOA
        6 => &[NAME, NAME, Bytes(20)],
        // MINFO, RP
        14 | 17 => &[NAME, NAME],
        // MX, AFSDB, RT, KX
        15 | 18 | 21 | 36 => &[Bytes(2), NAME],
        // PX
        26 => &[Bytes(2), NAME, NAME],
        // SRV
        33 => &[Bytes(6), NAME],
        // NAPTR
        35 => &[Bytes(4), Text, Text, Text, NAME],
        // SIG, RRSIG
        24 | 46 => &[Bytes(18), DataPart::Name(Form::Plain), Rest],
        // NSEC
        47 => &[DataPart::Name(Form::Verbatim), Rest],
        _ => &[Rest],
    }
}

/// The data from `start` to the end in canonical form; `None`: they do not fit the type.
fn canonical(bytes: &[u8], start: usize, rtype: u16) -> Option<Vec<u8>> {
    let mut target = Vec::with_capacity(bytes.len() - start);
    let mut at = start;
    for part in parts(rtype) {
        let length = match *part {
            DataPart::Name(form) => {
                at = name::read(bytes, at, form, &mut target)?;
                continue;
            }
            DataPart::Bytes(length) => length,
            DataPart::Text => 1 + usize::from(*bytes.get(at)?),
            DataPart::Rest => bytes.len().checked_sub(at)?,
        };
        target.extend_from_slice(bytes.get(at..at + length)?);
        at += length;
    }
    // The length of the data is written in 16 bits.
    (at == bytes.len() && target.len() <= usize::from(u16::MAX)).then_some(target)
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    bytes.try_into().ok().map(u16::from_be_bytes)
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}
