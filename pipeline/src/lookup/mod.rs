//! `pmdns lookup`: the answer that a client would get now, and why. No upstream is asked, and nothing is counted.
//!
//! A query is made and taken through the stages of the line ([`pmdns_engine::lookup_line`]). What becomes of its packet is the
//! verdict. The thread of the slow path that has the key says what a miss would lead to. Only which rule has decided, with file
//! and line, is searched beside. The query comes over UDP: class IN, recursion desired, EDNS without DO. Rate limits are not
//! looked at.

mod job;
pub(crate) mod rules;
mod verdict;

use std::net::IpAddr;

use domain::base::iana::Rtype;
use domain::base::{Message, ParsedName, ToName as _};
use domain::rdata::AllRecordData;
use pmdns_config::{type_number, wire_name};
use pmdns_control::lookup::LookupRequest;

pub use job::Lookups;
pub(crate) use job::octets;
pub use pmdns_control::lookup::{
    CachedReport, CandidateUpstream, DecidedBy, GroupReport, LookupReport, RuleReport,
    ValidationState,
};
pub use verdict::Verdict;

/// A lookup: its question and its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupQuestion {
    /// In wire format, lower case.
    pub name: Box<[u8]>,
    /// The record type.
    pub qtype: u16,
    /// Who asks; `None`: a client in no view, which may ask.
    pub client: Option<IpAddr>,
}

impl TryFrom<LookupRequest> for LookupQuestion {
    type Error = String;

    fn try_from(request: LookupRequest) -> Result<Self, String> {
        let LookupRequest { name, r#type, client } = request;
        let name = wire_name(&name).map_err(|error| error.to_string())?;
        let text = r#type.as_deref().unwrap_or("A");
        let qtype = record_type(text)?;
        if is_meta_type(qtype) {
            return Err(format!("`{text}` is no type of records; write A, AAAA or ANY"));
        }
        let address = |text: &String| {
            let wrong = |_| format!("`{text}` is no IP address; write for example 192.0.2.1");
            text.parse().map_err(wrong)
        };
        Ok(Self { name, qtype, client: client.as_ref().map(address).transpose()? })
    }
}

/// The number of a record type: a mnemonic, or TYPE65280.
pub(crate) fn record_type(text: &str) -> Result<u16, String> {
    type_number(text).ok_or_else(|| format!("there is no record type `{text}`; write A or TYPE1"))
}

/// Whether a type has a meaning of its own in queries, other than ANY, so that no cache and no rule decides on it.
fn is_meta_type(qtype: u16) -> bool {
    matches!(qtype, 0 | 41 | 128..=254)
}

/// Records that are told of one answer.
const MAX_SHOWN: usize = 100;

type Data<'m> = AllRecordData<&'m [u8], ParsedName<&'m [u8]>>;

/// The records of a message as text, as zone files have them.
pub(crate) fn record_texts(message: &[u8]) -> Vec<String> {
    let Ok(message) = Message::from_slice(message) else { return Vec::new() };
    let records = message.iter().map_while(Result::ok).map(|(record, _)| record);
    let text = |record: domain::base::record::ParsedRecord<'_, [u8]>| {
        let (name, ttl, class) = (record.owner(), record.ttl().as_secs(), record.class());
        let (owner, rtype): (_, Rtype) = (name.fmt_with_dot().to_string(), record.rtype());
        match record.to_any_record::<Data<'_>>() {
            Ok(record) => format!("{owner} {ttl} {class} {rtype} {}", record.data()),
            Err(_) => format!("{owner} {ttl} {class} {rtype} (not readable)"),
        }
    };
    records.filter(|record| record.rtype() != Rtype::OPT).map(text).take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_checked_and_mistakes_are_named() {
        let lookup = |name: &str, r#type: Option<&str>, client: Option<&str>| {
            let [r#type, client] = [r#type, client].map(|text| text.map(str::to_owned));
            LookupQuestion::try_from(LookupRequest { name: name.to_owned(), r#type, client })
        };
        let name: Box<[u8]> = (*b"\x07example\x03com\0").into();
        let expected = LookupQuestion { name, qtype: 28, client: Some([10, 0, 0, 1].into()) };
        assert_eq!(lookup("Example.com", Some("AAAA"), Some("10.0.0.1")), Ok(expected.clone()));
        let expected = LookupQuestion { qtype: 1, client: None, ..expected };
        assert_eq!(lookup("example.com", None, None), Ok(expected));
        for (wrong, part) in [
            (lookup("", None, None), "a name is empty"),
            (lookup("a", Some("NOTYPE"), None), "no record type `NOTYPE`"),
            (lookup("a", Some("AXFR"), None), "`AXFR` is no type of records"),
            (lookup("a", None, Some("here")), "`here` is no IP address"),
        ] {
            let error = wrong.unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
