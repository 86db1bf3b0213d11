//! The answer to a packet, by reference: encode looks up the rest.

use crate::cache::EntryRef;
use crate::wire::dns::Rcode;

/// The answer that encode shall give. The stage that decides it sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not decided yet.
    None,
    /// Nothing but an rcode.
    Rcode(Rcode),
    /// Nothing but TC=1: come back over TCP.
    Truncated,
    /// An entry of the cache.
    Cached(EntryRef),
    /// An answer of the ruleset.
    Local(LocalRef),
    /// One of the answers that are the same for every name.
    Fixed(Fixed),
}

const _: () = assert!(size_of::<Answer>() == 8);

/// Where an answer stands in the ruleset of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Six bytes at two-byte alignment, so that an `Answer` with its tag fits in eight.
#[repr(Rust, packed(2))]
pub struct LocalRef {
    pub(crate) generation: u16,
    pub(crate) number: u32,
}

impl LocalRef {
    /// Both as one number, to hash.
    pub fn as_number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.number)
    }
}

/// One of the fixed answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    /// Which server this is.
    Identity,
    /// What it runs.
    Version,
    /// That there is no answer in full.
    Any,
}
