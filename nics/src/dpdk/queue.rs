//! The queues of a port: the code that a data core runs for every burst.
//!
//! A frame is one direct mbuf of one segment with one owner. `Rx` accepts no other, so `Tx` need not
//! check, and drivers may return transmitted mbufs without a check (`MBUF_FAST_FREE`).

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dpdk_sys::{
    DPDK_MBUF_L2_LEN_SHIFT, DPDK_MBUF_L3_LEN_SHIFT, DPDK_MBUF_NOT_DIRECT, DPDK_RX_IP_CKSUM_BAD,
    DPDK_RX_IP_CKSUM_GOOD, DPDK_RX_IP_CKSUM_NONE, DPDK_RX_L4_CKSUM_BAD, DPDK_RX_L4_CKSUM_GOOD,
    DPDK_RX_L4_CKSUM_NONE, DPDK_TX_IP_CKSUM, DPDK_TX_IPV4, DPDK_TX_IPV6, DPDK_TX_UDP_CKSUM, burst,
    mbuf, rte_mbuf,
};
use pmdns_config::narrow::to_u16;

use super::interrupts::Interrupt;
use super::mempool::frame_of;
use super::started::Started;
use crate::frame::{Burst, Frame, MAX_BURST, Offload, Verified};
use crate::{RxQueue, Sleeper, TxQueue};

/// Room for the mbufs of one burst.
type Mbufs = [MaybeUninit<*mut rte_mbuf>; MAX_BURST];

/// A receive queue.
pub(super) struct Rx {
    id: u16,
    queue: u16,
    port: u8,
    started: Arc<Started>,
    interrupt: Option<Interrupt>,
}

impl Rx {
    pub(super) fn new(started: Arc<Started>, queue: u16, port: u8) -> Self {
        Self { id: started.device.id, queue, port, started, interrupt: None }
    }

    /// Counts and gives back an mbuf that cannot be a frame. Ports are set up so that none comes.
    #[cold]
    #[inline(never)]
    fn refuse(&self, raw: NonNull<rte_mbuf>) {
        self.started.unfit.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the driver gave us the mbuf, and nobody else has it.
        unsafe { dpdk_sys::shim_mbuf_free(raw.as_ptr()) };
    }
}

impl RxQueue for Rx {
    #[inline]
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let limit = limit.min(burst.remaining_capacity());
        if limit == 0 {
            return 0;
        }
        let before = burst.len();
        let mut mbufs: Mbufs = [const { MaybeUninit::uninit() }; MAX_BURST];
        // SAFETY: the port runs while `self.started` lives, and the queue is polled by `self` alone.
        // `mbufs` has room for the `limit` that a burst can take.
        let received = unsafe {
            burst::rx_burst(self.id, self.queue, mbufs.as_mut_ptr().cast(), to_u16(limit))
        };
        // SAFETY: the driver filled as many entries with mbufs as it says, and none is null.
        let mbufs = unsafe {
            slice::from_raw_parts(mbufs.as_ptr().cast::<NonNull<rte_mbuf>>(), received.into())
        };
        // SAFETY: the end of the burst lies inside its array.
        let end = unsafe { burst.as_mut_ptr().add(before) };
        let mut kept = 0;
        for &raw in mbufs {
            // SAFETY: the driver gave us the mbuf, and nobody else has it.
            let flags = unsafe { mbuf::ol_flags(raw.as_ptr()) };
            // SAFETY: as above.
            let segments = unsafe { mbuf::nb_segs(raw.as_ptr()) };
            if segments != 1 || flags & DPDK_MBUF_NOT_DIRECT != 0 {
                self.refuse(raw);
                continue;
            }
            // SAFETY: as above.
            let len = unsafe { mbuf::data_len(raw.as_ptr()) };
            // SAFETY: the mbuf is ours, direct, of one segment and holds `len` bytes.
            let mut frame = unsafe { frame_of(raw, len) };
            frame.set_port(self.port);
            frame.set_verified(verified(flags));
            // SAFETY: no more than `limit` are kept, for which there is room.
            let place = unsafe { end.add(kept) };
            // SAFETY: the place is ours and holds no frame yet.
            unsafe { place.write(frame) };
            kept += 1;
        }
        // SAFETY: that many frames have been written.
        unsafe { burst.set_len(before + kept) };
        kept
    }

    fn wake(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        // A queue has one: the one before goes first.
        self.interrupt = None;
        self.interrupt = Interrupt::new(&self.started, self.queue, sleeper);
        self.interrupt.is_some()
    }

    fn arm(&mut self) {
        self.interrupt.iter().for_each(Interrupt::arm);
    }

    fn disarm(&mut self) {
        self.interrupt.iter().for_each(Interrupt::disarm);
    }
}

