//! Local records: written as in a zone file, kept in wire format.

use serde::Deserialize;

use crate::name::{NameError, wire_name};
use crate::presentation::{self, ZoneFileEntries, is_meta, read_data};

/// `[[local]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenRecord")]
pub struct Local {
    /// The record.
    pub record: LocalRecord,
    /// The views it holds in; none: all.
    pub views: Vec<String>,
}

/// One record, its name, type and data written as a zone file has them (RFC 1035 section 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRecord {
    /// Owner name in wire format, lower case, uncompressed.
    pub name: Box<[u8]>,
    /// Record type, for example 1 for A.
    pub rtype: u16,
    /// Time to live, in seconds.
    pub ttl: u32,
    /// Record data in wire format, names in it uncompressed.
    pub data: Box<[u8]>,
}

impl LocalRecord {
    /// The record `name ttl IN rtype data`, each part written as in a zone file; names are absolute
    /// with or without their trailing dot.
    ///
    /// # Errors
    ///
    /// A [`LocalError`] that names the record and says what its text should be.
    pub fn new(name: &str, rtype: &str, ttl: u32, data: &str) -> Result<Self, LocalError> {
        let fail = |problem| LocalError { record: format!("{name} {rtype}"), problem };
        let wire = wire_name(name).map_err(|error| fail(error.into()))?;
        let known = record_type(rtype).map_err(fail)?;
        let data = record_data(known, data).map_err(fail)?;
        Ok(Self { name: wire, rtype: known, ttl, data })
    }
}

/// An error in a local record, with the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("local record `{record}`: {problem}")]
pub struct LocalError {
    /// Name and type as they were written.
    pub record: String,
    /// The problem.
    pub problem: LocalProblem,
}

