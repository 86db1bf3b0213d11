//! Calls as lines of words, for the control socket.
//!
//! ```text
//! state                                   what runs
//! views | upstreams | lists               what is configured
//! config [diff]                           the configuration in use, or where the file differs
//! block NAME [suffix] [ACTION]            block a name
//! allow NAME [suffix]                     let a name pass
//! unblock NAME                            forget what was said of a name
//! entries [AFTER]                         names that are blocked and allowed
//! local add NAME TYPE TTL DATA            add a local record
//! local remove NAME [TYPE]                remove local records
//! local list [AFTER]                      local records
//! ```

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};

use crate::call::MAX_PAGE;
use crate::{
    Call, EntryKind, EntryRequest, EntryScope, Page, RecordChoice, RecordRequest, RuleAction,
};

impl Call {
    /// The call that this line makes. `None`: its first word begins none.
    pub fn from_words(line: &str) -> Option<Result<Self, String>> {
        let (word, rest) = split(line);
        Some(match (word, rest) {
            ("state", "") => Ok(Self::State),
            ("views", "") => Ok(Self::Views),
            ("upstreams", "") => Ok(Self::Upstreams),
            ("lists", "") => Ok(Self::Lists),
            ("config", "") => Ok(Self::Config),
            ("config", "diff") => Ok(Self::ConfigDiff),
            ("block", rest) => entry(EntryKind::Block, rest),
            ("allow", rest) => entry(EntryKind::Allow, rest),
            ("unblock", name) => Ok(Self::RemoveEntry(name.to_owned())),
            ("entries", after) => Ok(Self::Entries(page(after))),
            ("local", rest) => local(rest),
            _ => return None,
        })
    }
}

fn split(line: &str) -> (&str, &str) {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    (word, rest.trim_start())
}

fn page(after: &str) -> Page {
    Page { after: (!after.is_empty()).then(|| after.to_owned()), limit: MAX_PAGE }
}

fn entry(kind: EntryKind, rest: &str) -> Result<Call, String> {
    let (name, mut rest) = split(rest);
    let (mut scope, mut action) = (EntryScope::default(), RuleAction::default());
    while !rest.is_empty() {
        let (word, others) = split(rest);
        let text: StrDeserializer<'_, Error> = word.into_deserializer();
        match (word, kind) {
            ("suffix", _) => scope = EntryScope::Suffix,
            (_, EntryKind::Block) => {
                action = RuleAction::deserialize(text).map_err(|_| {
                    format!("`{word}` is no action; write nxdomain, nodata, refused, null or drop")
                })?;
            }
            _ => return Err(format!("`{word}` is not part of this; write NAME [suffix]")),
        }
        rest = others;
    }
    let name = name.to_owned();
    Ok(Call::AddEntries(vec![EntryRequest { name, kind, scope, action, views: Vec::new() }]))
}

fn local(rest: &str) -> Result<Call, String> {
    let (word, rest) = split(rest);
    let (name, rest) = match word {
        "list" => return Ok(Call::Records(page(rest))),
        "add" | "remove" => split(rest),
        _ => return Err("write local add, local remove or local list".to_owned()),
    };
    let (r#type, rest) = split(rest);
    let (name, given) = (name.to_owned(), r#type.to_owned());
    if word == "remove" {
        let r#type = Some(given).filter(|text| !text.is_empty());
        return Ok(Call::RemoveRecords(RecordChoice { name, r#type }));
    }
    let (ttl, data) = split(rest);
    let ttl = ttl
        .parse()
        .map_err(|_| format!("`{ttl}` is no TTL; write local add NAME TYPE TTL DATA"))?;
    Ok(Call::AddRecords(vec![RecordRequest { name, r#type: given, ttl, data: data.to_owned() }]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_words_are_calls() {
        let parse = |line: &str| Call::from_words(line).map(|call| call.map_err(|_| "wrong"));
        assert_eq!(parse("state"), Some(Ok(Call::State)));
        assert_eq!(parse("config diff"), Some(Ok(Call::ConfigDiff)));
        assert_eq!(parse("reload"), None);
        assert_eq!(parse("config other"), None);
        assert_eq!(parse("unblock a.example"), Some(Ok(Call::RemoveEntry("a.example".into()))));
        let block = |scope, action| {
            let (name, kind, views) = ("a.example".to_owned(), EntryKind::Block, Vec::new());
            Some(Ok(Call::AddEntries(vec![EntryRequest { name, kind, scope, action, views }])))
        };
        assert_eq!(parse("block a.example"), block(EntryScope::Exact, RuleAction::Nxdomain));
        assert_eq!(
            parse("block  a.example  null suffix"),
            block(EntryScope::Suffix, RuleAction::Null)
        );
        assert_eq!(parse("block a.example below"), Some(Err("wrong")));
        assert_eq!(parse("allow a.example null"), Some(Err("wrong")));
        let record = RecordRequest {
            name: "p.lan".into(),
            r#type: "TXT".into(),
            ttl: 60,
            data: "\"a  b\"".into(),
        };
        assert_eq!(
            parse("local add p.lan TXT 60 \"a  b\""),
            Some(Ok(Call::AddRecords(vec![record])))
        );
        assert_eq!(parse("local add p.lan A 192.0.2.1"), Some(Err("wrong")));
        let choice = RecordChoice { name: "p.lan".into(), r#type: None };
        assert_eq!(parse("local remove p.lan"), Some(Ok(Call::RemoveRecords(choice))));
        assert_eq!(parse("local"), Some(Err("wrong")));
    }
}
