//! Lookups under way: what decides on a query, found where the line finds it.

use std::net::IpAddr;
use std::sync::Arc;

use domain::base::iana::Rcode as RcodeName;
use pmdns_config::{Access, Config, readable, type_name};
use pmdns_resolver::Outlook;
use pmdns_stages::acl::Acl;
use pmdns_stages::cache::{Entry, Head, Key};
use pmdns_stages::policy::{RuleOutcome, RuleSource, Ruleset};
use pmdns_stages::wire::dns::{Rcode, rtype};
use pmdns_stages::wire::layout::Who;

use super::report::{
    CachedReport, DecidedBy, GroupReport, Lookup, LookupReport, UpstreamReport, ValidationState,
};
use super::{records, rules};
use crate::control::socket::Client;
use crate::snapshot::{CacheOrders, SnapshotError};

/// Lookups at a time. Each may read block lists.
const MAX_LOOKUPS: usize = 4;

/// Carries out lookups, each on a thread of its own.
#[derive(Clone, Debug)]
pub struct Lookups {
    orders: CacheOrders,
    /// The configuration of the start, which says who is asked.
    started: Arc<Config>,
    /// Every lookup under way holds a reference, so the number of references counts them.
    count: Arc<()>,
}

impl Lookups {
    /// Lookups in this cache, of an instance that was started with this configuration.
    pub fn new(orders: CacheOrders, started: &Config) -> Self {
        Self { orders, started: Arc::new(started.clone()), count: Arc::default() }
    }

    /// Carries out a lookup under the rules in use and their configuration, and sends the client its result as JSON.
    pub fn run(&self, lookup: Lookup, config: &Arc<Config>, rules: &Arc<Ruleset>, client: Client) {
        if Arc::strong_count(&self.count) > MAX_LOOKUPS {
            return client.answer("error: too many lookups are under way; try again\n");
        }
        let (own, config, rules) = (self.clone(), Arc::clone(config), Arc::clone(rules));
        let body = move || {
            let report = own.look_up(&lookup, &config, &rules);
            let json = report.map_err(|error| error.to_string()).and_then(|report| {
                serde_json::to_string(&report).map_err(|error| error.to_string())
            });
            client.answer(&match json {
                Ok(json) => format!("ok {json}\n"),
                Err(error) => format!("error: {error}\n"),
            });
        };
        if let Err(error) = std::thread::Builder::new().name("lookup".to_owned()).spawn(body) {
            tracing::warn!("cannot start a thread for a request: {error}");
        }
    }

    /// The answer that a client would get, and why. Waits for a thread of the slow path, and may read block lists.
    pub fn look_up(
        &self,
        lookup: &Lookup,
        config: &Config,
        ruleset: &Ruleset,
    ) -> Result<LookupReport, SnapshotError> {
        let address = octets(lookup.client);
        let (access, who) = match lookup.client {
            Some(_) => Acl::new(config, ruleset).find(&address),
            None => (Access::Allow, Who::default()),
        };
        let key = Key::in_scope(&lookup.name, lookup.qtype, who.scope());
        let exempt = ruleset.exemption(&address, who);
        let outlook = self.orders.outlook(key, exempt)?;
        let (cache, (_, now)) = (self.orders.cache(), self.orders.now());
        let found = cache.get(key.hash(cache.seed(), cache.seed().hash(key.name)), &key);
        let entry = found.and_then(|found| found.copy()).map(|entry| (entry.head(), entry));
        let fresh = entry.as_ref().filter(|(head, _)| head.expires > now);
        let approved = fresh
            .is_some_and(|(head, _)| head.passed == ruleset.generation() && !who.is(Who::RULED));
        let usable =
            fresh.filter(|(head, _)| !(head.flags & Head::REWRITTEN != 0 && exempt.is_some()));
        let explained = ruleset.explain(key.name, key.qtype, &address, who);
        let mut report = LookupReport {
            name: readable(key.name),
            record_type: type_name(key.qtype),
            client: lookup.client,
            view: view_name(config, who),
            decided_by: DecidedBy::Upstreams,
            rcode: None,
            truncated: false,
            records: Vec::new(),
            rule: None,
            cached: entry.as_ref().map(|(head, _)| self.cached(head, &outlook, now)),
            upstream: None,
        };
        if access != Access::Allow {
            report.decided_by = DecidedBy::AccessList;
            report.rcode = (access == Access::Refuse).then(|| rcode_name(Rcode::REFUSED));
            return Ok(report);
        }
        match (explained.outcome, usable) {
            (_, Some((_, entry))) if approved => report.give(DecidedBy::Cache, entry, key, now),
            (RuleOutcome::Pass, Some((_, entry))) => {
                report.give(DecidedBy::Cache, entry, key, now);
            }
            (RuleOutcome::Pass, None) => self.miss(&mut report, key, &outlook, entry.as_ref()),
            (outcome, _) => {
                report.decided_by = match explained.source {
                    RuleSource::RunTime => DecidedBy::RunTime,
                    RuleSource::Local => DecidedBy::LocalRecords,
                    RuleSource::PolicyZone { .. } => DecidedBy::PolicyZone,
                    RuleSource::Blocked => DecidedBy::BlockList,
                };
                report.rule = rules::rule(config, explained.source, key.name, who);
                match outcome {
                    RuleOutcome::Pass | RuleOutcome::Drop => {}
                    RuleOutcome::Entry(entry) => report.give(report.decided_by, entry, key, now),
                    RuleOutcome::Alias(entry) => {
                        report.give(report.decided_by, entry, key, now);
                        let note = "the records of the alias's target follow";
                        report.rule.get_or_insert_default().note = Some(note.to_owned());
                    }
                    RuleOutcome::Truncated => {
                        report.rcode = Some(rcode_name(Rcode::NOERROR));
                        report.truncated = true;
                    }
                    RuleOutcome::Rcode(rcode) => report.rcode = Some(rcode_name(rcode)),
                    RuleOutcome::NotReady => {
                        report.rcode = Some(rcode_name(Rcode::SERVFAIL));
                        let note = "the policy zone was not transferred yet";
                        report.rule.get_or_insert_default().note = Some(note.to_owned());
                    }
                }
            }
        }
        Ok(report)
    }