/// Problems of a local record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalProblem {
    /// The owner is no domain name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The type has no name or number we know.
    #[error("there is no record type `{0}`; write a mnemonic like A or AAAA, or TYPE65280")]
    UnknownType(String),
    /// The type exists in queries only (RFC 6895 section 3.1).
    #[error("type {0} cannot stand in a zone")]
    MetaType(String),
    /// The text would not stay one line of a zone file.
    #[error("data must be one line, but has {0:?} in it; write it as an escape like \\010")]
    Control(char),
    /// The rest of the text would be taken for a comment and silently lost.
    #[error(
        "data has a `;` outside quotes, which begins a comment in a zone file; put the text in double quotes: data = '\"...\"'"
    )]
    Comment,
    /// Parentheses join lines, and there is but one line here.
    #[error("data has a parenthesis outside quotes; leave it out, the data is one line anyway")]
    Parenthesis,
    /// The text would run on to the next line.
    #[error("data has a double quote that is not closed; close it, or write it as \\\"")]
    OpenQuote,
    /// The text after the type is not what that type has.
    #[error("`{data}` is not the data of type {rtype} in zone-file form: {why}")]
    Data {
        /// What was written.
        data: String,
        /// The record type.
        rtype: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The record as it stands in the TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRecord {
    name: String,
    r#type: String,
    #[serde(default = "default_ttl")]
    ttl: u32,
    data: String,
    #[serde(default)]
    views: Vec<String>,
}

fn default_ttl() -> u32 {
    300
}

impl TryFrom<WrittenRecord> for Local {
    type Error = LocalError;

    fn try_from(written: WrittenRecord) -> Result<Self, LocalError> {
        let WrittenRecord { name, r#type, ttl, data, views } = written;
        Ok(Self { record: LocalRecord::new(&name, &r#type, ttl, &data)?, views })
    }
}

/// The number of the record type that `text` names: a mnemonic, or TYPE and a number (RFC 3597).
pub fn type_number(text: &str) -> Option<u16> {
    presentation::type_number(text)
}

/// The name of the record type with this number.
pub fn type_name(number: u16) -> String {
    presentation::type_name(number)
}

/// The type that `text` names; types that only queries have are refused.
fn record_type(text: &str) -> Result<u16, LocalProblem> {
    let rtype = type_number(text).ok_or_else(|| LocalProblem::UnknownType(text.to_owned()))?;
    match is_meta(rtype) {
        true => Err(LocalProblem::MetaType(text.to_owned())),
        false => Ok(rtype),
    }
}

/// `data` read as a zone file has it behind `rtype`, in wire format.
///
/// Only the data is the operator's text, so the other keys cannot change how it is read.
fn record_data(rtype: u16, data: &str) -> Result<Box<[u8]>, LocalProblem> {
    check_one_line(data)?;
    let fail =
        |why: String| LocalProblem::Data { data: data.to_owned(), rtype: type_name(rtype), why };
    let mut entries = ZoneFileEntries::new(data.as_bytes());
    let words = entries.next().map_err(|(_, why)| fail(why))?.map(|entry| entry.words());
    let data = read_data(rtype, words.unwrap_or_default(), None).map_err(|(_, why)| fail(why))?;
    Ok(data.into_boxed_slice())
}

/// Refuses text that would end the line early, or lose its tail to a comment.
fn check_one_line(data: &str) -> Result<(), LocalProblem> {
    let mut quoted = false;
    let mut characters = data.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if character.is_control() && character != '\t' => {
                return Err(LocalProblem::Control(character));
            }
            '\\' => {
                // The escaped character, if printable, stands for itself; a digit needs no care.
                if let Some(control) = characters.next().filter(|c| c.is_control()) {
                    return Err(LocalProblem::Control(control));
                }
            }
            '"' => quoted = !quoted,
            ';' if !quoted => return Err(LocalProblem::Comment),
            '(' | ')' if !quoted => return Err(LocalProblem::Parenthesis),
            _ => {}
        }
    }
    if quoted { Err(LocalProblem::OpenQuote) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(rtype: &str, text: &str) -> Vec<u8> {
        LocalRecord::new("a.example", rtype, 60, text).unwrap().data.into_vec()
    }

    fn mistake(name: &str, rtype: &str, text: &str) -> String {
        LocalRecord::new(name, rtype, 60, text).unwrap_err().to_string()
    }

    #[test]
    fn a_record_is_kept_in_wire_format() {
        let record = LocalRecord::new("Host.Example", "AAAA", 60, "2001:db8::1").unwrap();
        assert_eq!(*record.name, b"\x04host\x07example\x00"[..]);
        assert_eq!((record.rtype, record.ttl), (28, 60));
        assert_eq!(record.data[..4], [0x20, 0x01, 0x0d, 0xb8]);
    }

    #[test]
    fn every_type_has_its_own_form() {
        assert_eq!(data("A", "192.0.2.1"), [192, 0, 2, 1]);
        assert_eq!(data("a", "192.0.2.1"), [192, 0, 2, 1]);
        assert_eq!(data("PTR", "Host.example."), b"\x04Host\x07example\x00");
        assert_eq!(data("CNAME", "host"), b"\x04host\x00");
        assert_eq!(data("MX", "10 mail.example"), b"\x00\x0a\x04mail\x07example\x00");
        assert_eq!(data("TXT", "\"v=spf1 -all; x\""), b"\x0ev=spf1 -all; x");
        assert_eq!(data("TXT", "one two"), b"\x03one\x03two");
        assert_eq!(data("SRV", "1 2 53 a.example"), b"\0\x01\0\x02\0\x35\x01a\x07example\0");
        assert_eq!(data("CAA", "0 issue \"ca.example\"")[..8], *b"\x00\x05issuec");
        assert_eq!(data("HTTPS", "1 . alpn=h2"), b"\0\x01\0\0\x01\0\x03\x02h2");
        assert_eq!(data("SOA", "a.example b.example 1 2 3 4 5").len(), 2 * 11 + 20);
    }

    #[test]
    fn unknown_types_take_generic_data() {
        assert_eq!(data("TYPE65280", "\\# 3 01ff02"), [1, 255, 2]);
        assert_eq!(data("TYPE65280", "\\# 0"), [0_u8; 0]);
        assert_eq!(data("A", "\\# 4 c0000201"), [192, 0, 2, 1]);
        let record = LocalRecord::new("a.example", "TYPE65280", 60, "\\# 1 00").unwrap();
        assert_eq!(record.rtype, 65_280);
    }

    #[test]
    fn generic_data_must_suit_a_known_type() {
        let text = mistake("a.example", "A", "\\# 3 c00002");
        assert!(text.contains("cannot have this data"), "{text}");
        let text = mistake("a.example", "A", "\\# 5 c000020100");
        assert!(text.contains("cannot have this data"), "{text}");
        // A compression pointer to itself, and one to a zero byte of the data, which parses.
        for text in ["\\# 4 0000c002", "\\# 4 0000c000"] {
            let text = mistake("a.example", "MX", text);
            assert!(text.contains("cannot have this data"), "{text}");
        }
        let text = mistake("a.example", "TYPE65280", "\\# 3 0102");
        assert!(text.contains("there are 2 bytes, but the length says 3"), "{text}");
    }

    #[test]
    fn the_error_names_the_record_and_the_data() {
        let text = mistake("host.example", "A", "192.0.2.999");
        assert!(text.starts_with("local record `host.example A`: `192.0.2.999` is not"), "{text}");
        assert!(!text.contains("1:"), "no position in a line nobody wrote: {text}");
        let text = mistake("host.example", "A", "");
        assert!(text.contains("is not the data of type A"), "{text}");
        let text = mistake("host.example", "A", "192.0.2.1 192.0.2.2");
        assert!(text.contains("is not the data of type A"), "{text}");
        let text = mistake("host..example", "A", "192.0.2.1");
        assert!(text.contains("`host..example` is not a domain name"), "{text}");
    }

    #[test]
    fn types_of_queries_and_unknown_words_are_refused() {
        for rtype in ["ANY", "AXFR", "OPT", "TYPE0", "TYPE255", "TSIG"] {
            let text = mistake("a.example", rtype, "\\# 0");
            assert!(text.contains("cannot stand in a zone"), "{text}");
        }
        let text = mistake("a.example", "AAAAA", "2001:db8::1");
        assert!(text.contains("there is no record type `AAAAA`"), "{text}");
    }

    #[test]
    fn one_text_is_one_record() {
        for text in ["192.0.2.1\nb.example. 0 IN A 192.0.2.2", "192.0.2.1\r", "\"a\nb\"", "\\\n"] {
            let text = mistake("a.example", "TXT", text);
            assert!(text.contains("data must be one line"), "{text}");
        }
        let text = mistake("$INCLUDE", "A", "192.0.2.1");
        assert!(text.contains("has '$' in it"), "{text}");
        let text = mistake("a.example", "A 192.0.2.1\nb A", "192.0.2.1");
        assert!(text.contains("there is no record type"), "{text}");
        let text = mistake("a.example", "TXT", "( 192.0.2.1");
        assert!(text.contains("parenthesis outside quotes; leave it out"), "{text}");
        let text = mistake("a.example", "TXT", "\"one\" \"two");
        assert!(text.contains("is not closed"), "{text}");
    }

    #[test]
    fn a_comment_does_not_swallow_the_text() {
        let text = mistake("a.example", "TXT", "v=DKIM1; p=abc");
        assert!(text.contains("double quotes"), "{text}");
        assert_eq!(data("TXT", "a\\;b"), b"\x03a;b");
        assert_eq!(data("TXT", "\"(a)\""), b"\x03(a)");
    }

    #[test]
    fn wildcards_are_names_like_others() {
        let record = LocalRecord::new("*.Example", "A", 60, "192.0.2.1").unwrap();
        assert_eq!(*record.name, *b"\x01*\x07example\0");
    }

    #[test]
    fn no_text_makes_the_scanner_panic() {
        // Every short string over the characters that mean something in a zone file.
        let characters = [' ', '"', '\\', '(', ')', '#', '.', 'a', '0', '-', '=', ','];
        let n = characters.len();
        for rtype in ["A", "TXT", "MX", "HTTPS", "CAA", "NSEC", "TYPE65280"] {
            for number in 0..n.pow(4) {
                let text: String =
                    (0..4).map(|place| characters[number / n.pow(place) % n]).collect();
                let _ = LocalRecord::new("a.example", rtype, 60, &text);
            }
        }
    }
}
