//! The ruleset: everything that names are judged by, made ready at load, then only read.
//!
//! An answer that goes into the cache is marked with the generation of the ruleset that lets its question pass, so that
//! nobody has to ask again for each of its hits.
//!
//! A reload makes a new one. A packet that was judged by one and is encoded on another core, which has the other,
//! is judged again there: an answer is a place in the ruleset of one generation, and is looked up in no other.

use std::path::PathBuf;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pmdns_config::files::{FileError, ListSummary, Scope, read_list, read_zone};
use pmdns_config::limits::MAX_LIST_NAMES;
use pmdns_config::{Absent, BlockAction, Config, NameError, Prefix, ViewSet};

use super::filter::{Candidates, Filter, all_candidates};
use super::lists::{Blocked, Lists};
use super::local::{Entries, Local, LocalError};
use super::rpz::{Action, PolicyZone, RpzError, Skipped, WholeName, alias_targets};
use super::sources::LocalSources;
use super::zone::Reply;
use crate::answer::{Answer, LocalRef};
use crate::cache::{Entry, Head, Key, NameBuffer};
use crate::miss::Miss;
use crate::packet::Packet;
use crate::step::{Reason, Step};
use crate::wire::dns::{Rcode, rtype};
use crate::wire::edns::ExtendedError;
use crate::wire::layout::Who;
use crate::wire::name::Seed;
use crate::wire::query::ClientQuery;

/// Why there is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum RulesetError {
    /// Local data contradict themselves.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A policy zone cannot be used.
    #[error("{}: {problem}", file.display())]
    Rpz {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it.
        problem: RpzError,
    },
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A blocked name is no name.
    #[error("block.names: {0}")]
    Block(#[from] NameError),
    /// A forwarded zone is no name.
    #[error("forward.zone: {0}")]
    Forward(NameError),
    /// There are more names than there is room for.
    #[error("block.names: there are more than {MAX_LIST_NAMES} blocked names; remove some")]
    TooMany,
}

/// Everything that names are judged by.
#[derive(Debug)]
pub struct Ruleset {
    generation: u16,
    /// Which names the others have anything to say about.
    pub(super) filter: Filter,
    /// Local names, by view; views with the same sources share them.
    local: Box<[Arc<Local>]>,
    policies: Box<[PolicyZone]>,
    /// Whether policy zones have rules about clients.
    judges_clients: bool,
    /// By view, the scope it belongs to.
    scopes: Box<[u8]>,
    blocked: Blocked,
    entries: Entries,
    /// Answers to A and AAAA queries for names that are blocked with the null address.
    null: [u32; 2],
}

/// What was read to make a ruleset, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Names with local records, counted once for all views that have the same.
    pub local_names: usize,
    /// Names that policy zones have rules about.
    pub policy_names: usize,
    /// Names that are blocked, exceptions included.
    pub blocked_names: usize,
    /// Rules of policy zones that cannot be used.
    pub skipped_rules: usize,
    /// Bytes that the names take.
    pub bytes: usize,
    /// What was not understood, and is not an error.
    pub warnings: Vec<String>,
}

/// Aliases of one answer that are looked at.
const MAX_ALIASES: usize = 16;

/// What an address of a name that is blocked with the null address may be remembered for, in seconds.
const NULL_TTL: u32 = 300;

impl Ruleset {
    /// A ruleset without rules.
    pub fn empty(seed: Seed) -> Self {
        let config = Config {
            policy: pmdns_config::Policy { special_use: false, auto_ptr: false },
            ..Config::default()
        };
        let (ruleset, _) = Self::load(&config, seed, 0).expect("no rules contradict each other");
        ruleset
    }

