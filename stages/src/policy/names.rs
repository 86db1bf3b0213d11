//! Names found by their hash, in a table that is built once and then only read.
//!
//! A block list has hundreds of thousands of names and almost no query is for one of them, so what counts is
//! to say no quickly: a slot is eight bytes, and the name itself is read only when half its hash matches.

use pmdns_nics::prefetch;

use crate::wire::name::{MAX_NAME, Seed, equal};

/// Names a table can hold: then even the longest ones start at a place of 32 bits.
pub(super) const MAX_NAMES: usize = 1 << 24;
const _: () = assert!(MAX_NAMES * MAX_NAME <= u32::MAX as usize);

/// The number of a free slot.
const FREE: u32 = u32::MAX;

/// A slot: the upper half of a name's hash, and the name's number.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    number: u32,
}

/// Names, each known by its number: the order in which it was added.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// A power of two of them, at most half of them taken. A name stands in the first slot from the one its
    /// hash leads to that was free.
    slots: Box<[Slot]>,
    /// Where each name starts in `bytes`.
    starts: Vec<u32>,
    /// The names in wire format, one behind the other.
    bytes: Vec<u8>,
    /// Which numbers of labels occur, one bit each.
    depths: u128,
    seed: Seed,
}

impl Names {
    /// An empty table with room for `capacity` names, at most [`MAX_NAMES`].
    pub(super) fn with_capacity(capacity: usize, seed: Seed) -> Self {
        let slots = if capacity == 0 { 0 } else { (2 * capacity).next_power_of_two() };
        Self {
            slots: vec![Slot { tag: 0, number: FREE }; slots].into_boxed_slice(),
            starts: Vec::with_capacity(capacity),
            bytes: Vec::new(),
            depths: 0,
            seed,
        }
    }

    /// Adds a name, which must be whole, unless it is there, and gives its number.
    pub(super) fn add(&mut self, name: &[u8]) -> u32 {
        let hash = self.seed.hash(name);
        if let Some(number) = self.find(hash, name) {
            return number;
        }
        let number = self.starts.len() as u32;
        let free = self.probe(hash).find(|at| self.slots[*at].number == FREE);
        let free = free.expect("the table was made for twice as many names");
        self.slots[free] = Slot { tag: tag(hash), number };
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(name);
        self.depths |= 1 << depth(name);
        number
    }

    /// The number of a name with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        for at in self.probe(hash) {
            let slot = self.slots[at];
            if slot.number == FREE {
                return None;
            }
            if slot.tag == tag(hash) && self.is(slot.number, name) {
                return Some(slot.number);
            }
        }
        None
    }

    /// Whether `name` or any name it stands below is in the table. `hash` is the hash of `name`.
    #[inline]
    pub(super) fn covers(&self, hash: u64, name: &[u8]) -> bool {
        let mut depth = depth(name);
        suffixes(name).any(|suffix| {
            // Only names with as many labels as one in the table are worth a look.
            let possible = self.depths >> depth & 1 != 0;
            depth = depth.saturating_sub(1);
            let whole = suffix.len() == name.len();
            let hash = || if whole { hash } else { self.seed.hash(suffix) };
            possible && self.find(hash(), suffix).is_some()
        })
    }

    /// Starts loading the slot that `hash` leads to.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(at) = self.probe(hash).next() {
            prefetch(&raw const self.slots[at]);
        }
    }

    /// Whether there are no names.
    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The slots a name with this hash may be in, in order.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let len = self.slots.len();
        (0..len).map(move |step| (hash as usize).wrapping_add(step) & (len - 1))
    }

    /// Whether the name with this number is `name`. A whole name is never the beginning of another.
    #[inline]
    fn is(&self, number: u32, name: &[u8]) -> bool {
        let start = self.starts[number as usize] as usize;
        self.bytes.get(start..start + name.len()).is_some_and(|ours| equal(ours, name))
    }
}

