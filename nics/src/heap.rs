//! Frames on the heap: the pool of the `memory` and `pcap` drivers, and of every test.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

/// Bytes a heap frame can hold: what a default mbuf holds.
pub const FRAME_ROOM: u16 = 2048;

/// A fixed number of frames. Cloning it gives another handle to the same pool.
#[derive(Clone)]
pub struct HeapPool {
    shared: Arc<Shared>,
}

struct Shared {
    free: Receiver<Slot>,
    give_back: Sender<Slot>,
    capacity: usize,
    room: u16,
}

/// The head before the bytes of a buffer: the way back to its pool.
#[repr(C, align(16))]
struct Head {
    /// Set while a frame holds the buffer: keeps the pool alive until the frame is dropped.
    home: Option<Arc<Shared>>,
    room: u16,
}

/// An unused buffer that its holder owns.
struct Slot(NonNull<Head>);

// SAFETY: a slot is the only owner of its buffer.
unsafe impl Send for Slot {}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the head was written by `HeapPool::with_room`, and is ours.
        let room = unsafe { (*self.0.as_ptr()).room };
        // SAFETY: the buffer was allocated with this layout by `HeapPool::with_room`, and is ours.
        unsafe { dealloc(self.0.as_ptr().cast(), layout_of(room)) };
    }
}

/// The layout of a buffer for so many bytes.
fn layout_of(room: u16) -> Layout {
    let size = size_of::<Head>() + usize::from(room);
    Layout::from_size_align(size, align_of::<Head>()).expect("64 KiB are no size too large")
}

impl HeapPool {
    /// A pool of `capacity` frames.
    pub fn new(capacity: usize) -> Self {
        Self::with_room(capacity, FRAME_ROOM)
    }

    /// A pool of `capacity` frames, each of which can hold `room` bytes. Pages that no frame has used take no memory.
    pub fn with_room(capacity: usize, room: u16) -> Self {
        let (give_back, free) = bounded(capacity);
        for _ in 0..capacity {
            let layout = layout_of(room);
            // SAFETY: the layout is not empty.
            let memory = unsafe { alloc_zeroed(layout) };
            let Some(buffer) = NonNull::new(memory.cast::<Head>()) else {
                handle_alloc_error(layout)
            };
            // SAFETY: the memory has room for a head, and all-zero bytes are one: `None` of a nullable pointer, and a number.
            unsafe { (*buffer.as_ptr()).room = room };
            give_back.try_send(Slot(buffer)).expect("the channel has room for every slot");
        }
        Self { shared: Arc::new(Shared { free, give_back, capacity, room }) }
    }

    /// A buffer that nobody else uses, the first of its bytes, and how many it has; `None` when all are in use. [`free`] gives it
    /// back.
    pub(crate) fn take_buffer(&self) -> Option<(NonNull<()>, NonNull<u8>, u16)> {
        let slot = self.shared.free.try_recv().ok()?;
        let buffer = slot.0;
        std::mem::forget(slot);
        let raw = buffer.as_ptr();
        // SAFETY: the slot owned a valid buffer; nobody else refers to it.
        unsafe { (*raw).home = Some(Arc::clone(&self.shared)) };
        // SAFETY: `room` bytes stand behind the head, in the same allocation.
        let data = unsafe { buffer.add(1) };
        Some((buffer.cast(), data.cast(), self.shared.room))
    }

    /// Frames that somebody holds.
    pub fn in_use(&self) -> usize {
        self.shared.capacity - self.shared.free.len()
    }

    /// Frames in all.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }
}

/// Gives a buffer back to its pool.
///
/// # Safety
/// `handle` must come from [`HeapPool::take_buffer`] and must not be used afterwards.
pub(crate) unsafe fn free(handle: NonNull<()>) {
    let buffer: NonNull<Head> = handle.cast();
    // SAFETY: the caller owns the buffer.
    let home = unsafe { (*buffer.as_ptr()).home.take() };
    if let Some(home) = home {
        let kept = home.give_back.try_send(Slot(buffer));
        debug_assert!(kept.is_ok(), "a pool has room for all its buffers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_and_go() {
        let pool = HeapPool::new(2);
        let mut one = pool.take().unwrap();
        let two = pool.take().unwrap();
        assert!(pool.take().is_none());
        one.resize(60).unwrap();
        one.bytes_mut().fill(7);
        assert!(one.resize(usize::from(FRAME_ROOM) + 1).is_err());
        drop(two);
        assert_eq!(pool.in_use(), 1);
        drop(one);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn long_frames_can_be_filled_to_the_last_byte() {
        let pool = HeapPool::with_room(1, u16::MAX);
        for round in 1..3 {
            let mut frame = pool.take().unwrap();
            frame.resize(usize::from(u16::MAX)).unwrap();
            frame.bytes_mut().fill(round);
            assert!(frame.bytes().iter().all(|byte| *byte == round));
        }
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn a_frame_may_outlive_its_pool() {
        let pool = HeapPool::new(1);
        let mut frame = pool.take().unwrap();
        drop(pool);
        frame.resize(1).unwrap();
        frame.bytes_mut()[0] = 1;
    }
}