    /// What becomes of a query that the rules let pass and the cache has no fresh answer to.
    fn miss(
        &self,
        report: &mut LookupReport,
        key: Key<'_>,
        outlook: &Outlook,
        expired: Option<&(Head, Entry)>,
    ) {
        if key.qtype == rtype::ANY && self.started.answers.minimal_any {
            report.decided_by = DecidedBy::MinimalAny;
            report.rcode = Some(rcode_name(Rcode::NOERROR));
        } else if outlook.is_denied {
            report.decided_by = DecidedBy::CachedNxdomain;
            report.rcode = Some(rcode_name(Rcode::NXDOMAIN));
        } else if let Some((head, entry)) = expired
            && outlook.has_stale
            && (outlook.failed.is_some() || outlook.is_resting)
        {
            report.give(DecidedBy::StaleAnswer, entry, key, head.expires);
        } else if outlook.failed.is_some() {
            report.decided_by = DecidedBy::RecentFailure;
            report.rcode = Some(rcode_name(Rcode::SERVFAIL));
        } else {
            report.upstream = Some(self.group(outlook));
        }
    }

    fn group(&self, outlook: &Outlook) -> GroupReport {
        let settings = |number: usize| self.started.upstreams.get(number);
        let first = outlook.upstreams.first().and_then(|one| settings(one.number));
        let upstreams = outlook.upstreams.iter().filter_map(|one| {
            let address = settings(one.number)?.address.to_string();
            Some(UpstreamReport { address, is_resting: one.is_resting, srtt_us: one.srtt_us })
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

impl LookupReport {
    /// The answer is this entry, as it is at second `now`.
    fn give(&mut self, decided_by: DecidedBy, entry: &Entry, key: Key<'_>, now: u32) {
        let head = entry.head();
        self.decided_by = decided_by;
        self.rcode = (head.rcode != Head::SILENT).then(|| rcode_name(head.rcode));
        self.truncated = head.flags & Head::TOO_LONG != 0;
        self.records = records::texts(entry, key, now.saturating_sub(head.learnt));
    }
}

fn view_name(config: &Config, who: Who) -> String {
    let view = usize::from(who.view()).checked_sub(1).and_then(|index| config.views.get(index));
    view.map_or_else(|| "default".to_owned(), |view| view.name.clone())
}

fn rcode_name(rcode: Rcode) -> String {
    RcodeName::masked_from_int(rcode.0).to_string()
}

/// The bytes of a client's address; unspecified, if there is none.
fn octets(client: Option<IpAddr>) -> Vec<u8> {
    match client {
        None => vec![0; 4],
        Some(IpAddr::V4(address)) => address.octets().into(),
        Some(IpAddr::V6(address)) => address.octets().into(),
    }
}