    /// Reads the files that `config` names and makes everything ready. `seed` is the one that parse hashes names
    /// with; `generation` another one than that of any ruleset in use.
    ///
    /// # Errors
    ///
    /// A [`RulesetError`] that names the file and line, or the records that contradict each other.
    pub fn load(
        config: &Config,
        seed: Seed,
        generation: u16,
    ) -> Result<(Self, Digest), RulesetError> {
        let mut digest = Digest::default();
        let sources = LocalSources::read(config)?;
        let blocked = read_lists(config, &mut digest)?.build(seed);
        let mut entries = Entries::new(seed);
        let null = [(rtype::A, 4), (rtype::AAAA, 16)]
            .map(|(rtype, len)| entries.add(&Reply::of(rtype, NULL_TTL, &vec![0; len]), 0));
        let [a, aaaa] = null;
        let (mut local, mut distinct) = (Vec::<Arc<Local>>::new(), Vec::new());
        for (view, first) in config.view_numbers().zip(sources.alike(config)) {
            if let Some(same) = local.get(usize::from(first)) {
                local.push(Arc::clone(same));
                continue;
            }
            // A name above a local one exists, also if it is blocked.
            let is_blocked =
                |name: &[u8]| blocked.find(name, &all_candidates(name, seed), view).is_some();
            let records = sources.records(config, view);
            local.push(Arc::new(Local::new(&records, is_blocked, &mut entries)?));
            distinct.extend(local.last().map(Arc::clone));
        }
        let local_names: usize = distinct.iter().map(|local| local.len()).sum();
        let policies = read_policies(config, &mut entries, seed, &mut digest)?;
        let policy_names: usize = policies.iter().map(PolicyZone::len).sum();
        let names = local_names + policy_names + blocked.len();
        let mut filter = Filter::with_capacity(names, seed);
        distinct.iter().for_each(|local| local.add_to(&mut filter));
        policies.iter().for_each(|zone| zone.add_to(&mut filter));
        blocked.add_to(&mut filter);
        digest.local_names = local_names;
        digest.policy_names = policy_names;
        digest.blocked_names = blocked.len();
        let policy_bytes: usize = policies.iter().map(PolicyZone::footprint).sum();
        digest.bytes = filter.footprint() + policy_bytes + blocked.footprint();
        let ruleset = Self {
            generation,
            filter,
            local: local.into(),
            judges_clients: policies.iter().any(|zone| !zone.client_prefixes.is_empty()),
            scopes: config.scopes().into(),
            policies: policies.into(),
            blocked,
            entries,
            null: [a?, aaaa?],
        };
        Ok((ruleset, digest))
    }

    /// What is on an answer whose question it lets pass, as in [`Head::passed`].
    #[inline(always)]
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Clients that policy zones have rules about.
    pub(crate) fn client_prefixes(&self) -> impl Iterator<Item = &Prefix> {
        self.policies.iter().flat_map(|zone| &zone.client_prefixes)
    }

    /// The answer at a place, unless it is a place in another ruleset.
    #[inline]
    pub fn entry(&self, found: LocalRef) -> Option<&Entry> {
        let LocalRef { generation, number } = found;
        (generation == self.generation).then(|| self.entries.get(number)).flatten()
    }

