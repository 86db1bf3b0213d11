//! Where fresh frames come from, whichever driver has them.

use crate::frame::{Frame, Origin};
use crate::heap::HeapPool;

/// Where fresh frames come from. Cloning it gives another handle to the same pool.
#[derive(Clone)]
pub enum FramePool {
    /// Heap memory.
    Heap(HeapPool),
    /// An `rte_mempool`.
    #[cfg(feature = "dpdk")]
    Dpdk(crate::dpdk::Mempool),
}

impl HeapPool {
    /// A frame, `None` when all are in use. Its length is zero.
    pub fn take(&self) -> Option<Frame> {
        let (buffer, data, room) = self.take_buffer()?;
        // SAFETY: the pool gave the buffer to us alone, and its bytes were zeroed when it was made.
        Some(unsafe { Frame::new(Origin::Heap, buffer, data, 0, room) })
    }
}

impl FramePool {
    /// A fresh frame of length zero; `None` when all are in use.
    #[inline]
    pub fn take(&self) -> Option<Frame> {
        match self {
            Self::Heap(pool) => pool.take(),
            #[cfg(feature = "dpdk")]
            Self::Dpdk(pool) => pool.take(),
        }
    }

    /// Frames that somebody holds, those that wait in RX queues among them.
    pub fn in_use(&self) -> usize {
        match self {
            Self::Heap(pool) => pool.in_use(),
            #[cfg(feature = "dpdk")]
            Self::Dpdk(pool) => pool.in_use(),
        }
    }

    /// Frames in all.
    pub fn capacity(&self) -> usize {
        match self {
            Self::Heap(pool) => pool.capacity(),
            #[cfg(feature = "dpdk")]
            Self::Dpdk(pool) => pool.capacity(),
        }
    }
}
