//! Casts to narrower numbers, in one place: each function says why no bits are lost that matter.
//!
//! `to_*` takes a number that fits by what is around it, and a debug build checks that. `low_*` takes the low bits of a
//! word and leaves the others. A release build makes of each what it makes of `as`. A number from outside that may not
//! fit goes through `try_from`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the only place where bits may be dropped"
)]

/// A number that is below 256.
#[inline(always)]
pub const fn to_u8(number: usize) -> u8 {
    debug_assert!(number <= u8::MAX as usize, "the number has at most 8 bits");
    number as u8
}

/// A number that is below 65,536, as lengths inside a frame or a message are.
#[inline(always)]
pub const fn to_u16(number: usize) -> u16 {
    debug_assert!(number <= u16::MAX as usize, "the number has at most 16 bits");
    number as u16
}

/// A number that is below 4,294,967,296, as lengths of tables are.
#[inline(always)]
pub const fn to_u32(number: usize) -> u32 {
    debug_assert!(number as u64 <= u32::MAX as u64, "the number has at most 32 bits");
    number as u32
}

/// A number that an address of this machine can count.
#[inline(always)]
pub const fn to_usize(number: u64) -> usize {
    debug_assert!(number <= usize::MAX as u64, "the number is no longer than an address");
    number as usize
}

/// The lowest 8 bits of a word.
#[inline(always)]
pub const fn low_u8(word: u64) -> u8 {
    word as u8
}

/// The lowest 16 bits of a word.
#[inline(always)]
pub const fn low_u16(word: u64) -> u16 {
    word as u16
}

/// The lowest 32 bits of a word.
#[inline(always)]
pub const fn low_u32(word: u64) -> u32 {
    word as u32
}

/// The lower half of a double word.
#[inline(always)]
pub const fn low_u64(words: u128) -> u64 {
    words as u64
}

/// The whole part of a figure. What is negative or no number is 0, what is too large is the largest.
#[inline(always)]
pub const fn floor_u64(figure: f64) -> u64 {
    figure as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_fit_are_kept() {
        assert_eq!((to_u8(255), to_u16(65_535)), (255, 65_535));
        assert_eq!((to_u32(0xffff_ffff), to_usize(7)), (u32::MAX, 7));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "at most 16 bits")]
    fn a_number_that_does_not_fit_is_a_bug() {
        to_u16(65_536);
    }

    #[test]
    fn low_bits_are_taken() {
        let word = 0x0123_4567_89ab_cdef;
        assert_eq!((low_u8(word), low_u16(word), low_u32(word)), (0xef, 0xcdef, 0x89ab_cdef));
        assert_eq!(low_u64(1 << 64 | 5), 5);
    }

    #[test]
    fn figures_are_rounded_down_and_kept_in_range() {
        assert_eq!([2.9, -1.0, f64::NAN].map(floor_u64), [2, 0, 0]);
        assert_eq!(floor_u64(1e300), u64::MAX);
    }
}
