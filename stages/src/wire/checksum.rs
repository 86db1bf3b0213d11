//! The Internet checksum (RFC 1071): one's complement sums of 16-bit words.

/// A sum that is not yet folded to 16 bits.
///
/// Bytes are added as little-endian words, which gives the byte-swapped sum (RFC 1071 section 2B); the
/// swap is undone once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes that start at an even offset of the checksummed data.
    #[inline]
    pub fn add_bytes(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            // A carry out of 64 bits is worth one, as out of 16.
            let (sum, carry) = self.0.overflowing_add(word);
            self.0 = sum + u64::from(carry);
        }
        let rest = words.remainder();
        if rest.is_empty() {
            return self;
        }
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        let (sum, carry) = self.0.overflowing_add(u64::from_le_bytes(word));
        self.0 = sum + u64::from(carry);
        self
    }

    /// Adds one 16-bit number, as it would stand in the data.
    #[inline]
    pub fn add16(self, number: u16) -> Self {
        let (sum, carry) = self.0.overflowing_add(u64::from(number.swap_bytes()));
        Self(sum + u64::from(carry))
    }

    /// The sum in 16 bits, not complemented: what a port that completes the checksum wants.
    #[inline]
    pub fn folded(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        (sum as u16).swap_bytes()
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether data that includes its checksum is undamaged.
    #[inline]
    pub fn is_right(self) -> bool {
        self.folded() == 0xffff
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
        fn a_number_adds_as_its_two_bytes(number: u16, bytes: [u8; 6]) {
            let by_bytes = Sum::default().add_bytes(&bytes).add_bytes(&number.to_be_bytes());
            prop_assert_eq!(Sum::default().add_bytes(&bytes).add16(number).checksum(), by_bytes.checksum());
        }
    }
}
