//! The ruleset: everything that names are judged by, made ready at load, then only read.
//!
//! An answer that goes into the cache is marked with the generation of the ruleset that lets its question pass. So
//! nobody has to ask again for each of its hits.
//!
//! A reload makes a new one. A packet may be judged by one and encoded on another core, which has the other. Then
//! it is judged again there. An answer is a place in the ruleset of one generation, and is looked up in no other.

mod answers;
mod by_view;
mod error;
mod explain;
mod load;
mod misses;

use std::sync::Arc;

use pmdns_config::{BlockAction, Prefix};

use super::dns64::Dns64;
use super::filter::{Candidates, Filter};
use super::list_number::ListNumber;
use super::lists::Blocked;
use super::local::{Entries, Local};
use super::reasons::Reasons;
use super::rebinding::Rebindings;
use super::redirect::Redirects;
use super::rpz::{Action, PolicyZone};
use super::runtime::RuntimeNames;
use crate::answer::{Answer, LocalRef};
use crate::cache::{Entry, Head};
use crate::packet::Packet;
use crate::step::{Reason, Step};
use crate::wire::dns::{Rcode, rtype};
use crate::wire::edns::ExtendedError;
use crate::wire::layout::Who;
use crate::wire::query::ClientQuery;
pub use error::RulesetError;
pub use explain::{Explained, RuleOutcome, RuleSource};
pub use load::Digest;
pub use misses::MissVerdict;

/// Everything that names are judged by.
#[derive(Debug)]
pub struct Ruleset {
    generation: u16,
    /// Names of run time, which count before the rules that were read.
    runtime: Option<Arc<RuntimeNames>>,
    read: Arc<ReadRules>,
}

/// The rules of the configuration and its files. Rulesets that differ only in names of run time share it.
#[derive(Debug)]
struct ReadRules {
    /// Which names the others have anything to say about.
    filter: Filter,
    /// Local names, by view; views with the same sources share them.
    local: Box<[Arc<Local>]>,
    policies: Box<[PolicyZone]>,
    /// Whether policy zones have rules about clients.
    judges_clients: bool,
    reasons: Reasons,
    /// By view, how AAAA records are made of A records there; views of a scope have the same.
    dns64: Box<[Option<Dns64>]>,
    redirects: Redirects,
    /// By view, the scope it belongs to.
    scopes: Box<[u8]>,
    blocked: Blocked,
    entries: Entries,
    /// Answers to A and AAAA queries for names that are blocked with the null address.
    null: [u32; 2],
    /// Denials by rules: that there is no such name, and no such record.
    denials: [u32; 2],
    rebindings: Rebindings,
}

/// The bit of the number of an entry that stands among those of run time.
const RUNTIME: u32 = 1 << 31;

impl Ruleset {
    /// The same rules as of another generation, with what is said at run time.
    pub fn with_runtime(&self, generation: u16, runtime: Option<Arc<RuntimeNames>>) -> Self {
        Self { generation, runtime, read: Arc::clone(&self.read) }
    }

    /// The mark of an answer whose question it lets pass, as in [`Head::passed`].
    #[inline(always)]
    pub fn generation(&self) -> u16 {
        self.generation
    }

    /// Clients that policy zones have rules about.
    pub(crate) fn client_prefixes(&self) -> impl Iterator<Item = &Prefix> {
        self.read.policies.iter().flat_map(|zone| &zone.client_prefixes)
    }

    /// The answer at a place, unless it is a place in another ruleset.
    #[inline]
    pub fn entry(&self, found: LocalRef) -> Option<&Entry> {
        let LocalRef { generation, number } = found;
        (generation == self.generation).then(|| self.entry_of(number)).flatten()
    }

    #[inline]
    fn entry_of(&self, number: u32) -> Option<&Entry> {
        if number & RUNTIME == 0 {
            return self.read.entries.get(number);
        }
        self.runtime.as_ref()?.entry(number & !RUNTIME)
    }

