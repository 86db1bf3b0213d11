//! Whether any table can have a name, or one above it: a no comes quickly.
//!
//! Nearly every query is for a name that no rule is about. So the question is put in steps; each costs more
//! than the one before, and fewer names come to it:
//!
//! 1. Does any rule's name end in the same two characters? This alone settles the built-in rules.
//! 2. Does any rule's name end in the same two labels? A Bloom filter says so, one cache line per name.
//! 3. And in the same three, four, and so on? The filter has every name above a rule's name too, so the walk
//!    ends at the first that is not there. What is left to look up are the names that rules are about.
//!
//! The filter may say yes where it should say no, about once in a hundred times, and never the reverse: tables
//! compare names.

use arrayvec::ArrayVec;
use pmdns_config::narrow::{to_u32, to_usize};
use pmdns_nics::prefetch;

use crate::wire::name::{MAX_NAME, Seed, suffixes};

/// Labels a name can have, the root's included.
const MAX_LABELS: usize = MAX_NAME.div_ceil(2);
/// Bits of the filter for each name. A name sets four, four more say that a rule is about it, and so does each
/// name above it that has not.
const BITS_PER_NAME: usize = 24;
/// Bits that stand for one name.
const BITS: usize = 4;
/// Bits of a place in a line.
const PLACE: u32 = 9;
/// Makes, of the hash that finds a name, the one that says that a rule is about it.
const RULE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cache line of bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

const _: () = assert!(size_of::<Line>() * 8 == 1 << PLACE);

/// A mark for the last two characters of a name. Five bits of each are looked at,
/// so letter case does not matter.
#[derive(Clone, Debug)]
struct Endings {
    said: [u8; 1 << 10],
    /// Of the root, which ends in nothing.
    root: u8,
}

/// A name that ends so is on no table.
const NEVER: u8 = 0;
/// It may be: the lines say more.
const MAYBE: u8 = 1;
/// It may be, for there are names of one label that end so, or the root. A walk begins with these.
const SHORT: u8 = 2;

/// Names that rules are about.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    endings: Endings,
    lines: Box<[Line]>,
    seed: Seed,
}

/// A name and all above it, the shortest first, as if there were a rule about each.
pub(super) fn all_candidates(name: &[u8], seed: Seed) -> Candidates<'_> {
    let all: ArrayVec<&[u8], MAX_LABELS> = suffixes(name).take(MAX_LABELS).collect();
    let candidate = |name| Candidate { hash: seed.hash_loosely(name), name };
    all.into_iter().rev().map(candidate).collect()
}

/// A name that a rule may be about, with its loose hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'n> {
    pub(super) hash: u64,
    pub(super) name: &'n [u8],
}

/// The names that rules may be about, the shortest first: of a name and those above it.
pub(super) type Candidates<'n> = ArrayVec<Candidate<'n>, MAX_LABELS>;

impl Filter {
    /// A filter with room for so many names.
    pub(super) fn with_capacity(names: usize, seed: Seed) -> Self {
        let lines = (names * BITS_PER_NAME).div_ceil(1 << PLACE).max(1);
        Self {
            endings: Endings { said: [NEVER; 1 << 10], root: NEVER },
            lines: vec![Line::default(); lines].into(),
            seed,
        }
    }

    /// Adds a whole name that a rule is about.
    pub(super) fn add(&mut self, name: &[u8]) {
        let depth = suffixes(name).count() - 1;
        match ending(name) {
            Some(ending) => {
                let said = &mut self.endings.said[ending];
                *said = (*said).max(if depth == 1 { SHORT } else { MAYBE });
            }
            // It may be about everything.
            None => self.endings = Endings { said: [SHORT; 1 << 10], root: SHORT },
        }
        let hash = self.seed.hash_loosely(name);
        self.set(hash, hash.wrapping_mul(RULE));
        // From the whole name up to the one of two labels. That a name is there already means nothing: it may
        // be there by chance, and those above it not.
        for suffix in suffixes(name).take(depth.saturating_sub(1)) {
            let hash = self.seed.hash_loosely(suffix);
            self.set(hash, hash);
        }
    }

