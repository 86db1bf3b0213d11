//! The client table: which view a client is in, by prefixes that change while packets pass.
//!
//! One thread changes the table ([`ClientTableWriter`]), and every data core reads it without locks. A search tries the
//! lengths in use, the longest first. So it costs a hash and a cache line for each length, and stops at the first match.
//!
//! A slot is one word: 58 bits of the prefix's hash, the view, and a bit that says it is used. So no reader sees a torn
//! entry. A bucket is a cache line: seven slots and a word. The word counts the entries that found it full and went on to
//! the next bucket. A reader goes on as long as that count is not zero. Entries never move. So a reader finds every prefix
//! that is in the table all the time, whatever else is added or removed. `tests/client_table_loom.rs` has loom try to
//! break that.
//!
//! Slots have no room for whole prefixes. Hashes have 64 bits and a secret seed. The odds that a search among a million
//! entries takes a client for another are one to 10^13.

mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use pmdns_config::Prefix;
use pmdns_config::narrow::{to_u8, to_usize};
use pmdns_nics::hugepage::Arena;
use pmdns_nics::prefetch;
use pmdns_nics::sync::{AtomicU64, Ordering};

use crate::wire::name::Seed;
pub use writer::{ClientTableWriter, TableFull};

/// Words of a cache line.
const LINE: usize = 8;
/// Slots of a bucket; its last word is the count of those that went on.
const SLOTS: usize = LINE - 1;
/// Entries that a bucket has on average in a full table. More would send more of them on to the next bucket.
const ENTRIES_PER_BUCKET: usize = 4;
/// Lengths whose buckets are prefetched: nearly all tables have fewer.
const PREFETCHED: usize = 4;

/// A bucket of slots. Zero is an empty slot.
type Bucket = [AtomicU64; LINE];

/// Bits of a slot: the view, and that it is used.
const USED: u64 = 1;
const VIEW_SHIFT: u32 = 1;
const TAG_SHIFT: u32 = 6;

/// The slot of a prefix with this hash.
fn slot_of(hash: u64, view: u8) -> u64 {
    debug_assert!(view < 32, "there are at most 32 views");
    hash << TAG_SHIFT | u64::from(view & 31) << VIEW_SHIFT | USED
}

/// Whether two slots are of one prefix. An empty slot is of none.
#[inline(always)]
fn is_same(one: u64, other: u64) -> bool {
    const VIEW: u64 = 31 << VIEW_SHIFT;
    (one ^ other) & !VIEW == 0
}

/// Prefixes of clients with their views, in memory of fixed size.
#[derive(Debug)]
pub struct ClientTable {
    /// The first line has the lengths in use, as bits: a word for IPv4, three for IPv6. The others are buckets.
    arena: Arena,
    buckets: usize,
    seed: Seed,
}

impl ClientTable {
    /// Bytes of a table for so many prefixes: 16 for each, and 64.
    pub fn bytes_for(max_entries: usize) -> usize {
        (1 + buckets_for(max_entries)) * LINE * size_of::<u64>()
    }

    /// An empty table for so many prefixes in an arena of [`ClientTable::bytes_for`] of them, and who changes it.
    pub fn new(arena: Arena, max_entries: usize, seed: Seed) -> (Arc<Self>, ClientTableWriter) {
        let buckets = buckets_for(max_entries);
        assert!(arena.words().len() >= (1 + buckets) * LINE, "the arena has room for the table");
        let table = Arc::new(Self { arena, buckets, seed });
        let writer = ClientTableWriter::new(Arc::clone(&table), max_entries);
        (table, writer)
    }

    /// The same on the heap, for tests and benches.
    pub fn on_heap(max_entries: usize, seed: Seed) -> (Arc<Self>, ClientTableWriter) {
        let words = Self::bytes_for(max_entries) / size_of::<u64>();
        Self::new(Arena::heap(words), max_entries, seed)
    }

    /// The view that the longest matching prefix gives a client with this address of 4 or 16 bytes; `None`: no prefix
    /// matches.
    #[inline]
    pub fn find(&self, client: &[u8]) -> Option<u8> {
        self.search(client, |hash| self.view_of(hash))
    }

