//! One bucket of tokens that all clients share.

use super::bucket::{Allowance, Bucket};
use crate::packet::Tick;

/// A limit on everything of a kind, from all senders.
#[derive(Clone, Debug)]
pub struct Budget {
    /// `None`: there is no limit.
    allowance: Option<Allowance>,
    bucket: Bucket,
}

impl Budget {
    /// So many a second, and so many at once after a pause; a rate of 0 is no limit.
    pub fn new(per_second: u32, burst: u32, ticks_per_second: u64) -> Self {
        let allowance = Allowance::new(per_second, burst, ticks_per_second);
        Self { allowance, bucket: Bucket::default() }
    }

    /// Takes a token, and says whether there was one.
    #[inline]
    pub fn take(&mut self, now: Tick) -> bool {
        self.allowance.as_ref().is_none_or(|allowance| self.bucket.take(allowance, now))
    }
}