    /// Starts loading what [`Filter::find`] will read first.
    #[inline]
    pub(super) fn prefetch(&self, name: &[u8]) {
        if self.endings.of(name) == MAYBE {
            prefetch(self.line(self.hash_of_end(name)));
        }
    }

    /// Everything that may have to be looked up for a name, the shortest name first. Nearly always that is nothing.
    #[inline]
    pub(super) fn find<'n>(&self, name: &'n [u8], found: &mut Candidates<'n>) {
        match self.endings.of(name) {
            NEVER => {}
            MAYBE => {
                let hash = self.hash_of_end(name);
                if self.line(hash).has(hash) {
                    self.walk(name, false, found);
                }
            }
            _ => self.walk(name, true, found),
        }
    }

    #[inline]
    fn hash_of_end(&self, name: &[u8]) -> u64 {
        self.seed.hash_loosely(last_two_labels(name))
    }

    fn walk<'n>(&self, name: &'n [u8], has_short: bool, found: &mut Candidates<'n>) {
        let above: ArrayVec<&[u8], MAX_LABELS> = suffixes(name).take(MAX_LABELS).collect();
        for (labels, name) in (0..).zip(above.iter().rev()) {
            if labels < 2 && !has_short {
                continue;
            }
            let hash = self.seed.hash_loosely(name);
            let line = self.line(hash);
            if labels >= 2 && !line.has(hash) {
                break;
            }
            if line.has(hash.wrapping_mul(RULE)) {
                found.push(Candidate { hash, name });
            }
        }
    }

    /// The same, where the time that it takes to hand so much back does not count.
    pub(super) fn candidates<'n>(&self, name: &'n [u8]) -> Candidates<'n> {
        let mut found = Candidates::new();
        self.find(name, &mut found);
        found
    }

    /// How many bytes it takes.
    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.lines)
    }

    fn set(&mut self, hash: u64, pattern: u64) {
        let at = self.line_at(hash);
        let Line(words) = &mut self.lines[at];
        for place in places(pattern) {
            words[place / 64] |= 1 << (place % 64);
        }
    }

    /// The line of the name with this hash.
    #[inline(always)]
    fn line(&self, hash: u64) -> &Line {
        &self.lines[self.line_at(hash)]
    }

    #[inline(always)]
    fn line_at(&self, hash: u64) -> usize {
        ((hash >> 32) as usize * self.lines.len()) >> 32
    }
}

impl Line {
    /// Whether all bits of a pattern are set.
    #[inline(always)]
    fn has(&self, pattern: u64) -> bool {
        places(pattern).all(|place| self.0[place / 64] >> (place % 64) & 1 != 0)
    }
}

impl Endings {
    /// What is said of how a name ends.
    #[inline(always)]
    fn of(&self, name: &[u8]) -> u8 {
        ending(name).map_or(self.root, |at| self.said[at])
    }
}

/// The places in a line that a pattern sets. They come from the lower bits of a hash, its line from the upper ones.
#[inline(always)]
fn places(pattern: u64) -> impl Iterator<Item = usize> {
    (0..BITS).map(move |bit| to_usize((pattern >> (to_u32(bit) * PLACE)) & ((1 << PLACE) - 1)))
}

/// The last two characters of a name, five bits of each: a letter's case is another bit. `None`: it is the root.
#[inline(always)]
fn ending(name: &[u8]) -> Option<usize> {
    let [.., before, last, _root] = name else { return None };
    Some(usize::from(before & 31) << 5 | usize::from(last & 31))
}

