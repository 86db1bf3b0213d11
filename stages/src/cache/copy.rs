//! Copies of entries, whose words can be changed.

use arrayvec::ArrayVec;

use super::EntryView;
use super::entry::{Entry, Head, MAX_RECORDS, Words, ttl_offset};
use super::key::{Key, NameBuffer};
use crate::wire::dns::{HEADER_LEN, header};
use crate::wire::name::{Seed, length, word};
use crate::wire::{be32, put16, put32};

/// The bytes of an answer to `key` as a message: a header that says how many records there are, the question, the records.
fn message_bytes<'e>(key: Key<'e>, entry: &'e impl Words) -> impl Iterator<Item = u8> + 'e {
    let head = Head::read(entry);
    let mut start = [0; HEADER_LEN];
    put16(&mut start, header::QDCOUNT, 1);
    for (at, count) in (header::ANCOUNT..HEADER_LEN).step_by(2).zip(head.counts()) {
        put16(&mut start, at, count);
    }
    let [qtype, qclass] = [key.qtype, key.qclass].map(u16::to_be_bytes);
    let question = key.name.iter().copied().chain(qtype).chain(qclass);
    let body = body_bytes(entry, head).take(head.body_len.into());
    start.into_iter().chain(question).chain(body)
}

/// The records' wire image, padded to whole words.
fn body_bytes(entry: &impl Words, head: Head) -> impl Iterator<Item = u8> {
    let words = usize::from(head.body_len).div_ceil(8);
    entry.words(head.body_at, words).flat_map(u64::to_le_bytes)
}

/// The first bytes of such a message, on the stack.
pub fn message_start<const LEN: usize>(key: Key<'_>, entry: &impl Words) -> ArrayVec<u8, LEN> {
    message_bytes(key, entry).take(LEN).collect()
}

impl Head {
    /// Whether the parts of the entry are where this head of it says, and fill it.
    pub(super) fn is_sound(&self, entry: &impl Words) -> bool {
        let mut buffer = NameBuffer::default();
        let name = buffer.key_of(entry).name;
        let ttl_count = usize::from(self.ttl_count);
        let is_inside = |index| ttl_offset(entry, self, index) + 4 <= usize::from(self.body_len);
        self.words() == self.ttls_at() + ttl_count.div_ceil(4)
            && length(name) == Some(name.len())
            && self.optional_at <= self.body_len
            && ttl_count <= MAX_RECORDS
            && (0..ttl_count).all(is_inside)
    }
}

impl Entry {
    /// A copy of an entry in the cache; `None` if it was overwritten meanwhile.
    pub fn copy_of(view: &EntryView<'_>) -> Option<Self> {
        let len = Head::read(view).words();
        let words: Vec<u64> = view.words(0, len).collect();
        (view.is_valid() && words.len() == len).then_some(Self { words })
    }

    /// The answer as clients get it after it has expired (RFC 8767 section 4): learnt `now`, every TTL is `ttl`.
    /// That it was authentic is not repeated, for signatures expire too.
    pub fn stale(mut self, now: u32, ttl: u32) -> Self {
        let flags = self.head().flags & !Head::AUTHENTIC | Head::STALE;
        self.set_flags(flags);
        self.set_times(now, now.saturating_add(ttl));
        self.change_ttls(|_| ttl);
        self
    }

    /// An entry of words that another process wrote to a file. That process hashed otherwise, and counted its seconds
    /// from another start: the entry was learnt `age` seconds before `now`. One that has expired is as if learnt when
    /// it did; its TTLs do not matter, for clients get others. `None` if it expired before second 0, or is no entry.
    pub fn restored(words: &[u64], seed: Seed, age: u32, now: u32) -> Option<Self> {
        let mut entry = Self { words: words.into() };
        let head = entry.head();
        if words.len() != head.words() || !head.is_sound(&words) {
            return None;
        }
        let lifetime = head.expires.checked_sub(head.learnt)?;
        match lifetime.checked_sub(age) {
            Some(left) => entry.set_times(now, now.saturating_add(left)),
            None => {
                let expired = now.checked_sub(age - lifetime)?;
                entry.set_times(expired, expired);
            }
        }
        entry.change_ttls(|ttl| ttl.saturating_sub(age));
        let mut buffer = NameBuffer::default();
        let key = entry.key(&mut buffer);
        let hash = key.hash(seed, seed.hash(key.name));
        entry.words[0] = hash;
        Some(entry)
    }

    /// The answer as a message: a header that says how many records there are, the question, the records.
    pub fn message(&self) -> Vec<u8> {
        let mut buffer = NameBuffer::default();
        self.message_about(self.key(&mut buffer).name)
    }

