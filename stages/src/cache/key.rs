//! Keys of answers, and whether an entry has a key.

use pmdns_config::narrow::{low_u8, low_u16};

use super::entry::{HEAD_WORDS, Words};
use crate::wire::dns::CLASS_IN;
use crate::wire::layout::{Flags, Layout};
use crate::wire::name::{MAX_NAME, Seed, lower, word};
use crate::wire::query::ClientQuery;

/// The part of word 2 that belongs to the key.
const KEY_TAIL: u64 = 0xffff_ffff_ffff;

/// The key of an answer: qname, type, class, the bits that change an answer, and who it is for.
#[derive(Clone, Copy, Debug)]
pub struct Key<'n> {
    /// The qname in wire format, in any letter case.
    pub name: &'n [u8],
    /// Type asked for.
    pub qtype: u16,
    /// Class asked for.
    pub qclass: u16,
    /// [`Key::DO`], [`Key::CD`] and [`Key::SUBNET`]; the other five bits are the scope.
    pub flags: u8,
}

impl<'n> Key<'n> {
    /// The client wants DNSSEC records (RFC 3225).
    pub const DO: u8 = Flags::DO.of_answer();
    /// The client checks signatures itself (RFC 4035 section 3.2.2).
    pub const CD: u8 = Flags::CD.of_answer();
    /// The client said which network it is in (RFC 7871). Answers for all networks are kept apart from answers to
    /// clients that did not say.
    pub const SUBNET: u8 = Flags::SUBNET.of_answer();

    /// Where the scope begins.
    const SCOPE: u32 = 3;

    /// The key of a query.
    #[inline]
    pub fn of(query: ClientQuery<'n>) -> Self {
        let layout = query.layout();
        Self {
            name: query.name(),
            qtype: layout.qtype,
            qclass: layout.qclass,
            flags: Self::flags_of(layout),
        }
    }

    /// The flags of the key of a query with this layout.
    #[inline(always)]
    pub fn flags_of(layout: Layout) -> u8 {
        layout.flags.of_answer() | layout.who.scope() << Self::SCOPE
    }

    /// The key of a plain query in class IN from a client of this scope.
    pub fn in_scope(name: &'n [u8], qtype: u16, scope: u8) -> Self {
        Self { name, qtype, qclass: CLASS_IN, flags: scope << Self::SCOPE }
    }

    /// The scope of the answer. Upstreams and policy zones may answer clients of other scopes otherwise.
    pub fn scope(&self) -> u8 {
        self.flags >> Self::SCOPE
    }

    /// Hash of the whole key, from the hash of its name.
    #[inline]
    pub fn hash(&self, seed: Seed, name_hash: u64) -> u64 {
        seed.mix(name_hash, self.tail())
    }

    /// Everything but the name, as it stands in word 2.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        u64::from(self.qtype)
            | u64::from(self.qclass) << 16
            | (self.name.len() as u64 & 0xff) << 32
            | u64::from(self.flags) << 40
    }
}

/// Room for a name that is read from an entry.
#[derive(Clone, Debug)]
pub struct NameBuffer([u8; MAX_NAME.next_multiple_of(8)]);

impl NameBuffer {
    /// The key of an entry.
    pub fn key_of(&mut self, entry: &impl Words) -> Key<'_> {
        let [_, _, what, ..] = entry.head();
        let len = usize::from(low_u8(what >> 32));
        let (places, _) = self.0.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(entry.words(HEAD_WORDS, len.div_ceil(8))) {
            *place = word.to_le_bytes();
        }
        Key {
            name: &self.0[..len],
            qtype: low_u16(what),
            qclass: low_u16(what >> 16),
            flags: low_u8(what >> 40),
        }
    }
}

impl Default for NameBuffer {
    fn default() -> Self {
        Self([0; MAX_NAME.next_multiple_of(8)])
    }
}

/// Whether the entry answers `key`.
#[inline]
pub fn answers(entry: &impl Words, key: &Key<'_>) -> bool {
    has_key(entry, &entry.head(), key)
}

/// The same of an entry whose first words have been read.
#[inline(always)]
pub(super) fn has_key(entry: &impl Words, head: &[u64; HEAD_WORDS], key: &Key<'_>) -> bool {
    head[2] & KEY_TAIL == key.tail()
        && (is_name(entry, key.name) || is_name_in_capitals(entry, key.name))
}

/// Whether the entry's name is `name`, letter for letter: most clients send lower case in the first place.
#[inline(always)]
fn is_name(entry: &impl Words, name: &[u8]) -> bool {
    let (whole, rest) = name.as_chunks::<8>();
    let stored = entry.words(HEAD_WORDS, whole.len());
    let are_there = stored.len() == whole.len();
    let pairs = whole.iter().zip(stored);
    let mut difference =
        pairs.fold(0, |all, (asked, stored)| all | u64::from_le_bytes(*asked) ^ stored);
    if !rest.is_empty() {
        difference |= word(name, name.len() - rest.len()) ^ entry.word(HEAD_WORDS + whole.len());
    }
    are_there && difference == 0
}

/// The same without regard to letter case.
#[cold]
#[inline(never)]
fn is_name_in_capitals(entry: &impl Words, name: &[u8]) -> bool {
    let stored = entry.words(HEAD_WORDS, name.len().div_ceil(8));
    name.chunks(8).map(|chunk| lower(word(chunk, 0))).eq(stored)
}