/// The end of a name from its last label but one on.
#[inline(always)]
fn last_two_labels(name: &[u8]) -> &[u8] {
    let (mut before, mut last, mut at) = (0, 0, 0);
    while let Some(label) = name.get(at).filter(|label| **label != 0) {
        (before, last) = (last, at);
        at += 1 + usize::from(*label);
    }
    debug_assert!(before <= last);
    name.get(before..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::name_of;

    fn seed() -> Seed {
        Seed::new(*b"sixteen letters!")
    }

    fn filter(texts: &[&str]) -> Filter {
        let mut filter = Filter::with_capacity(texts.len(), seed());
        texts.iter().for_each(|text| filter.add(&name_of(&text.to_lowercase())));
        filter
    }

    fn may_have(filter: &Filter, text: &str) -> bool {
        !filter.candidates(&name_of(text)).is_empty()
    }

    /// The names that are to be looked up for this one.
    fn find(filter: &Filter, text: &str) -> Vec<Vec<u8>> {
        filter.candidates(&name_of(text)).iter().map(|one| one.name.to_vec()).collect()
    }

    #[test]
    fn the_end_of_a_name_is_where_two_labels_start() {
        let of = |text| last_two_labels(&name_of(text)).to_vec();
        assert_eq!(of("www.a.example."), name_of("a.example."));
        assert_eq!(of("a.example."), name_of("a.example."));
        assert_eq!(of("example."), name_of("example."));
        assert_eq!(of("."), name_of("."));
    }

    #[test]
    fn an_empty_filter_has_nothing() {
        let filter = filter(&[]);
        for text in [".", "example.", "www.example."] {
            assert!(!may_have(&filter, text), "{text}");
        }
    }

    #[test]
    fn the_last_two_characters_settle_most() {
        let filter = filter(&["localhost.", "10.in-addr.arpa."]);
        assert!(!may_have(&filter, "www.example.com."));
        assert!(may_have(&filter, "x.LOCALHOST."));
        assert!(may_have(&filter, "1.2.10.in-addr.arpa."));
        assert!(!may_have(&filter, "1.ip6.arpa."), "the two labels differ");
    }

    #[test]
    fn a_rule_about_the_root_is_about_everything() {
        let filter = filter(&["."]);
        for text in [".", "example.", "www.example."] {
            assert!(may_have(&filter, text), "{text}");
        }
    }

    #[test]
    fn names_above_a_rule_s_are_not_looked_up() {
        let filter = filter(&["a.b.c.example."]);
        assert!(find(&filter, "www.c.example.").is_empty());
        assert_eq!(find(&filter, "x.a.b.c.example."), [name_of("a.b.c.example.")]);
    }

    #[test]
    fn the_deepest_name_fits() {
        let deepest = "a.".repeat(127);
        assert_eq!(find(&filter(&[&deepest]), &deepest).last(), Some(&name_of(&deepest)));
    }

    #[test]
    fn few_names_pass_that_are_not_there() {
        let number = |number: u32| format!("n{number}.example{}.", number % 1000);
        let listed: Vec<_> = (0..20_000).map(number).collect();
        let texts: Vec<_> = listed.iter().map(String::as_str).collect();
        let filter = filter(&texts);
        let wrong = (0..20_000).filter(|n| may_have(&filter, &format!("www.other{n}.example.")));
        let wrong = wrong.count();
        assert!(wrong < 800, "{wrong} of 20000");
    }

    proptest! {
        #[test]
        fn what_was_added_is_never_denied(
            listed in proptest::collection::vec("([ab]{1,2}\\.){0,4}", 1..60),
            below in "([abAB]{1,2}\\.){0,3}",
            which in any::<proptest::sample::Index>(),
        ) {
            let texts: Vec<&str> = listed.iter().map(String::as_str).collect();
            let filter = filter(&texts);
            let rule = texts[which.index(texts.len())];
            let asked = format!("{below}{}", rule.to_uppercase());
            prop_assert!(may_have(&filter, &asked), "{} for {}", asked, rule);
            prop_assert!(find(&filter, &asked).contains(&name_of(&rule.to_uppercase())));
        }
    }
}
