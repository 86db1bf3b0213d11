//! RX interrupts: how packets wake a core that sleeps.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use dpdk_sys::{DPDK_INTR_ADD, DPDK_INTR_REMOVE};

use super::started::Started;
use crate::Sleeper;

/// The interrupt of an RX queue, and what it wakes.
pub(super) struct Interrupt {
    started: Arc<Started>,
    queue: u16,
    /// Held until the queue does not wake it any more.
    sleeper: Arc<Sleeper>,
}

impl Interrupt {
    /// The interrupt of a queue, not armed. `None`: it has none. Only the thread that polls the queue uses it.
    pub(super) fn new(started: &Arc<Started>, queue: u16, sleeper: &Arc<Sleeper>) -> Option<Self> {
        if !started.has_interrupts || control(started.device.id, queue, sleeper, DPDK_INTR_ADD) != 0
        {
            return None;
        }
        Some(Self { started: Arc::clone(started), queue, sleeper: Arc::clone(sleeper) })
    }

    /// From now on packets wake the sleeper. If the device cannot say so any more, the sleep ends by itself.
    pub(super) fn arm(&self) {
        arm(self.started.device.id, self.queue);
    }

    /// Packets wake nobody any more.
    pub(super) fn disarm(&self) {
        disarm(self.started.device.id, self.queue);
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        control(self.started.device.id, self.queue, &self.sleeper, DPDK_INTR_REMOVE);
    }
}

/// Whether the RX queues of a port that has just started, and that nobody polls yet, have interrupts.
pub(super) fn work(id: u16, driver: &str) -> bool {
    let Ok(sleeper) = Sleeper::new() else { return false };
    if control(id, 0, &sleeper, DPDK_INTR_ADD) != 0 {
        return false;
    }
    // The file of a TAP is readable while packets wait: nothing has to be armed, and the driver knows no such call.
    let can_be_armed = arm(id, 0) == 0 || driver == "net_tap";
    disarm(id, 0);
    control(id, 0, &sleeper, DPDK_INTR_REMOVE);
    can_be_armed
}

/// Adds the file of a queue to those of a sleeper, or removes it. Returns 0, or the driver's error.
fn control(id: u16, queue: u16, sleeper: &Sleeper, what: c_int) -> c_int {
    // SAFETY: takes any numbers of ports and queues, and keeps nothing but the descriptor, which its callers remove before
    // the sleeper goes.
    unsafe { dpdk_sys::rte_eth_dev_rx_intr_ctl_q(id, queue, sleeper.fd(), what, ptr::null_mut()) }
}

fn arm(id: u16, queue: u16) -> c_int {
    // SAFETY: takes any numbers of ports and queues.
    unsafe { dpdk_sys::rte_eth_dev_rx_intr_enable(id, queue) }
}

fn disarm(id: u16, queue: u16) {
    // SAFETY: as above. An interrupt too many does no harm.
    let _best_effort = unsafe { dpdk_sys::rte_eth_dev_rx_intr_disable(id, queue) };
}
