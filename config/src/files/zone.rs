//! Zone files (RFC 1035 section 5), read into records.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use domain::base::Record;
use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::{ComposeRecordData, RecordData};

use super::{FileError, open};
use crate::limits::{MAX_LIST_BYTES, MAX_TTL};
use crate::local::LocalRecord;
use crate::presentation::{
    MAX_DATA, SetType, Zone, ZoneRecord, is_meta, name_of, set_type, suits, type_name,
};

/// The records of a zone file, in its order. Names without a trailing dot are below `origin`.
///
/// # Errors
///
/// A [`FileError`] with the line: what is no record of class IN, `$INCLUDE`, and parentheses or quotes that
/// are not closed.
pub fn read_zone(path: &Path, origin: Option<&str>) -> Result<Vec<LocalRecord>, FileError> {
    zone_from(&bytes_of(path)?, path, origin)
}

/// What a zone file contains.
pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let unreadable = |source| FileError::Unreadable { file: path.to_owned(), source };
    open(path)?.take(MAX_LIST_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The same, of text from elsewhere; `path` is what errors call it.
///
/// # Errors
///
/// As [`read_zone`].
pub fn zone_from(
    bytes: &[u8],
    path: &Path,
    origin: Option<&str>,
) -> Result<Vec<LocalRecord>, FileError> {
    let mut records = Vec::new();
    each_record(bytes, path, origin, |record, _| records.push(record))?;
    share_ttls(&mut records);
    Ok(records)
}

/// Gives the records of a set one TTL (RFC 2181 section 5.2). Of sets that stand at several places of a file the last one decides,
/// as for BIND.
fn share_ttls(records: &mut [LocalRecord]) {
    if records.is_sorted_by(|one, next| one.ttl == next.ttl) {
        return;
    }
    fn set(record: &LocalRecord) -> (&[u8], SetType) {
        (&record.name, set_type(record.rtype, &record.data))
    }
    let last: HashMap<_, u32> = records.iter().map(|record| (set(record), record.ttl)).collect();
    let ttl = |record: &LocalRecord| last.get(&set(record)).copied().unwrap_or(record.ttl);
    let other = |(at, record): (usize, &LocalRecord)| {
        let ttl = ttl(record);
        (ttl != record.ttl).then_some((at, ttl))
    };
    let others: Vec<(usize, u32)> = records.iter().enumerate().filter_map(other).collect();
    for (at, ttl) in others {
        records[at].ttl = ttl;
    }
}

/// Gives each record of a zone, and the line that it ends at.
pub(super) fn each_record(
    bytes: &[u8],
    path: &Path,
    origin: Option<&str>,
    mut take: impl FnMut(LocalRecord, u64),
) -> Result<(), FileError> {
    let origin = name_of(origin.unwrap_or(".").as_bytes()).map_err(|problem| {
        let origin = origin.unwrap_or_default();
        let problem = format!("`{origin}` is no domain name to be its origin: {problem}");
        FileError::Whole { file: path.to_owned(), problem }
    })?;
    let at_line = |(line, problem)| FileError::Line { file: path.to_owned(), line, problem };
    let mut zone = Zone::new(bytes, origin);
    while let Some((record, line)) = zone.next().map_err(at_line)? {
        let ZoneRecord { name, ttl, rtype, data } = record;
        take(LocalRecord { name: name.into(), rtype, ttl, data: data.into() }, line);
    }
    Ok(())
}

/// A record of a message, in wire format. The names in its data are in lower case (RFC 4034 section 6.2),
/// because records are compared by their bytes.
///
/// # Errors
///
/// What cannot stand in a zone, in words.
pub fn received_record<N: ToName, D: RecordData + ComposeRecordData>(
    received: &Record<N, D>,
) -> Result<LocalRecord, String> {
    let mut data = Vec::new();
    let composed = received.data().compose_canonical_rdata(&mut data).is_ok();
    checked(received, composed.then_some(data))
}

/// The record with this data, if it can stand in a zone.
fn checked<N: ToName, D: RecordData>(
    read: &Record<N, D>,
    data: Option<Vec<u8>>,
) -> Result<LocalRecord, String> {
    let rtype = read.data().rtype().to_int();
    if read.class() != Class::IN {
        return Err(format!("the record is of class {}; only IN is served", read.class()));
    }
    if is_meta(rtype) {
        return Err(format!("type {} cannot stand in a zone", type_name(rtype)));
    }
    let ttl = read.ttl().as_secs();
    if ttl > MAX_TTL {
        return Err(format!("the TTL is {ttl}; allowed: 0 to {MAX_TTL}"));
    }
    let mut name = Vec::new();
    read.owner().compose(&mut name).map_err(|_| "the name is too long".to_owned())?;
    name.make_ascii_lowercase();
    let fits = |data: &Vec<u8>| data.len() <= MAX_DATA && suits(rtype, data);
    let Some(data) = data.filter(fits) else {
        return Err(format!("a record of type {} cannot have this data", type_name(rtype)));
    };
    Ok(LocalRecord { name: name.into(), rtype, ttl, data: data.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::readable;

    fn read(text: &str, origin: Option<&str>) -> Result<Vec<LocalRecord>, FileError> {
        zone_from(text.as_bytes(), Path::new("zone"), origin)
    }

    fn mistake(text: &str) -> String {
        let error = read(text, Some("lan")).unwrap_err().to_string();
        error.split_once(", ").unwrap().1.to_owned()
    }

    #[test]
    fn a_zone_file_with_all_its_shorthands() {
        let text = "\
$TTL 1H
@ IN SOA ns.lan. admin.lan. (
    2024010101 ; serial
    1h 15m 1w 300 )
  NS ns
ns 1m A 192.0.2.1
Www CNAME ns
*.dev AAAA 2001:db8::1
$ORIGIN sub.lan.
a TXT \"x;y\" z
b TYPE65280 \\# 2 0102
";
        let records = read(text, Some("lan.")).unwrap();
        let seen: Vec<_> = records
            .iter()
            .map(|record| format!("{} {} {}", readable(&record.name), record.rtype, record.ttl))
            .collect();
        let expected = [
            "lan 6 3600",
            "lan 2 3600",
            "ns.lan 1 60",
            "www.lan 5 3600",
            "*.dev.lan 28 3600",
            "a.sub.lan 16 3600",
            "b.sub.lan 65280 3600",
        ];
        assert_eq!(seen, expected);
        let times = [3600, 900, 604_800, 300].map(u32::to_be_bytes).concat();
        assert!(records[0].data.ends_with(&times));
        assert_eq!(*records[5].data, *b"\x03x;y\x01z");
        assert_eq!(*records[6].data, [1, 2]);
    }

    /// `named-checkzone -D` of 9.18 was asked.
    #[test]
    fn the_last_part_of_a_set_decides_its_ttl() {
        let text =
            "a 300 A 1.1.1.1\na 60 A 1.1.1.2\nb 9 A 1.1.1.1\na 20 A 1.1.1.4\ne 10 A 1.1.1.4\n";
        let ttls = |text: &str| -> Vec<u32> {
            read(text, None).unwrap().iter().map(|record| record.ttl).collect()
        };
        assert_eq!(ttls(text), [20, 20, 9, 20, 10]);
        assert_eq!(ttls(&format!("{text}A 30 A 1.1.1.1\na TXT x\n")), [30, 30, 9, 30, 10, 30, 30]);
    }

    #[test]
    fn without_an_origin_names_are_below_the_root() {
        assert_eq!(*read("a A 192.0.2.1\n", None).unwrap()[0].name, *b"\x01a\0");
        let text = read("a A 192.0.2.1\n", Some("a..b")).unwrap_err().to_string();
        assert!(text.contains("`a..b` is no domain name"), "{text}");
    }

    #[test]
    fn a_file_may_end_without_a_newline() {
        for text in ["a TXT \"wild\"", "a TXT wild", "a TXT ( \"wild\" )", "a TXT wild ; why"] {
            assert_eq!(*read(text, None).unwrap()[0].data, *b"\x04wild", "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        assert_eq!(
            mistake("a A 192.0.2.1\n$INCLUDE other\n"),
            "line 2: $INCLUDE is not followed; put the file's records here, or name it in a [[zone]] of its own"
        );
        let text = mistake("a A 192.0.2.1\nb A 192.0.2.999\n");
        assert!(text.starts_with("line 2: "), "{text}");
        let text = mistake("a A 192.0.2.1\n\nb CH A 192.0.2.1\n");
        assert!(text.starts_with("line 3: "), "{text}");
        let text = mistake("a CH A 192.0.2.1\n");
        assert!(text.starts_with("line 1: "), "{text}");
        let text = mistake("a A 192.0.2.1\nb A \\# 3 010203\n");
        assert_eq!(text, "line 2: data of type A: a record of type A cannot have this data");
        assert_eq!(
            mistake("a 4000w A 192.0.2.1\n"),
            "line 1: the TTL is 2419200000; allowed: 0 to 2147483647"
        );
        let text = mistake("a TYPE255 \\# 0\n");
        assert!(text.contains("cannot stand in a zone"), "{text}");
    }
}
