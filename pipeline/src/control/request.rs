//! Requests to a running instance over its control socket: one line of words.
//!
//! ```text
//! stats                             the report, as JSON; an empty line or none means the same
//! health                            check whether this node is fit to serve; the result, as JSON
//! drain                             report the node as drained, so that routes are withdrawn; `resume` undoes it
//! reload                            read the rules anew
//! purge NAME [suffix] [type TYPE]   remove answers for the name, with `suffix` also for names below it
//! dump PATH                         write every answer to the file that comes with the request
//! load PATH                         load answers from the file that comes with the request
//! cache [name NAME] [type TYPE] [limit N]  show answers in the cache, as JSON
//! lookup NAME [TYPE] [client IP]    say what a client would get, and why, as JSON; without a type: A
//! capture [FILTER...]               write packets to the file that comes with the request, until the client leaves
//! trace [FILTER...]                 follow packets through the stages, and send them as JSON
//! ```
//!
//! The others are calls that the HTTP API makes too ([`Call::from_words`]). What only asks is answered with JSON, and
//! everything else with one line: `ok` and the result, or `error:` and the reason.

use std::path::PathBuf;
use std::str::FromStr;

use pmdns_config::{subtree_name, type_number, wire_name, without_wildcard};
use pmdns_control::cache::{CacheSearch, MAX_SHOWN};
use pmdns_control::lookup::LookupRequest;
use pmdns_control::query_log::LogSearch;
use pmdns_control::{Call, PurgeOrder};
use pmdns_stages::cache::Purge;

use crate::capture::Selection;
use crate::health::State;
use crate::lookup::Lookup;
use crate::query_log::check::check;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Every counter.
    Stats,
    /// A check whether this node is fit to serve.
    Health,
    /// Whether clients shall come to this node.
    SetState(State),
    /// Read the rules anew.
    Reload,
    /// Do something to the cache.
    CacheJob(CacheJob),
    /// Say what a client would get, and why.
    Lookup(Lookup),
    /// Search the query log.
    Log(LogSearch),
    /// Write packets to a file.
    Capture(Selection),
    /// Follow packets through the stages.
    Trace(Selection),
    /// What needs nothing but the main thread.
    Call(Call),
}

impl Request {
    /// Whether the log says who asked: not of what is asked every second.
    pub(super) fn is_logged(&self) -> bool {
        match self {
            Self::Stats | Self::Health => false,
            Self::Call(call) => call.is_change(),
            _ => true,
        }
    }
}

/// The requests of the HTTP API are the same.
impl TryFrom<Call> for Request {
    type Error = String;