    /// Starts loading what [`Ruleset::judge`] will read first.
    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        self.read.filter.prefetch(packet.query().name());
    }

    /// Whether the answer at a place is an alias whose target has yet to be resolved.
    pub(crate) fn leads_on(&self, found: LocalRef) -> bool {
        self.entry(found).is_some_and(|entry| entry.head().flags & Head::LEADS_ON != 0)
    }

    /// Where a packet goes that a rule is about. A client that wants recursion gets what an alias leads to as well, which
    /// the slow path finds.
    pub fn judge(&self, packet: &mut Packet) -> Option<Step> {
        let client = packet.layout.client(packet.frame.bytes());
        self.carry_out(self.verdict_on(packet.query(), client), packet)
    }

    /// Where a packet goes by a decision, and with which answer. `None`: the rules let it pass.
    #[inline(always)]
    fn carry_out(&self, (decision, why): RuleVerdict, packet: &mut Packet) -> Option<Step> {
        packet.answer = match decision {
            RuleDecision::Pass => return None,
            // It has come over a stream, as the rule wants it.
            RuleDecision::Truncated if packet.layout.is_stream() => return None,
            RuleDecision::Drop => {
                packet.extended_error = why;
                return Some(Step::drop(Reason::Blocked));
            }
            RuleDecision::Truncated => Answer::Truncated,
            RuleDecision::Rcode(rcode) => {
                packet.extended_error = why;
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
                packet.extended_error = why.or_else(|| self.failure(found));
                // Of a template there is nothing to give before it is filled in.
                if self.is_template(found) {
                    packet.refuse_unless_recursive();
                }
                packet.answer
            }
        };
        Some(Step::ANSWER)
    }

    /// The records that go with an rcode by a rule: for how long clients may keep it.
    pub(crate) fn denial(&self, packet: &Packet, rcode: Rcode) -> Option<&Entry> {
        let is_by_rule = packet.extended_error.is_some_and(ExtendedError::is_of_rules);
        is_by_rule.then(|| self.denial_of(rcode)).flatten()
    }

    fn denial_of(&self, rcode: Rcode) -> Option<&Entry> {
        let [nxdomain, nodata] = self.read.denials;
        match rcode {
            Rcode::NXDOMAIN => self.entry_of(nxdomain),
            Rcode::NOERROR => self.entry_of(nodata),
            _ => None,
        }
    }

    /// Why an answer of local records is SERVFAIL: its aliases have no end.
    fn failure(&self, found: LocalRef) -> Option<ExtendedError> {
        let fails = self.entry(found).is_some_and(|entry| entry.head().rcode == Rcode::SERVFAIL);
        fails.then_some(ExtendedError::INVALID_DATA)
    }

    fn is_template(&self, found: LocalRef) -> bool {
        self.entry(found).is_some_and(|entry| entry.head().is_template())
    }

    /// The number of the first zone with a rule about a client, if the rule is that no others count for it. Rules about
    /// answers in that zone and in those behind it do not hold either.
    pub fn exemption(&self, client: &[u8], who: Who) -> Option<u8> {
        let zones = (0..).zip(&self.read.policies).filter(|(_, zone)| zone.views.has(who.view()));
        let first = zones
            .filter(|_| who.is(Who::RULED))
            .find_map(|(number, zone)| Some((number, zone.of_client(client)?)))?;
        (first.1 == Action::Passthru).then_some(first.0)
    }

    /// The local answer for a name in the view of a client.
    pub fn local(&self, name: &[u8], qtype: u16, view: u8) -> Option<&Entry> {
        let runtime = self.runtime.as_ref();
        let of_runtime = runtime.and_then(|runtime| runtime.local(name, qtype));
        if let Some(found) = of_runtime.filter(|found| !found.is_above) {
            return self.entry_of(found.entry | RUNTIME);
        }
        let local = self.read.local.get(usize::from(view))?;
        let found = local.find(name, &self.read.filter.candidates(name), qtype)?;
        self.entry_of(found.entry).filter(|_| !found.is_above)
    }

    /// How AAAA records are made of A records in a scope, if they are.
    pub fn dns64(&self, scope: u8) -> Option<&Dns64> {
        self.read.dns64.get(usize::from(scope))?.as_ref()
    }

    /// The code of a packet's extended error, and a text for people, if its client is told.
    pub(crate) fn extended_error(&self, packet: &Packet) -> Option<(ExtendedError, &str)> {
        self.read
            .reasons
            .extended_error(packet.extended_error?, matches!(packet.answer, Answer::Rcode(_)))
    }

    fn verdict_on(&self, query: ClientQuery<'_>, client: &[u8]) -> RuleVerdict {
        let (name, view) = (query.name(), query.layout().who.view());
        let client = self.read.judges_clients.then_some(client);
        let mut candidates = Candidates::new();
        self.read.filter.find(name, &mut candidates);
        if candidates.is_empty() && client.is_none() && self.runtime.is_none() {
            return (RuleDecision::Pass, None);
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
    ) -> RuleVerdict {
        self.find_rule(name, candidates, qtype, client, view).1
    }

    /// The same, and what it comes from.
    #[inline(always)]
    fn find_rule(
        &self,
        name: &[u8],
        candidates: &Candidates<'_>,
        qtype: u16,
        client: Option<&[u8]>,
        view: u8,
    ) -> (RuleSource, RuleVerdict) {
        // The zone above a local name has its DS records. If rules hold that question back, the name exists all the same.
        let mut held_back = None;
        let runtime = self.runtime.as_ref();
        if let Some(found) = runtime.and_then(|runtime| runtime.local(name, qtype)) {
            let rule = (RuleSource::RunTime, (RuleDecision::Entry(found.entry | RUNTIME), None));
            if !found.is_above {
                return rule;
            }
            held_back = Some(rule);
        }
        let said = runtime.and_then(|runtime| runtime.override_of(name, view));
        if let Some(Some(action)) = said {
            let why = Some(ListNumber::Runtime.as_reason());
            let blocked = (RuleSource::RunTime, (self.block_verdict(Some(action), qtype), why));
            return held_back.unwrap_or(blocked);
        }
        let Some(local) = self.read.local.get(usize::from(view)) else {
            // An earlier core of the line has rules already that this one looks at next.
            return (RuleSource::Local, (RuleDecision::NotReady, None));
        };
        if let Some(found) = local.find(name, candidates, qtype) {
            let rule = (RuleSource::Local, (RuleDecision::Entry(found.entry), None));
            if !found.is_above {
                return rule;
            }
            held_back = held_back.or(Some(rule));
        }
        if said.is_some() {
            return (RuleSource::RunTime, (RuleDecision::Pass, None));
        }
        let listed = self.listed_rule(name, candidates, qtype, client, view);
        held_back.filter(|_| listed.1.0 != RuleDecision::Pass).unwrap_or(listed)
    }

    /// The rule of policy zones and lists on a query.
    #[inline(always)]
    fn listed_rule(
        &self,
        name: &[u8],
        candidates: &Candidates<'_>,
        qtype: u16,
        client: Option<&[u8]>,
        view: u8,
    ) -> (RuleSource, RuleVerdict) {
        for zone in self.policies_in(view) {
            let of_client = client.and_then(|client| zone.of_client(client));
            if let Some(action) = of_client.or_else(|| zone.of_name(name, candidates)) {
                let source =
                    RuleSource::PolicyZone { number: zone.number, of_client: of_client.is_some() };
                let why = Some(ListNumber::Zone(zone.number).as_reason());
                return (source, (policy_verdict(zone, action, qtype), why));
            }
        }
        let (action, list) = self.read.blocked.decide(name, candidates, view).unzip();
        let why = list.map(|list| ListNumber::of_blocked(list).as_reason());
        (RuleSource::Blocked, (self.block_verdict(action, qtype), why))
    }

    /// The policy zones of a view, in their order.
    fn policies_in(&self, view: u8) -> impl Iterator<Item = &PolicyZone> {
        self.read.policies.iter().filter(move |zone| zone.views.has(view))
    }

    /// What a name gets that is blocked, if it is.
    fn block_verdict(&self, action: Option<BlockAction>, qtype: u16) -> RuleDecision {
        match action {
            None => RuleDecision::Pass,
            Some(BlockAction::Drop) => RuleDecision::Drop,
            Some(BlockAction::Nxdomain) => RuleDecision::Rcode(Rcode::NXDOMAIN),
            Some(BlockAction::Refused) => RuleDecision::Rcode(Rcode::REFUSED),
            Some(BlockAction::Null) if qtype == rtype::A => RuleDecision::Entry(self.read.null[0]),
            Some(BlockAction::Null) if qtype == rtype::AAAA => {
                RuleDecision::Entry(self.read.null[1])
            }
            Some(BlockAction::Nodata | BlockAction::Null) => RuleDecision::Rcode(Rcode::NOERROR),
        }
    }
}

/// The verdict of a zone's action on a query of this type.
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

/// The decision on a query, and the list that says so, if one does.
type RuleVerdict = (RuleDecision, Option<ExtendedError>);

/// The decision on a query.
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
