//! The end of many frames at once.

use crate::frame::Burst;

/// Gives back the buffers of a whole burst at once.
#[inline]
pub fn release(burst: &mut Burst) {
    #[cfg(feature = "dpdk")]
    crate::dpdk::free_bulk(burst);
    burst.clear();
}
