//! An entry of the log, as files and searches have it: a record in words.

use std::net::IpAddr;

use domain::base::Name;
use domain::base::iana::{Rcode, Rtype};
pub use pmdns_control::query_log::LogEntry;
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::upstreams::UpstreamsInUse;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::{HEADER_LEN, header};
use pmdns_stages::wire::name::length;

use super::batch::Batch;
use super::clients::{ClientName, Clients};
use super::record::{Head, Record, Source};

/// Makes entries of records.
#[derive(Clone, Debug)]
pub(super) struct Words {
    clients: Clients,
    upstreams: UpstreamsInUse,
    rules: RuleNames,
}

impl Words {
    pub(super) fn new(clients: Clients, (rules, upstreams): (RuleNames, UpstreamsInUse)) -> Self {
        Self { clients, upstreams, rules }
    }

    /// The client of a record, as the log names it.
    pub(super) fn client(&self, record: &Record<'_>) -> ClientName {
        self.clients.name(record.head.client)
    }

    /// The list whose rule answered. The rules in use now are asked, which may have changed since.
    fn list_of(&self, head: &Head, name: &[u8], qtype: u16) -> Option<String> {
        let by_rule = [Source::Local, Source::Policy, Source::Truncated, Source::Drop];
        if !by_rule.contains(&head.source) {
            return None;
        }
        match head.client {
            IpAddr::V4(v4) => self.rules.list_of(name, qtype, &v4.octets(), head.view),
            IpAddr::V6(v6) => self.rules.list_of(name, qtype, &v6.octets(), head.view),
        }
    }

    /// The entry of a record.
    pub(super) fn entry(&self, batch: &Batch, record: &Record<'_>) -> LogEntry {
        let (head, message) = (&record.head, record.message);
        let question = question(message);
        let rule = question.and_then(|(name, qtype)| self.list_of(head, name, qtype));
        let (name, record_type) = question.map_or_else(Default::default, |(name, qtype)| {
            (readable(name), Rtype::from_int(qtype).to_string())
        });
        let answers = head.source != Source::Drop;
        LogEntry {
            time_us: batch.time_us(head.received),
            client: self.client(record).to_string(),
            view: self.rules.view(head.view),
            transport: head.asked.name().to_owned(),
            name,
            record_type,
            rcode: if answers { rcode(message) } else { String::new() },
            source: source(head.source, rule.is_some()).to_owned(),
            stale: head.source == Source::Stale,
            blocked: rule.is_some() || matches!(head.source, Source::Policy | Source::Drop),
            list: rule,
            upstream: head.upstream.and_then(|one| self.upstreams.address(one.into())),
            latency_us: batch.duration_us(head.left.saturating_sub(head.received)),
        }
    }
}

/// Where an answer came from, by the names of [`LogEntry::source`].
fn source(source: Source, by_rule: bool) -> &'static str {
    match source {
        Source::Hit | Source::Late => "hit",
        Source::Local if by_rule => "policy",
        Source::Local => "local",
        Source::Policy => "policy",
        Source::Truncated => "truncated",
        Source::Error => "error",
        Source::Forward => "forward",
        Source::Stale => "stale",
        Source::Failure => "failure",
        Source::Drop => "drop",
        Source::Miss => "miss",
    }
}

/// The name and type in the question of a message that parse has read, or encode has written.
pub(crate) fn question(message: &[u8]) -> Option<(&[u8], u16)> {
    if be16(message, header::QDCOUNT) != Some(1) {
        return None;
    }
    let rest = message.get(HEADER_LEN..)?;
    let (name, rest) = rest.split_at_checked(length(rest)?)?;
    Some((name, be16(rest, 0)?))
}

/// A name as text. Bytes that are no letters are written as `\DDD`.
pub(crate) fn readable(name: &[u8]) -> String {
    Name::from_slice(name).map_or_else(
        |_| String::new(),
        |name| match name.is_root() {
            true => ".".to_owned(),
            false => name.to_string().to_ascii_lowercase(),
        },
    )
}

fn rcode(message: &[u8]) -> String {
    let flags = be16(message, header::FLAGS).unwrap_or(0);
    Rcode::masked_from_int((flags & 0xff) as u8).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_plain_text() {
        assert_eq!(readable(b"\x07Example\x03ORG\0"), "example.org");
        assert_eq!(readable(b"\0"), ".");
        let hostile = readable(b"\x08<a\"\n\x1b.\0\xff\0");
        assert!(hostile.chars().all(|c| c.is_ascii_graphic()), "{hostile}");
        assert_eq!(readable(b"\x3fshort"), "", "no name");
    }

    #[test]
    fn what_is_no_question_has_none() {
        let message = b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x01a\0\0\x1c\0\x01";
        assert_eq!(question(message), Some((&b"\x01a\0"[..], 28)));
        for len in 0..message.len() - 2 {
            assert_eq!(question(&message[..len]), None, "{len}");
        }
        assert_eq!(question(b"\x12\x34\x81\x81\0\0\0\0\0\0\0\0"), None);
        assert_eq!(rcode(b"\x12\x34\x81\x83\0\0\0\0\0\0\0\0"), "NXDOMAIN");
    }
}
