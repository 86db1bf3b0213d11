//! Messages and records as plain values: every mutant can be written, also one that makes no sense.

use std::fmt;

use crate::name::Name;
use crate::rtype;

/// Flags of a header.
#[expect(missing_docs, reason = "the names are those of RFC 1035 and RFC 4035")]
pub mod flag {
    pub const QR: u16 = 0x8000;
    pub const AA: u16 = 0x0400;
    pub const TC: u16 = 0x0200;
    pub const RD: u16 = 0x0100;
    pub const RA: u16 = 0x0080;
    pub const AD: u16 = 0x0020;
    pub const CD: u16 = 0x0010;
    pub const RCODE: u16 = 0x000f;
}

/// A record; its data is not compressed.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Whose it is.
    pub owner: Name,
    /// Its type.
    pub rtype: u16,
    /// Its class.
    pub class: u16,
    /// Its TTL, in seconds.
    pub ttl: u32,
    /// Its data.
    pub data: Vec<u8>,
}

impl OwnedRecord {
    /// A record of class IN with the usual TTL.
    pub fn new(owner: &Name, rtype: u16, data: impl Into<Vec<u8>>) -> Self {
        Self { owner: owner.clone(), rtype, class: 1, ttl: crate::TTL, data: data.into() }
    }

    /// Whether both have the same owner, type, class and data, with names in any letter case.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.rtype == other.rtype
            && self.class == other.class
            && self.owner == other.owner
            && self.canonical_data() == other.canonical_data()
    }

    /// The type whose records an RRSIG signs.
    pub fn covered(&self) -> Option<u16> {
        (self.rtype == rtype::RRSIG).then(|| be16(&self.data, 0)).flatten()
    }

    /// The signer of an RRSIG.
    pub fn signer(&self) -> Option<Name> {
        if self.rtype != rtype::RRSIG {
            return None;
        }
        Name::parse(&self.data, SIGNER_AT).map(|(name, _)| name)
    }

    /// The data with the names in it in lower case where RFC 4034 section 6.2 (as RFC 6840 section 5.1 has it) wants that.
    pub fn canonical_data(&self) -> Vec<u8> {
        let (skip, names) = names_in(self.rtype);
        let mut end = skip;
        for _ in 0..names {
            match Name::parse(&self.data, end) {
                Some((_, after)) => end = after,
                None => return self.data.clone(),
            }
        }
        let mut data = self.data.clone();
        if let Some(names) = data.get_mut(skip..end) {
            names.make_ascii_lowercase();
        }
        data
    }
}

/// Where the signer stands in an RRSIG's data.
pub const SIGNER_AT: usize = 18;

