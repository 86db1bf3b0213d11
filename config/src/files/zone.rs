//! Zone files (RFC 1035 section 5), read into records.

use std::io::Read as _;
use std::path::Path;

use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::{ComposeRecordData, RecordData};
use domain::base::{Name, Record};
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};

use super::text::prepare;
use super::{FileError, open};
use crate::limits::{MAX_LIST_BYTES, MAX_TTL};
use crate::local::{LocalRecord, is_meta_type, reads_back};

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
    Ok(records)
}

/// Gives each record of a zone, and what tells the line that it ends at.
pub(super) fn each_record(
    bytes: &[u8],
    path: &Path,
    origin: Option<&str>,
    mut take: impl FnMut(LocalRecord, &dyn Fn() -> u64),
) -> Result<(), FileError> {
    let at_line = |line, problem| FileError::Line { file: path.to_owned(), line, problem };
    let bytes = &*prepare(bytes).map_err(|(line, problem)| at_line(line, problem.to_owned()))?;
    let mut zone = Zonefile::with_capacity(bytes.len() + 1);
    zone.extend_from_slice(bytes);
    // domain 0.12.3 panics at a quoted text that is the file's end.
    zone.extend_from_slice(b"\n");
    zone.set_default_class(Class::IN);
    let whole = |problem| FileError::Whole { file: path.to_owned(), problem };
    set_origin(&mut zone, origin).map_err(whole)?;
    loop {
        let line = |zone: &Zonefile| line_at(bytes, zone.current_offset());
        match zone.next_entry() {
            Ok(None) => return Ok(()),
            Ok(Some(Entry::Record(scanned))) => match record(&scanned) {
                Ok(record) => take(record, &|| line(&zone)),
                Err(problem) => return Err(at_line(line(&zone), problem)),
            },
            Ok(Some(Entry::Include { .. })) => {
                let problem = "$INCLUDE is not followed; put the file's records here, or name it in a \
                               [[zone]] of its own";
                return Err(at_line(line(&zone), problem.to_owned()));
            }
            Err(error) => {
                let (line, problem) = without_position(&error.to_string());
                return Err(at_line(line, problem));
            }
        }
    }
}

/// Tells the scanner what names are relative to.
fn set_origin(zone: &mut Zonefile, origin: Option<&str>) -> Result<(), String> {
    let is_no_name = |text| format!("`{text}` is no domain name to be its origin");
    zone.set_origin(match origin {
        None | Some(".") => Name::root_bytes(),
        Some(text) => Name::bytes_from_str(text).map_err(|_| is_no_name(text))?,
    });
    Ok(())
}

/// The line that the scanner has just read, whose end is at `offset`.
fn line_at(bytes: &[u8], offset: usize) -> u64 {
    let read = bytes.get(..offset.saturating_sub(1)).unwrap_or(bytes);
    1 + read.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A scanned record, in wire format.
fn record(scanned: &ScannedRecord) -> Result<LocalRecord, String> {
    let mut data = Vec::new();
    let composed = scanned.data().compose_rdata(&mut data).is_ok();
    checked(scanned, composed.then_some(data))
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
    let rtype = read.data().rtype();
    if read.class() != Class::IN {
        return Err(format!("the record is of class {}; only IN is served", read.class()));
    }
    if is_meta_type(rtype) {
        return Err(format!("type {rtype} cannot stand in a zone"));
    }
    let ttl = read.ttl().as_secs();
    if ttl > MAX_TTL {
        return Err(format!("the TTL is {ttl}; allowed: 0 to {MAX_TTL}"));
    }
    let mut name = Vec::new();
    read.owner().compose(&mut name).map_err(|_| "the name is too long".to_owned())?;
    name.make_ascii_lowercase();
    let fits = |data: &Vec<u8>| data.len() <= usize::from(u16::MAX) && reads_back(rtype, data);
    let Some(data) = data.filter(fits) else {
        return Err(format!("a record of type {rtype} cannot have this data"));
    };
    Ok(LocalRecord { name: name.into(), rtype: rtype.to_int(), ttl, data: data.into() })
}

/// The scanner's `line:column: problem`, taken apart. Having read the last word of a line it stands at the start
/// of the next.
fn without_position(text: &str) -> (u64, String) {
    let mut parts = text.splitn(3, ':');
    let mut number = || parts.next().and_then(|part| part.trim().parse().ok()).unwrap_or(1);
    let (line, column): (u64, u64) = (number(), number());
    let problem = parts.next().unwrap_or(text).trim().to_owned();
    let line = if column == 1 && line > 1 { line - 1 } else { line };
    (line, problem)
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
        assert_eq!(text, "line 2: a record of type A cannot have this data");
        assert_eq!(
            mistake("a 4000w A 192.0.2.1\n"),
            "line 1: the TTL is 2419200000; allowed: 0 to 2147483647"
        );
        let text = mistake("a TYPE255 \\# 0\n");
        assert!(text.contains("cannot stand in a zone"), "{text}");
    }

    #[test]
    fn what_is_not_closed_is_told_where_it_opens() {
        assert_eq!(
            mistake("a A 192.0.2.1\nb TXT ( x\ny\n"),
            "line 2: a parenthesis is opened here and never closed"
        );
        assert_eq!(mistake("b TXT x )\n"), "line 1: a parenthesis is closed that was not opened");
        assert_eq!(
            mistake("b TXT ( x ( y ) )\n"),
            "line 1: a parenthesis opens inside another one"
        );
        assert_eq!(
            mistake("; \" (\nb TXT \"x\n"),
            "line 2: a double quote is not closed on its line"
        );
        assert_eq!(mistake("b TXT \"x"), "line 1: a double quote is not closed");
        assert_eq!(mistake("b TXT x\\"), "line 1: the line ends in the middle of an escape");
    }

    #[test]
    fn no_text_makes_the_scanner_panic() {
        let characters = [" ", "\"", "\\", "(", ")", "\n", ";", "$", "@", "a", "0", "A ", "TXT "];
        let n = characters.len();
        for number in 0..n.pow(4) {
            let text: String = (0..4).map(|place| characters[number / n.pow(place) % n]).collect();
            for start in ["", "a TXT ", "a IN 60 MX ", "$INCLUDE "] {
                let text = format!("{start}{text}");
                if let Ok(prepared) = prepare(text.as_bytes()) {
                    let mut zone = Zonefile::from(&*prepared);
                    zone.set_origin(Name::root_bytes());
                    while let Ok(Some(_)) = zone.next_entry() {}
                }
            }
        }
    }
}
