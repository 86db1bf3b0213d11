//! Lookups under way: a query is made and taken down the line, and the rule or entry that decides is named.

use std::net::IpAddr;
use std::sync::Arc;

use domain::base::iana::Rcode as RcodeName;
use pmdns_config::{Config, readable, type_name, view_name};
use pmdns_control::Refusal;
use pmdns_control::lookup::LookupRequest;
use pmdns_engine::lookup_line::{FRAMES, LookupLine, NoPassage, Passage, message, query};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};
use pmdns_engine::upstreams::UpstreamsInUse;
use pmdns_resolver::{Foreseen, Inquiry, Outlook};
use pmdns_stages::cache::{Entry, Head};
use pmdns_stages::miss::Miss;
use pmdns_stages::policy::{ListNumber, RuleOutcome};
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

/// Said of a client on this machine or without an address of its own.
const NO_UDP: &str = "no query over UDP comes from this address; so it is for one over TCP";

/// Why a lookup has no result.
#[derive(Debug, thiserror::Error)]
enum LookupFailed {
    #[error(transparent)]
    NoPassage(#[from] NoPassage),
    #[error(transparent)]
    SlowPath(#[from] SnapshotError),
    #[error("the rules are being replaced; ask again")]
    OtherRules,
}

/// Carries out lookups, each on a thread of its own.
#[derive(Clone)]
pub struct Lookups {
    line: Arc<LookupLine>,
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
        let line = Arc::new(line);
        Self { line, cache_jobs, validates, jobs, upstreams }
    }

    /// Carries out a lookup under the rules in use, and sends the caller its result.
    pub fn run(&self, request: LookupRequest, in_use: NamesInUse, caller: Caller<LookupReport>) {
        let (own, lookup) = match LookupQuestion::try_from(request) {
            Ok(lookup) => (self.clone(), lookup),
            Err(why) => return caller.refuse(Refusal::Wrong, why),
        };
        self.jobs.start("lookup", caller, move |_| {
            let failed = |error: LookupFailed| (Refusal::Unable, error.to_string());
            own.look_up(&lookup, &in_use).map_err(failed)
        });
    }

    /// The answer that a client would get, and why. Waits for a thread of the slow path, and may read block lists.
    fn look_up(
        &self,
        lookup: &LookupQuestion,
        in_use: &NamesInUse,
    ) -> Result<LookupReport, LookupFailed> {
        let LookupQuestion { ref name, qtype, client } = *lookup;
        let (mut line, context) =
            (self.line.under(&in_use.made, FRAMES), self.cache_jobs.context());
        let passage = line.ask(client, &query(name, qtype), &context)?;
        let Passage { packet, miss, is_impossible, .. } = passage;
        let inquiry = Inquiry { miss: miss.clone(), has_client: client.is_some() };
        let (outlook, entry) = (self.cache_jobs.outlook(inquiry)?, self.cached(&miss));
        let mut report = LookupReport {
            name: readable(name),
            record_type: type_name(qtype),
            client,
            view: view_name(packet.layout.who.view(), &in_use.made.config().views).to_owned(),
            note: is_impossible.then(|| NO_UDP.to_owned()),
            cached: entry.as_ref().map(|entry| self.cached_report(entry, &outlook, context)),
            ..LookupReport::default()
        };
        let verdict = Verdict::of(&packet);
        let outcome = judge(&mut report, in_use, &verdict, &miss, entry.as_ref());
        report_answer(&mut report, &verdict, &packet);
        match packet.answer {
            Answer::Local(found) if verdict.rcode.is_none() => {
                note(&mut report, "the records of the alias's target follow");
                let alias = in_use.made.rules.entry(found);
                let alias = alias.and_then(|entry| line.give(&miss, entry, &context));
                alias.inspect(|alias| report_answer(&mut report, &Verdict::of(alias), alias));
            }
            Answer::Rcode(_) if outcome == RuleOutcome::NotReady => {
                note(&mut report, "the policy zone was not transferred yet");
            }
            _ if report.decided_by == DecidedBy::Upstreams => {
                let foreseen = self.foresee(&mut report, &outlook)?;
                if let Some(entry) = foreseen
                    && let Some(packet) = line.give(&miss, entry, &context)
                {
                    let verdict = Verdict::of(&packet);
                    // Rules about answers stand behind it.
                    if verdict.is_by_rules() {
                        judge(&mut report, in_use, &verdict, &miss, Some(entry));
                    }
                    report_answer(&mut report, &verdict, &packet);
                }
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

    /// What becomes of a query that the line sends to the slow path, and the entry that its client gets, if it is known.
    fn foresee<'o>(
        &self,
        report: &mut LookupReport,
        outlook: &'o Outlook,
    ) -> Result<Option<&'o Entry>, LookupFailed> {
        let (by, entry) = match &outlook.foreseen {
            Foreseen::Known(entry) => (DecidedBy::Cache, entry),
            Foreseen::Denied(entry) => (DecidedBy::CachedNxdomain, entry),
            Foreseen::Stale(entry) => (DecidedBy::StaleAnswer, entry),
            Foreseen::Failed => {
                report.decided_by = DecidedBy::RecentFailure;
                report.rcode = Some(rcode_name(Rcode::SERVFAIL));
                return Ok(None);
            }
            Foreseen::OtherRules => return Err(LookupFailed::OtherRules),
            Foreseen::Asked => {
                report.upstream = Some(self.group(outlook));
                return Ok(None);
            }
        };
        report.decided_by = by;
        Ok(Some(entry))
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

/// Reports the part that decides, and the rule about the query. If its name passes and rules decide all the same, the rule is about
/// the answer, which views share.
fn judge(
    report: &mut LookupReport,
    in_use: &NamesInUse,
    verdict: &Verdict,
    miss: &Miss,
    entry: Option<&Entry>,
) -> RuleOutcome {
    let (rules, key, who) = (&in_use.made.rules, miss.key(), miss.query().layout().who);
    let mut explained = rules.explain(key.name, key.qtype, miss.client(), who);
    if let Some(entry) = entry
        && explained.outcome == RuleOutcome::Pass
        && verdict.is_by_rules()
    {
        explained = rules.explain_shared(entry, miss.client(), who);
    }
    report.decided_by = verdict.decided_by(explained.source);
    let passes = explained.outcome == RuleOutcome::Pass;
    if verdict.is_by_rules() || passes && report.decided_by != DecidedBy::AccessList {
        report.rule = rules::rule(in_use, &explained, key.name, key.qtype, who.view());
    }
    explained.outcome
}

/// Reports the answer of a packet that has gone down the line.
fn report_answer(report: &mut LookupReport, verdict: &Verdict, packet: &Packet) {
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