/// Which checksums the port vouches for. The flag for "good" stands alone, or with the one for "bad": then the bytes
/// are wrong, but the packet is intact (`rte_mbuf_core.h`: `NONE`). That is how virtio and vhost hand over packets
/// of their own host, whose checksums no hardware has filled in yet.
#[inline(always)]
fn verified(flags: u64) -> Verified {
    Verified { ip: flags & DPDK_RX_IP_CKSUM_GOOD != 0, udp: flags & DPDK_RX_L4_CKSUM_GOOD != 0 }
}

const _: () = {
    assert!(DPDK_RX_IP_CKSUM_NONE == DPDK_RX_IP_CKSUM_GOOD | DPDK_RX_IP_CKSUM_BAD);
    assert!(DPDK_RX_L4_CKSUM_NONE == DPDK_RX_L4_CKSUM_GOOD | DPDK_RX_L4_CKSUM_BAD);
};

/// A transmit queue.
pub(super) struct Tx {
    id: u16,
    queue: u16,
    offload: bool,
    _started: Arc<Started>,
}

impl Tx {
    pub(super) fn new(started: Arc<Started>, queue: u16, offload: bool) -> Self {
        Self { id: started.device.id, queue, offload, _started: started }
    }
}

impl TxQueue for Tx {
    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let mut mbufs: Mbufs = [const { MaybeUninit::uninit() }; MAX_BURST];
        if self.offload {
            describe(burst, &mut mbufs, offload_flags);
        } else {
            describe(burst, &mut mbufs, |_, _| 0);
        }
        let count = burst.len();
        // SAFETY: the port runs while `_started` lives, the queue is used by `self` alone, and the first
        // `count` entries are the mbufs of the burst.
        let sent = unsafe {
            burst::tx_burst(self.id, self.queue, mbufs.as_mut_ptr().cast(), to_u16(count))
        };
        let sent = usize::from(sent).min(count);
        keep_from(burst, sent);
        sent
    }
}

/// Writes into each mbuf what the driver needs to know of its frame, and lists the mbufs.
#[inline(always)]
fn describe(burst: &Burst, mbufs: &mut Mbufs, flags: impl Fn(&Frame, NonNull<rte_mbuf>) -> u64) {
    for (frame, entry) in burst.iter().zip(mbufs.iter_mut()) {
        assert!(frame.is_dpdk(), "a DPDK port transmits frames of DPDK pools only");
        let raw: NonNull<rte_mbuf> = frame.handle().cast();
        let len = frame.len_u16();
        // SAFETY: the frame owns its mbuf, and the burst owns the frame.
        unsafe { mbuf::set_data_len(raw.as_ptr(), len) };
        // SAFETY: as above.
        unsafe { mbuf::set_pkt_len(raw.as_ptr(), u32::from(len)) };
        // The flags a frame was received with mean nothing to a transmitter, or something else.
        let flags = flags(frame, raw);
        // SAFETY: as above.
        unsafe { mbuf::set_ol_flags(raw.as_ptr(), flags) };
        entry.write(raw.as_ptr());
    }
}

/// The flags for the checksums left to the port; the header lengths go into the mbuf.
#[inline(always)]
fn offload_flags(frame: &Frame, raw: NonNull<rte_mbuf>) -> u64 {
    let Some(Offload { l2_len, l3_len, ipv6 }) = frame.offload() else { return 0 };
    let lengths =
        u64::from(l2_len) << DPDK_MBUF_L2_LEN_SHIFT | u64::from(l3_len) << DPDK_MBUF_L3_LEN_SHIFT;
    // SAFETY: the frame owns its mbuf, and the burst owns the frame.
    unsafe { mbuf::set_tx_offload(raw.as_ptr(), lengths) };
    if ipv6 {
        DPDK_TX_IPV6 | DPDK_TX_UDP_CKSUM
    } else {
        DPDK_TX_IPV4 | DPDK_TX_IP_CKSUM | DPDK_TX_UDP_CKSUM
    }
}

