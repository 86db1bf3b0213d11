//! Letter case as a secret (draft-vixie-dnsext-dns0x20). The letters of a query's name are upper or lower case at
//! random, and its reply must repeat them. A forger has to guess them, beside port and id.
//!
//! Some servers change the case. A query whose reply has another case goes over TCP, which cannot be forged off the
//! path. A server that does so again and again is asked in lower case for a while.
//!
//! Pure; randomness is an argument.

use pmdns_stages::wire::name::word;

/// One in each byte.
const EACH: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const HIGHEST: u64 = 0x80 * EACH;

/// Which letters of a name are upper case. Bit `n` modulo 64 decides for the byte at `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LetterCase(u64);

impl LetterCase {
    /// The case of letters is given by the bits of `random`.
    pub(crate) fn new(random: u64) -> Self {
        Self(random)
    }

    /// `name` in this letter case, eight bytes at a time, the last ones filled up with zeros. It is given in wire format
    /// and lower case.
    pub(crate) fn spell(self, name: &[u8]) -> impl Iterator<Item = u64> {
        // Length octets are at most 63, so they are not letters.
        (0..name.len()).step_by(8).map(move |at| self.spell_word(word(name, at), at))
    }

    /// The word at this place of a name.
    fn spell_word(self, word: u64, at: usize) -> u64 {
        let chosen = spread(self.0 >> (at % 64));
        word ^ (letters(word) & chosen) >> 2
    }

    /// Whether `written` is `name` in exactly this letter case.
    pub(crate) fn is_of(self, name: &[u8], written: &[u8]) -> bool {
        let mut places = (0..name.len()).step_by(8);
        name.len() == written.len()
            && places.all(|at| self.spell_word(word(name, at), at) == word(written, at))
    }
}

/// The highest bit of each byte that is a letter in lower case.
fn letters(word: u64) -> u64 {
    let ascii = word & !HIGHEST;
    let from_a = ascii + (0x80 - u64::from(b'a')) * EACH;
    let beyond_z = ascii + (0x7f - u64::from(b'z')) * EACH;
    from_a & !beyond_z & !word & HIGHEST
}

/// The highest bit of byte `n` for each of the lowest eight bits `n` that is set.
fn spread(bits: u64) -> u64 {
    let one_each = (bits & 0xff).wrapping_mul(EACH) & 0x8040_2010_0804_0201;
    (one_each + !HIGHEST) & HIGHEST
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::name_of;
    use proptest::prelude::*;

    use super::*;

    fn spelt(letter_case: LetterCase, name: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = letter_case.spell(name).flat_map(u64::to_le_bytes).collect();
        bytes.truncate(name.len());
        bytes
    }

    #[test]
    fn letters_are_large_where_a_bit_is_set_and_nothing_else_changes() {
        let name = name_of("a-1.z");
        let spelt = |random| spelt(LetterCase::new(random), &name);
        assert_eq!(spelt(0), name);
        assert_eq!(spelt(u64::MAX), name_of("A-1.Z"));
        assert_eq!(spelt(1 << 1), name_of("A-1.z"));
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
            let mut written = spelt(letter_case, &name);
            for (at, byte) in written.iter().enumerate() {
                let is_upper = random >> (at % 64) & 1 == 1;
                prop_assert_eq!(*byte, if is_upper { name[at].to_ascii_uppercase() } else { name[at] });
            }
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
