//! Answers: how they are stored, and how they are sent to clients. No upstream is asked here.

pub(crate) mod aliases;
pub(crate) mod dns64;
pub(crate) mod late;
pub(crate) mod nxdomain_cut;
pub(crate) mod outlets;
pub(crate) mod responder;
pub(crate) mod stale;
pub(crate) mod store;
pub(crate) mod subnets;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use pmdns_stages::cache::{Entry, EntryRef, Found, Head};
use pmdns_stages::policy::Ruleset;
use pmdns_stages::{Context, Tick};

use crate::counters::{Counters, count};
use crate::origin::Origin;
use crate::questions::pending::Waiter;
use crate::questions::question::{Question, Rule};
use crate::upstreams::replies::ResolvedAnswer;
use late::{Given, LateAnswer, LateAnswers};
use responder::Responder;
use stale::Stale;
use store::Store;
use subnets::Subnets;

/// The answers of one thread.
pub(crate) struct Answers {
    pub(crate) store: Store,
    pub(crate) subnets: Subnets,
    pub(crate) stale: Stale,
    pub(crate) responder: Responder,
    pub(crate) late: LateAnswers,
    /// Whether NXDOMAIN for a name also denies all names below it.
    pub(crate) cuts_at_nxdomain: bool,
    pub(crate) counters: Arc<Counters>,
    /// The time of this turn, as the stages see it.
    pub(crate) context: Context,
}

impl Answers {
    /// The rules in use.
    pub(crate) fn rules(&self) -> &Ruleset {
        self.responder.encode.rules()
    }

    /// The position of the answer in the cache, if it is fresh and this client may get it.
    pub(crate) fn find(&self, question: &Question) -> Option<EntryRef> {
        self.usable(question).map(|found| found.entry)
    }

    /// A copy of that answer.
    pub(crate) fn known(&self, question: &Question) -> Option<Entry> {
        self.usable(question)?.copy()
    }

    fn usable(&self, question: &Question) -> Option<Found<'_>> {
        if matches!(question.rule(), Rule::Alias(..) | Rule::Reverse(_)) {
            return None;
        }
        let found = self.store.get(question)?;
        // Clients that are exempt from rules get only answers that no rule has changed.
        let is_changed = found.head.flags & Head::REWRITTEN != 0 && question.rule() != Rule::None;
        let is_usable = found.is_fresh(self.context.seconds) && !is_changed;
        (is_usable && found.head.rcode != Head::SILENT).then_some(found)
    }

    /// The expired answer to `question`, as clients get it. This is the one place where it is made.
    pub(crate) fn stale_answer(&self, question: &Question) -> Option<Entry> {
        // The cached answer is not for clients to whom other rules apply.
        if !self.stale.is_served || question.rule() != Rule::None {
            return None;
        }
        let found = self.store.get(question)?;
        let now = self.context.seconds;
        if now >= self.stale.usable_until(found.head.expires) {
            return None;
        }
        Some(found.copy()?.stale(now, self.stale.ttl))
    }

    /// Gives a client what it gets. If the ring has no room for it, `keep` makes what it gets in a later turn.
    pub(crate) fn give(
        &mut self,
        waiter: Waiter<'_>,
        deadline: Tick,
        given: &Given<'_>,
        keep: impl FnOnce() -> Rc<Given<'static>>,
    ) {
        let Self { responder, late, context, counters, .. } = self;
        if late.takes(waiter.outlet, responder) {
            count(&counters.waiting);
            let (client, judged) = (waiter.to_seated(), responder.encode.rules().generation());
            late.keep(LateAnswer { client, deadline, judged, given: keep() });
        } else {
            responder.give(waiter, given, context);
        }
    }

    /// Answers with an expired answer.
    pub(crate) fn give_stale(&mut self, waiter: Waiter<'_>, entry: &Entry) {
        let origin = Origin::Stale;
        self.responder.entry(waiter, entry, 0, origin, &self.context, |counters| &counters.stale);
    }

    /// Applies the rules to an upstream's answer to a question.
    pub(crate) fn judged(&self, question: &Question, entry: Entry, reply: &[u8]) -> Entry {
        let (rules, key) = (self.rules(), question.key());
        match question.rule() {
            Rule::Exempt(zone) => rules.respond_before(entry, key, reply, zone),
            _ => rules.respond(entry, key, reply),
        }
    }

    /// Puts an answer into the cache. An answer with TTL 0 is not stored: it is only for the clients that wait for it.
    /// Either way the older answer to the same question is out of date. An answer for one network goes to `subnets`.
    pub(crate) fn keep(
        &mut self,
        question: &Question,
        ResolvedAnswer { entry, network, .. }: &ResolvedAnswer,
    ) {
        let Some(entry) = self.to_keep(question, entry) else { return };
        let is_fresh = entry.head().expires > self.context.seconds;
        if let Some(network) = *network {
            if is_fresh {
                // There is no share for them here.
                let is_long = self.store.writer.is_long(&entry.head());
                let entry = if is_long { entry.shortened() } else { entry.into_owned() };
                self.subnets.keep(question, network, entry, &self.counters);
            }
            return;
        }
        if let Some(is_kept) = self.store.keep(&entry, is_fresh) {
            let counters = &self.counters;
            count(if is_kept { &counters.inserted } else { &counters.not_cached });
        }
    }

    /// The form in which the cache stores the answer. `None`: it stores nothing, because other clients would get
    /// another answer.
    fn to_keep<'e>(&self, question: &Question, entry: &'e Entry) -> Option<Cow<'e, Entry>> {
        let rules = self.rules();
        match question.rule() {
            Rule::None => Some(Cow::Borrowed(entry)),
            Rule::Exempt(_) => {
                let for_others = rules.respond_again(entry.clone());
                (for_others.head().flags & Head::REWRITTEN == 0).then_some(Cow::Owned(for_others))
            }
            // Its target may be a local name of one view.
            Rule::Reverse(_) => None,
            Rule::Alias(found, _) => {
                let is_fresh = entry.head().expires > self.context.seconds;
                (is_fresh && rules.shares_alias(question.key(), found)).then(|| {
                    let mut entry = entry.clone();
                    entry.set_passed(rules.generation());
                    Cow::Owned(entry)
                })
            }
        }
    }
}
