//! Names in wire format: where one ends, and comparing and hashing them without regard to case.
//!
//! A label's length byte is at most 63 and so never an ASCII letter. So a whole uncompressed name can
//! be lower-cased eight bytes at a time, without a look at its labels.

use pmdns_config::narrow::low_u64;

/// Longest name in wire format, root label included (RFC 1035 section 3.1).
pub const MAX_NAME: usize = 255;

/// Longest label (RFC 1035 section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// Labels that are stepped over before a look at how far that has led.
const LABELS_AT_ONCE: usize = 4;
/// Bytes that [`length_in`] reads, of any content: no four labels lead out of them, nor four other bytes taken for
/// labels.
pub const ROOM: usize = 1024;
const _: () = assert!(ROOM >= MAX_NAME + (LABELS_AT_ONCE - 1) * (1 + u8::MAX as usize));

/// Length of the uncompressed name at the start of `bytes`, root label included. `None`: it is cut off,
/// too long, or compressed.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let bytes = bytes.get(..MAX_NAME).unwrap_or(bytes);
    let mut room = [0; ROOM];
    room[..bytes.len()].copy_from_slice(bytes);
    length_in(&room).filter(|len| *len <= bytes.len())
}

/// The same for a name of which so many bytes can be read. It may end in bytes that are not its own: the caller knows where those
/// begin.
///
/// A name may have 127 labels, and to step over them is most of what reading a query can cost. Here a label takes five
/// instructions: the compiler sees that no index is out of bounds.
#[inline(always)]
pub fn length_in(room: &[u8; ROOM]) -> Option<usize> {
    // Bytes stepped over, but for the length bytes of the labels at hand.
    let mut at = 0;
    while at < MAX_NAME {
        for step in 0..LABELS_AT_ONCE {
            let label = usize::from(room[at + step]);
            at += label;
            // One comparison for both: the root label, which ends the name, and what is no label.
            if label.wrapping_sub(1) >= MAX_LABEL {
                let len = at + step + 1;
                return (label == 0 && len <= MAX_NAME).then_some(len);
            }
        }
        at += LABELS_AT_ONCE;
    }
    None
}

/// The name and every name above it: first the whole name, last the root.
#[inline]
pub fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| {
        let label = usize::from(*name.first()?);
        if label == 0 { None } else { name.get(1 + label..) }
    })
}

/// Secret multipliers, drawn once per process, so that nobody outside can choose colliding names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    first: u64,
    second: u64,
}

impl Seed {
    /// A seed from 16 random bytes.
    pub fn new(random: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(random);
        // Odd multipliers keep every input bit; the constants (of pi) make even patterned seeds mix.
        let first = low_u64(number) ^ 0x243f_6a88_85a3_08d3;
        let second = (number >> 64) as u64 ^ 0x1319_8a2e_0370_7344;
        Self { first: first | 1, second: second | 1 }
    }

    /// Its numbers, for another process.
    pub fn numbers(self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// The seed of another process.
    pub fn of([first, second]: [u64; 2]) -> Self {
        Self { first: first | 1, second: second | 1 }
    }

    /// Hash of a name, letters taken as lower case.
    #[inline(always)]
    pub fn hash(self, name: &[u8]) -> u64 {
        let (whole, rest) = name.as_chunks::<8>();
        let mut hash = self.first ^ name.len() as u64;
        for word in whole {
            hash = fold(hash ^ lower(u64::from_le_bytes(*word)), self.second);
        }
        if !rest.is_empty() {
            hash = fold(hash ^ lower(word(name, name.len() - rest.len())), self.second);
        }
        fold(hash, self.first)
    }

    /// Hash of a name, letters taken as lower case and a few other characters taken as one: for tables that
    /// compare names afterwards. A name of up to 16 bytes costs one multiplication.
    #[inline(always)]
    pub fn hash_loosely(self, name: &[u8]) -> u64 {
        const CASE: u64 = 0x2020_2020_2020_2020;
        let start = self.first ^ name.len() as u64;
        let mix = |hash: u64, low: [u8; 8], high: [u8; 8]| {
            let [low, high] = [low, high].map(|word| u64::from_le_bytes(word) | CASE);
            fold(low ^ hash, high ^ self.second)
        };
        // The last words overlap those before them: together they are all of the name.
        let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) else {
            return mix(start, word(name, 0).to_le_bytes(), [0; 8]);
        };
        let Some(end) = name.last_chunk::<16>() else {
            return mix(start, *first, *last);
        };
        let mut hash = start;
        for step in name[..name.len() - 1].as_chunks::<16>().0 {
            if let (Some(low), Some(high)) = (step.first_chunk(), step.last_chunk()) {
                hash = mix(hash, *low, *high);
            }
        }
        end.first_chunk().map_or(hash, |low| mix(hash, *low, *last))
    }

