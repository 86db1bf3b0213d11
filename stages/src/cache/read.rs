//! Reading: the entry under a key, and what its head says. Whether an expired entry is of use is up to the reader, who asks for it.

use super::{Cache, Entry, EntryRef, EntryView, Head, Key, answers};

/// An entry that was whole when it was compared with its key. It may have been overwritten since.
#[derive(Clone, Copy, Debug)]
pub struct Found<'c> {
    /// Where it is.
    pub entry: EntryRef,
    /// Its head, as it was then.
    pub head: Head,
    view: EntryView<'c>,
}

impl Found<'_> {
    /// Whether it has not expired at second `now`.
    #[inline(always)]
    pub fn is_fresh(&self, now: u32) -> bool {
        self.head.expires > now
    }

    /// A copy of it; `None` if it was overwritten meanwhile.
    pub fn copy(&self) -> Option<Entry> {
        Entry::copy_of(&self.view)
    }
}

impl Cache {
    /// What the cache has under `key`, fresh or expired. Its hash is `hash`.
    pub fn get(&self, hash: u64, key: &Key<'_>) -> Option<Found<'_>> {
        self.read(self.find(hash)?, key)
    }

    /// What the cache has under the key of this hash, for readers who know an entry by its hash only.
    pub fn get_by_hash(&self, hash: u64) -> Option<Found<'_>> {
        let entry = self.find(hash)?;
        let view = self.view(entry);
        let head = Head::read(&view);
        (head.hash == hash && view.is_valid()).then_some(Found { entry, head, view })
    }

    /// The entry in a place that [`Cache::look`] gave, if it is whole and has this key.
    #[inline(always)]
    pub fn read(&self, entry: EntryRef, key: &Key<'_>) -> Option<Found<'_>> {
        let view = self.view(entry);
        let matches = answers(&view, key);
        let head = Head::read(&view);
        (matches && view.is_valid()).then_some(Found { entry, head, view })
    }
}
