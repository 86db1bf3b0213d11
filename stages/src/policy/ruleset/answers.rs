//! Answers of upstreams under the rules: which of them pass, and how the others change.

use arrayvec::ArrayVec;
use pmdns_config::BlockAction;

use super::{RuleDecision, Ruleset, policy_verdict};
use crate::answer::LocalRef;
use crate::cache::{Entry, Head, Key, NameBuffer};
use crate::policy::filter::Candidates;
use crate::policy::rebinding::Cleaned;
use crate::policy::rpz::{Action, PolicyZone, WholeName, alias_targets};
use crate::wire::dns::{Rcode, rtype};

/// Aliases of one answer that are looked at.
const MAX_ALIASES: usize = 16;

impl Ruleset {
    /// Whether every client that shares answers by `key` gets the same alias, so that what it leads to can be kept.
    pub fn shares_alias(&self, key: Key<'_>, found: LocalRef) -> bool {
        let candidates = self.read.filter.candidates(key.name);
        found.generation == self.generation
            && self
                .verdicts_in_scope(key, &candidates)
                .all(|one| one == RuleDecision::Entry(found.number))
    }

    /// As [`Ruleset::respond`], for a client that the zones from this number on hold nothing for.
    pub fn respond_before(&self, entry: Entry, key: Key<'_>, message: &[u8], zone: u8) -> Entry {
        self.rewritten(entry, key, &self.read.filter.candidates(key.name), message, zone)
    }

    /// The generation if queries for `key` get such an answer, from whichever client that rules tell apart by the view only;
    /// otherwise 0.
    pub fn passed(&self, key: Key<'_>, answer: &Head) -> u16 {
        let mut candidates = Candidates::new();
        self.read.filter.find(key.name, &mut candidates);
        self.passed_by(key, answer, &candidates)
    }

    fn passed_by(&self, key: Key<'_>, answer: &Head, candidates: &Candidates<'_>) -> u16 {
        if self.redirects_in_scope(key, answer) {
            return 0;
        }
        let mut verdicts = self.verdicts_in_scope(key, candidates);
        let is_silent = candidates.is_empty() && self.runtime.is_none();
        let passes = is_silent || verdicts.all(|verdict| verdict == RuleDecision::Pass);
        if passes { self.generation } else { 0 }
    }

    /// The verdict of each view that shares answers by `key`, on clients that rules do not tell apart.
    fn verdicts_in_scope(
        &self,
        key: Key<'_>,
        candidates: &Candidates<'_>,
    ) -> impl Iterator<Item = RuleDecision> {
        self.views_of(key.scope())
            .map(move |view| self.verdict(key.name, candidates, key.qtype, None, view).0)
    }

    /// An upstream's answer, as `entry` and as the message it was read from, or what rules have to say of what is
    /// in it. The client that asked gets the same as clients that are answered from the cache. Policy zones hold
    /// alike in all views of the key's scope.
    pub fn respond(&self, entry: Entry, key: Key<'_>, message: &[u8]) -> Entry {
        let mut candidates = Candidates::new();
        self.read.filter.find(key.name, &mut candidates);
        let mut entry = self.rewritten(entry, key, &candidates, message, u8::MAX);
        // Silence is no hit: lookup is to ask.
        let head = entry.head();
        if head.rcode != Head::SILENT {
            entry.set_passed(self.passed_by(key, &head, &candidates));
        }
        entry
    }

    /// An answer as the rules about answers leave it. Zones from `end` on do not count.
    fn rewritten(
        &self,
        entry: Entry,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
        end: u8,
    ) -> Entry {
        if !self.judges_answer(&entry.head()) {
            return entry;
        }
        match self.verdict_on_answer(key, candidates, message, end) {
            // No answer is judged by a zone that is not here.
            RuleDecision::Pass | RuleDecision::NotReady => self.cleaned(entry, key),
            RuleDecision::Truncated => self.cleaned(entry, key).only_over_streams(),
            RuleDecision::Rcode(rcode) => self.denied(&entry, key, rcode),
            RuleDecision::Drop => entry.without_records(key, Head::SILENT, 0),
            RuleDecision::Entry(number) => match self.entry_of(number) {
                Some(local) => entry.with_records_of(key, local),
                None => entry,
            },
        }
    }

