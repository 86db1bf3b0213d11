//! An answer on its way to its client.

use std::ops::Deref;

use pmdns_config::narrow::to_u16;

use crate::budget::{Budget, Charge};

/// A DNS message from the line. Dereferences to its bytes.
#[derive(Debug)]
pub struct Answer {
    framed: Vec<u8>,
    _charge: Charge,
}

/// Bytes of the length before a message (RFC 1035 section 4.2.2).
pub(crate) const LENGTH: usize = 2;

impl Answer {
    /// A copy of `message`, if `budget` has room for it.
    pub(crate) fn new(message: &[u8], budget: &Budget) -> Option<Self> {
        let charge = budget.take(LENGTH + message.len())?;
        let mut framed = Vec::with_capacity(LENGTH + message.len());
        framed.extend_from_slice(&to_u16(message.len()).to_be_bytes());
        framed.extend_from_slice(message);
        Some(Self { framed, _charge: charge })
    }

    /// The message behind its length, as it stands in a stream of bytes (RFC 1035 section 4.2.2).
    pub fn framed(&self) -> &[u8] {
        &self.framed
    }
}

impl Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.framed[LENGTH..]
    }
}