    fn try_from(call: Call) -> Result<Self, String> {
        Ok(match call {
            Call::Stats => Self::Stats,
            Call::Reload => Self::Reload,
            Call::Health => Self::Health,
            Call::SetState(state) => Self::SetState(state),
            Call::Lookup(LookupRequest { name, r#type, client }) => {
                let (record_type, client) = (r#type.as_deref().unwrap_or("A"), client.as_deref());
                Self::Lookup(lookup(&name, record_type, client)?)
            }
            Call::Cache(CacheSearch { name, r#type, limit }) => {
                let name = name.as_deref().map(subtree_name).transpose();
                let name = name.map_err(|error| error.to_string())?;
                let qtype = r#type.as_deref().map(record_type).transpose()?;
                Self::CacheJob(CacheJob::List(CacheList { name, qtype, limit }))
            }
            Call::CacheDump => Self::CacheJob(CacheJob::Send),
            Call::Log(search) => {
                check(&search)?;
                Self::Log(search)
            }
            Call::Trace(search) => Self::Trace(search.try_into()?),
            Call::Capture(search) => Self::Capture(search.try_into()?),
            Call::Purge(PurgeOrder { name, suffix, r#type }) => {
                let (name, below) = subtree(&name)?;
                let qtype = r#type.as_deref().map(record_type).transpose()?;
                Self::CacheJob(CacheJob::Purge(Purge { name, below: below || suffix, qtype }))
            }
            other => Self::Call(other),
        })
    }
}

/// A job on the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheJob {
    /// Lose some answers.
    Purge(Purge),
    /// Write all of them to a file.
    Dump(PathBuf),
    /// Write all of them into the pipe that comes with the call.
    Send,
    /// Read them from one.
    Load(PathBuf),
    /// Show some.
    List(CacheList),
}

/// Which answers are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheList {
    /// Only those for this name and names below it, in wire format.
    pub name: Option<Box<[u8]>>,
    /// Only those of this record type.
    pub qtype: Option<u16>,
    /// How many at most.
    pub limit: u32,
}

impl FromStr for Request {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" | "stats" => Ok(Self::Stats),
            "health" => Ok(Self::Health),
            "drain" => Ok(Self::SetState(State::Drained)),
            "resume" => Ok(Self::SetState(State::Serving)),
            "reload" => Ok(Self::Reload),
            "purge" => purge(rest).map(|purge| Self::CacheJob(CacheJob::Purge(purge))),
            "dump" => path(rest).map(|path| Self::CacheJob(CacheJob::Dump(path))),
            "load" => path(rest).map(|path| Self::CacheJob(CacheJob::Load(path))),
            "cache" => cache_list(rest)?.try_into(),
            "lookup" => lookup_of_words(rest).map(Self::Lookup),
            "capture" => Selection::parse(rest).map(Self::Capture),
            "trace" => Selection::parse(rest).map(Self::Trace),
            _ => match Call::from_words(line) {
                Some(call) => call.map(Self::Call),
                None => Err(format!(
                    "there is no request `{word}`. Ask stats, health, drain, resume, reload, purge, dump, load, cache, lookup, \
                     capture, trace, state, views, upstreams, upstream, lists, list, refresh, config, entries, \
                     block, allow, unblock, local, client, hitters, floods, limits, limit or unlimit"
                )),
            },
        }
    }
}

fn purge(words: &str) -> Result<Purge, String> {
    let mut words = words.split_ascii_whitespace();
    let (name, below) = subtree(words.next().unwrap_or(""))?;
    let mut purge = Purge { name, below, qtype: None };
    while let Some(word) = words.next() {
        match (word, purge.qtype) {
            ("suffix", _) => purge.below = true,
            ("type", None) => {
                purge.qtype = Some(record_type(words.next().unwrap_or(""))?);
            }
            _ => return Err(format!("`{word}` is not part of a purge: NAME [suffix] [type TYPE]")),
        }
    }
    Ok(purge)
}

/// A name, and whether it stands with all below it: `*.example.com`.
fn subtree(text: &str) -> Result<(Box<[u8]>, bool), String> {
    let name = subtree_name(text).map_err(|error| error.to_string())?;
    Ok((name, without_wildcard(text).1))
}

fn cache_list(words: &str) -> Result<Call, String> {
    let mut words = words.split_ascii_whitespace();
    let mut search = CacheSearch::default();
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or("").to_owned();
        match word {
            "name" => search.name = Some(value),
            "type" => search.r#type = Some(value),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_SHOWN).contains(limit));
                let wrong = || format!("`{value}` is no limit; allowed: 1 to {MAX_SHOWN}");
                search.limit = limit.ok_or_else(wrong)?;
            }
            _ => return Err("write cache [name NAME] [type TYPE] [limit N]".to_owned()),
        }
    }
    Ok(Call::Cache(search))
}

fn record_type(text: &str) -> Result<u16, String> {
    type_number(text).ok_or_else(|| format!("there is no record type `{text}`; write A or TYPE1"))
}

fn lookup_of_words(words: &str) -> Result<Lookup, String> {
    let mut words = words.split_ascii_whitespace().peekable();
    let name = words.next().unwrap_or("");
    let text = words.next_if(|word| *word != "client").unwrap_or("A");
    match (words.next(), words.next(), words.next()) {
        (None, ..) => lookup(name, text, None),
        (Some("client"), Some(address), None) => lookup(name, text, Some(address)),
        _ => Err("a lookup is NAME [TYPE] [client IP]".to_owned()),
    }
}

