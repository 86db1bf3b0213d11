//! The memory that answers may take while they wait for clients to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all connections share. Cloning it gives another handle to the same number.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// Bytes taken from a budget. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Charge {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    /// Nothing of `limit` bytes is taken.
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Takes so many bytes, if they are left.
    pub(crate) fn take(&self, bytes: usize) -> Option<Charge> {
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok()?;
        Some(Charge { used: Arc::clone(&self.used), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_when_a_charge_goes() {
        let budget = Budget::new(10);
        let first = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let second = budget.take(4).unwrap();
        drop(first);
        assert!(budget.take(6).is_some() && budget.take(7).is_none());
        drop(second);
        assert!(budget.take(10).is_some());
    }
}
