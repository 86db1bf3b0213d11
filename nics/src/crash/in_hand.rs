//! Where the packets are that a data core works on.

use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};

use crate::frame::{Frame, MAX_BURST};

/// The packets that one data core has in hand. The core writes, and the handler of a signal reads. No two share a line of memory.
#[derive(Debug)]
#[repr(align(64))]
pub struct InHand {
    core: u32,
    /// The thread of the core (`pthread_self`); 0: it has not begun.
    thread: AtomicU64,
    count: AtomicUsize,
    data: [AtomicPtr<u8>; MAX_BURST],
    lens: [AtomicU16; MAX_BURST],
    ports: [AtomicU8; MAX_BURST],
}

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePlace {
    pub(super) data: *const u8,
    pub(super) len: u16,
    pub(super) port: u8,
}

impl InHand {
    /// The core of this number has nothing in hand.
    pub fn new(core: u32) -> Self {
        Self {
            core,
            thread: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            data: [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_BURST],
            lens: [const { AtomicU16::new(0) }; MAX_BURST],
            ports: [const { AtomicU8::new(0) }; MAX_BURST],
        }
    }

    /// The calling thread is that of the core.
    pub fn adopt_thread(&self) {
        self.thread.store(this_thread(), Ordering::Relaxed);
    }

    /// The core works on these from now on. It is told so for each packet, and reads nothing of that but its frame's own fields.
    #[inline]
    pub fn note<'f>(&self, frames: impl Iterator<Item = &'f Frame>) {
        let mut count = 0;
        let places = self.data.iter().zip(&self.lens).zip(&self.ports);
        for (frame, ((data, len), port)) in frames.zip(places) {
            data.store(frame.bytes().as_ptr().cast_mut(), Ordering::Relaxed);
            len.store(frame.len_u16(), Ordering::Relaxed);
            port.store(frame.port(), Ordering::Relaxed);
            count += 1;
        }
        // A signal may come between any two instructions of this thread.
        self.count.store(count, Ordering::Release);
    }

    /// Everything has left the core.
    #[inline]
    pub fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    /// The number of the core.
    pub(super) fn core(&self) -> u32 {
        self.core
    }

    /// Whether the calling thread is that of the core.
    pub(super) fn is_of_this_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }

    /// Where its packets are.
    pub(super) fn places(&self) -> impl Iterator<Item = FramePlace> {
        let places = self.data.iter().zip(&self.lens).zip(&self.ports);
        let count = self.count.load(Ordering::Acquire);
        places.take(count).map(|((data, len), port)| FramePlace {
            data: data.load(Ordering::Relaxed),
            len: len.load(Ordering::Relaxed),
            port: port.load(Ordering::Relaxed),
        })
    }
}

/// A number of this thread that no other one has meanwhile, and never 0. Nothing is asked of the kernel, so a handler of signals
/// may ask.
pub(super) fn this_thread() -> u64 {
    // SAFETY: it takes nothing, and only reads where the thread keeps its own address.
    unsafe { libc::pthread_self() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Burst, HeapPool};

    #[test]
    fn a_core_has_in_hand_what_it_has_noted_last() {
        let pool = HeapPool::new(MAX_BURST);
        let mut frames: Burst = (0..MAX_BURST).filter_map(|_| pool.take()).collect();
        for (len, frame) in frames.iter_mut().enumerate() {
            frame.resize(len).unwrap();
            frame.set_port(3);
        }
        let hand = InHand::new(7);
        let other = std::thread::scope(|threads| {
            threads.spawn(|| hand.adopt_thread()).join().unwrap();
            hand.is_of_this_thread()
        });
        assert!(!other);
        hand.adopt_thread();
        assert!(hand.is_of_this_thread());
        hand.note(frames.iter());
        assert_eq!(hand.places().count(), MAX_BURST);
        hand.note(frames[5..7].iter());
        let place = |frame: &Frame| FramePlace {
            data: frame.bytes().as_ptr(),
            len: frame.len_u16(),
            port: 3,
        };
        let noted: Vec<_> = hand.places().collect();
        assert_eq!(noted, [place(&frames[5]), place(&frames[6])]);
        hand.clear();
        assert_eq!((hand.places().count(), hand.core()), (0, 7));
    }
}
