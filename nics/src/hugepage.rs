//! One piece of memory on huge pages for the cache. It is taken at start and never again.
//!
//! The memory is zero, and all of it is in place when [`Arena::new`] returns. It is a slice of words that
//! many threads may read while one writes. Without huge pages it is on normal ones, with a
//! warning that says how to reserve them. Another process can take it over with all that is in it.

#[cfg(not(loom))]
use std::io;
#[cfg(not(loom))]
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use crate::sync::AtomicU64;

#[cfg(not(loom))]
mod kernel;
#[cfg(not(loom))]
mod memfd;
#[cfg(not(loom))]
pub use kernel::{ArenaError, ArenaReport, PageKind};
#[cfg(not(loom))]
pub use memfd::AdoptError;

/// Memory for the cache: zero at first, given back when dropped.
#[derive(Debug)]
pub struct Arena {
    words: NonNull<[AtomicU64]>,
    memory: Memory,
}

/// Where the words live.
#[derive(Debug)]
enum Memory {
    /// On the heap, as a leaked box.
    Heap,
    /// In a mapping of its own.
    #[cfg(not(loom))]
    Mapped {
        _mapping: memmap2::MmapRaw,
        /// The file that is mapped; `None`: the memory is anonymous.
        memfd: Option<memfd::Memfd>,
    },
}

// SAFETY: the arena owns its memory, and hands out nothing but shared atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena on the heap, for tests and for loom.
    pub fn heap(words: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { words: NonNull::from(Box::leak(words)), memory: Memory::Heap }
    }

    /// All of the memory.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the words live as long as the arena and are never borrowed uniquely.
        unsafe { self.words.as_ref() }
    }
}

#[cfg(not(loom))]
impl Arena {
    /// The memory as another process can take it over with [`Arena::adopt`]. `None`: it is this process's alone.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.memfd().map(memfd::Memfd::descriptor)
    }

    /// Takes the lock of the one process that may write, and says whether it has it. It falls when the process ends. Memory
    /// without a descriptor is never another's.
    pub fn lock(&self) -> io::Result<bool> {
        self.memfd().map_or(Ok(true), memfd::Memfd::lock)
    }

    /// Gives the lock up, so that another process can take it.
    pub fn unlock(&self) -> io::Result<()> {
        self.memfd().map_or(Ok(()), memfd::Memfd::unlock)
    }

    fn memfd(&self) -> Option<&memfd::Memfd> {
        match &self.memory {
            Memory::Heap => None,
            Memory::Mapped { memfd, .. } => memfd.as_ref(),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        match &self.memory {
            Memory::Heap => {
                // SAFETY: the words were leaked from a box by `heap`, and nobody borrows them any more.
                drop(unsafe { Box::from_raw(self.words.as_ptr()) });
            }
            // The mapping unmaps itself.
            #[cfg(not(loom))]
            Memory::Mapped { .. } => {}
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;

    #[test]
    fn heap_words_are_zero_and_can_be_written() {
        let arena = Arena::heap(1000);
        assert_eq!(arena.words().len(), 1000);
        assert!(arena.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        arena.words()[999].store(7, Ordering::Relaxed);
        let moved = arena;
        assert_eq!(moved.words()[999].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn threads_share_it() {
        let arena = Arena::heap(2);
        std::thread::scope(|scope| {
            for word in arena.words() {
                scope.spawn(move || word.store(1, Ordering::Release));
            }
        });
        assert!(arena.words().iter().all(|word| word.load(Ordering::Acquire) == 1));
    }

    #[test]
    fn an_empty_arena_is_lawful() {
        assert!(Arena::heap(0).words().is_empty());
    }
}
