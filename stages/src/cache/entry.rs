//! An entry: one answer as it stands in the cache, in 64-bit words.
//!
//! ```text
//! word 0   hash of the whole key
//! word 1   learnt (low half), expires (high half): seconds since the process started
//! word 2   type, class, name length, key flags, rcode, answer flags
//! word 3   body length, offset in the body of what may be left out, number of TTLs, words in all (15 bits), and whether
//!          it is a template
//! word 4   ANCOUNT, NSCOUNT, ARCOUNT, as one number of 48 bits, and the ruleset that lets the question pass
//!          name, lower case          each padded to whole words
//!          body: the records' wire image, without question and OPT
//!          offsets of the TTL fields in the body, 16 bits each
//! ```
//!
//! Names in the body may point into header and question, which every client's answer has at the same
//! place. The same words serve cached, local and fresh answers, so that encode reads one format.

use pmdns_config::narrow::{low_u8, low_u16, low_u32, to_u16};

use super::key::{Key, NameBuffer};
use crate::wire::dns::Rcode;
use crate::wire::name::{MAX_NAME, lower, word};

/// Words before the name.
pub(super) const HEAD_WORDS: usize = 5;

/// Records that are read of a reply, and TTL fields one entry can have. So many addresses take half of a message of 64 KiB. Of an
/// answer with more records, clients are told TC=1.
pub const MAX_RECORDS: usize = 2048;

/// The bit of [`Head::size`] that marks a template, above the number of words. Hits do not look at it.
const TEMPLATE: u16 = 1 << 15;
const _: () = {
    let longest = HEAD_WORDS + MAX_NAME.div_ceil(8) + (u16::MAX as usize).div_ceil(8);
    assert!(longest + MAX_RECORDS.div_ceil(4) < TEMPLATE as usize);
};

/// Where the counts and [`Head::passed`] stand in the last word of the head.
const COUNTS: u64 = (1 << PASSED) - 1;
const PASSED: u32 = 48;
/// The word of the head that both stand in.
pub(super) const PASSED_AT: usize = 4;

/// That word, with another ruleset that lets the question pass.
pub(super) fn with_passed(word: u64, passed: u16) -> u64 {
    word & COUNTS | u64::from(passed) << PASSED
}

/// Where an entry's words are read from: shared memory or a slice of our own.
pub trait Words {
    /// The words from `at` on, `count` of them or as many as there are. Any range may be asked for; beyond
    /// the entry words mean nothing.
    fn words(&self, at: usize, count: usize) -> impl ExactSizeIterator<Item = u64>;

    /// The first words.
    fn head(&self) -> [u64; HEAD_WORDS];

    /// Whether everything read so far was one whole entry.
    fn is_valid(&self) -> bool;

    /// The word at `index`.
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words(index, 1).next().unwrap_or(0)
    }
}

impl Words for &[u64] {
    #[inline(always)]
    fn words(&self, at: usize, count: usize) -> impl ExactSizeIterator<Item = u64> {
        part(self, at, count).iter().copied()
    }

    #[inline(always)]
    fn head(&self) -> [u64; HEAD_WORDS] {
        self.first_chunk().copied().unwrap_or_default()
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        true
    }
}

/// Words that so many bytes of an entry take. They are counted in 16 bits, so nothing overflows; `div_ceil` would check that.
#[inline(always)]
fn words_of(bytes: usize) -> usize {
    (bytes + 7) >> 3
}

/// Adds bytes as words, each as `change` makes it.
#[inline]
fn put_words(words: &mut Vec<u64>, bytes: &[u8], change: impl Fn(u64) -> u64) {
    let (whole, rest) = bytes.as_chunks::<8>();
    words.extend(whole.iter().map(|word| change(u64::from_le_bytes(*word))));
    if !rest.is_empty() {
        words.push(change(word(bytes, bytes.len() - rest.len())));
    }
}

/// The part of a range that exists.
#[inline(always)]
pub(super) fn part<T>(words: &[T], at: usize, count: usize) -> &[T] {
    let Some(rest) = words.get(at..) else { return nothing() };
    rest.get(..count).unwrap_or(rest)
}

