//! What a zone file has before a record's data: TTL, class and type.

use super::Problem;
use super::number::{decimal, seconds};
use super::types::{is_meta, type_name, type_number};
use super::words::Word;
use crate::limits::MAX_TTL;

/// A record in wire format. Its class is IN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZoneRecord {
    /// The owner, in lower case.
    pub(crate) name: Vec<u8>,
    pub(crate) ttl: u32,
    pub(crate) rtype: u16,
    pub(crate) data: Vec<u8>,
}

/// What stands before the data of a record, behind its owner.
pub(super) struct RecordHead<'e, 't> {
    pub(super) ttl: Option<u32>,
    pub(super) rtype: u16,
    pub(super) data: &'e [Word<'t>],
}

impl<'e, 't> RecordHead<'e, 't> {
    /// TTL and class in any order, each if it is there, and the type.
    pub(super) fn of(words: &'e [Word<'t>]) -> Result<Self, Problem> {
        let (mut ttl, mut class) = (None, None);
        let mut rest = words;
        loop {
            let Some((word, after)) = rest.split_first() else {
                let last = words.last().map_or_else(|| "the owner".to_owned(), Word::shown);
                return Err(format!("a record type is missing after {last}"));
            };
            rest = after;
            let text = std::str::from_utf8(word.text).unwrap_or_default();
            if class.is_none() && class_of(text).is_some() {
                class = class_of(text);
            } else if ttl.is_none()
                && let Some(written) = ttl_of(text)
            {
                ttl = Some(written?);
            } else {
                let rtype = record_type(word)?;
                return match class {
                    None | Some(IN) => Ok(Self { ttl, rtype, data: rest }),
                    Some(class) => {
                        let class = class_text(class);
                        Err(format!("the record is of class {class}; only IN is served"))
                    }
                };
            }
        }
    }
}

/// The type that a word names, which can stand in a zone.
fn record_type(word: &Word<'_>) -> Result<u16, Problem> {
    let named = std::str::from_utf8(word.text).ok().filter(|_| !word.is_quoted);
    let rtype = named.and_then(type_number).ok_or_else(|| {
        format!(
            "there is no record type {}; write a mnemonic like A or AAAA, or TYPE and a number with data \
             like \\# 2 01ff",
            word.shown()
        )
    })?;
    match is_meta(rtype) {
        true => Err(format!("type {} cannot stand in a zone", type_name(rtype))),
        false => Ok(rtype),
    }
}

/// What is wrong with the data of a type.
pub(super) fn of_type(rtype: u16, problem: &str) -> Problem {
    format!("data of type {}: {problem}", type_name(rtype))
}

/// The TTL that a word is, or why it is too long. `None`: it is none.
fn ttl_of(text: &str) -> Option<Result<u32, Problem>> {
    text.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    let ttl = seconds(text)?;
    Some(checked_ttl(ttl))
}

/// The TTL, if records can have it (RFC 2181 section 8).
pub(super) fn checked_ttl(ttl: u32) -> Result<u32, Problem> {
    match ttl > MAX_TTL {
        true => Err(format!("the TTL is {ttl}; allowed: 0 to {MAX_TTL}")),
        false => Ok(ttl),
    }
}

/// Classes (RFC 1035 section 3.2.4).
const IN: u16 = 1;
const CLASSES: [(u16, &str); 5] = [(IN, "IN"), (3, "CH"), (3, "CHAOS"), (4, "HS"), (4, "HESIOD")];

/// The class that a text names.
fn class_of(text: &str) -> Option<u16> {
    let named = CLASSES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    named.map(|(class, _)| *class).or_else(|| {
        let (word, number) = text.split_at_checked(5)?;
        word.eq_ignore_ascii_case("CLASS").then(|| decimal(number)).flatten()
    })
}

fn class_text(class: u16) -> String {
    let named = CLASSES.iter().find(|(number, _)| *number == class);
    named.map_or_else(|| format!("CLASS{class}"), |(_, name)| (*name).to_owned())
}