    /// Starts loading what [`ClientTable::find`] will read.
    #[inline]
    pub fn prefetch(&self, client: &[u8]) {
        let mut left = PREFETCHED;
        self.search(client, |hash| {
            prefetch(&raw const *self.bucket(self.home(hash)));
            left -= 1;
            (left == 0).then_some(())
        });
    }

    /// Calls `visit` with the hash of every prefix of a client that may be in the table, the longest first, until it
    /// returns something.
    #[inline(always)]
    fn search<T>(&self, client: &[u8], mut visit: impl FnMut(u64) -> Option<T>) -> Option<T> {
        if let Ok(address) = client.try_into() {
            let address = u32::from_be_bytes(address);
            let lengths = self.head()[0].load(Ordering::Acquire);
            bits(lengths).find_map(|length| visit(self.hash_ipv4(address, length)))
        } else if let Ok(address) = client.try_into() {
            let address = u128::from_be_bytes(address);
            (0..IPV6_WORDS).rev().find_map(|word| {
                let lengths = self.head()[1 + word].load(Ordering::Acquire);
                let first = u64::BITS * u32::from(to_u8(word));
                bits(lengths).find_map(|bit| visit(self.hash_ipv6(address, first + bit)))
            })
        } else {
            debug_assert!(false, "an address has 4 or 16 bytes");
            None
        }
    }

    /// The view of the prefix with this hash.
    #[inline(always)]
    fn view_of(&self, hash: u64) -> Option<u8> {
        let wanted = slot_of(hash, 0);
        let mut at = self.home(hash);
        for _ in 0..self.buckets {
            let bucket = self.bucket(at);
            let found = bucket[..SLOTS].iter().fold(0, |found, slot| {
                let slot = slot.load(Ordering::Acquire);
                if is_same(slot, wanted) { slot } else { found }
            });
            if found != 0 {
                return Some((found >> VIEW_SHIFT & 31) as u8);
            }
            if bucket[SLOTS].load(Ordering::Acquire) == 0 {
                break;
            }
            at = self.after(at);
        }
        None
    }

    #[inline(always)]
    fn hash_ipv4(&self, address: u32, length: u32) -> u64 {
        let host = u32::MAX.checked_shr(length).unwrap_or(0);
        let network = self.seed.mix(0, u64::from(address & !host));
        self.seed.mix(network, 4 << 8 | u64::from(length))
    }

    #[inline(always)]
    fn hash_ipv6(&self, address: u128, length: u32) -> u64 {
        let host = u128::MAX.checked_shr(length).unwrap_or(0);
        let network = address & !host;
        let [high, low] = [network >> 64, network].map(pmdns_config::narrow::low_u64);
        let network = self.seed.mix(self.seed.mix(0, high), low);
        self.seed.mix(network, 6 << 8 | u64::from(length))
    }

    fn hash(&self, prefix: &Prefix) -> u64 {
        let length = u32::from(prefix.length);
        match prefix.network {
            IpAddr::V4(network) => self.hash_ipv4(network.to_bits(), length),
            IpAddr::V6(network) => self.hash_ipv6(network.to_bits(), length),
        }
    }

    /// The bucket in which a search for a prefix begins, for tests.
    #[cfg(loom)]
    pub fn home_of(&self, prefix: &Prefix) -> usize {
        self.home(self.hash(prefix))
    }

    /// The words that say which lengths are in use.
    #[inline(always)]
    fn head(&self) -> &[AtomicU64; LINE] {
        &self.lines()[0]
    }

    #[inline(always)]
    fn lines(&self) -> &[Bucket] {
        self.arena.words().as_chunks().0
    }

    /// The bucket in which a search for this hash begins.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        // The upper half of the hash chooses it; slots have the lower 58 bits.
        to_usize(((hash >> 32) * self.buckets as u64) >> 32)
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn bucket(&self, number: usize) -> &Bucket {
        &self.lines()[1 + number]
    }
}

/// Words with the lengths of IPv6, 0 to 128.
const IPV6_WORDS: usize = 3;

fn buckets_for(max_entries: usize) -> usize {
    max_entries.div_ceil(ENTRIES_PER_BUCKET).max(1)
}

/// The numbers of the bits that are set, the highest first.
#[inline(always)]
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.checked_ilog2()?;
        word &= !(1 << bit);
        Some(bit)
    })
}

#[cfg(all(test, not(loom)))]
mod tests;
