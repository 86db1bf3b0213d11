//! The Internet checksum (RFC 1071): one's complement sums of 16-bit words.

use pmdns_config::narrow::to_u32;

use super::name::word;

/// Bytes that are added at once if there are many.
const BLOCK: usize = 32;
/// So many are many: more than in nearly every query.
const LONG: usize = 2 * BLOCK;

/// A sum that is not yet folded to 16 bits.
///
/// Bytes are added as little-endian words, which gives the byte-swapped sum (RFC 1071 section 2B); the
/// swap is undone once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes that start at an even offset of the checksummed data.
    #[inline(always)]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        if bytes.len() >= LONG {
            return self.add_long(bytes);
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words.iter().fold(self, |sum, word| sum.add_word(u64::from_le_bytes(*word)));
        if rest.is_empty() {
            return sum;
        }
        sum.add_word(word(bytes, bytes.len() - rest.len()))
    }

    /// The same for many bytes, four words at a time: the loop would cost as much as the sum.
    #[inline(never)]
    fn add_long(self, bytes: &[u8]) -> Self {
        // The last word is left for the rest, which is dear if it has no whole one.
        let (blocks, _) = bytes[..bytes.len() - size_of::<u64>()].as_chunks::<BLOCK>();
        let rest = &bytes[blocks.len() * BLOCK..];
        let mut sum = self;
        for block in blocks {
            for word in block.as_chunks::<8>().0 {
                sum = sum.add_word(u64::from_le_bytes(*word));
            }
        }
        sum.add_bytes(rest)
    }

    /// Adds one 16-bit number, as it would stand in the data.
    #[inline(always)]
    pub fn add16(self, number: u16) -> Self {
        self.add_word(u64::from(number.swap_bytes()))
    }

    /// Adds a few 16-bit numbers. Their sum has no carry out of 64 bits.
    #[inline(always)]
    pub fn add16s<const N: usize>(self, numbers: [u16; N]) -> Self {
        self.add_word(numbers.map(|number| u64::from(number.swap_bytes())).iter().sum())
    }

    /// Adds a 64-bit number, as it would stand in the data.
    #[inline(always)]
    pub fn add64(self, number: u64) -> Self {
        self.add_word(number.swap_bytes())
    }

    /// Adds eight bytes. A carry out of 64 bits is worth one, as out of 16.
    #[inline(always)]
    pub fn add_word(self, little_endian: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(little_endian);
        Self(sum + u64::from(carry))
    }

    /// Takes away what four bytes had added.
    #[inline(always)]
    pub fn take_away(self, little_endian: u32) -> Self {
        self.add_word(u64::from(!little_endian))
    }

    /// Adds the sum of data that starts at `offset` of the checksummed data: at an odd one, bytes change
    /// places (RFC 1071 section 2B).
    #[inline(always)]
    pub fn add_at(self, offset: usize, other: Self) -> Self {
        self.add_word(other.0.rotate_left(8 * to_u32(offset & 1)))
    }

    /// Takes away what data at `offset` of the checksummed data had added.
    #[inline(always)]
    pub fn take_away_at(self, offset: usize, other: Self) -> Self {
        self.add_at(offset, Self(!other.0))
    }

    /// The sum in 16 bits, not complemented: what a port that completes the checksum wants.
    #[inline(always)]
    pub fn folded(self) -> u16 {
        self.fold().swap_bytes()
    }

    /// The two halves added up, twice. Added to itself with halves exchanged, a number has in its high half
    /// the sum of the halves, and the carry in it.
    #[inline(always)]
    fn fold(self) -> u16 {
        let sum = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
    }

    /// The checksum as it stands in the data: its first byte is the low one.
    #[inline(always)]
    pub fn checksum_in_place(self) -> u16 {
        !self.fold()
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether data that includes its checksum is undamaged.
    #[inline]
    pub fn is_right(self) -> bool {
        self.fold() == 0xffff
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 section 4.1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let sum = Sum::default().add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
    }

    proptest! {
        #[test]
        fn agrees_with_the_plain_sum_at_every_length(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), even in 0usize..100,
        ) {
            let cut = (even * 2).min(bytes.len() & !1);
            let sum = Sum::default().add_bytes(&bytes[..cut]).add_bytes(&bytes[cut..]);
            prop_assert_eq!(sum.checksum(), plain(&bytes));
        }

        #[test]
        fn sums_are_put_together_at_any_offset(
            left in proptest::collection::vec(any::<u8>(), 0..50),
            right in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let [first, second] = [&left, &right].map(|bytes| Sum::default().add_bytes(bytes));
            let whole = first.add_at(left.len(), second);
            prop_assert_eq!(whole.checksum(), plain(&[&left[..], &right].concat()));
            // Zero has two forms: one is added so that none of the sums is zero.
            let rest = whole.take_away_at(left.len(), second).add16(1);
            prop_assert_eq!(rest.checksum(), first.add16(1).checksum());
        }

        #[test]
        fn four_bytes_are_replaced_without_adding_all_anew(
            bytes in proptest::collection::vec(any::<u8>(), 4..60), at: prop::sample::Index, new: [u8; 4],
        ) {
            let at = at.index(bytes.len() - 3);
            let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let change = Sum::default().take_away(old).add_word(u64::from(u32::from_le_bytes(new)));
            let sum = Sum::default().add_bytes(&bytes).add_at(at, change);
            let mut replaced = bytes;
            replaced[at..at + 4].copy_from_slice(&new);
            let (ours, plain) = (sum.checksum(), plain(&replaced));
            // Zero has two forms, and which it is depends on the way there.
            prop_assert!(ours == plain || (ours ^ plain == 0xffff && plain % 0xffff == 0));
        }

        #[test]
        fn a_number_of_eight_bytes_adds_as_they_do(number: u64, bytes: [u8; 6]) {
            let sum = Sum::default().add_bytes(&bytes);
            prop_assert_eq!(sum.add64(number).checksum(), sum.add_bytes(&number.to_be_bytes()).checksum());
        }

        #[test]
        fn a_number_adds_as_its_two_bytes(number: u16, bytes: [u8; 6]) {
            let by_bytes = Sum::default().add_bytes(&bytes).add_bytes(&number.to_be_bytes());
            prop_assert_eq!(Sum::default().add_bytes(&bytes).add16(number).checksum(), by_bytes.checksum());
        }
    }
}
