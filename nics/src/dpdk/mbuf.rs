//! The end of an mbuf.

use std::ptr::NonNull;

use dpdk_sys::rte_mbuf;

/// Gives an mbuf back to its pool.
///
/// # Safety
/// `handle` must be an mbuf that the caller owns and does not use afterwards.
#[inline]
pub(crate) unsafe fn free(handle: NonNull<()>) {
    // SAFETY: promised by the caller.
    unsafe { dpdk_sys::shim_mbuf_free(handle.cast::<rte_mbuf>().as_ptr()) };
}