    /// Hash of a name's hash and what else a key consists of.
    #[inline]
    pub fn mix(self, hash: u64, more: u64) -> u64 {
        fold(hash ^ more, self.second)
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// Whether two names are equal, letter case apart.
#[inline]
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    let same = |left, right| left == right || lower(left) == lower(right);
    let (whole, rest) = left.as_chunks::<8>();
    let mut pairs = whole.iter().zip(right.as_chunks::<8>().0);
    let last = left.len() - rest.len();
    left.len() == right.len()
        && pairs.all(|(left, right)| same(u64::from_le_bytes(*left), u64::from_le_bytes(*right)))
        && (rest.is_empty() || same(word(left, last), word(right, last)))
}

/// The eight bytes at `at` as a little-endian number, zeros beyond the end.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(word) = rest.first_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    match bytes.last_chunk::<8>() {
        // The last eight bytes end where the word shall end: a shift, where a copy would be a call.
        Some(last) if !rest.is_empty() => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        _ => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Eight bytes with `A` to `Z` turned into `a` to `z`, all at once.
#[inline(always)]
pub fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let ascii = word & (0x7f * EACH);
    // Bit 7 of each byte: set if the byte is at least `A`, and if it is beyond `Z`.
    let from_a = ascii + (0x80 - u64::from(b'A')) * EACH;
    let beyond_z = ascii + (0x7f - u64::from(b'Z')) * EACH;
    let letters = (from_a & !beyond_z & !word) & (0x80 * EACH);
    word | letters >> 2
}

/// High and low half of the product, folded together.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    low_u64(product) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_of_a_name() {
        assert_eq!(length(b"\0rest"), Some(1));
        assert_eq!(length(b"\x03www\x07example\0rest"), Some(13));
        assert_eq!(length(b"\x03www"), None, "cut off");
        assert_eq!(length(b"\xc0\x0c"), None, "compressed");
        assert_eq!(length(&[0x40; 80]), None, "a label of 64");
        let mut longest = [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(3);
        longest.extend([b"\x3d".as_slice(), &[b'a'; 61], b"\0"].concat());
        assert_eq!(length(&longest), Some(MAX_NAME));
        longest[192] = 62;
        longest.insert(193, b'a');
        assert_eq!(length(&longest), None, "256 bytes");
    }

    proptest! {
        #[test]
        fn a_word_is_what_stands_there_and_zeros(
            bytes in proptest::collection::vec(any::<u8>(), 0..40), at in 0usize..50,
        ) {
            let expected = std::array::from_fn(|i| bytes.get(at + i).copied().unwrap_or(0));
            prop_assert_eq!(word(&bytes, at), u64::from_le_bytes(expected));
        }

        #[test]
        fn lower_is_to_ascii_lowercase(bytes: [u8; 8]) {
            let ours = lower(u64::from_le_bytes(bytes)).to_le_bytes();
            prop_assert_eq!(ours, bytes.map(|byte| byte.to_ascii_lowercase()));
        }

        #[test]
        fn equal_names_have_equal_hashes(name in proptest::collection::vec(any::<u8>(), 0..255)) {
            let seed = Seed::new([7; 16]);
            let upper = name.to_ascii_uppercase();
            prop_assert!(equal(&name, &upper));
            prop_assert_eq!(seed.hash(&name), seed.hash(&upper));
            prop_assert_eq!(seed.hash_loosely(&name), seed.hash_loosely(&upper));
        }

        #[test]
        fn other_names_have_other_loose_hashes(
            name in "[a-z]{1,60}", at in any::<proptest::sample::Index>(),
        ) {
            let seed = Seed::new([7; 16]);
            let mut other = name.clone().into_bytes();
            other[at.index(name.len())] ^= 1;
            prop_assert_ne!(seed.hash_loosely(name.as_bytes()), seed.hash_loosely(&other));
            prop_assert_ne!(seed.hash_loosely(name.as_bytes()), seed.hash_loosely(&name.as_bytes()[1..]));
        }

        #[test]
        fn equal_is_eq_ignore_ascii_case(
            left in proptest::collection::vec(any::<u8>(), 0..20),
            right in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            prop_assert_eq!(equal(&left, &right), left.eq_ignore_ascii_case(&right));
        }
    }
}
