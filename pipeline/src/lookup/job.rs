//! Lookups under way: a query is made and taken down the line, and the rule or entry that decides is named.

use std::net::IpAddr;

use domain::base::iana::Rcode as RcodeName;
use pmdns_config::{Config, readable, type_name, view_name};
use pmdns_control::lookup::LookupRequest;
use pmdns_control::{CallReply, Refusal};
use pmdns_engine::lookup_line::{LookupLine, Passage, message, query};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};
use pmdns_engine::upstreams::UpstreamsInUse;
use pmdns_resolver::{Foreseen, Outlook};
use pmdns_stages::cache::{Entry, Head};
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::{Explained, ListNumber, RuleOutcome};
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::{Answer, Context, Packet};

use super::{
    CachedReport, CandidateUpstream, DecidedBy, GroupReport, LookupQuestion, LookupReport,
    RuleReport, ValidationState, Verdict, record_texts, rules,
};
use crate::runtime::NamesInUse;
use pmdns_control::Caller;
use pmdns_control::jobs::Jobs;

/// Lookups at a time. Each may read block lists.
const MAX_LOOKUPS: usize = 4;

/// Carries out lookups, each on a thread of its own.
#[derive(Clone)]
pub struct Lookups {
    line: LookupLine,
    cache_jobs: CacheJobs,
    /// Whether answers are validated.
    validates: bool,
    jobs: Jobs,
    upstreams: UpstreamsInUse,
}

impl Lookups {
    /// Lookups beside this line and in this cache, of an instance that was started with this configuration, and has these upstreams
    /// in use.
    pub fn new(
        line: LookupLine,
        cache_jobs: CacheJobs,
        started: &Config,
        upstreams: UpstreamsInUse,
    ) -> Self {
        let (jobs, validates) = (Jobs::new(MAX_LOOKUPS), started.dnssec.validate);
        Self { line, cache_jobs, validates, jobs, upstreams }
    }

    /// Carries out a lookup under the rules in use, and sends the caller its result.
    pub fn run(&self, request: LookupRequest, in_use: NamesInUse, caller: Caller) {
        let (own, lookup) = match LookupQuestion::try_from(request) {
            Ok(lookup) => (self.clone(), lookup),
            Err(why) => return caller.refuse(Refusal::Wrong, why),
        };
        self.jobs.start("lookup", caller, move |_| match own.look_up(&lookup, &in_use) {
            Ok(report) => CallReply::of(&report),
            Err(error) => CallReply::Refused(Refusal::Unable, error.to_string()),
        });
    }

    /// The answer that a client would get, and why. Waits for a thread of the slow path, and may read block lists.
    fn look_up(
        &self,
        lookup: &LookupQuestion,
        in_use: &NamesInUse,
    ) -> Result<LookupReport, SnapshotError> {
        let LookupQuestion { ref name, qtype, client } = *lookup;
        let (mut line, context) = (self.line.under(&in_use.made), self.cache_jobs.context());
        let mut report = LookupReport {
            name: readable(name),
            record_type: type_name(qtype),
            client,
            view: view_name(0, &in_use.made.config().views).to_owned(),
            decided_by: DecidedBy::Packet,
            rcode: None,
            truncated: false,
            records: Vec::new(),
            rule: None,
            cached: None,
            upstream: None,
        };
        let passage = line.ask(client, &query(name, qtype), &context);
        let Some(Passage { packet, miss: Some(miss), .. }) = passage else { return Ok(report) };
        let (who, outlook) = (packet.layout.who, self.cache_jobs.outlook(miss.clone())?);
        view_name(who.view(), &in_use.made.config().views).clone_into(&mut report.view);
        let entry = self.cached(&miss);
        report.cached = entry.as_ref().map(|entry| self.cached_report(entry, &outlook, context));
        let verdict = Verdict::of(&packet);
        let explained = explain(in_use, &verdict, &miss, entry.as_ref());
        report.decided_by = verdict.decided_by(explained.source);
        let is_by_rules = verdict.by.is_none() || verdict.list.is_some();
        if is_by_rules || explained.outcome == RuleOutcome::Pass && !is_refused(&report) {
            report.rule = rules::rule(in_use, &explained, (name, qtype, who.view()));
        }
        tell(&mut report, &verdict, &packet);
        match packet.answer {
            Answer::Local(found) if verdict.rcode.is_none() => {
                note(&mut report, "the records of the alias's target follow");
                let alias = in_use.made.rules.entry(found);
                let alias = alias.and_then(|entry| line.give(&miss, entry, &context));
                alias.inspect(|alias| tell(&mut report, &Verdict::of(alias), alias));
            }
            Answer::Rcode(_) if explained.outcome == RuleOutcome::NotReady => {
                note(&mut report, "the policy zone was not transferred yet");
            }
            _ if report.decided_by == DecidedBy::Upstreams => {
                self.foresee(&mut report, outlook, |entry| line.give(&miss, entry, &context));
            }
            _ => {}
        }
        Ok(report)
    }