/// No words. It is a call, so that a branch leads here and nothing is selected.
#[cold]
#[inline(never)]
pub(super) fn nothing<'n, T>() -> &'n [T] {
    &[]
}

/// The first words of an entry, taken apart. Read from shared memory they may be torn: nothing in them
/// is trusted before the reader has validated what it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Hash of the whole key.
    pub hash: u64,
    /// When the answer was learnt, in seconds since the process started.
    pub learnt: u32,
    /// When the first of its TTLs runs out.
    pub expires: u32,
    /// The answer's rcode.
    pub rcode: Rcode,
    /// [`Head::AUTHENTIC`] and its like.
    pub flags: u8,
    /// Length of the body in bytes.
    pub body_len: u16,
    /// Where in the body the records start that may be left out. These are the additional section, and the
    /// authority section if the answer does not need it.
    pub optional_at: u16,
    /// How many TTL fields the body has.
    pub ttl_count: u16,
    /// Words of the whole entry, and whether it is a template. It is not taken apart here: four fields as they stand
    /// in a word are one store.
    pub size: u16,
    /// ANCOUNT, NSCOUNT and ARCOUNT, without OPT, as one number of 48 bits.
    pub counts: u64,
    /// The generation of the ruleset that has nothing to say about the question; 0: it is not known of any but one
    /// without rules. Or [`Head::BY_VIEW`].
    pub passed: u16,
    /// Word of the entry where the body starts.
    pub body_at: usize,
}

impl Head {
    /// The upstream said it checked the signatures (AD).
    pub const AUTHENTIC: u8 = 1;
    /// The answer is ours (AA).
    pub const AUTHORITATIVE: u8 = 2;
    /// No client can take the answer over UDP: TC=1. Clients over streams get the records, if it has some here.
    pub const TOO_LONG: u8 = 4;
    /// The answer says that there is none: NXDOMAIN or NODATA (RFC 2308).
    pub const NEGATIVE: u8 = 8;
    /// The answer has expired and is given all the same (RFC 8767).
    pub const STALE: u8 = 16;
    /// A rule about the addresses in it has made it what it is: it is not what an upstream said.
    pub const REWRITTEN: u8 = 32;
    /// It ends in an alias by a rule, whose target has yet to be resolved.
    pub const LEADS_ON: u8 = 64;
    /// Of a negative answer: nobody who does not see our queries can have forged it. It came over a connection or with a
    /// DNS cookie, or its signatures are right.
    pub const FIRM: u8 = 128;
    /// In the place of a generation: rules of the views that share the answer differ about names that it leads to.
    pub const BY_VIEW: u16 = u16::MAX;
    /// The rcode of an answer that is not to be given: the query is dropped.
    pub const SILENT: Rcode = Rcode(u8::MAX);

    /// Reads the head of an entry.
    #[inline(always)]
    pub fn read(entry: &impl Words) -> Self {
        Self::of(&entry.head())
    }

    /// Takes the first words of an entry apart.
    #[inline(always)]
    pub(super) fn of(words: &[u64; HEAD_WORDS]) -> Self {
        let [hash, times, what, sizes, last] = *words;
        let name_len = low_u8(what >> 32);
        Self {
            hash,
            learnt: low_u32(times),
            expires: (times >> 32) as u32,
            rcode: Rcode(low_u8(what >> 48)),
            flags: (what >> 56) as u8,
            body_len: low_u16(sizes),
            optional_at: low_u16(sizes >> 16),
            ttl_count: low_u16(sizes >> 32),
            size: (sizes >> 48) as u16,
            counts: last & COUNTS,
            passed: (last >> PASSED) as u16,
            body_at: HEAD_WORDS + words_of(name_len.into()),
        }
    }

    /// Words of the whole entry.
    pub fn words(&self) -> usize {
        usize::from(self.size & !TEMPLATE)
    }

    /// Whether its alias's target begins with a wildcard label, in whose place the name that is asked for is to be put.
    pub fn is_template(&self) -> bool {
        self.size & TEMPLATE != 0
    }