    /// An answer without addresses that its name must not lead to.
    fn cleaned(&self, entry: Entry, key: Key<'_>) -> Entry {
        if self.read.rebindings.are_none() {
            return entry;
        }
        match self.read.rebindings.cleaned(entry, key, self.dns64(key.scope())) {
            Cleaned::Rest(entry) => entry,
            Cleaned::Nothing(entry, rcode) => self.denied(&entry, key, rcode),
        }
    }

    /// This rcode in the place of an answer, for as long as that.
    fn denied(&self, entry: &Entry, key: Key<'_>, rcode: Rcode) -> Entry {
        match self.denial_of(rcode) {
            Some(denial) => entry.with_records_of(key, denial),
            None => entry.without_records(key, rcode, 0),
        }
    }

    /// The decision on an upstream's answer, by rules about the names that its aliases lead to, and about the
    /// addresses and name servers in it. Zones from `end` on do not count, nor do lists then.
    fn verdict_on_answer(
        &self,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
        end: u8,
    ) -> RuleDecision {
        // A client that asks for an alias itself does not follow it.
        let is_followed = !matches!(key.qtype, rtype::CNAME | rtype::ANY);
        let names = alias_targets(message).take(if is_followed { MAX_ALIASES } else { 0 });
        let mut names: ArrayVec<WholeName, MAX_ALIASES> = names.collect();
        if self.said_in_scope(key.name, key.scope()) == Some(None) {
            return RuleDecision::Pass;
        }
        let said = |name: &WholeName| self.said_in_scope(name, key.scope());
        if let Some(Some(action)) = names.iter().find_map(|name| said(name).filter(Option::is_some))
        {
            return self.block_verdict(Some(action), key.qtype);
        }
        names.retain(|name| said(name).is_none());
        let aliases = names.iter().map(|name| (&**name, self.read.filter.candidates(name)));
        let aliases: Vec<(&[u8], Candidates<'_>)> = aliases.collect();
        let zones = (0..end).zip(&self.read.policies).map(|(_, zone)| zone);
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
        let found = |view| self.read.blocked.find(name, candidates, view);
        let mut actions = self.views_of(scope).map(found);
        let first = actions.next().flatten();
        first.filter(|_| actions.all(|other| other == first))
    }

    /// What is said at run time of a name in all views of a scope. Where they differ nothing is.
    fn said_in_scope(&self, name: &[u8], scope: u8) -> Option<Option<BlockAction>> {
        let runtime = self.runtime.as_ref()?;
        let mut said = self.views_of(scope).map(|view| runtime.said_of(name, view));
        let first = said.next().flatten();
        first.filter(|_| said.all(|other| other == first))
    }

    /// The views of a scope.
    pub(super) fn views_of(&self, scope: u8) -> impl Iterator<Item = u8> {
        (0..).zip(&self.read.scopes).filter(move |(_, its)| **its == scope).map(|(view, _)| view)
    }

    /// The same for an answer that was read when other rules may have held.
    pub fn respond_again(&self, entry: Entry) -> Entry {
        let mut buffer = NameBuffer::default();
        let key = entry.key(&mut buffer);
        let message = if self.judges_answer(&entry.head()) { entry.message() } else { Vec::new() };
        self.respond(entry, key, &message)
    }

    /// Whether there are rules about what answers say, rather than about their questions only.
    pub fn judges_answers(&self) -> bool {
        self.has_names() || self.read.policies.iter().any(PolicyZone::has_responses)
    }

    /// Whether there are rules about names that aliases may lead to.
    fn has_names(&self) -> bool {
        self.runtime.is_some()
            || !self.read.policies.is_empty()
            || self.read.blocked.names.len() > 0
    }

    /// Whether there are rules about what such an answer says, rather than about its question only. Of several records
    /// one may be an alias.
    pub fn judges_answer(&self, head: &Head) -> bool {
        let [answers, ..] = head.counts();
        answers > 1 && self.has_names()
            || answers > 0 && !self.read.rebindings.are_none()
            || self.read.policies.iter().any(PolicyZone::has_responses)
    }
}