fn lookup(name: &str, text: &str, client: Option<&str>) -> Result<Lookup, String> {
    let name = wire_name(name).map_err(|error| error.to_string())?;
    let qtype = record_type(text)?;
    if is_meta_type(qtype) {
        return Err(format!("`{text}` is no type of records; write A, AAAA or ANY"));
    }
    let wrong =
        |address| move |_| format!("`{address}` is no IP address; write for example 192.0.2.1");
    let client = client.map(|address| address.parse().map_err(wrong(address))).transpose()?;
    Ok(Lookup { name, qtype, client })
}

/// Whether a type has a meaning of its own in queries, other than ANY, so that no cache and no rule decides on it.
fn is_meta_type(qtype: u16) -> bool {
    matches!(qtype, 0 | 41 | 128..=254)
}

/// An absolute path: this process and the client may have different working directories.
fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text.trim());
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("`{text}` is not an absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_of_words() {
        let parse = |line: &str| line.parse::<Request>();
        assert_eq!(parse(""), Ok(Request::Stats));
        assert_eq!(parse("stats\n"), Ok(Request::Stats));
        assert_eq!(parse("reload"), Ok(Request::Reload));
        assert_eq!(parse("health"), Ok(Request::Health));
        assert_eq!(parse("drain"), Ok(Request::SetState(State::Drained)));
        assert_eq!(parse("resume"), Ok(Request::SetState(State::Serving)));
        let cache_job = |cache_job| Ok(Request::CacheJob(cache_job));
        let name: Box<[u8]> = (*b"\x07example\x03com\0").into();
        let plain = Purge { name, below: false, qtype: None };
        assert_eq!(parse("purge  Example.com. "), cache_job(CacheJob::Purge(plain.clone())));
        let below = Purge { below: true, qtype: Some(28), ..plain };
        assert_eq!(
            parse("purge example.com suffix type AAAA"),
            cache_job(CacheJob::Purge(below.clone()))
        );
        assert_eq!(
            parse("purge *.example.com type AAAA"),
            cache_job(CacheJob::Purge(below.clone()))
        );
        assert_eq!(
            parse("purge example.com type TYPE28 suffix\n"),
            cache_job(CacheJob::Purge(below))
        );
        assert_eq!(parse("dump /tmp/a b"), cache_job(CacheJob::Dump("/tmp/a b".into())));
        let name: Box<[u8]> = (*b"\x07example\x03com\0").into();
        let lookup = Lookup { name, qtype: 28, client: Some([10, 0, 0, 1].into()) };
        assert_eq!(
            parse("lookup Example.com AAAA client 10.0.0.1"),
            Ok(Request::Lookup(lookup.clone()))
        );
        let lookup = Lookup { qtype: 1, client: None, ..lookup };
        assert_eq!(parse("lookup example.com"), Ok(Request::Lookup(lookup)));
        assert_eq!(parse("load /tmp/a"), cache_job(CacheJob::Load("/tmp/a".into())));
        for (line, part) in [
            ("reboot", "no request `reboot`"),
            ("purge", "a name is empty"),
            ("purge a..b", "not a domain name"),
            ("purge a below", "`below` is not part"),
            ("purge a type", "no record type ``"),
            ("purge a type A type AAAA", "`type` is not part"),
            ("dump", "not an absolute path"),
            ("lookup", "a name is empty"),
            ("lookup a NOTYPE", "no record type `NOTYPE`"),
            ("lookup a AXFR", "`AXFR` is no type of records"),
            ("lookup a A client here", "`here` is no IP address"),
            ("lookup a A client", "NAME [TYPE] [client IP]"),
            ("lookup a A more", "NAME [TYPE] [client IP]"),
            ("load here", "`here` is not an absolute path"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