    /// Whether the records are not here, so that a client over a stream has to have them asked for again.
    pub fn has_to_be_asked(&self) -> bool {
        self.flags & Self::TOO_LONG != 0 && self.body_len == 0
    }

    /// ANCOUNT, NSCOUNT and ARCOUNT.
    pub fn counts(&self) -> [u16; 3] {
        [32, 16, 0].map(|shift| low_u16(self.counts >> shift))
    }

    /// Which of the [`Head::counts`] are of records from `optional_at` on; `dnssec_ok` is part of the key.
    #[inline]
    pub fn optional_counts(&self, dnssec_ok: bool) -> u64 {
        let needs_authority = self.flags & Self::NEGATIVE != 0 || dnssec_ok;
        if needs_authority { 0xffff } else { 0xffff_ffff }
    }

    /// Word of the entry where the TTL offsets start.
    #[inline]
    pub fn ttls_at(&self) -> usize {
        self.body_at + words_of(self.body_len.into())
    }
}

/// The offset in the body of TTL field `index`.
#[inline]
pub fn ttl_offset(entry: &impl Words, head: &Head, index: usize) -> usize {
    let word = entry.word(head.ttls_at() + index / 4);
    usize::from(low_u16(word >> (16 * (index % 4))))
}

/// An answer in words of our own: what is inserted into the cache, and what local data consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(super) words: Vec<u64>,
}

/// The parts an entry is made of.
#[derive(Clone, Debug)]
pub struct EntryParts<'a> {
    /// Its key.
    pub key: Key<'a>,
    /// Hash of the whole key.
    pub hash: u64,
    /// When it was learnt, in seconds since the process started.
    pub learnt: u32,
    /// When it expires.
    pub expires: u32,
    /// Its rcode.
    pub rcode: Rcode,
    /// Flags as in [`Head`].
    pub flags: u8,
    /// ANCOUNT, NSCOUNT, ARCOUNT.
    pub counts: [u16; 3],
    /// The records' wire image.
    pub body: &'a [u8],
    /// Where the records start in the body that may be left out, as in [`Head`].
    pub optional_at: u16,
    /// Offsets of the TTL fields in the body.
    pub ttls: &'a [u16],
}

impl Entry {
    /// Puts an entry together.
    ///
    /// # Panics
    /// If the body has more than 65535 bytes, more than [`MAX_RECORDS`] TTLs, or the name is not one.
    pub fn new(parts: &EntryParts<'_>) -> Self {
        Self::new_in(Vec::new(), parts)
    }

    /// The same in the memory of an entry that is not needed any more ([`Entry::into_memory`]).
    ///
    /// # Panics
    /// As [`Entry::new`].
    pub(super) fn new_in(mut words: Vec<u64>, parts: &EntryParts<'_>) -> Self {
        assert!((1..=MAX_NAME).contains(&parts.key.name.len()), "a name has 1 to 255 bytes");
        assert!(parts.body.len() <= usize::from(u16::MAX), "lengths have 16 bits");
        assert!(parts.ttls.len() <= MAX_RECORDS, "too many records for an entry");
        let name_words = parts.key.name.len().div_ceil(8);
        let body_words = parts.body.len().div_ceil(8);
        let total = HEAD_WORDS + name_words + body_words + parts.ttls.len().div_ceil(4);
        words.clear();
        words.reserve_exact(total);
        let [answers, authorities, additionals] = parts.counts.map(u64::from);
        words.extend_from_slice(&[
            parts.hash,
            u64::from(parts.learnt) | u64::from(parts.expires) << 32,
            parts.key.tail() | u64::from(parts.rcode.0) << 48 | u64::from(parts.flags) << 56,
            parts.body.len() as u64
                | u64::from(parts.optional_at) << 16
                | (parts.ttls.len() as u64) << 32
                | (total as u64) << 48,
            answers << 32 | authorities << 16 | additionals,
        ]);
        put_words(&mut words, parts.key.name, lower);
        put_words(&mut words, parts.body, |word| word);
        words.extend(
            parts
                .ttls
                .chunks(4)
                .map(|chunk| chunk.iter().rev().fold(0, |word, ttl| word << 16 | u64::from(*ttl))),
        );
        debug_assert_eq!(words.len(), total);
        Self { words }
    }

