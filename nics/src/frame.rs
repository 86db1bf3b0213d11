//! A frame: one packet buffer, owned by exactly one holder.
//!
//! Under DPDK it is an `rte_mbuf`, in tests a slot of heap memory. The holder of a frame cannot tell.
//! The frame keeps the address and the length of the bytes itself, so reading them asks no driver.
//! Dropping a frame gives its buffer back to the pool it came from; [`release`] does it for a whole
//! burst.

use std::ptr::NonNull;
use std::slice;

use crate::heap;
use crate::prefetch::prefetch_to_write;

/// Frames taken from or given to a queue at a time, at most.
pub const MAX_BURST: usize = 64;

/// Frames in hand.
pub type Burst = arrayvec::ArrayVec<Frame, MAX_BURST>;

/// Gives back the buffers of a whole burst at once.
#[inline]
pub fn release(burst: &mut Burst) {
    #[cfg(feature = "dpdk")]
    crate::dpdk::free_bulk(burst);
    burst.clear();
}

/// One packet buffer. It crosses cores by value and is never shared.
pub struct Frame {
    handle: NonNull<()>,
    data: NonNull<u8>,
    len: u16,
    room: u16,
    port: u8,
    marks: u8,
    l2_len: u8,
    l3_len: u8,
}

const _: () = assert!(size_of::<Frame>() == 24, "three words, so that a packet fits a cache line");

/// The frame would not fit its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Which checksums of a received frame the port vouches for. It checked them, or it got the packet undamaged from a
/// sender on the same host that left them unfinished. The others are checked in software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The IPv4 header's.
    pub ip: bool,
    /// The UDP checksum.
    pub udp: bool,
}

impl Verified {
    /// None.
    pub const NOTHING: Self = Self { ip: false, udp: false };
    /// Both.
    pub const ALL: Self = Self { ip: true, udp: true };
}

const FROM_DPDK: u8 = 1 << 0;
const IP_VERIFIED: u8 = 1 << 1;
const UDP_VERIFIED: u8 = 1 << 2;
const OFFLOAD: u8 = 1 << 3;
const OFFLOAD_V6: u8 = 1 << 4;

// SAFETY: a frame is the only owner of its buffer (`Frame::new` demands it). It has no interior
// mutability. Both pools accept buffers back from any thread.
unsafe impl Send for Frame {}

impl Frame {
    /// A frame over a driver's buffer.
    ///
    /// # Safety
    /// `handle` must be a live buffer of the named origin. Nobody else may use or free it while the
    /// frame lives. `data` must point at `room` initialised bytes inside it, `len <= room`.
    #[inline]
    pub(crate) unsafe fn new(
        origin: Origin,
        handle: NonNull<()>,
        data: NonNull<u8>,
        len: u16,
        room: u16,
    ) -> Self {
        debug_assert!(len <= room);
        let marks = match origin {
            Origin::Heap => 0,
            #[cfg(feature = "dpdk")]
            Origin::Dpdk => FROM_DPDK,
        };
        Self { handle, data, len, room, port: 0, marks, l2_len: 0, l3_len: 0 }
    }

