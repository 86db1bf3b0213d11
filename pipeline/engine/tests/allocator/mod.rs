//! An allocator that counts, for tests of what allocates. It is unsafe code only because `GlobalAlloc` is an unsafe trait.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Allocations and frees of this thread.
    static CALLS: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
}

/// Allocations and frees of this thread so far.
pub(crate) fn calls() -> [u64; 2] {
    CALLS.with(Cell::get)
}

fn count(allocated: u64, freed: u64) {
    let [allocations, frees] = calls();
    CALLS.with(|calls| calls.set([allocations + allocated, frees + freed]));
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Without this, an allocator that counts nothing would pass every test.
pub(crate) fn check_that_it_counts() {
    let before = calls();
    drop(vec![0_u8; 100]);
    assert_eq!(calls(), before.map(|count| count + 1), "the allocator does count");
}