    /// Starts loading what [`Ruleset::judge`] will read first.
    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        self.filter.prefetch(packet.query().name());
    }

    /// Whether the answer at a place is an alias whose target has yet to be resolved.
    pub(crate) fn leads_on(&self, found: LocalRef) -> bool {
        self.entry(found).is_some_and(|entry| entry.head().flags & Head::LEADS_ON != 0)
    }

    /// Where a packet goes that a rule is about. A client that wants recursion gets what an alias leads to as well, which
    /// the slow path finds.
    pub(crate) fn judge(&self, packet: &mut Packet) -> Option<Step> {
        let client = packet.layout.client(packet.frame.bytes());
        packet.answer = match self.verdict_on(packet.query(), client) {
            RuleDecision::Pass => return None,
            RuleDecision::Drop => return Some(Step::drop(Reason::Blocked)),
            RuleDecision::Truncated => Answer::Truncated,
            RuleDecision::Rcode(rcode) => {
                packet.extended_error = Some(ExtendedError::BLOCKED);
                Answer::Rcode(rcode)
            }
            RuleDecision::NotReady => {
                packet.extended_error = Some(ExtendedError::NOT_READY);
                Answer::Rcode(Rcode::SERVFAIL)
            }
            RuleDecision::Entry(number) => {
                let found = LocalRef { generation: self.generation, number };
                packet.answer = Answer::Local(found);
                if self.leads_on(found) && packet.wants_recursion() {
                    return Some(Step::SLOW_PATH);
                }
                // Of a template there is nothing to give before it is filled in.
                if self.is_template(found) {
                    packet.refuse_unless_recursive();
                }
                packet.answer
            }
        };
        Some(Step::ANSWER)
    }

    fn is_template(&self, found: LocalRef) -> bool {
        self.entry(found).is_some_and(|entry| entry.head().is_template())
    }

    /// The alias that a miss is about, whose target is to be resolved. `found` is what it was when the miss left its core;
    /// the rules may be others by now.
    pub fn alias(&self, found: LocalRef, miss: &Miss) -> Option<(LocalRef, &Entry)> {
        let found = match self.entry(found) {
            Some(_) => found,
            None => match self.verdict_on(miss.query(), miss.client()) {
                RuleDecision::Entry(number) => LocalRef { generation: self.generation, number },
                _ => return None,
            },
        };
        self.entry(found).filter(|_| self.leads_on(found)).map(|entry| (found, entry))
    }

    /// The first zone with a rule about a client, by its number, if the rule is that no others count for it: those about
    /// answers in that zone and the ones behind it do not hold either.
    pub fn exemption(&self, client: &[u8], who: Who) -> Option<u8> {
        let zones = (0..).zip(&self.policies).filter(|(_, zone)| zone.views.has(who.view()));
        let first = zones
            .filter(|_| who.is(Who::RULED))
            .find_map(|(number, zone)| Some((number, zone.of_client(client)?)))?;
        (first.1 == Action::Passthru).then_some(first.0)
    }

    /// Whether every client that shares answers by `key` gets the same alias, so that what it leads to can be kept.
    pub fn shares_alias(&self, key: Key<'_>, found: LocalRef) -> bool {
        let candidates = self.filter.candidates(key.name);
        found.generation == self.generation
            && self
                .verdicts_in_scope(key, &candidates)
                .all(|one| one == RuleDecision::Entry(found.number))
    }

    /// As [`Ruleset::respond`], for a client that the zones from this number on hold nothing for.
    pub fn respond_before(&self, entry: Entry, key: Key<'_>, message: &[u8], zone: u8) -> Entry {
        if !self.judges_answer(&entry.head()) {
            return entry;
        }
        let candidates = self.filter.candidates(key.name);
        let verdict = self.verdict_on_answer(key, &candidates, message, zone);
        self.carried_out(entry, key, verdict)
    }

    /// What local records of the view that a client is in say of a name.
    pub fn local(&self, name: &[u8], qtype: u16, view: u8) -> Option<&Entry> {
        let local = self.local.get(usize::from(view))?;
        self.entries.get(local.find(name, &self.filter.candidates(name), qtype)?)
    }

    fn verdict_on(&self, query: ClientQuery<'_>, client: &[u8]) -> RuleDecision {
        let (name, view) = (query.name(), query.layout().who.view());
        let client = self.judges_clients.then_some(client);
        let mut candidates = Candidates::new();
        self.filter.find(name, &mut candidates);
        if candidates.is_empty() && client.is_none() {
            return RuleDecision::Pass;
        }
        self.verdict(name, &candidates, query.qtype(), client, view)
    }

    /// What is to be done with a query; of no client in particular, by rules about names only.
    fn verdict(
        &self,
        name: &[u8],
        candidates: &Candidates<'_>,
        qtype: u16,
        client: Option<&[u8]>,
        view: u8,
    ) -> RuleDecision {
        let local = self.local.get(usize::from(view));
        if let Some(number) = local.and_then(|local| local.find(name, candidates, qtype)) {
            return RuleDecision::Entry(number);
        }
        for zone in self.policies_in(view) {
            let action = client.and_then(|client| zone.of_client(client));
            let action = action.or_else(|| zone.of_name(name, candidates));
            if let Some(action) = action {
                return policy_verdict(zone, action, qtype);
            }
        }
        self.block_verdict(self.blocked.find(name, candidates, view), qtype)
    }

    /// What a name gets that is blocked, if it is.
    fn block_verdict(&self, action: Option<BlockAction>, qtype: u16) -> RuleDecision {
        match action {
            None => RuleDecision::Pass,
            Some(BlockAction::Drop) => RuleDecision::Drop,
            Some(BlockAction::Nxdomain) => RuleDecision::Rcode(Rcode::NXDOMAIN),
            Some(BlockAction::Refused) => RuleDecision::Rcode(Rcode::REFUSED),
            Some(BlockAction::Null) if qtype == rtype::A => RuleDecision::Entry(self.null[0]),
            Some(BlockAction::Null) if qtype == rtype::AAAA => RuleDecision::Entry(self.null[1]),
            Some(BlockAction::Nodata | BlockAction::Null) => RuleDecision::Rcode(Rcode::NOERROR),
        }
    }
}

impl Ruleset {
    /// The generation if queries for `key` pass, from whichever client that rules tell apart by the view only; otherwise 0.
    pub fn passed(&self, key: Key<'_>) -> u16 {
        let mut candidates = Candidates::new();
        self.filter.find(key.name, &mut candidates);
        self.passed_by(key, &candidates)
    }

