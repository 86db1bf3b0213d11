//! The rings of misses of one data core. Misses that the slow path cannot keep up with are shed here. The client prefix
//! with most misses in a ring loses first.

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_SLOWPATH_THREADS;
use pmdns_config::narrow::to_u8;
use pmdns_stages::cache::{Cache, Key};
use pmdns_stages::miss::Miss;
use pmdns_stages::packet::MAX_BATCH;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Answer, Batch, Context, Packet, Step};

use crate::counters::Tally;
use crate::ring::RingSender;
use crate::ring_shares::{Refusals, RingShares};

/// Rings to the slow path, by cache shard.
pub(crate) struct MissRings {
    rings: Vec<(RingSender<Miss>, RingShares)>,
    prefixes: ClientPrefixes,
    refusals: Refusals,
}

impl MissRings {
    /// No rings yet, to be shared by client prefix.
    pub(crate) fn new(prefixes: ClientPrefixes) -> Self {
        Self { rings: Vec::new(), prefixes, refusals: Refusals::new() }
    }

    /// Adds the ring to the next thread.
    pub(crate) fn push(&mut self, ring: RingSender<Miss>) {
        let shares = RingShares::new(ring.capacity());
        self.rings.push((ring, shares));
    }

    /// Drops the senders, so that the slow path sees the end of the rings.
    pub(crate) fn clear(&mut self) {
        self.rings.clear();
    }

    /// Sends the batch's misses to the threads that own their parts of the cache. They were `judged` by rules of this
    /// generation. Some clients of shed misses are told:
    /// these packets continue to encode. Returns whether there are any.
    #[inline]
    pub(crate) fn hand_on(
        &mut self,
        batch: &mut Batch,
        cache: &Cache,
        judged: impl FnOnce() -> u16,
        context: &Context,
        tally: &mut Tally,
    ) -> bool {
        if !batch.iter().any(|packet| packet.step == Step::SLOW_PATH) {
            return false;
        }
        let (told, judged) = (tally.miss_told, judged());
        let misses = misses_of(batch, cache, self.rings.len());
        let mut owners = misses.iter().fold(0_u64, |owners, (_, owner)| owners | 1 << owner);
        // Rings without a miss are not touched: there may be many.
        while owners != 0 {
            let shard = to_u8(owners.trailing_zeros() as usize);
            owners &= owners - 1;
            let (ring, shares) = &mut self.rings[usize::from(shard)];
            shares.settle(ring.free(MAX_BATCH + ring.capacity() / 2));
            let mut handed: ArrayVec<u8, MAX_BATCH> = ArrayVec::new();
            let mut refused = 0;
            for (index, _) in misses.iter().filter(|(_, owner)| *owner == shard) {
                let packet = &mut batch[usize::from(*index)];
                let prefix = self.prefixes.hash_of_miss(packet);
                if shares.has_room_for(prefix) {
                    shares.note(prefix);
                    handed.push(*index);
                    continue;
                }
                refused += usize::from(shares.is_full());
                // A stream's connection keeps a place for its query, and nobody forges its address.
                if packet.layout.is_stream() || self.refusals.may_notify(prefix, context.seconds) {
                    packet.answer = Answer::Rcode(Rcode::SERVFAIL);
                    packet.extended_error = Some(ExtendedError::NOT_READY);
                    packet.step = Step::ANSWER;
                    tally.miss_told += 1;
                } else if shares.is_full() {
                    tally.miss_full += 1;
                } else {
                    tally.miss_share += 1;
                }
            }
            let misses = handed.iter().map(|index| Miss::of(&batch[usize::from(*index)], judged));
            let pushed = ring.push_from(misses, handed.len());
            debug_assert_eq!(pushed, handed.len(), "a ring has room for what its shares allow");
            tally.slow_path += pushed as u64;
            if refused > 0 {
                ring.refuse(refused);
            }
        }
        tally.miss_told > told
    }
}

/// The places of the batch's misses, each with the number of the thread of `shards` that owns its part of the cache.
#[inline]
fn misses_of(batch: &Batch, cache: &Cache, shards: usize) -> ArrayVec<(u8, u8), MAX_BATCH> {
    const { assert!(MAX_SLOWPATH_THREADS <= u64::BITS as usize, "a word has a bit for each thread") };
    let misses = batch.iter().enumerate().filter(|(_, packet)| packet.step == Step::SLOW_PATH);
    misses.map(|(index, packet)| (to_u8(index), to_u8(owner_of(packet, cache, shards)))).collect()
}

/// Which of `shards` threads of the slow path owns the packet's part of the cache.
#[inline]
fn owner_of(packet: &Packet, cache: &Cache, shards: usize) -> usize {
    match shards {
        1 => 0,
        _ => cache.shard_of(Key::of(packet.query()).hash(cache.seed(), packet.key)),
    }
}
