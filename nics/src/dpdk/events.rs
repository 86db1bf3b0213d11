//! RX interrupts that have come.

use std::ffi::c_int;
use std::mem;
use std::os::fd::RawFd;

use dpdk_sys::rte_epoll_event;

/// Queues that are acknowledged at once. Further ones follow at the next sleep.
const MAX_EVENTS: c_int = 8;

/// Takes note of the interrupts that have come, so that later ones are told of.
pub(crate) fn acknowledge(epoll: RawFd) {
    // SAFETY: the struct is numbers and nullable pointers.
    let mut events: [rte_epoll_event; MAX_EVENTS as usize] = unsafe { mem::zeroed() };
    // SAFETY: there is room for so many events. Only `interrupts.rs` adds files, as this function needs them.
    let _best_effort =
        unsafe { dpdk_sys::rte_epoll_wait(epoll, events.as_mut_ptr(), MAX_EVENTS, 0) };
}
