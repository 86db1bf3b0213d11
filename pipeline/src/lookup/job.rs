//! Lookups under way: the rule or entry that decides on a query, found where the line finds it.

use std::net::IpAddr;
use std::sync::Arc;

use domain::base::iana::Rcode as RcodeName;
use pmdns_config::{Access, Config, readable, type_name, view_name};
use pmdns_control::lookup::LookupRequest;
use pmdns_control::{CallReply, Refusal};
use pmdns_engine::snapshot::{CacheJobs, SnapshotError};
use pmdns_engine::upstreams::UpstreamsInUse;
use pmdns_resolver::Outlook;
use pmdns_stages::acl::Acl;
use pmdns_stages::cache::{Entry, Head, Key};
use pmdns_stages::client_table::ClientTable;
use pmdns_stages::policy::{Redirected, RuleOutcome, RuleSource};
use pmdns_stages::wire::dns::{Rcode, rtype};
use pmdns_stages::wire::layout::Who;

use super::{
    CachedReport, CandidateUpstream, DecidedBy, GroupReport, LookupQuestion, LookupReport,
    RuleReport, ValidationState, records, rules,
};
use crate::runtime::NamesInUse;
use pmdns_control::Caller;
use pmdns_control::jobs::Jobs;

/// Lookups at a time. Each may read block lists.
const MAX_LOOKUPS: usize = 4;

/// Carries out lookups, each on a thread of its own.
#[derive(Clone, Debug)]
pub struct Lookups {
    cache_jobs: CacheJobs,
    /// The configuration of the start.
    started: Arc<Config>,
    jobs: Jobs,
    upstreams: UpstreamsInUse,
    /// The views of clients that change at run time.
    clients: Option<Arc<ClientTable>>,
}

impl Lookups {
    /// Lookups in this cache, of an instance that was started with this configuration, and has these upstreams in use.
    pub fn new(
        cache_jobs: CacheJobs,
        started: &Config,
        upstreams: UpstreamsInUse,
        clients: Option<Arc<ClientTable>>,
    ) -> Self {
        let jobs = Jobs::new(MAX_LOOKUPS);
        Self { cache_jobs, started: Arc::new(started.clone()), jobs, upstreams, clients }
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
        let (config, ruleset) = (in_use.made.config(), &in_use.made.rules);
        let address = octets(lookup.client);
        let (access, who) = match lookup.client {
            Some(_) => Acl::new(config, ruleset).with_table(self.clients.clone()).find(&address),
            None => (Access::Allow, Who::default()),
        };
        let key = Key::in_scope(&lookup.name, lookup.qtype, who.scope());
        let exempt = ruleset.exemption(&address, who);
        let outlook = self.cache_jobs.outlook(key, exempt)?;
        let (cache, (_, now)) = (self.cache_jobs.cache(), self.cache_jobs.now());
        let found = cache.get(key.hash(cache.seed(), cache.seed().hash(key.name)), &key);
        let entry = found.and_then(|found| found.copy()).map(|entry| (entry.head(), entry));
        let fresh = entry.as_ref().filter(|(head, _)| head.expires > now);
        let approved = fresh
            .is_some_and(|(head, _)| head.passed == ruleset.generation() && !who.is(Who::RULED));
        let usable =
            fresh.filter(|(head, _)| !(head.flags & Head::REWRITTEN != 0 && exempt.is_some()));
        let mut explained = ruleset.explain(key.name, key.qtype, &address, who);
        if matches!(explained.outcome, RuleOutcome::Pass)
            && let Some((_, entry)) = usable
            && let Some(of_view) = ruleset.explain_shared(entry, who.view(), exempt)
        {
            explained = of_view;
        }
        let mut report = LookupReport {
            name: readable(key.name),
            record_type: type_name(key.qtype),
            client: lookup.client,
            view: view_name(who.view(), &config.views).to_owned(),
            decided_by: DecidedBy::Upstreams,
            rcode: None,
            truncated: false,
            records: Vec::new(),
            rule: None,
            cached: entry.as_ref().map(|(head, _)| self.cached(head, &outlook, now)),
            upstream: None,
        };
        if access != Access::Allow {
            return Ok(refused(report, access));
        }
        let view = who.view();
        if matches!(explained.outcome, RuleOutcome::Pass) {
            report.rule = rules::rule(in_use, &explained, (key.name, key.qtype, view));
        }
        match (explained.outcome, usable) {
            (_, Some((_, entry))) if approved => {
                give(&mut report, DecidedBy::Cache, entry, key, now)
            }
            (RuleOutcome::Pass, Some((head, entry))) => {
                give(&mut report, DecidedBy::Cache, entry, key, now);
                redirect(&mut report, ruleset.redirected(key, head, view), key);
            }
            (RuleOutcome::Pass, None) => {
                let denial = self.miss(&mut report, key, &outlook, entry.as_ref());
                let redirected = denial.and_then(|head| ruleset.redirected(key, &head, view));
                redirect(&mut report, redirected, key);
            }
            (outcome, _) => {
                report.rule = rules::rule(in_use, &explained, (key.name, key.qtype, view));
                report.decided_by = kind_of(explained.source);
                give_outcome(&mut report, outcome, key, now);
            }
        }
        Ok(report)
    }

