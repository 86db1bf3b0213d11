//! Who changes the client table: one thread, a prefix at a time.

use std::net::IpAddr;
use std::sync::Arc;

use pmdns_config::Prefix;
use pmdns_nics::sync::{AtomicU64, Ordering};

use super::{Bucket, ClientTable, SLOTS, is_same, slot_of};

/// Lengths of both families: 0 to 32 and 0 to 128.
const LENGTHS: usize = 33 + 129;

/// The table has no room for one more prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

/// Changes the table. There is one for each table.
#[derive(Debug)]
pub struct ClientTableWriter {
    table: Arc<ClientTable>,
    entries: usize,
    max_entries: usize,
    /// Prefixes of each length, those of IPv4 first.
    of_length: [u32; LENGTHS],
}

impl ClientTableWriter {
    pub(super) fn new(table: Arc<ClientTable>, max_entries: usize) -> Self {
        Self { table, entries: 0, max_entries, of_length: [0; LENGTHS] }
    }

    /// The table that it changes.
    pub fn table(&self) -> &Arc<ClientTable> {
        &self.table
    }

    /// Prefixes in the table.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Puts the clients of a prefix into a view, below 32. Cores see it with their next packets.
    ///
    /// # Errors
    ///
    /// The prefix is new, and the table is full.
    pub fn set(&mut self, prefix: &Prefix, view: u8) -> Result<(), TableFull> {
        let hash = self.table.hash(prefix);
        let slot = slot_of(hash, view);
        if let Some((bucket, at)) = self.find(hash) {
            self.table.bucket(bucket)[at].store(slot, Ordering::Release);
            return Ok(());
        }
        if self.entries == self.max_entries {
            return Err(TableFull);
        }
        self.count_length(prefix, true);
        let mut number = self.table.home(hash);
        loop {
            let bucket = self.table.bucket(number);
            if let Some(at) = slot_where(bucket, |slot| slot == 0) {
                // A reader that sees the slot sees the counts of the buckets before, and goes on to it.
                bucket[at].store(slot, Ordering::Release);
                break;
            }
            // There are more slots than entries, so one is empty.
            add(&bucket[SLOTS], 1);
            number = self.table.after(number);
        }
        self.entries += 1;
        Ok(())
    }

    /// Takes a prefix out of the table, and says whether it was in it.
    pub fn remove(&mut self, prefix: &Prefix) -> bool {
        let hash = self.table.hash(prefix);
        let Some((there, at)) = self.find(hash) else { return false };
        self.table.bucket(there)[at].store(0, Ordering::Release);
        let mut number = self.table.home(hash);
        while number != there {
            add(&self.table.bucket(number)[SLOTS], u64::MAX);
            number = self.table.after(number);
        }
        self.count_length(prefix, false);
        self.entries -= 1;
        true
    }

    /// The bucket and the slot of a prefix.
    fn find(&self, hash: u64) -> Option<(usize, usize)> {
        let wanted = slot_of(hash, 0);
        let mut number = self.table.home(hash);
        for _ in 0..self.table.buckets {
            let bucket = self.table.bucket(number);
            if let Some(at) = slot_where(bucket, |slot| is_same(slot, wanted)) {
                return Some((number, at));
            }
            if bucket[SLOTS].load(Ordering::Relaxed) == 0 {
                break;
            }
            number = self.table.after(number);
        }
        None
    }

    /// Notes that there is one prefix more of this length, or one less. Readers try the length while there is any.
    fn count_length(&mut self, prefix: &Prefix, is_more: bool) {
        let length = usize::from(prefix.length);
        let (first, word) = match prefix.network {
            IpAddr::V4(_) => (0, 0),
            IpAddr::V6(_) => (33, 1 + length / 64),
        };
        let count = &mut self.of_length[first + length];
        *count = if is_more { *count + 1 } else { *count - 1 };
        let (bit, word) = (1 << (length % 64), &self.table.head()[word]);
        let lengths = word.load(Ordering::Relaxed);
        let now = if *count == 0 { lengths & !bit } else { lengths | bit };
        if now != lengths {
            word.store(now, Ordering::Release);
        }
    }
}

/// The first slot of which `is_it` holds.
fn slot_where(bucket: &Bucket, is_it: impl Fn(u64) -> bool) -> Option<usize> {
    bucket[..SLOTS].iter().position(|slot| is_it(slot.load(Ordering::Relaxed)))
}

/// Adds to a word that nobody else writes.
fn add(word: &AtomicU64, more: u64) {
    let now = word.load(Ordering::Relaxed).wrapping_add(more);
    word.store(now, Ordering::Release);
}
