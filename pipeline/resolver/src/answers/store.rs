//! The shard of the cache that one thread writes to, and the whole cache that it reads.

use std::sync::Arc;

use pmdns_stages::cache::{Cache, Entry, Found, Key, Lifetimes, Writer};
use pmdns_stages::wire::name::Seed;

use crate::counters::CacheCounters;
use crate::questions::question::Question;

/// The cache of one thread.
pub(crate) struct Store {
    pub(crate) cache: Arc<Cache>,
    pub(crate) writer: Writer,
    counters: Arc<CacheCounters>,
    /// How long answers are kept.
    pub(crate) lifetimes: Lifetimes,
}

impl Store {
    /// Reads `cache`, and writes by `writer`.
    pub(crate) fn new(
        cache: Arc<Cache>,
        writer: Writer,
        counters: Arc<CacheCounters>,
        lifetimes: Lifetimes,
    ) -> Self {
        let store = Self { cache, writer, counters, lifetimes };
        store.publish();
        store
    }

    /// What keys are hashed with.
    pub(crate) fn seed(&self) -> Seed {
        self.cache.seed()
    }

    /// What the cache has for a question, fresh or expired.
    pub(crate) fn get(&self, question: &Question) -> Option<Found<'_>> {
        self.cache.get(question.hash(), &question.key())
    }

    /// What the cache has under another key.
    pub(crate) fn get_key(&self, key: Key<'_>) -> Option<Found<'_>> {
        self.cache.get(key.hash(self.seed(), self.seed().hash(key.name)), &key)
    }

    /// Puts an entry in place of the one before it, or only takes that out. Says whether it is kept; `None`: it belongs to another
    /// thread, as what the validator asks for may.
    pub(crate) fn keep(&mut self, entry: &Entry, is_fresh: bool) -> Option<bool> {
        let hash = entry.head().hash;
        if !self.writer.owns(hash) {
            return None;
        }
        let is_kept = is_fresh && self.writer.insert(entry).is_kept();
        if !is_kept {
            self.writer.remove(hash);
        }
        self.publish();
        Some(is_kept)
    }

    /// Publishes what is counted of this shard.
    pub(crate) fn publish(&self) {
        self.counters.publish(&self.writer.stats());
    }
}
