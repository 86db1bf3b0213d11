//! Stage: an answer from the cache, or a miss.
//!
//! A lookup waits for memory twice, for the bucket and for the entry. So the batch is walked three times:
//! ask for every bucket, ask for every entry, then compare. This is the one stage with a loop of its own.

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::cache::{Cache, EntryRef, Head, Key, answers};
use crate::packet::{Answer, Batch, MAX_BATCH, Packet};
use crate::step::{Exits, Step};
use crate::{Context, Stage, StageName};

/// The stage that finds cached answers.
#[derive(Clone, Debug)]
pub struct Lookup {
    cache: Arc<Cache>,
}

impl Lookup {
    /// A lookup stage over `cache`.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { cache }
    }

    /// Where a packet goes whose key the index led to `found`.
    #[inline]
    fn decide(&self, packet: &mut Packet, found: Option<EntryRef>, context: &Context) -> Step {
        let Some(found) = found else { return Step::SlowPath };
        let entry = self.cache.view(found);
        let matches = answers(&entry, &Key::of(packet.query()));
        let head = Head::read(&entry);
        if !matches || head.expires <= context.seconds || !entry.is_valid() {
            return Step::SlowPath;
        }
        packet.answer = Answer::Cached(found);
        Step::At(StageName::Encode)
    }

    #[inline]
    fn hash(&self, packet: &Packet) -> u64 {
        Key::of(packet.query()).hash(self.cache.seed(), packet.key)
    }
}

impl Stage for Lookup {
    const NAME: StageName = StageName::Lookup;

    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let found = self.cache.find(self.hash(packet));
        self.decide(packet, found, context)
    }

    #[inline]
    fn process(&mut self, batch: &mut Batch, context: &Context, exits: &mut Exits) {
        let here = Step::At(Self::NAME);
        let mut hashes: ArrayVec<u64, MAX_BATCH> = ArrayVec::new();
        for packet in batch.iter().filter(|packet| packet.step == here) {
            let hash = self.hash(packet);
            self.cache.prefetch_bucket(hash);
            hashes.push(hash);
        }
        let mut found: ArrayVec<Option<EntryRef>, MAX_BATCH> = ArrayVec::new();
        for hash in hashes {
            let entry = self.cache.find(hash);
            if let Some(entry) = entry {
                self.cache.prefetch_entry(entry);
            }
            found.push(entry);
        }
        let waiting = batch.iter_mut().filter(|packet| packet.step == here);
        for (packet, found) in waiting.zip(found) {
            packet.step = self.decide(packet, found, context);
            debug_assert!(packet.step.is_below(Self::NAME), "steps only go down the line");
            exits.count(packet.step);
        }
    }
}