/// Forgets the first `sent` frames, whose mbufs the driver has taken, and moves up the others.
#[inline(always)]
fn keep_from(burst: &mut Burst, sent: usize) {
    let count = burst.len();
    // SAFETY: nothing is dropped and nothing comes into view.
    unsafe { burst.set_len(0) };
    if sent < count {
        let start = burst.as_mut_ptr();
        // SAFETY: `sent` is inside the burst.
        let rest = unsafe { start.add(sent) };
        // SAFETY: both lie inside the burst's array, and `copy` allows overlap. The frames that are
        // overwritten were given away, or stand twice and are counted once.
        unsafe { std::ptr::copy(rest, start, count - sent) };
        // SAFETY: the first `count - sent` frames are there and ours.
        unsafe { burst.set_len(count - sent) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Origin;

    /// What is written into an mbuf for a frame of 100 bytes, with the flags it was received with.
    fn described(offload: Option<(u8, u8, bool)>, port_offloads: bool) -> (u16, u32, u64, u64) {
        // SAFETY: an mbuf is numbers and nullable pointers; zero is valid for all of them.
        let mut raw: rte_mbuf = unsafe { std::mem::zeroed() };
        raw.ol_flags = DPDK_RX_L4_CKSUM_GOOD;
        let handle = NonNull::from(&mut raw);
        // SAFETY: never dropped, and its bytes are never read.
        let mut frame =
            unsafe { Frame::new(Origin::Dpdk, handle.cast(), NonNull::dangling(), 100, 2048) };
        if let Some((l2_len, l3_len, ipv6)) = offload {
            frame.offload_checksums(l2_len, l3_len, ipv6);
        }
        let mut burst: Burst = [frame].into_iter().collect();
        let mut mbufs: Mbufs = [const { MaybeUninit::uninit() }; MAX_BURST];
        if port_offloads {
            describe(&burst, &mut mbufs, offload_flags);
        } else {
            describe(&burst, &mut mbufs, |_, _| 0);
        }
        keep_from(&mut burst, 1);
        let raw = &raw const raw;
        // Newer versions of DPDK name these fields otherwise.
        // SAFETY: the mbuf is ours again, here and below.
        let (data_len, pkt_len) = (unsafe { mbuf::data_len(raw) }, unsafe { mbuf::pkt_len(raw) });
        // SAFETY: as above.
        let (flags, offload) = (unsafe { mbuf::ol_flags(raw) }, unsafe { mbuf::tx_offload(raw) });
        (data_len, pkt_len, flags, offload)
    }

    #[test]
    fn a_transmitted_mbuf_says_what_is_left_to_the_port() {
        let v4 = DPDK_TX_IPV4 | DPDK_TX_IP_CKSUM | DPDK_TX_UDP_CKSUM;
        let v6 = DPDK_TX_IPV6 | DPDK_TX_UDP_CKSUM;
        assert_eq!(described(None, true), (100, 100, 0, 0));
        assert_eq!(described(Some((14, 20, false)), true), (100, 100, v4, 20 << 7 | 14));
        assert_eq!(described(Some((18, 40, true)), true), (100, 100, v6, 40 << 7 | 18));
        assert_eq!(described(Some((14, 20, false)), false), (100, 100, 0, 0));
    }

    #[test]
    #[should_panic(expected = "frames of DPDK pools only")]
    fn a_frame_of_another_driver_is_a_bug() {
        let burst: Burst = crate::HeapPool::new(1).take().into_iter().collect();
        let mut mbufs: Mbufs = [const { MaybeUninit::uninit() }; MAX_BURST];
        describe(&burst, &mut mbufs, |_, _| 0);
    }

    #[test]
    fn bound_b1_a_checksum_left_unfinished_by_a_peer_on_the_host_is_good() {
        let (nothing, all) = (Verified::NOTHING, Verified::ALL);
        let (ip, udp) = (Verified { ip: true, ..nothing }, Verified { udp: true, ..nothing });
        let (ip_good, l4_good) = (DPDK_RX_IP_CKSUM_GOOD, DPDK_RX_L4_CKSUM_GOOD);
        let (ip_bad, l4_bad) = (DPDK_RX_IP_CKSUM_BAD, DPDK_RX_L4_CKSUM_BAD);
        let cases = [
            (0, nothing),
            (ip_good | l4_good, all),
            (ip_good, ip),
            (l4_good, udp),
            (ip_good | l4_bad, ip),
            (ip_bad | l4_good, udp),
            (ip_bad | l4_bad, nothing),
            (DPDK_RX_L4_CKSUM_NONE, udp),
            (ip_good | DPDK_RX_L4_CKSUM_NONE, all),
            (DPDK_RX_IP_CKSUM_NONE | l4_good, all),
        ];
        for (flags, expected) in cases {
            assert_eq!(verified(flags | 1 << 1 | 1 << 62), expected, "{flags:#x}");
        }
    }
}
