//! Letter case as a secret: a query's letters are written large or small at random, and its reply must have them so
//! (draft-vixie-dnsext-dns0x20). A forger has to guess them beside port and id.
//!
//! Some servers do not keep letters as they are. A query whose reply has others goes over TCP, which nobody
//! can forge from afar; and a server that does it again and again is asked in small letters for a while.
//!
//! Pure; randomness and time are arguments.

use std::time::Duration;

use crate::upstreams::fallback::Fallback;

/// Replies in other letters, one after the other, before an upstream is asked in small ones.
const MISSPELT_BEFORE_PLAIN: u32 = 3;
/// How long it is.
const PLAIN_LIFETIME: Duration = Duration::from_secs(3600);

/// Which letters of a name are large: letter number `n` is if bit `n` modulo 64 is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LetterCase(u64);

impl LetterCase {
    /// All letters small.
    pub(crate) const PLAIN: Self = Self(0);

    /// Letters as `random` has them.
    pub(crate) fn new(random: u64) -> Self {
        Self(random)
    }

    /// `name`, which is in wire format and lower case, in these letters.
    pub(crate) fn spell(self, name: &[u8]) -> impl Iterator<Item = u8> {
        // Length octets are at most 63 and thus no letters.
        name.iter().enumerate().map(move |(at, byte)| match self.0 >> (at % 64) & 1 {
            1 => byte.to_ascii_uppercase(),
            _ => *byte,
        })
    }

    /// Whether `written` is `name` in exactly these letters.
    pub(crate) fn is_of(self, name: &[u8], written: &[u8]) -> bool {
        name.len() == written.len() && self.spell(name).eq(written.iter().copied())
    }
}

/// How an upstream's queries are spelt.
#[derive(Clone, Debug)]
pub(crate) struct CaseMixer {
    /// Whether the operator wants letters mixed.
    mixes: bool,
    in_small: Fallback,
}

impl CaseMixer {
    /// One that mixes letters or does not.
    pub(crate) fn new(mixes: bool) -> Self {
        Self { mixes, in_small: Fallback::new(MISSPELT_BEFORE_PLAIN, PLAIN_LIFETIME) }
    }

    /// Whether a query that leaves now has mixed letters.
    pub(crate) fn mixes(&self, now: Duration) -> bool {
        self.mixes && !self.in_small.holds(now)
    }

    /// A reply had the letters of its query.
    pub(crate) fn kept(&mut self) {
        self.in_small.note_success();
    }

    /// A reply had others. `true`: from now on the upstream is asked in small ones.
    pub(crate) fn misspelt(&mut self, now: Duration) -> bool {
        self.mixes && self.in_small.note_failure(now)
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::name_of;
    use proptest::prelude::*;

    use super::*;

    const START: Duration = Duration::from_secs(1000);

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

    #[test]
    fn one_that_never_keeps_letters_is_asked_in_small_ones_for_a_while() {
        let mut case_mixer = CaseMixer::new(true);
        for _ in 1..MISSPELT_BEFORE_PLAIN {
            assert!(case_mixer.mixes(START) && !case_mixer.misspelt(START));
        }
        assert!(case_mixer.misspelt(START) && !case_mixer.mixes(START));
        assert!(!case_mixer.misspelt(START), "it is known");
        assert!(case_mixer.mixes(START + PLAIN_LIFETIME), "it may have been mended");
    }

    #[test]
    fn one_that_keeps_them_now_and_then_is_not_given_up() {
        let mut case_mixer = CaseMixer::new(true);
        for _ in 0..100 {
            case_mixer.misspelt(START);
            assert!(!case_mixer.misspelt(START));
            case_mixer.kept();
        }
        assert!(case_mixer.mixes(START) && !CaseMixer::new(false).mixes(START));
    }
}