/// How many bytes stand before the names in a type's data, and how many names there are.
fn names_in(rtype: u16) -> (usize, usize) {
    match rtype {
        rtype::NS | rtype::CNAME | rtype::DNAME | rtype::PTR => (0, 1),
        rtype::SOA => (0, 2),
        rtype::MX => (2, 1),
        rtype::SRV => (6, 1),
        rtype::RRSIG => (SIGNER_AT, 1),
        _ => (0, 0),
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: u16,
    /// The flags with the rcode.
    pub flags: u16,
    /// Name, type and class of the question.
    pub question: (Name, u16, u16),
    /// Answer, authority, additional.
    pub sections: [Vec<OwnedRecord>; 3],
}

impl Message {
    /// A reply without records.
    pub fn reply(name: &Name, qtype: u16) -> Self {
        let flags = flag::QR | flag::RD | flag::RA | flag::CD;
        let question = (name.clone(), qtype, 1);
        Self { id: 0, flags, question, sections: Default::default() }
    }

    /// The rcode, as far as the header has it.
    pub fn rcode(&self) -> u16 {
        self.flags & flag::RCODE
    }

    /// Replaces the rcode.
    pub fn set_rcode(&mut self, rcode: u16) {
        self.flags = self.flags & !flag::RCODE | rcode & flag::RCODE;
    }

    /// All of its records.
    pub fn records(&self) -> impl Iterator<Item = &OwnedRecord> {
        self.sections.iter().flatten()
    }

    /// As it is sent, with the names of the question and of owners compressed.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.written(false)
    }

    /// As short as it can be sent: names in data of RFC 1035's types are compressed as well, and all whatever their letters.
    pub fn to_short_bytes(&self) -> Vec<u8> {
        self.written(true)
    }

    fn written(&self, is_short: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        for number in [self.id, self.flags, 1] {
            bytes.extend(number.to_be_bytes());
        }
        for section in &self.sections {
            bytes.extend((section.len() as u16).to_be_bytes());
        }
        let mut known = Vec::new();
        write_name(&mut bytes, &mut known, &self.question.0, is_short);
        bytes.extend(self.question.1.to_be_bytes());
        bytes.extend(self.question.2.to_be_bytes());
        for record in self.records() {
            write_name(&mut bytes, &mut known, &record.owner, is_short);
            bytes.extend(record.rtype.to_be_bytes());
            bytes.extend(record.class.to_be_bytes());
            bytes.extend(record.ttl.to_be_bytes());
            let data_at = bytes.len() + 2;
            bytes.extend([0; 2]);
            match is_short {
                true => write_short_data(&mut bytes, &mut known, record),
                false => bytes.extend(&record.data),
            }
            let len = (bytes.len() - data_at) as u16;
            bytes[data_at - 2..data_at].copy_from_slice(&len.to_be_bytes());
        }
        bytes
    }

    /// The message that these bytes are, if they are one with one question.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [id, flags, questions] = [0, 2, 4].map(|at| be16(bytes, at));
        if questions? != 1 {
            return None;
        }
        let (name, mut at) = Name::parse(bytes, 12)?;
        let question = (name, be16(bytes, at)?, be16(bytes, at + 2)?);
        at += 4;
        let mut sections: [Vec<OwnedRecord>; 3] = Default::default();
        for (number, section) in sections.iter_mut().enumerate() {
            for _ in 0..be16(bytes, 6 + 2 * number)? {
                let (record, end) = parse_record(bytes, at)?;
                section.push(record);
                at = end;
            }
        }
        Some(Self { id: id?, flags: flags?, question, sections })
    }
}

fn parse_record(bytes: &[u8], at: usize) -> Option<(OwnedRecord, usize)> {
    let (owner, at) = Name::parse(bytes, at)?;
    let [rtype, class, high, low, len] = [0, 2, 4, 6, 8].map(|more| be16(bytes, at + more));
    let (rtype, start) = (rtype?, at + 10);
    let end = start + usize::from(len?);
    let raw = bytes.get(start..end)?;
    // Data that are not what the type says stay as they are.
    let data = expanded(bytes, rtype, start, end).unwrap_or_else(|| raw.to_vec());
    let ttl = u32::from(high?) << 16 | u32::from(low?);
    Some((OwnedRecord { owner, rtype, class: class?, ttl, data }, end))
}

/// The data of a record with the names in it not compressed.
fn expanded(bytes: &[u8], rtype: u16, start: usize, end: usize) -> Option<Vec<u8>> {
    let (skip, names) = names_in(rtype);
    let mut here = start + skip;
    let mut data = bytes.get(start..here).filter(|_| here <= end)?.to_vec();
    for _ in 0..names {
        let (name, after) = Name::parse(bytes, here).filter(|(_, after)| *after <= end)?;
        data.extend(name.wire());
        here = after;
    }
    data.extend(&bytes[here..end]);
    Some(data)
}