    /// What becomes of a query that the rules let pass and the cache has no fresh answer to. Gives the answer that the client
    /// would get, if it may be a denial.
    fn miss(
        &self,
        report: &mut LookupReport,
        key: Key<'_>,
        outlook: &Outlook,
        expired: Option<&(Head, Entry)>,
    ) -> Option<Head> {
        if key.qtype == rtype::ANY && self.started.answers.minimal_any {
            report.decided_by = DecidedBy::MinimalAny;
            report.rcode = Some(rcode_name(Rcode::NOERROR));
        } else if let Some(denial) = outlook.denial {
            report.decided_by = DecidedBy::CachedNxdomain;
            report.rcode = Some(rcode_name(Rcode::NXDOMAIN));
            return Some(denial);
        } else if let Some((head, entry)) = expired
            && outlook.has_stale
            && (outlook.failed.is_some() || outlook.is_resting)
        {
            give(report, DecidedBy::StaleAnswer, entry, key, head.expires);
            return Some(*head);
        } else if outlook.failed.is_some() {
            report.decided_by = DecidedBy::RecentFailure;
            report.rcode = Some(rcode_name(Rcode::SERVFAIL));
        } else {
            report.upstream = Some(self.group(outlook));
        }
        None
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

    fn cached(&self, head: &Head, outlook: &Outlook, now: u32) -> CachedReport {
        let is_authentic = head.flags & Head::AUTHENTIC != 0;
        CachedReport {
            ttl_left_seconds: head.expires.saturating_sub(now),
            age_seconds: now.saturating_sub(head.learnt),
            is_stale: head.expires <= now,
            recent_hits: outlook.hits,
            validation: match (self.started.dnssec.validate, is_authentic) {
                (true, true) => ValidationState::Secure,
                (true, false) => ValidationState::Insecure,
                (false, true) => ValidationState::SecureByUpstream,
                (false, false) => ValidationState::NotValidated,
            },
            rewritten: head.flags & Head::REWRITTEN != 0,
        }
    }
}

/// The kind of rule that decides.
fn kind_of(source: RuleSource) -> DecidedBy {
    match source {
        RuleSource::RunTime => DecidedBy::RunTime,
        RuleSource::Local => DecidedBy::LocalRecords,
        RuleSource::PolicyZone { .. } => DecidedBy::PolicyZone,
        RuleSource::Blocked => DecidedBy::BlockList,
    }
}

/// The answer is the outcome of the rule that the report names, at second `now`.
fn give_outcome(report: &mut LookupReport, outcome: RuleOutcome<'_>, key: Key<'_>, now: u32) {
    let by = report.decided_by;
    let mut note = |note: &str| {
        report.rule.get_or_insert_default().note = Some(note.to_owned());
    };
    match outcome {
        RuleOutcome::Pass | RuleOutcome::Drop => {}
        RuleOutcome::Entry(entry) => give(report, by, entry, key, now),
        RuleOutcome::Alias(entry) => {
            note("the records of the alias's target follow");
            give(report, by, entry, key, now);
        }
        RuleOutcome::Truncated => {
            report.rcode = Some(rcode_name(Rcode::NOERROR));
            report.truncated = true;
        }
        RuleOutcome::Rcode(rcode) => report.rcode = Some(rcode_name(rcode)),
        RuleOutcome::NotReady => {
            note("the policy zone was not transferred yet");
            report.rcode = Some(rcode_name(Rcode::SERVFAIL));
        }
    }
}

/// The access list lets no query pass.
fn refused(report: LookupReport, access: Access) -> LookupReport {
    let rcode = (access == Access::Refuse).then(|| rcode_name(Rcode::REFUSED));
    LookupReport { decided_by: DecidedBy::AccessList, rcode, ..report }
}

/// The answer is this entry, as it is at second `now`.
fn give(report: &mut LookupReport, decided_by: DecidedBy, entry: &Entry, key: Key<'_>, now: u32) {
    let head = entry.head();
    report.decided_by = decided_by;
    report.rcode = (head.rcode != Head::SILENT).then(|| rcode_name(head.rcode));
    report.truncated = head.flags & Head::TOO_LONG != 0;
    report.records = records::texts(entry, key, now.saturating_sub(head.learnt));
}

/// The answer was a denial, and is redirected.
fn redirect(report: &mut LookupReport, redirected: Option<Redirected<'_>>, key: Key<'_>) {
    let Some(Redirected { place, entry }) = redirected else { return };
    report.decided_by = DecidedBy::Redirect;
    report.rcode = Some(rcode_name(Rcode::NOERROR));
    report.records = entry.map(|entry| records::texts(entry, key, 0)).unwrap_or_default();
    let note = Some(format!("redirect[{place}]"));
    report.rule = Some(RuleReport { note, ..RuleReport::default() });
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
