//! Which answers an operator wants to lose.

use pmdns_config::narrow::{low_u8, low_u16};

use super::entry::Words;
use super::key::NameBuffer;

/// Answers to lose at once: those for a name, or for all names at or below it, of one type or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// In wire format, lower case.
    pub name: Box<[u8]>,
    /// Names below the name go with it.
    pub below: bool,
    /// The type asked for; none: all.
    pub qtype: Option<u16>,
}

impl Purge {
    /// Whether an entry is one of them.
    pub fn matches(&self, entry: &impl Words, buffer: &mut NameBuffer) -> bool {
        let [_, _, what, ..] = entry.head();
        let (qtype, name_len) = (low_u16(what), usize::from(low_u8(what >> 32)));
        let other_type = self.qtype.is_some_and(|wanted| wanted != qtype);
        if other_type || name_len < self.name.len() || (!self.below && name_len > self.name.len()) {
            return false;
        }
        let name = buffer.key_of(entry).name;
        let mut at = 0;
        // Label by label, for the same bytes inside a label are no suffix.
        while at + self.name.len() < name.len() {
            at += 1 + usize::from(name[at]);
        }
        name.get(at..) == Some(&*self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ReplyRecord, entry_of, name_of, query};
    use crate::wire::name::Seed;

    fn matches(purge: &Purge, asked: &str) -> bool {
        let records: [ReplyRecord; 1] = [(0, 1, 300, vec![192, 0, 2, 1])];
        let entry = entry_of(&query(asked), &records, 0, Seed::new([1; 16]));
        purge.matches(&entry.words(), &mut NameBuffer::default())
    }

    #[test]
    fn by_name_by_suffix_and_by_type() {
        let name: Box<[u8]> = name_of("example.com.").into();
        let exactly = Purge { name, below: false, qtype: None };
        let below = Purge { below: true, ..exactly.clone() };
        let of_type = Purge { qtype: Some(28), ..below.clone() };
        for (asked, by_name, by_suffix, by_type) in [
            ("example.com. A", true, true, false),
            ("EXAMPLE.com. AAAA", true, true, true),
            ("www.example.com. A", false, true, false),
            ("a.very.long.name.below.it.example.com. AAAA", false, true, true),
            ("com. A", false, false, false),
            ("example.org. AAAA", false, false, false),
            ("badexample.com. A", false, false, false),
            ("example.com.org. A", false, false, false),
            (". A", false, false, false),
        ] {
            assert_eq!(matches(&exactly, asked), by_name, "{asked}");
            assert_eq!(matches(&below, asked), by_suffix, "{asked}");
            assert_eq!(matches(&of_type, asked), by_type, "{asked}");
        }
        let everything = Purge { name: [0].into(), below: true, qtype: None };
        assert!(matches(&everything, "www.example.com. A") && matches(&everything, ". A"));
        assert!(!matches(&Purge { below: false, ..everything }, "www.example.com. A"));
    }

    #[test]
    fn any_words_can_be_asked() {
        let purge = Purge { name: name_of("a.").into(), below: true, qtype: None };
        for len in 0..=255_u64 {
            let words = [0, 0, len << 32, 0, 0, 0xffff_ffff_ffff_ffff, u64::MAX];
            purge.matches(&words.as_slice(), &mut NameBuffer::default());
        }
    }
}