/// Writes a name with a pointer to what is `known` of it already.
fn write_name(bytes: &mut Vec<u8>, known: &mut Vec<(Vec<u8>, usize)>, name: &Name, is_short: bool) {
    let mut rest = name.wire();
    while rest.len() > 1 {
        let is_known = |(suffix, _): &&(Vec<u8>, usize)| match is_short {
            true => suffix.eq_ignore_ascii_case(rest),
            false => suffix == rest,
        };
        if let Some((_, at)) = known.iter().find(is_known) {
            bytes.extend((0xc000 | *at as u16).to_be_bytes());
            return;
        }
        if bytes.len() < 0x3fff {
            known.push((rest.to_vec(), bytes.len()));
        }
        let (label, after) = rest.split_at(usize::from(rest[0]) + 1);
        bytes.extend(label);
        rest = after;
    }
    bytes.push(0);
}

/// Writes a record's data. Names in it are compressed where everybody may do that (RFC 3597 section 4).
fn write_short_data(bytes: &mut Vec<u8>, known: &mut Vec<(Vec<u8>, usize)>, record: &OwnedRecord) {
    let data = &record.data;
    let (skip, names) = match record.rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::SOA | rtype::MX => names_in(record.rtype),
        _ => (0, 0),
    };
    let mut names_end = skip;
    let all: Option<Vec<Name>> = (0..names)
        .map(|_| {
            let (name, end) = Name::parse(data, names_end)?;
            names_end = end;
            Some(name)
        })
        .collect();
    // Data that are not what the type says are written as they are.
    let Some(all) = all else { return bytes.extend(data) };
    bytes.extend(&data[..skip]);
    for name in &all {
        write_name(bytes, known, name, true);
    }
    bytes.extend(&data[names_end..]);
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, qtype, class) = &self.question;
        writeln!(f, "{name} {} class {class}: flags {:04x}", type_name(*qtype), self.flags)?;
        for (section, label) in self.sections.iter().zip(["answer", "authority", "additional"]) {
            for record in section {
                writeln!(f, "  {label:10} {record}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, rtype, class, ttl, data } = self;
        write!(f, "{owner} {ttl} ")?;
        if *class != 1 {
            write!(f, "CLASS{class} ")?;
        }
        write!(f, "{} ", type_name(*rtype))?;
        let name = |at| Name::parse(data, at).map(|(name, _)| name);
        match (*rtype, self.signer()) {
            (rtype::RRSIG, Some(signer)) => {
                let times = [4, 8, 12].map(|at| be32(data, at).unwrap_or(0));
                let covered = type_name(be16(data, 0).unwrap_or(0));
                let (algorithm, labels, tag) = (data[2], data[3], be16(data, 16).unwrap_or(0));
                write!(f, "{covered} {algorithm} {labels} {times:?} {tag} {signer} ...")
            }
            (rtype::NS | rtype::CNAME | rtype::DNAME | rtype::NSEC, _) => {
                let target = name(0).map_or_else(|| "?".to_owned(), |name| name.to_string());
                write!(f, "{target}")?;
                if *rtype == rtype::NSEC {
                    let types = data.get(target.len().min(data.len())..).unwrap_or_default();
                    write!(f, " {}", hex(types))?;
                }
                Ok(())
            }
            _ => f.write_str(&hex(data)),
        }
    }
}

impl fmt::Debug for OwnedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What people call a type.
pub fn type_name(rtype: u16) -> String {
    let name = match rtype {
        rtype::A => "A",
        rtype::NS => "NS",
        rtype::CNAME => "CNAME",
        rtype::SOA => "SOA",
        rtype::MX => "MX",
        rtype::TXT => "TXT",
        rtype::AAAA => "AAAA",
        rtype::SRV => "SRV",
        rtype::DNAME => "DNAME",
        rtype::OPT => "OPT",
        rtype::DS => "DS",
        rtype::RRSIG => "RRSIG",
        rtype::NSEC => "NSEC",
        rtype::DNSKEY => "DNSKEY",
        rtype::NSEC3 => "NSEC3",
        other => return format!("TYPE{other}"),
    };
    name.to_owned()
}
