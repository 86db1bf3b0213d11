//! Wire formats: field offsets stand here once, and checked readers over bytes.

pub mod checksum;
pub mod dns;
pub mod edns;
pub mod ip;
pub mod labels;
pub mod layout;
pub mod name;
pub mod query;
pub mod rdata;
pub mod record;
pub mod subnet;

/// The 16-bit big-endian number at `at`, `None` beyond the end.
#[inline]
pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([field[0], field[1]]))
}

/// The 16-bit big-endian number at `at`, a constant inside the header.
#[inline(always)]
pub fn field16<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

/// The 32-bit big-endian number at `at`, `None` beyond the end.
#[inline]
pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([field[0], field[1], field[2], field[3]]))
}

/// Writes a 16-bit big-endian number at `at`, which must exist.
#[inline]
pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes a 32-bit big-endian number at `at`, which must exist.
#[inline]
pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