    /// The answer to the same question, learnt and forgotten when this one is, but without records: rewritten.
    pub fn without_records(&self, key: Key<'_>, rcode: Rcode, flags: u8) -> Self {
        self.replaced(key, rcode, flags, [0; 3], &[])
    }

    /// The same answer, which only clients over streams get: a rule wants that, so it is rewritten.
    pub fn only_over_streams(mut self) -> Self {
        self.set_flags(self.head().flags | Head::TOO_LONG | Head::REWRITTEN);
        self
    }

    /// The same answer without the records, for which there is no room: clients over streams have to ask again.
    pub fn shortened(&self) -> Self {
        let Head { hash, learnt, expires, rcode, flags, passed, .. } = self.head();
        let (mut buffer, flags) = (NameBuffer::default(), flags | Head::TOO_LONG);
        let (key, counts) = (self.key(&mut buffer), [0; 3]);
        let parts = EntryParts {
            key,
            hash,
            learnt,
            expires,
            rcode,
            flags,
            counts,
            body: &[],
            optional_at: 0,
            ttls: &[],
        };
        let mut shortened = Self::new(&parts);
        shortened.set_passed(passed);
        shortened
    }

    /// The same, but with the records of another entry, whose TTLs do not count down.
    pub fn with_records_of(&self, key: Key<'_>, other: &Self) -> Self {
        let head = other.head();
        let words = other.words.get(head.body_at..).unwrap_or_default();
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.truncate(usize::from(head.body_len));
        let replaced = self.replaced(key, head.rcode, head.flags, head.counts(), &body);
        if head.is_template() { replaced.into_template() } else { replaced }
    }

    fn replaced(
        &self,
        key: Key<'_>,
        rcode: Rcode,
        flags: u8,
        counts: [u16; 3],
        body: &[u8],
    ) -> Self {
        let Head { hash, learnt, expires, .. } = self.head();
        let optional_at = to_u16(body.len());
        Self::new(&EntryParts {
            key,
            hash,
            learnt,
            expires,
            rcode,
            flags: flags | Head::REWRITTEN,
            counts,
            body,
            optional_at,
            ttls: &[],
        })
    }

    /// The key of the entry. Its name is put into `buffer`.
    pub fn key<'n>(&self, buffer: &'n mut NameBuffer) -> Key<'n> {
        buffer.key_of(&self.words())
    }

    /// The entry's words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Its memory, for another entry.
    pub fn into_memory(self) -> Vec<u64> {
        self.words
    }

    /// Sets when it was learnt and when it expires.
    pub(super) fn set_times(&mut self, learnt: u32, expires: u32) {
        self.words[1] = u64::from(learnt) | u64::from(expires) << 32;
    }

    /// Sets the flags of [`Head`].
    pub(super) fn set_flags(&mut self, flags: u8) {
        self.words[2] = self.words[2] << 8 >> 8 | u64::from(flags) << 56;
    }

    /// Notes which ruleset lets the question pass, as in [`Head`].
    pub fn set_passed(&mut self, passed: u16) {
        self.words[PASSED_AT] = with_passed(self.words[PASSED_AT], passed);
    }

    /// Says of a negative answer that nobody can have forged it who does not see our queries.
    pub fn vouch(&mut self) {
        let flags = self.head().flags;
        if flags & Head::NEGATIVE != 0 {
            self.set_flags(flags | Head::FIRM);
        }
    }

    /// The same as a template, as in [`Head::is_template`].
    pub fn into_template(mut self) -> Self {
        self.words[3] |= u64::from(TEMPLATE) << 48;
        self
    }

    /// Takes back that somebody checked the signatures.
    pub fn distrust(&mut self) {
        self.set_flags(self.head().flags & !Head::AUTHENTIC);
    }

    /// The entry's head.
    pub fn head(&self) -> Head {
        Head::read(&self.words())
    }
}
