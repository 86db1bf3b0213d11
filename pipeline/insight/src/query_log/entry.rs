//! An entry of the log, as files and searches have it: a record in words.

use domain::base::iana::{Rcode, Rtype};
pub use pmdns_control::query_log::LogEntry;
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::upstreams::UpstreamsInUse;

use super::batch::Batch;
use super::clients::{ClientName, Clients};
use crate::records::{QueryRecord, QueryRecordHead, Source, question, rcode, readable};

/// Makes entries of records.
#[derive(Clone, Debug)]
pub(super) struct EntryMaker {
    clients: Clients,
    upstreams: UpstreamsInUse,
    rules: RuleNames,
}

impl EntryMaker {
    pub(super) fn new(clients: Clients, (rules, upstreams): (RuleNames, UpstreamsInUse)) -> Self {
        Self { clients, upstreams, rules }
    }

    /// The client of a record, as the log names it.
    pub(super) fn client(&self, record: &QueryRecord<'_>) -> ClientName {
        self.clients.name(record.head.client)
    }

    /// The list whose rule answered. The rules in use now are asked, which may have changed since.
    fn list_of(&self, head: &QueryRecordHead, name: &[u8], qtype: u16) -> Option<String> {
        let by_rule = [Source::Local, Source::Policy, Source::Truncated, Source::Drop];
        if !by_rule.contains(&head.source) {
            return None;
        }
        head.list_in(&self.rules, name, qtype)
    }

    /// The entry of a record.
    pub(super) fn entry(&self, batch: &Batch, record: &QueryRecord<'_>) -> LogEntry {
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
            rcode: if answers {
                Rcode::masked_from_int(rcode(message).0).to_string()
            } else {
                String::new()
            },
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