    fn passed_by(&self, key: Key<'_>, candidates: &Candidates<'_>) -> u16 {
        let mut verdicts = self.verdicts_in_scope(key, candidates);
        let passes = candidates.is_empty() || verdicts.all(|verdict| verdict == RuleDecision::Pass);
        if passes { self.generation } else { 0 }
    }

    /// The verdict of each view that shares answers by `key`, on clients that rules do not tell apart.
    fn verdicts_in_scope(
        &self,
        key: Key<'_>,
        candidates: &Candidates<'_>,
    ) -> impl Iterator<Item = RuleDecision> {
        self.views_of(key.scope())
            .map(move |view| self.verdict(key.name, candidates, key.qtype, None, view))
    }

    /// An upstream's answer, as `entry` and as the message it was read from, or what rules have to say of what is
    /// in it. Whoever asked for it and whoever will be answered from the cache gets the same: policy zones
    /// hold alike in all views of the key's scope.
    pub fn respond(&self, entry: Entry, key: Key<'_>, message: &[u8]) -> Entry {
        let mut candidates = Candidates::new();
        self.filter.find(key.name, &mut candidates);
        let mut entry = self.rewritten(entry, key, &candidates, message);
        // Silence is no hit: lookup is to ask.
        if entry.head().rcode != Head::SILENT {
            entry.set_passed(self.passed_by(key, &candidates));
        }
        entry
    }

    fn rewritten(
        &self,
        entry: Entry,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
    ) -> Entry {
        if !self.judges_answer(&entry.head()) {
            return entry;
        }
        let verdict = self.verdict_on_answer(key, candidates, message, u8::MAX);
        self.carried_out(entry, key, verdict)
    }

    /// An answer after a verdict on it.
    fn carried_out(&self, entry: Entry, key: Key<'_>, verdict: RuleDecision) -> Entry {
        match verdict {
            // No answer is judged by a zone that is not here.
            RuleDecision::Pass | RuleDecision::NotReady => entry,
            RuleDecision::Truncated => entry.without_records(key, Rcode::NOERROR, Head::TOO_LONG),
            RuleDecision::Rcode(rcode) => entry.without_records(key, rcode, 0),
            RuleDecision::Drop => entry.without_records(key, Head::SILENT, 0),
            RuleDecision::Entry(number) => match self.entries.get(number) {
                Some(local) => entry.with_records_of(key, local),
                None => entry,
            },
        }
    }

    /// What is to be done with an upstream's answer: by rules about the names that its aliases lead to, and about what
    /// it says of addresses and name servers. Zones from `end` on do not count, nor do lists then.
    fn verdict_on_answer(
        &self,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
        end: u8,
    ) -> RuleDecision {
        // Whoever asks for an alias itself does not follow it.
        let is_followed = !matches!(key.qtype, rtype::CNAME | rtype::ANY);
        let names = alias_targets(message).take(if is_followed { MAX_ALIASES } else { 0 });
        let names: ArrayVec<WholeName, MAX_ALIASES> = names.collect();
        let aliases = names.iter().map(|name| (&**name, self.filter.candidates(name)));
        let aliases: Vec<(&[u8], Candidates<'_>)> = aliases.collect();
        let zones = (0..end).zip(&self.policies).map(|(_, zone)| zone);
        for zone in zones.filter(|zone| zone.views.has(key.scope())) {
            // An earlier rule about the name exempts it; any other would have been carried out by now.
            if zone.of_name(key.name, candidates) == Some(Action::Passthru) {
                return RuleDecision::Pass;
            }
            let of_alias =
                aliases.iter().find_map(|(name, candidates)| zone.of_name(name, candidates));
            if let Some(action) = of_alias.or_else(|| zone.of_response(message)) {
                return policy_verdict(zone, action, key.qtype);
            }
        }
        if end < u8::MAX {
            return RuleDecision::Pass;
        }
        let of_lists = aliases
            .iter()
            .find_map(|(name, candidates)| self.blocked_in_scope(name, candidates, key.scope()));
        self.block_verdict(of_lists, key.qtype)
    }

    /// What lists say of a name in all views of a scope. Where they differ it is not blocked: these views share the answer.
    fn blocked_in_scope(
        &self,
        name: &[u8],
        candidates: &Candidates<'_>,
        scope: u8,
    ) -> Option<BlockAction> {
        let mut actions =
            self.views_of(scope).map(|view| self.blocked.find(name, candidates, view));
        let first = actions.next().flatten();
        first.filter(|_| actions.all(|other| other == first))
    }

    /// The views of a scope.
    fn views_of(&self, scope: u8) -> impl Iterator<Item = u8> {
        (0..).zip(&self.scopes).filter(move |(_, its)| **its == scope).map(|(view, _)| view)
    }

    /// The same for an answer that was read when other rules may have held.
    pub fn respond_again(&self, entry: Entry) -> Entry {
        let mut buffer = NameBuffer::default();
        let key = entry.key(&mut buffer);
        let message = if self.judges_answer(&entry.head()) { entry.message() } else { Vec::new() };
        self.respond(entry, key, &message)
    }

    /// The policy zones of a view, in their order.
    fn policies_in(&self, view: u8) -> impl Iterator<Item = &PolicyZone> {
        self.policies.iter().filter(move |zone| zone.views.has(view))
    }

    /// Whether there are rules about what such an answer says, rather than about its question only. Of several records
    /// one may be an alias.
    pub fn judges_answer(&self, head: &Head) -> bool {
        let [answers, ..] = head.counts();
        let has_names = !self.policies.is_empty() || self.blocked.len() > 0;
        answers > 1 && has_names || self.policies.iter().any(PolicyZone::has_responses)
    }
}

/// What an action of a zone means for a query of this type.
fn policy_verdict(zone: &PolicyZone, action: Action, qtype: u16) -> RuleDecision {
    match action {
        Action::Passthru => RuleDecision::Pass,
        Action::Nxdomain => RuleDecision::Rcode(Rcode::NXDOMAIN),
        Action::Nodata => RuleDecision::Rcode(Rcode::NOERROR),
        Action::Drop => RuleDecision::Drop,
        Action::TcpOnly => RuleDecision::Truncated,
        Action::NotReady => RuleDecision::NotReady,
        Action::Local(node) => RuleDecision::Entry(zone.entry(node, qtype)),
    }
}

/// What is to be done with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleDecision {
    /// The rules say nothing about it.
    Pass,
    /// Answer with the entry of this number.
    Entry(u32),
    /// Answer with TC=1.
    Truncated,
    /// Answer with nothing but an rcode.
    Rcode(Rcode),
    /// Answer with SERVFAIL: a policy zone is not here yet.
    NotReady,
    /// Do not answer.
    Drop,
}

