//! An answer on its way to its client.

use std::ops::Deref;

use pmdns_config::narrow::to_u16;

use crate::budget::{Budget, Charge};
use crate::table::Waiting;

/// A DNS message from the line. Dereferences to its bytes.
#[derive(Debug)]
pub struct AnswerMessage {
    framed: Vec<u8>,
    has_keepalive: bool,
    _charge: Charge,
}

/// Bytes of the length before a message (RFC 1035 section 4.2.2).
pub(crate) const LENGTH: usize = 2;

impl AnswerMessage {
    /// A copy of `message` for the client that waits, if `budget` has room for it.
    pub(crate) fn new(message: &[u8], waiting: &Waiting, budget: &Budget) -> Option<Self> {
        let charge = budget.take(LENGTH + message.len(), waiting.prefix, &waiting.reader)?;
        let mut framed = Vec::with_capacity(LENGTH + message.len());
        framed.extend_from_slice(&to_u16(message.len()).to_be_bytes());
        framed.extend_from_slice(message);
        Some(Self { framed, has_keepalive: false, _charge: charge })
    }

    /// The same, with the line's word on whether the query had the option edns-tcp-keepalive (RFC 7828).
    pub(crate) fn with_keepalive(self, has_keepalive: bool) -> Self {
        Self { has_keepalive, ..self }
    }

    /// Whether the query had the option edns-tcp-keepalive.
    pub fn has_keepalive(&self) -> bool {
        self.has_keepalive
    }

    /// The message behind its length, as it stands in a stream of bytes (RFC 1035 section 4.2.2).
    pub fn framed(&self) -> &[u8] {
        &self.framed
    }
}

impl Deref for AnswerMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.framed[LENGTH..]
    }
}