    /// The answer in the cache, fresh or expired.
    fn cached(&self, miss: &Miss) -> Option<Entry> {
        let cache = self.cache_jobs.cache();
        let key = miss.key();
        cache.get(key.hash(cache.seed(), miss.key), &key)?.copy()
    }

    /// What becomes of a query that the line sends to the slow path. `give` makes the packet that a client gets with an entry.
    fn foresee(
        &self,
        report: &mut LookupReport,
        outlook: Outlook,
        give: impl Fn(&Entry) -> Option<Packet>,
    ) {
        let (by, entry) = match &outlook.foreseen {
            Foreseen::Known(entry) => (DecidedBy::Cache, entry),
            Foreseen::Denied(entry) => (DecidedBy::CachedNxdomain, entry),
            Foreseen::Stale(entry) => (DecidedBy::StaleAnswer, entry),
            Foreseen::Failed(_) => {
                report.decided_by = DecidedBy::RecentFailure;
                report.rcode = Some(rcode_name(Rcode::SERVFAIL));
                return;
            }
            Foreseen::Asked => {
                report.upstream = Some(self.group(&outlook));
                return;
            }
        };
        report.decided_by = by;
        if let Some(packet) = give(entry) {
            let verdict = Verdict::of(&packet);
            // Rules about answers stand behind it.
            if verdict.list.is_some() {
                report.decided_by = verdict.by.unwrap_or(by);
            }
            tell(report, &verdict, &packet);
        }
    }

    fn group(&self, outlook: &Outlook) -> GroupReport {
        let roster = self.upstreams.roster();
        let settings = |slot: usize| roster.slots().get(slot).map(|slot| &slot.upstream);
        let first = outlook.upstreams.first().and_then(|one| settings(one.number));
        let upstreams = outlook.upstreams.iter().filter_map(|one| {
            let address = settings(one.number)?.address.to_string();
            Some(CandidateUpstream { address, is_resting: one.is_resting, srtt_us: one.srtt_us })
        });
        GroupReport {
            group: first.map(|upstream| upstream.group.clone()).unwrap_or_default(),
            upstreams: upstreams.collect(),
            has_stale_answer: outlook.has_stale,
        }
    }

    fn cached_report(&self, entry: &Entry, outlook: &Outlook, context: Context) -> CachedReport {
        let (head, now) = (entry.head(), context.seconds);
        let is_authentic = head.flags & Head::AUTHENTIC != 0;
        CachedReport {
            ttl_left_seconds: head.expires.saturating_sub(now),
            age_seconds: now.saturating_sub(head.learnt),
            is_stale: head.expires <= now,
            recent_hits: outlook.hits,
            validation: match (self.validates, is_authentic) {
                (true, true) => ValidationState::Secure,
                (true, false) => ValidationState::Insecure,
                (false, true) => ValidationState::SecureByUpstream,
                (false, false) => ValidationState::NotValidated,
            },
            rewritten: head.flags & Head::REWRITTEN != 0,
        }
    }
}

/// The rule about the query. If its name passes and a list decides all the same, the rule is about the answer that views share.
fn explain(
    in_use: &NamesInUse,
    verdict: &Verdict,
    miss: &Miss,
    entry: Option<&Entry>,
) -> Explained {
    let (rules, key, who) = (&in_use.made.rules, miss.key(), miss.query().layout().who);
    let explained = rules.explain(key.name, key.qtype, miss.client(), who);
    match (explained.outcome, verdict.list, entry) {
        (RuleOutcome::Pass, Some(_), Some(entry)) => {
            rules.explain_shared(entry, miss.client(), who)
        }
        _ => explained,
    }
}

/// Reports the answer of a packet that has gone down the line.
fn tell(report: &mut LookupReport, verdict: &Verdict, packet: &Packet) {
    report.rcode = verdict.rcode.map(rcode_name);
    report.truncated = verdict.truncated;
    report.records = message(packet).map(record_texts).unwrap_or_default();
    if let Some(ListNumber::Redirect(place)) = verdict.list {
        let note = Some(format!("redirect[{place}]"));
        report.rule = Some(RuleReport { note, ..RuleReport::default() });
    }
}

fn note(report: &mut LookupReport, note: &str) {
    report.rule.get_or_insert_default().note = Some(note.to_owned());
}

/// Whether the client gets nothing by rules about clients alone.
fn is_refused(report: &LookupReport) -> bool {
    matches!(report.decided_by, DecidedBy::AccessList | DecidedBy::Packet)
}

fn rcode_name(rcode: Rcode) -> String {
    RcodeName::masked_from_int(rcode.0).to_string()
}

/// The bytes of a client's address; unspecified, if there is none.
pub(crate) fn octets(client: Option<IpAddr>) -> Vec<u8> {
    match client {
        None => vec![0; 4],
        Some(IpAddr::V4(address)) => address.octets().into(),
        Some(IpAddr::V6(address)) => address.octets().into(),
    }
}