    /// The bytes of the frame, from the Ethernet destination address on, without the FCS.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `new` was promised `room >= len` initialised bytes at `data`, ours alone.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), usize::from(self.len)) }
    }

    /// The bytes of the frame, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the borrow unique.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), usize::from(self.len)) }
    }

    /// The whole buffer from the start of the frame on. Beyond the frame's length are old bytes.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        // SAFETY: as in `bytes`: `room` bytes are initialised.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), usize::from(self.room)) }
    }

    /// The whole buffer from the start of the frame on, to be changed. Beyond the frame's length are old bytes.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` was promised `room` initialised bytes at `data`, ours alone, and `&mut self` makes the
        // borrow unique.
        unsafe { slice::from_raw_parts_mut(self.data.as_ptr(), usize::from(self.room)) }
    }

    /// How many bytes the frame holds, as wide as drivers count them.
    #[inline]
    pub(crate) fn len_u16(&self) -> u16 {
        self.len
    }

    /// How many bytes the frame could hold.
    #[inline]
    pub fn room(&self) -> usize {
        usize::from(self.room)
    }

    /// Makes the frame `len` bytes long. Bytes that come into view are old ones of the buffer.
    #[inline]
    pub fn resize(&mut self, len: usize) -> Result<(), TooLong> {
        match u16::try_from(len) {
            Ok(len) if len <= self.room => {
                self.len = len;
                Ok(())
            }
            _ => Err(TooLong),
        }
    }

    /// The port the frame came from, and goes back out of.
    #[inline]
    pub fn port(&self) -> u8 {
        self.port
    }

    /// Says which port the frame belongs to.
    #[inline]
    pub fn set_port(&mut self, port: u8) {
        self.port = port;
    }

    /// Starts loading the first two cache lines of the frame: the headers, and the rest of a short frame. They
    /// are loaded to be written: the answer will stand where the query stands.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_to_write(self.data.as_ptr());
        prefetch_to_write(self.data.as_ptr().wrapping_add(64));
    }

    /// Which checksums of this received frame the port vouches for.
    #[inline(always)]
    pub fn verified(&self) -> Verified {
        Verified { ip: self.marks & IP_VERIFIED != 0, udp: self.marks & UDP_VERIFIED != 0 }
    }

    /// Records which checksums the port vouches for.
    #[inline(always)]
    pub fn set_verified(&mut self, verified: Verified) {
        self.marks &= !(IP_VERIFIED | UDP_VERIFIED);
        self.marks |= u8::from(verified.ip) * IP_VERIFIED;
        self.marks |= u8::from(verified.udp) * UDP_VERIFIED;
    }

    /// Leaves the checksums of this frame to the port. Only for ports that can
    /// ([`PortFacts::checksum_offload`](crate::PortFacts)); the UDP field must hold the
    /// pseudo-header's sum and the IPv4 field zero.
    #[inline]
    pub fn offload_checksums(&mut self, l2_len: u8, l3_len: u8, ipv6: bool) {
        self.marks |= OFFLOAD | if ipv6 { OFFLOAD_V6 } else { 0 };
        self.l2_len = l2_len;
        self.l3_len = l3_len;
    }

    /// The checksum work left to the port, if any.
    #[inline]
    pub(crate) fn offload(&self) -> Option<Offload> {
        (self.marks & OFFLOAD != 0).then_some(Offload {
            l2_len: self.l2_len,
            l3_len: self.l3_len,
            ipv6: self.marks & OFFLOAD_V6 != 0,
        })
    }

    /// The driver's buffer, which stays owned by the frame.
    #[inline]
    #[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "only DPDK looks inside"))]
    pub(crate) fn handle(&self) -> NonNull<()> {
        self.handle
    }

    /// Gives up the frame without giving back its buffer, which now belongs to the caller.
    #[inline]
    #[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "only DPDK takes buffers away"))]
    pub(crate) fn into_handle(self) -> NonNull<()> {
        let handle = self.handle;
        std::mem::forget(self);
        handle
    }

    /// Whether the buffer is an `rte_mbuf`.
    #[inline]
    pub(crate) fn is_dpdk(&self) -> bool {
        self.marks & FROM_DPDK != 0
    }
}

/// Which driver a buffer belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// A slot of a [`heap::HeapPool`].
    Heap,
    /// An `rte_mbuf`.
    #[cfg(feature = "dpdk")]
    Dpdk,
}

/// Checksum work left to the port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    pub(crate) l2_len: u8,
    pub(crate) l3_len: u8,
    pub(crate) ipv6: bool,
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "dpdk")]
        if self.is_dpdk() {
            // SAFETY: the handle is an mbuf that we own (`new`), and the frame ends here.
            unsafe { crate::dpdk::free(self.handle) };
            return;
        }
        debug_assert!(!self.is_dpdk());
        // SAFETY: the handle is a heap slot that we own (`new`), and the frame ends here.
        unsafe { heap::free(self.handle) };
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame").field("port", &self.port).field("len", &self.len).finish()
    }
}
