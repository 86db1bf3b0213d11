//! The rules that have decided about the packets of a trace: found by the thread of the trace when it ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pmdns_control::lookup::RuleReport;
use pmdns_insight::capture::{PacketRecord, RecordedAnswer, TracedQuestion};
use pmdns_stages::policy::{ListNumber, RuleOutcome, RuleSource};
use pmdns_stages::wire::layout::Who;
use pmdns_stages::{Reason, StageName, Step};

use crate::lookup::{octets, rules};
use crate::runtime::NamesInUse;

/// How long lists may be read for one trace. A client of the API waits for 20 s.
const SEARCH: Duration = Duration::from_secs(8);

/// Finds rules in the lists in use.
pub(super) struct Finder {
    in_use: NamesInUse,
    /// What was found of a list (its place in a table of all), by name.
    known: HashMap<(usize, Box<[u8]>), RuleReport>,
    end: Instant,
}

impl Finder {
    pub(super) fn new(in_use: NamesInUse) -> Self {
        Self { in_use, known: HashMap::new(), end: Instant::now() + SEARCH }
    }

    /// The rule that has decided about a packet with these records, if one has.
    pub(super) fn rule(
        &mut self,
        asked: &TracedQuestion<'_>,
        records: &[PacketRecord],
    ) -> Option<RuleReport> {
        let record = records.iter().find(|record| may_be_by_a_rule(record))?;
        let (TracedQuestion { name, qtype, .. }, view) = (*asked, record.view);
        let who = Who::in_view(view, 0);
        let client = octets(asked.client);
        let Self { in_use, known, end } = self;
        let explained = in_use.made.rules.explain(name, qtype, &client, who);
        let is_of_rules = match record.answer {
            RecordedAnswer::Truncated => matches!(explained.outcome, RuleOutcome::Truncated),
            RecordedAnswer::Rcode(_) if record.list.is_none() => {
                matches!(explained.outcome, RuleOutcome::NotReady)
            }
            _ => true,
        };
        if !is_of_rules {
            return None;
        }
        let Some(list) = record.list.or(explained.list) else {
            let rule = rules::rule(in_use, &explained, name, qtype, view);
            return Some(rule.unwrap_or_else(|| unlisted(record)));
        };
        let of_client = explained.list == Some(list)
            && matches!(explained.source, RuleSource::PolicyZone { of_client: true, .. });
        if of_client || !matches!(list, ListNumber::List(_) | ListNumber::Zone(_)) {
            return Some(rules::rule_of(in_use, list, of_client, name, view));
        }
        let place = (list.index(), Box::from(name));
        if let Some(rule) = known.get(&place) {
            return Some(rule.clone());
        }
        if Instant::now() > *end {
            return Some(rules::note(in_use, list, Some("not searched for its line: too slow")));
        }
        let rule = rules::rule_of(in_use, list, false, name, view);
        known.insert(place, rule.clone());
        Some(rule)
    }
}

/// Whether a packet leaves a stage that asks the rules with what may be their decision.
fn may_be_by_a_rule(record: &PacketRecord) -> bool {
    matches!(record.stage, Some(StageName::Lookup | StageName::Policy))
        && (record.list.is_some()
            || record.step == Step::drop(Reason::Blocked)
            || matches!(
                record.answer,
                RecordedAnswer::Local(_) | RecordedAnswer::Truncated | RecordedAnswer::Rcode(_)
            ))
}

/// The rule that has decided if no list has.
fn unlisted(record: &PacketRecord) -> RuleReport {
    let note = match record.answer {
        RecordedAnswer::Local(_) => "local records",
        // The cached answer is one that is not to be given.
        _ => "a rule about addresses in the answer",
    };
    RuleReport { note: Some(note.to_owned()), ..RuleReport::default() }
}
