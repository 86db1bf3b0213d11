//! An `rte_ring` with one thread at each end. Benches compare our rings with it. Nothing else uses it.
//!
//! DPDK copies values of 4, 8 or 16 bytes and their multiples. It is compiled here for two sizes: 8, the
//! pointers that DPDK programs pass, and 64, a packet.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dpdk_sys::rte_ring;
use pmdns_config::narrow::to_u32;

use super::eal::{Eal, Environment};
use super::{error_text, last_error};

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// DPDK refused.
    #[error(
        "DPDK made no ring of {capacity} values ({reason}). The capacity must be a power of two, the \
         name new and short, and the EAL's memory (-m) large enough"
    )]
    Refused {
        /// Values asked for.
        capacity: usize,
        /// DPDK's reason.
        reason: String,
    },
}

/// The end that pushes values of `WORDS` words.
pub struct ValueSender<const WORDS: usize> {
    ring: Arc<Ring>,
}

/// The end that pops values of `WORDS` words.
pub struct ValueReceiver<const WORDS: usize> {
    ring: Arc<Ring>,
}

/// Owns the ring, and the environment whose memory it is in.
struct Ring {
    raw: NonNull<rte_ring>,
    _environment: Arc<Environment>,
}

// SAFETY: a ring is memory of the EAL that any thread may use. No two threads push and no two pop: there is
// one end of each kind, and it pushes or pops by `&mut self`.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// A ring for `capacity - 1` values of `WORDS` words, 1 or 8; `capacity` is a power of two.
pub fn value_ring<const WORDS: usize>(
    eal: &Eal,
    name: &str,
    capacity: usize,
) -> Result<(ValueSender<WORDS>, ValueReceiver<WORDS>), RingError> {
    const { assert!(WORDS == 1 || WORDS == 8, "the shim copies values of 8 and of 64 bytes") };
    let refused = |reason| RingError::Refused { capacity, reason };
    let name = CString::new(name).map_err(|_| refused("a zero byte in its name".into()))?;
    let count = u32::try_from(capacity).map_err(|_| refused("more than 32 bits".into()))?;
    let (size, any_node) = (8 * to_u32(WORDS), -1);
    // SAFETY: the name is a C string, which DPDK copies; everything else are numbers that DPDK checks.
    let raw = unsafe {
        dpdk_sys::rte_ring_create_elem(
            name.as_ptr(),
            size,
            count,
            any_node,
            dpdk_sys::DPDK_RING_SP_SC,
        )
    };
    let raw = NonNull::new(raw).ok_or_else(|| refused(error_text(last_error())))?;
    let ring = Arc::new(Ring { raw, _environment: Arc::clone(eal.environment()) });
    Ok((ValueSender { ring: Arc::clone(&ring) }, ValueReceiver { ring }))
}

impl<const WORDS: usize> ValueSender<WORDS> {
    /// Pushes values from the front until the ring is full and says how many.
    #[inline]
    pub fn push_batch(&mut self, values: &[[u64; WORDS]]) -> usize {
        let push =
            if WORDS == 1 { dpdk_sys::shim_ring_push_8 } else { dpdk_sys::shim_ring_push_64 };
        let ring = self.ring.raw.as_ptr();
        // SAFETY: the ring lives and has values of this size, `values` has as many as it says, and nobody
        // else pushes.
        let pushed = unsafe { push(ring, values.as_ptr().cast(), to_u32(values.len())) };
        pushed as usize
    }
}

impl<const WORDS: usize> ValueReceiver<WORDS> {
    /// Pops as many values as `batch` has room for and says how many.
    #[inline]
    pub fn pop_batch<const N: usize>(&mut self, batch: &mut ArrayVec<[u64; WORDS], N>) -> usize {
        let pop = if WORDS == 1 { dpdk_sys::shim_ring_pop_8 } else { dpdk_sys::shim_ring_pop_64 };
        let (ring, before) = (self.ring.raw.as_ptr(), batch.len());
        let room = batch.spare_capacity_mut();
        // SAFETY: the ring lives and has values of this size, there is room for as many as asked for, and
        // nobody else pops.
        let popped = unsafe { pop(ring, room.as_mut_ptr().cast(), to_u32(room.len())) } as usize;
        // SAFETY: DPDK has written that many behind those that were there.
        unsafe { batch.set_len(before + popped) };
        popped
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: both ends are gone, and the environment is not.
        unsafe { dpdk_sys::rte_ring_free(self.raw.as_ptr()) };
    }
}
