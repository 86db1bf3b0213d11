//! Stores to the memory: all of them are made here, so that tests can end a writer after each.

use pmdns_nics::sync::{AtomicU64, Ordering, fence};

/// Stores a word.
#[inline(always)]
pub(super) fn store(word: &AtomicU64, value: u64, order: Ordering) {
    #[cfg(all(test, not(loom)))]
    tests::note(tests::Step::Store { word: word.as_ptr() as usize, value, order });
    word.store(value, order);
}

/// What was stored before this fence is in memory before what is stored after it.
#[inline(always)]
pub(super) fn release_fence() {
    #[cfg(all(test, not(loom)))]
    tests::note(tests::Step::Fence);
    fence(Ordering::Release);
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use std::cell::RefCell;

    use super::Ordering;

    /// What a writer does to the memory.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::cache) enum Step {
        /// It stores a word, which is at this address.
        Store { word: usize, value: u64, order: Ordering },
        /// What it has stored comes before what it will store.
        Fence,
    }

    thread_local! {
        static STEPS: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
    }

    pub(super) fn note(step: Step) {
        STEPS.with_borrow_mut(|steps| steps.iter_mut().for_each(|steps| steps.push(step)));
    }

    /// The steps of this thread while it does this, and what comes of it.
    pub(in crate::cache) fn record<T>(act: impl FnOnce() -> T) -> (T, Vec<Step>) {
        STEPS.set(Some(Vec::new()));
        let result = act();
        (result, STEPS.take().unwrap_or_default())
    }
}
