//! NXDOMAIN for a name answers for all names below it, without asking (RFC 8020), where the operator wants that.
//!
//! One forged NXDOMAIN would take away everything below, so it has to be firm. Of one that is not, the upstreams are
//! asked again over TCP.

use pmdns_stages::cache::{Entry, Head, Key, answers};
use pmdns_stages::wire::dns::rtype;
use pmdns_stages::wire::name::suffixes;

use crate::counters::count;
use crate::questions::pending::Admission;
use crate::questions::query::{Question, Rule};
use crate::resolver::Resolver;
use crate::upstreams::network::Timer;

/// Ancestors looked at, the name itself included: random names are made a label or two below real ones.
const MAX_ANCESTORS: usize = 16;

impl Resolver {
    /// An answer that follows from a cached NXDOMAIN of this name, or of one above it.
    pub(crate) fn denial(&mut self, question: &Question) -> Option<Entry> {
        if !self.nxdomain_cut || question.rule() != Rule::None {
            return None;
        }
        let asked = question.key();
        // That the root does not exist is nothing to go by.
        let names = suffixes(asked.name).take_while(|name| name.len() > 1).take(MAX_ANCESTORS);
        // NXDOMAIN is for all types, but was asked for with one: that of this question, or a usual one.
        let keys = names.flat_map(|name| {
            [asked.qtype, rtype::A, rtype::AAAA].map(|qtype| Key { name, qtype, ..asked })
        });
        // What one group denies says nothing about names that another is asked for.
        let group = self.groups.of(question.zone());
        let mut doubtful = None;
        let denial = keys
            .take_while(|key| self.groups.of(question.zone_of(*key)) == group)
            .filter_map(|key| self.fresh(key))
            .find_map(|entry| {
                let cut = entry.cut_for(asked, question.hash())?;
                if entry.head().flags & Head::FIRM != 0 {
                    return Some(cut);
                }
                doubtful.get_or_insert(entry);
                None
            });
        if let Some(entry) = doubtful.filter(|_| denial.is_none()) {
            self.confirm(&entry);
        }
        denial
    }

    /// Asks over TCP for what an entry of this thread's shard answers, for the cache only.
    fn confirm(&mut self, entry: &Entry) {
        let question = Question::of_entry(entry).validating(self.validation.is_on());
        // Those who say where they are get answers for their networks, and nobody is where this would be asked from.
        let is_for_networks = question.key().flags & Key::SUBNET != 0;
        if is_for_networks
            || !self.writer.owns(question.hash())
            || self.failures.why(&question, self.now).is_some()
        {
            return;
        }
        let Self { groups, health, now, .. } = self;
        let begin = |question: &Question| groups.plan(question.zone(), health, *now).over_tcp();
        if let Admission::Leads(ticket) = self.pending.begin(question, begin) {
            count(&self.counters.nxdomain_confirmed);
            count(&self.counters.pending);
            self.network.wake_at(self.now + self.deadline, Timer::Abandon(ticket));
            self.advance(ticket);
        }
    }

    /// A copy of what the cache has for `key`, if it has not expired.
    fn fresh(&self, key: Key<'_>) -> Option<Entry> {
        let seed = self.cache.seed();
        let found = self.cache.find(key.hash(seed, seed.hash(key.name)))?;
        let view = self.cache.view(found);
        let is_it = answers(&view, &key) && Head::read(&view).expires > self.context.seconds;
        is_it.then(|| Entry::copy_of(&view)).flatten()
    }
}
