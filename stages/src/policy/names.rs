//! Names and a value of each, in a table that is built once and then only read.
//!
//! A block list has millions of names, so bytes count. A slot has eight of them, and most slots are taken.
//! Each leads to a name and its value, in one run of bytes. Whether a query needs to look here at all is for
//! [`Filter`] to say, so a few more steps to a free slot cost nobody.

use pmdns_config::narrow::{low_u32, to_u32};

use super::filter::Filter;
use crate::wire::name::{Seed, equal, length};

/// Names a table can hold, unless all are of the longest: they start at a place of 32 bits.
pub(super) const MAX_NAMES: usize = pmdns_config::limits::MAX_LIST_NAMES;

/// Names whose slots are no matter of memory.
const FEW: usize = 1 << 12;
/// Where no name starts.
const FREE: u32 = u32::MAX;
/// Bytes of a value, which stands before its name.
const VALUE: usize = 4;

/// A slot: half of a name's hash, and where its value and the name itself start.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    start: u32,
}

/// Names and their values.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// A name stands in the first slot that was free, from the one its hash leads to.
    slots: Box<[Slot]>,
    /// Values and names, one behind the other.
    bytes: Box<[u8]>,
    count: usize,
}

/// Names on their way into a table.
#[derive(Debug, Default)]
pub(super) struct Listing {
    bytes: Vec<u8>,
    count: usize,
}

impl Listing {
    /// Adds a whole name, in lower case; `false`: there is no room.
    pub(super) fn add(&mut self, name: &[u8], value: u32) -> bool {
        let fits = self.bytes.len() + VALUE + name.len() < FREE as usize;
        if self.count == MAX_NAMES || !fits {
            return false;
        }
        self.bytes.extend(value.to_le_bytes());
        self.bytes.extend_from_slice(name);
        self.count += 1;
        true
    }

    /// The table. Of a name that came several times, `join` makes one value of the earlier and the later.
    pub(super) fn build(self, seed: Seed, mut join: impl FnMut(u32, u32) -> u32) -> Names {
        // Three of four slots are taken at most, so that every search ends, and soon; of few names fewer, for they cost nothing.
        let slots = match self.count {
            ..=FEW => 4 * self.count,
            many => many + many.div_ceil(3),
        };
        let mut names = Names {
            slots: vec![Slot { tag: 0, start: FREE }; slots].into(),
            bytes: self.bytes.into(),
            count: 0,
        };
        let mut start = 0;
        while let Some((value, name)) = names.record(start) {
            let (len, hash) = (name.len(), seed.hash_loosely(name));
            let at = names.probe(hash).find(|at| names.is_there(*at, hash, name));
            let at = at.expect("there are more slots than names");
            if names.slots[at].start == FREE {
                names.slots[at] = Slot { tag: low_u32(hash), start };
                names.count += 1;
            } else {
                let first = names.slots[at].start as usize;
                let place = &mut names.bytes[first..first + VALUE];
                let earlier = place.first_chunk().map_or(0, |value| u32::from_le_bytes(*value));
                place.copy_from_slice(&join(earlier, value).to_le_bytes());
            }
            start += to_u32(VALUE + len);
        }
        names
    }
}

impl Names {
    /// The value of `name`, whose loose hash is `hash`.
    pub(super) fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        let at = self.probe(hash).find(|at| self.is_there(*at, hash, name))?;
        let start = self.slots[at].start;
        (start != FREE).then(|| self.record(start)).flatten().map(|(value, _)| value)
    }

    /// How many different names there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many bytes the table takes.
    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.slots) + self.bytes.len()
    }

    /// The names with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let records = self.slots.iter().filter_map(|slot| self.record(slot.start));
        records.map(|(value, name)| (name, value))
    }

    /// Adds the names to a filter.
    pub(super) fn add_to(&self, filter: &mut Filter) {
        self.iter().for_each(|(name, _)| filter.add(name));
    }

    /// Whether a search for `name` ends at this slot: it is there, or the slot is free.
    #[inline]
    fn is_there(&self, at: usize, hash: u64, name: &[u8]) -> bool {
        let slot = self.slots[at];
        slot.start == FREE
            || slot.tag == low_u32(hash)
                && self.record(slot.start).is_some_and(|(_, ours)| equal(ours, name))
    }

    /// The value and the name that start here.
    fn record(&self, start: u32) -> Option<(u32, &[u8])> {
        let rest = self.bytes.get(start as usize..)?;
        let (value, names) = rest.split_first_chunk::<VALUE>()?;
        Some((u32::from_le_bytes(*value), names.get(..length(names)?)?))
    }

    /// The slots a name with this hash may be in, in order.
    #[inline]
    fn probe(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let len = self.slots.len();
        let home = ((hash >> 32) as usize * len) >> 32;
        (home..len).chain(0..home)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::name_of;

    fn seed() -> Seed {
        Seed::new(*b"sixteen letters!")
    }

    /// The names with their places in the list as values.
    fn names(texts: &[&str]) -> Names {
        let mut listing = Listing::default();
        for (number, text) in (0..).zip(texts) {
            assert!(listing.add(&name_of(&text.to_lowercase()), number));
        }
        listing.build(seed(), |earlier, _| earlier)
    }

    fn find(names: &Names, text: &str) -> Option<u32> {
        let name = name_of(text);
        names.find(seed().hash_loosely(&name), &name)
    }

    #[test]
    fn names_are_found_with_their_values_in_any_letter_case() {
        let names = names(&["a.example.", "b.example.", "A.EXAMPLE.", "."]);
        assert_eq!(find(&names, "a.example."), Some(0));
        assert_eq!(find(&names, "B.example."), Some(1));
        assert_eq!(find(&names, "."), Some(3));
        assert_eq!(find(&names, "c.example."), None);
        assert_eq!(find(&names, "example."), None);
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn an_empty_table_has_no_names() {
        let names = names(&[]);
        assert_eq!(names.len(), 0);
        assert_eq!(find(&names, "."), None);
        assert_eq!(names.footprint(), 0);
    }

    #[test]
    fn values_of_a_name_are_joined() {
        let mut listing = Listing::default();
        for value in [1, 2, 4] {
            listing.add(&name_of("a."), value);
        }
        let names = listing.build(seed(), |earlier, later| earlier | later);
        assert_eq!(find(&names, "a."), Some(7));
    }

    #[test]
    fn equal_tags_do_not_make_names_equal() {
        let mut names = names(&["a.example."]);
        let other = name_of("b.example.");
        let hash = seed().hash_loosely(&other);
        for slot in names.slots.iter_mut().filter(|slot| slot.start != FREE) {
            slot.tag = hash as u32;
        }
        assert_eq!(names.find(hash, &other), None);
    }

    proptest! {
        #[test]
        fn a_full_table_finds_what_was_added_and_nothing_else(
            listed in proptest::collection::vec("([ab]{1,2}\\.){0,4}", 0..60),
            asked in "([abAB]{1,2}\\.){0,5}",
        ) {
            let texts: Vec<&str> = listed.iter().map(String::as_str).collect();
            let names = names(&texts);
            let expected = listed.iter().position(|text| *text == asked.to_lowercase());
            prop_assert_eq!(find(&names, &asked), expected.map(|place| place as u32));
            let mut found: Vec<_> = names.iter().collect();
            found.sort_by_key(|(_, value)| *value);
            prop_assert_eq!(found.len(), names.len());
            for (name, value) in found {
                prop_assert_eq!(name, &name_of(&listed[value as usize]));
            }
        }
    }
}
