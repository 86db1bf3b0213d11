//! Reading: the entry under a key, and its head. Whether an expired entry is of use is up to the reader, who asks for it.

use super::key::has_key;
use super::{Cache, Entry, EntryRef, EntryView, Head, Key, Words};

/// An entry that was whole when it was compared with its key. It may have been overwritten since.
#[derive(Clone, Copy, Debug)]
pub struct Found<'c> {
    /// Where it is.
    pub entry: EntryRef,
    /// Its head, as it was then.
    pub head: Head,
    cache: &'c Cache,
}

impl Found<'_> {
    /// Whether it has not expired at second `now`.
    #[inline(always)]
    pub fn is_fresh(&self, now: u32) -> bool {
        self.head.expires > now
    }

    /// A copy of it; `None` if it was overwritten meanwhile.
    pub fn copy(&self) -> Option<Entry> {
        Entry::copy_of(&self.cache.view(self.entry))
    }
}

impl Cache {
    /// The cache's entry under `key`, fresh or expired. Its hash is `hash`.
    pub fn get(&self, hash: u64, key: &Key<'_>) -> Option<Found<'_>> {
        let entry = self.find(hash)?;
        let head = self.view(entry).read(key, 0)?;
        Some(Found { entry, head, cache: self })
    }

    /// The cache's entry under the key of this hash, for readers who know an entry by its hash only.
    pub fn get_by_hash(&self, hash: u64) -> Option<Found<'_>> {
        let entry = self.find(hash)?;
        let view = self.view(entry);
        let head = Head::read(&view);
        (head.hash == hash && view.is_valid()).then_some(Found { entry, head, cache: self })
    }
}

impl EntryView<'_> {
    /// The head, if the entry has this key, has not expired at second `now`, and is whole.
    #[inline(always)]
    pub fn read(&self, key: &Key<'_>, now: u32) -> Option<Head> {
        let words = self.head();
        let matches = has_key(self, &words, key);
        let head = Head::of(&words);
        let is_usable = matches && head.expires > now && self.is_valid();
        is_usable.then_some(head)
    }
}
