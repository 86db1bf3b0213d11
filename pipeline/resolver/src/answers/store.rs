//! The shard of the cache that one thread writes to, and the whole cache that it reads.

use std::sync::Arc;

use pmdns_stages::cache::{Cache, Entry, Found, Inserted, Key, Lifetimes, Retention, Writer};
use pmdns_stages::miss::Miss;
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
    /// What the writer was made with, or has been changed to.
    retention: Retention,
}

impl Store {
    /// Reads `cache`, and writes by `writer`.
    pub(crate) fn new(
        cache: Arc<Cache>,
        writer: Writer,
        counters: Arc<CacheCounters>,
        lifetimes: Lifetimes,
        retention: Retention,
    ) -> Self {
        let store = Self { cache, writer, counters, lifetimes, retention };
        store.publish();
        store
    }

    /// From now on answers are kept so long, and take such shares. Those in the cache stay as they are.
    pub(crate) fn set_lifetimes(&mut self, lifetimes: Lifetimes, retention: &Retention) {
        let bounds = |one: &Retention| {
            (one.max_negative_share, one.max_negative_ttl, one.max_long_share, one.max_ttl)
        };
        if bounds(retention) != bounds(&self.retention) {
            self.writer.set_shares(retention);
            self.retention = *retention;
        }
        self.lifetimes = Lifetimes { max_body: self.lifetimes.max_body, ..lifetimes };
    }

    /// Writes again, from where another process has stopped, at second `now`.
    pub(crate) fn resume(&mut self, now: u32) {
        if let Err(error) = self.writer.resume(&self.retention, now) {
            tracing::warn!("{error}");
        }
        self.publish();
    }

    /// The seed of the hash of keys.
    pub(crate) fn seed(&self) -> Seed {
        self.cache.seed()
    }

    /// Starts loading the place of the answer to a miss.
    pub(crate) fn prefetch(&self, miss: &Miss) {
        self.cache.probe(miss.key().hash(self.seed(), miss.key));
    }

    /// The cached answer to a question, fresh or expired.
    pub(crate) fn get(&self, question: &Question) -> Option<Found<'_>> {
        self.cache.get(question.hash(), &question.key())
    }

    /// The cached answer under any key.
    pub(crate) fn get_key(&self, key: Key<'_>) -> Option<Found<'_>> {
        self.cache.get(key.hash(self.seed(), self.seed().hash(key.name)), &key)
    }

    /// Replaces the entry for a key. If `entry` is not fresh, it only removes the old one. Returns whether the entry is
    /// kept. `None`: the key belongs to another thread's shard, as a question of the validator may.
    pub(crate) fn keep(&mut self, entry: &Entry, is_fresh: bool) -> Option<bool> {
        let hash = entry.head().hash;
        if !self.writer.owns(hash) {
            return None;
        }
        let is_kept = is_fresh
            && match self.writer.insert(entry) {
                Inserted::TooManyLong => self.writer.insert(&entry.shortened()).is_kept(),
                inserted => inserted.is_kept(),
            };
        if !is_kept {
            self.writer.remove(hash);
        }
        self.publish();
        Some(is_kept)
    }

    /// Publishes the counters of this shard.
    pub(crate) fn publish(&self) {
        self.counters.publish(&self.writer.stats());
    }
}
