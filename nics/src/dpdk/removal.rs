//! Devices that are taken out of the machine while they are in use.
//!
//! vfio asks a process to give a device back, and other drivers say that theirs is gone. Either calls back on a thread
//! of DPDK's, which only leaves a mark; the main thread sees to the rest.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk_sys::{DPDK_DEV_EVENT_REMOVE, DPDK_ETH_EVENT_REMOVED, DPDK_MAX_PORTS};

/// Which ports' devices are being removed, by port number of DPDK's.
static REMOVED: [AtomicBool; DPDK_MAX_PORTS as usize] =
    [const { AtomicBool::new(false) }; DPDK_MAX_PORTS as usize];

/// A port's subscription to its removal.
#[derive(Debug)]
pub(super) struct Removal {
    id: u16,
    device: CString,
    mark: &'static AtomicBool,
}

impl Removal {
    /// Listens for the removal of this port's device. A driver that knows no such event never says so.
    pub(super) fn watch(id: u16, device: &CStr) -> Option<Self> {
        let mark = REMOVED.get(usize::from(id))?;
        mark.store(false, Ordering::Relaxed);
        let removal = Self { id, device: device.to_owned(), mark };
        // SAFETY: the name is a C string, and the mark lives for ever.
        let _best_effort = unsafe {
            dpdk_sys::rte_dev_event_callback_register(
                removal.device.as_ptr(),
                Some(device_event),
                removal.argument(),
            )
        };
        // SAFETY: the mark lives for ever.
        let _best_effort = unsafe {
            dpdk_sys::rte_eth_dev_callback_register(
                id,
                DPDK_ETH_EVENT_REMOVED,
                Some(port_event),
                removal.argument(),
            )
        };
        Some(removal)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.mark.load(Ordering::Relaxed)
    }

    fn argument(&self) -> *mut c_void {
        std::ptr::from_ref(self.mark).cast_mut().cast()
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        // SAFETY: as it was registered.
        let _best_effort = unsafe {
            dpdk_sys::rte_dev_event_callback_unregister(
                self.device.as_ptr(),
                Some(device_event),
                self.argument(),
            )
        };
        // SAFETY: as it was registered.
        let _best_effort = unsafe {
            dpdk_sys::rte_eth_dev_callback_unregister(
                self.id,
                DPDK_ETH_EVENT_REMOVED,
                Some(port_event),
                self.argument(),
            )
        };
    }
}

unsafe extern "C" fn device_event(_device: *const c_char, event: u32, mark: *mut c_void) {
    if event == DPDK_DEV_EVENT_REMOVE {
        // SAFETY: DPDK passes on what was registered.
        unsafe { set(mark) };
    }
}

unsafe extern "C" fn port_event(_id: u16, _event: u32, mark: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: DPDK passes on what was registered.
    unsafe { set(mark) };
    0
}

/// # Safety
/// `mark` must be an entry of [`REMOVED`].
unsafe fn set(mark: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { &*mark.cast::<AtomicBool>() }.store(true, Ordering::Relaxed);
}
