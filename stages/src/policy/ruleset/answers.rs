//! Answers of upstreams under the rules: which of them pass, and how the others change.

use super::by_view::{Judged, alias_names};
use super::{RuleDecision, Ruleset};
use crate::answer::LocalRef;
use crate::cache::{Entry, Head, Key, NameBuffer};
use crate::policy::filter::Candidates;
use crate::policy::rebinding::Cleaned;
use crate::policy::rpz::PolicyZone;
use crate::wire::dns::Rcode;

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
    /// in it. The client that asked gets the same as clients that are answered from the cache. If the rules of the views that
    /// share it differ, it stays as it is, and each client is judged on its way out ([`Ruleset::instead`]).
    pub fn respond(&self, entry: Entry, key: Key<'_>, message: &[u8]) -> Entry {
        let mut candidates = Candidates::new();
        self.read.filter.find(key.name, &mut candidates);
        let mut entry = self.rewritten(entry, key, &candidates, message, u8::MAX);
        // Silence is no hit: lookup is to ask.
        let head = entry.head();
        if head.rcode != Head::SILENT && head.passed != Head::BY_VIEW {
            entry.set_passed(self.passed_by(key, &head, &candidates));
        }
        entry
    }

    /// An answer as the rules about answers leave it. Zones from `end` on do not count.
    fn rewritten(
        &self,
        mut entry: Entry,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
        end: u8,
    ) -> Entry {
        // Nothing that was said of it before counts.
        entry.set_passed(0);
        match self.judges_answer(&entry.head()) {
            true => self.judged(entry, key, candidates, message, end),
            false => entry,
        }
    }

    /// Apart, for it takes many pages of the stack, and asks for each.
    #[inline(never)]
    fn judged(
        &self,
        entry: Entry,
        key: Key<'_>,
        candidates: &Candidates<'_>,
        message: &[u8],
        end: u8,
    ) -> Entry {
        let names = alias_names(key, message);
        let aliases = self.aliases(&names);
        let judged = Judged { key, candidates, message, aliases: &aliases, end };
        let Some(verdict) = self.verdict_in_scope(&judged) else {
            let mut entry = self.cleaned(entry, key);
            entry.set_passed(Head::BY_VIEW);
            return entry;
        };
        match verdict {
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