/// The name and every name above it: first the whole name, last the root.
#[inline]
pub(super) fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| {
        let label = usize::from(*name.first()?);
        if label == 0 { None } else { name.get(1 + label..) }
    })
}

/// How many labels a name has, the root's not counted: at most 127.
#[inline]
fn depth(name: &[u8]) -> usize {
    suffixes(name).count().saturating_sub(1)
}

/// The half of the hash that a slot keeps. The other half leads to the slot.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::name_of;

    const SEED: [u8; 16] = *b"sixteen letters!";

    fn names(texts: &[&str]) -> Names {
        let mut names = Names::with_capacity(texts.len(), Seed::new(SEED));
        for text in texts {
            names.add(&name_of(text));
        }
        names
    }

    fn find(names: &Names, text: &str) -> Option<u32> {
        let name = name_of(text);
        names.find(Seed::new(SEED).hash(&name), &name)
    }

    fn covers(names: &Names, text: &str) -> bool {
        let name = name_of(text);
        names.covers(Seed::new(SEED).hash(&name), &name)
    }

    #[test]
    fn names_are_found_by_number_in_any_letter_case() {
        let names = names(&["a.example.", "b.example.", "A.EXAMPLE.", "."]);
        assert_eq!(find(&names, "a.example."), Some(0));
        assert_eq!(find(&names, "B.example."), Some(1));
        assert_eq!(find(&names, "."), Some(2));
        assert_eq!(find(&names, "c.example."), None);
        assert_eq!(find(&names, "example."), None);
    }

    #[test]
    fn a_name_covers_what_is_below_it_and_nothing_else() {
        let names = names(&["bad.example.", "very.deep.worse.test."]);
        for covered in
            ["bad.example.", "x.bad.example.", "a.b.c.BAD.example.", "1.very.deep.worse.test."]
        {
            assert!(covers(&names, covered), "{covered}");
        }
        for free in [".", "example.", "notbad.example.", "bad.example.org.", "deep.worse.test."] {
            assert!(!covers(&names, free), "{free}");
        }
    }

    #[test]
    fn the_root_covers_everything_and_an_empty_table_nothing() {
        assert!(covers(&names(&["."]), "www.example."));
        assert!(covers(&names(&["."]), "."));
        assert!(!covers(&names(&[]), "www.example."));
        assert_eq!(find(&names(&[]), "www.example."), None);
    }

    #[test]
    fn the_deepest_name_has_a_bit_of_its_own() {
        let deepest = b"\x01a".repeat(127);
        let name = [deepest.as_slice(), b"\0"].concat();
        assert_eq!(name.len(), MAX_NAME);
        let mut names = Names::with_capacity(1, Seed::new(SEED));
        names.add(&name);
        assert!(names.covers(Seed::new(SEED).hash(&name), &name));
        assert!(!names.covers(Seed::new(SEED).hash(&name[2..]), &name[2..]));
    }

    #[test]
    fn equal_tags_do_not_make_names_equal() {
        let mut names = names(&["a.example.", "b.example."]);
        for slot in &mut names.slots {
            slot.tag = 7;
        }
        let hash = Seed::new(SEED).hash(&name_of("a.example.")) & 0xffff_ffff | 7 << 32;
        assert_eq!(names.find(hash, &name_of("a.example.")), Some(0));
        assert_eq!(names.find(hash, &name_of("c.example.")), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_walk_over_all_names(
            listed in proptest::collection::vec("([ab]{1,2}\\.){0,4}", 0..30),
            asked in "([abAB]{1,2}\\.){0,5}",
        ) {
            let texts: Vec<&str> = listed.iter().map(String::as_str).collect();
            let names = names(&texts);
            let asked_name = name_of(&asked.to_lowercase());
            let listed: Vec<_> = listed.iter().map(|text| name_of(text)).collect();
            prop_assert_eq!(find(&names, &asked).is_some(), listed.contains(&asked_name));
            let below = listed.iter().any(|name| suffixes(&asked_name).any(|suffix| suffix == name));
            prop_assert_eq!(covers(&names, &asked), below);
        }
    }
}
