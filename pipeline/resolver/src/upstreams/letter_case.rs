//! Letter case as a secret (draft-vixie-dnsext-dns0x20). The letters of a query's name are upper or lower case at
//! random, and its reply must repeat them. A forger has to guess them, beside port and id.
//!
//! Some servers change the case. A query whose reply has another case goes over TCP, which cannot be forged off the
//! path. A server that does so again and again is asked in lower case for a while.
//!
//! Pure; randomness is an argument.

/// Which letters of a name are upper case. Bit `n` modulo 64 decides for the byte at `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LetterCase(u64);

impl LetterCase {
    /// All letters in lower case.
    pub(crate) const PLAIN: Self = Self(0);

    /// The case of letters is given by the bits of `random`.
    pub(crate) fn new(random: u64) -> Self {
        Self(random)
    }

    /// `name` in this letter case. It is given in wire format and lower case.
    pub(crate) fn spell(self, name: &[u8]) -> impl Iterator<Item = u8> {
        // Length octets are at most 63, so they are not letters.
        name.iter().enumerate().map(move |(at, byte)| match self.0 >> (at % 64) & 1 {
            1 => byte.to_ascii_uppercase(),
            _ => *byte,
        })
    }

    /// Whether `written` is `name` in exactly this letter case.
    pub(crate) fn is_of(self, name: &[u8], written: &[u8]) -> bool {
        name.len() == written.len() && self.spell(name).eq(written.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::name_of;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn letters_are_large_where_a_bit_is_set_and_nothing_else_changes() {
        let name = name_of("a-1.z");
        let spelt = |random| LetterCase::new(random).spell(&name).collect::<Vec<u8>>();
        assert_eq!(spelt(0), name);
        assert_eq!(spelt(u64::MAX), name_of("A-1.Z"));
        assert_eq!(spelt(1 << 1), name_of("A-1.z"));
        assert_eq!(LetterCase::PLAIN.spell(&name).collect::<Vec<u8>>(), name);
    }

    proptest! {
        #[test]
        fn a_name_is_of_its_own_spelling_and_of_no_other(
            labels in proptest::collection::vec("[a-z0-9-]{1,63}", 1..4),
            random in any::<u64>(),
            at in any::<proptest::sample::Index>(),
        ) {
            let name = name_of(&labels.join("."));
            let letter_case = LetterCase::new(random);
            let mut written: Vec<u8> = letter_case.spell(&name).collect();
            prop_assert!(written.eq_ignore_ascii_case(&name));
            prop_assert!(letter_case.is_of(&name, &written));
            prop_assert!(!letter_case.is_of(&name, &written[1..]));
            let at = at.index(written.len());
            let is_letter = written[at].is_ascii_alphabetic();
            written[at] ^= if is_letter { 0x20 } else { 1 };
            prop_assert!(!letter_case.is_of(&name, &written));
        }
    }
}
