//! `rte_eth_rx_burst` and `rte_eth_tx_burst`, which C has as inline functions over `rte_eth_fp_ops`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::{rte_eth_call_rx_callbacks, rte_eth_call_tx_callbacks, rte_eth_fp_ops, rte_mbuf};

/// Takes up to `count` mbufs from a receive queue and says how many.
///
/// # Safety
/// `port` must be started and `queue` set up and polled by nobody else; `mbufs` must have room for
/// `count` pointers.
#[inline(always)]
pub unsafe fn rx_burst(port: u16, queue: u16, mbufs: *mut *mut rte_mbuf, count: u16) -> u16 {
    let table = (&raw const rte_eth_fp_ops).cast::<crate::rte_eth_fp_ops>();
    // SAFETY: the table has an entry for every port number that DPDK gives out.
    let ops = unsafe { table.add(usize::from(port)) };
    // SAFETY: the entry of a started port is not written to.
    let ops = unsafe { &*ops };
    // SAFETY: a started port has as many entries here as queues.
    let data = unsafe { *ops.rxq.data.add(usize::from(queue)) };
    // SAFETY: DPDK never leaves this pointer empty: unstarted ports have a function that gives nothing.
    let receive = unsafe { ops.rx_pkt_burst.unwrap_unchecked() };
    // SAFETY: the queue is ours to poll and `mbufs` has room; both promised by the caller.
    let received = unsafe { receive(data, mbufs, count) };
    // SAFETY: a started port has as many callback slots as queues.
    let slot = unsafe { ops.rxq.clbk.add(usize::from(queue)) };
    // SAFETY: the slot is aligned, lives as long as the program and is only changed atomically.
    let callback = unsafe { AtomicPtr::<c_void>::from_ptr(slot) }.load(Ordering::Relaxed);
    if callback.is_null() {
        return received;
    }
    // SAFETY: `mbufs` holds `received` mbufs, and the callback was read from this queue's slot.
    unsafe { rx_callbacks(port, queue, mbufs, received, count, callback) }
}

/// Gives `count` mbufs to a transmit queue and says how many it took: the first ones.
///
/// # Safety
/// `port` must be started and `queue` set up and used by nobody else; `mbufs` must hold `count` mbufs
/// that the caller owns. Those it takes belong to the driver afterwards.
#[inline(always)]
pub unsafe fn tx_burst(port: u16, queue: u16, mbufs: *mut *mut rte_mbuf, mut count: u16) -> u16 {
    let table = (&raw const rte_eth_fp_ops).cast::<crate::rte_eth_fp_ops>();
    // SAFETY: the table has an entry for every port number that DPDK gives out.
    let ops = unsafe { table.add(usize::from(port)) };
    // SAFETY: the entry of a started port is not written to.
    let ops = unsafe { &*ops };
    // SAFETY: a started port has as many entries here as queues.
    let data = unsafe { *ops.txq.data.add(usize::from(queue)) };
    // SAFETY: a started port has as many callback slots as queues.
    let slot = unsafe { ops.txq.clbk.add(usize::from(queue)) };
    // SAFETY: the slot is aligned, lives as long as the program and is only changed atomically.
    let callback = unsafe { AtomicPtr::<c_void>::from_ptr(slot) }.load(Ordering::Relaxed);
    if !callback.is_null() {
        // SAFETY: `mbufs` holds `count` mbufs, and the callback was read from this queue's slot.
        count = unsafe { tx_callbacks(port, queue, mbufs, count, callback) };
    }
    // SAFETY: DPDK never leaves this pointer empty: unstarted ports have a function that takes nothing.
    let transmit = unsafe { ops.tx_pkt_burst.unwrap_unchecked() };
    // SAFETY: the queue is ours to use and the mbufs are ours to give; both promised by the caller.
    unsafe { transmit(data, mbufs, count) }
}

/// Runs what packet capture and latency tools hang onto a queue; most never have any.
#[cold]
#[inline(never)]
unsafe fn rx_callbacks(
    port: u16,
    queue: u16,
    mbufs: *mut *mut rte_mbuf,
    received: u16,
    room: u16,
    callback: *mut c_void,
) -> u16 {
    // SAFETY: promised by `rx_burst`, the only caller.
    unsafe { rte_eth_call_rx_callbacks(port, queue, mbufs, received, room, callback) }
}

#[cold]
#[inline(never)]
unsafe fn tx_callbacks(
    port: u16,
    queue: u16,
    mbufs: *mut *mut rte_mbuf,
    count: u16,
    callback: *mut c_void,
) -> u16 {
    // SAFETY: promised by `tx_burst`, the only caller.
    unsafe { rte_eth_call_tx_callbacks(port, queue, mbufs, count, callback) }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use crate::rte_eth_fp_ops;

    #[test]
    fn a_port_has_one_cache_line_for_each_direction() {
        assert_eq!(size_of::<rte_eth_fp_ops>(), 128);
        // Their order within a line is not the same in all releases.
        let receive = [offset_of!(rte_eth_fp_ops, rx_pkt_burst), offset_of!(rte_eth_fp_ops, rxq)];
        let transmit = [offset_of!(rte_eth_fp_ops, tx_pkt_burst), offset_of!(rte_eth_fp_ops, txq)];
        assert_eq!((receive.map(|at| at / 64), transmit.map(|at| at / 64)), ([0, 0], [1, 1]));
    }
}