/// The policy zones, in their order.
fn read_policies(
    config: &Config,
    entries: &mut Entries,
    seed: Seed,
    digest: &mut Digest,
) -> Result<Vec<PolicyZone>, RulesetError> {
    let mut zones = Vec::new();
    for rpz in &config.rpz {
        let mut zone = if rpz.zone.is_none() || rpz.file.exists() {
            let records = read_zone(&rpz.file, rpz.origin.as_deref())?;
            PolicyZone::new(&records, entries, seed)
                .map_err(|problem| RulesetError::Rpz { file: rpz.file.clone(), problem })?
        } else {
            let is_open = rpz.absent == Absent::Pass;
            let what =
                if is_open { "it has no rules" } else { "queries in its views get SERVFAIL" };
            let file = rpz.file.display();
            digest.warnings.push(format!("{file}: the policy zone is not here yet, so {what}"));
            if is_open {
                continue;
            }
            PolicyZone::not_ready(seed)
        };
        if let Skipped { count, first: Some(problem) } = std::mem::take(&mut zone.skipped) {
            if rpz.strict {
                return Err(RulesetError::Rpz { file: rpz.file.clone(), problem });
            }
            digest.skipped_rules += count;
            let file = rpz.file.display();
            digest
                .warnings
                .push(format!("{file}: {count} rules are left out, the first because {problem}"));
        }
        zone.views = config.view_set(&rpz.views);
        zones.push(zone);
    }
    Ok(zones)
}

/// The names of `[block]` and of all block lists, in this order.
fn read_lists(config: &Config, digest: &mut Digest) -> Result<Lists, RulesetError> {
    let mut lists = Lists::default();
    for name in config.block.wire_names()? {
        if !lists.add(&name, Scope::Below, BlockAction::Nxdomain, ViewSet::ALL) {
            return Err(RulesetError::TooMany);
        }
    }
    for list in &config.blocklists {
        let views = config.view_set(&list.views);
        let take = |listed: pmdns_config::files::Listed<'_>| {
            lists.add(listed.name, listed.scope, list.action, views)
        };
        let ListSummary { names, unknown, first_unknown } =
            read_list(&list.file, list.format, take)?;
        if let Some((line, text)) = first_unknown {
            digest.warnings.push(format!(
                "{}: {names} names; {unknown} lines are no rules we know, the first is line {line}: {text}",
                list.file.display(),
            ));
        }
    }
    Ok(lists)
}