    /// The same, as if it were about this name.
    pub fn message_about(&self, name: &[u8]) -> Vec<u8> {
        let mut buffer = NameBuffer::default();
        let key = Key { name, ..self.key(&mut buffer) };
        message_bytes(key, &self.words()).collect()
    }

    /// The records' wire image, padded to whole words.
    pub(super) fn body(&self) -> Vec<u8> {
        body_bytes(&self.words(), self.head()).collect()
    }

    fn change_ttls(&mut self, change: impl Fn(u32) -> u32) {
        let (head, mut body) = (self.head(), self.body());
        for index in 0..usize::from(head.ttl_count) {
            let at = ttl_offset(&self.words(), &head, index);
            if let Some(ttl) = be32(&body, at) {
                put32(&mut body, at, change(ttl));
            }
        }
        let places = self.words.iter_mut().skip(head.body_at);
        for (place, bytes) in places.zip(body.chunks(8)) {
            *place = word(bytes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{ReplyRecord, entry_of, query};

    fn ttls(entry: &Entry) -> Vec<u32> {
        let (head, body) = (entry.head(), entry.body());
        let ttl = |at| be32(&body, ttl_offset(&entry.words(), &head, at)).unwrap();
        (0..usize::from(head.ttl_count)).map(ttl).collect()
    }

    #[test]
    fn a_restored_answer_has_lived_as_long_as_it_has() {
        let records: [ReplyRecord; 2] =
            [(0, 1, 300, vec![192, 0, 2, 1]), (0, 1, 100, vec![192, 0, 2, 2])];
        let asked = query("WWW.example. A").edns(1232, true);
        let (old, new) = (Seed::new([1; 16]), Seed::new([2; 16]));
        let entry = entry_of(&asked, &records, 5000, old);
        let restored = Entry::restored(entry.words(), new, 40, 7).unwrap();
        assert_eq!((restored.head().learnt, restored.head().expires), (7, 7 + 60));
        assert_eq!(ttls(&restored), [260, 60]);
        assert_eq!(
            restored,
            entry_of(
                &asked,
                &[(0, 1, 260, vec![192, 0, 2, 1]), (0, 1, 60, vec![192, 0, 2, 2])],
                7,
                new
            )
        );
        assert!(Entry::restored(entry.words(), new, 99, 7).is_some());
        for (age, expired) in [(100, 7), (103, 4), (107, 0)] {
            let head = Entry::restored(entry.words(), new, age, 7).unwrap().head();
            assert_eq!((head.learnt, head.expires), (expired, expired), "age {age}");
        }
        assert!(Entry::restored(entry.words(), new, 108, 7).is_none(), "it expired too long ago");
        for len in 0..entry.words().len() {
            assert!(Entry::restored(&entry.words()[..len], new, 0, 7).is_none(), "{len} words");
        }
    }

    proptest! {
        #[test]
        fn no_words_can_make_a_restored_answer_harmful(
            mut words in proptest::collection::vec(any::<u64>(), 0..20), age: u32, now: u32,
            sizes in any::<[u8; 4]>(),
        ) {
            if let [_, _, _, place, ..] = words.as_mut_slice() {
                let [body, additional, ttls, total] = sizes.map(|size| u64::from(size % 32));
                *place = body | additional << 16 | ttls << 32 | total << 48;
            }
            if let Some(entry) = Entry::restored(&words, Seed::new([2; 16]), age, now) {
                prop_assert_eq!(entry.words().len(), words.len());
                prop_assert!(entry.head().learnt <= entry.head().expires);
                prop_assert!(entry.head().learnt <= now);
            }
        }
    }

    #[test]
    fn a_stale_answer_has_one_ttl_everywhere_and_is_not_authentic() {
        let records: [ReplyRecord; 3] =
            [(0, 1, 300, vec![192, 0, 2, 1]), (0, 1, 7, vec![192, 0, 2, 2]), (2, 16, 5, vec![0])];
        let mut entry = entry_of(&query("www.example. A"), &records, 10, Seed::new([1; 16]));
        entry.set_flags(Head::AUTHENTIC);
        let stale = entry.clone().stale(1000, 30);
        let (before, after) = (entry.head(), stale.head());
        assert_eq!((after.learnt, after.expires, after.flags), (1000, 1030, Head::STALE));
        assert_eq!((after.counts, after.body_len), (before.counts, before.body_len));
        assert_eq!((ttls(&entry), ttls(&stale)), (vec![300, 7, 5], vec![30; 3]));
        let differing = entry.body().iter().zip(stale.body()).filter(|(a, b)| **a != *b).count();
        assert!(differing <= 2 * 3, "nothing but the TTLs is changed");
    }
}
