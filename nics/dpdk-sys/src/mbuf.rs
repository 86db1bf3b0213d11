//! The fields of an `rte_mbuf` that a data core touches, by the offsets the C compiler gave.
//!
//! Every function here wants a pointer to a live mbuf that nobody else uses at the time.

use crate::{
    DPDK_MBUF_BUF_ADDR, DPDK_MBUF_BUF_LEN, DPDK_MBUF_DATA_LEN, DPDK_MBUF_DATA_OFF,
    DPDK_MBUF_NB_SEGS, DPDK_MBUF_OL_FLAGS, DPDK_MBUF_PACKET_TYPE, DPDK_MBUF_PKT_LEN,
    DPDK_MBUF_REFCNT, DPDK_MBUF_TX_OFFLOAD, rte_mbuf,
};

macro_rules! fields {
    ($($(#[$doc:meta])* $read:ident, $write:ident: $type:ty = $offset:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `mbuf` must be a live mbuf that nobody else writes to.
        #[inline(always)]
        pub unsafe fn $read(mbuf: *const rte_mbuf) -> $type {
            // SAFETY: the offset lies inside the mbuf.
            let field = unsafe { mbuf.byte_add($offset) };
            // SAFETY: the field has this type and alignment (checked against bindgen's struct below).
            unsafe { field.cast::<$type>().read() }
        }

        /// Writes what the function above reads.
        ///
        /// # Safety
        /// `mbuf` must be a live mbuf that nobody else uses.
        #[inline(always)]
        pub unsafe fn $write(mbuf: *mut rte_mbuf, value: $type) {
            // SAFETY: the offset lies inside the mbuf.
            let field = unsafe { mbuf.byte_add($offset) };
            // SAFETY: the field has this type and alignment (checked against bindgen's struct below).
            unsafe { field.cast::<$type>().write(value) }
        }
    )*};
}

fields! {
    /// Where the buffer starts, headroom included.
    buf_addr, set_buf_addr: *mut u8 = DPDK_MBUF_BUF_ADDR;
    /// Bytes of headroom before the data.
    data_off, set_data_off: u16 = DPDK_MBUF_DATA_OFF;
    /// Owners of the mbuf.
    refcnt, set_refcnt: u16 = DPDK_MBUF_REFCNT;
    /// Segments of the packet.
    nb_segs, set_nb_segs: u16 = DPDK_MBUF_NB_SEGS;
    /// Offload flags, `DPDK_RX_*` and `DPDK_TX_*`.
    ol_flags, set_ol_flags: u64 = DPDK_MBUF_OL_FLAGS;
    /// What the port thinks the packet is, `RTE_PTYPE_*`.
    packet_type, set_packet_type: u32 = DPDK_MBUF_PACKET_TYPE;
    /// Bytes of the packet, all segments together.
    pkt_len, set_pkt_len: u32 = DPDK_MBUF_PKT_LEN;
    /// Bytes of data in this segment.
    data_len, set_data_len: u16 = DPDK_MBUF_DATA_LEN;
    /// Bytes of the buffer, headroom included.
    buf_len, set_buf_len: u16 = DPDK_MBUF_BUF_LEN;
    /// Header lengths for the checksum offloads, by `DPDK_MBUF_*_SHIFT`.
    tx_offload, set_tx_offload: u64 = DPDK_MBUF_TX_OFFLOAD;
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, size_of};

    use super::*;

    /// The layout that DPDK documents as its ABI since 20.11: receive touches the first cache line
    /// only, transmit offloads the second.
    #[test]
    fn an_mbuf_is_two_cache_lines_and_its_fields_stand_where_the_abi_says() {
        assert_eq!(size_of::<rte_mbuf>(), 128);
        assert_eq!(align_of::<rte_mbuf>() % 64, 0);
        assert_eq!(DPDK_MBUF_BUF_ADDR, 0);
        assert_eq!(DPDK_MBUF_DATA_OFF, 16);
        assert_eq!(DPDK_MBUF_REFCNT, 18);
        assert_eq!(DPDK_MBUF_NB_SEGS, 20);
        assert_eq!(DPDK_MBUF_OL_FLAGS, 24);
        assert_eq!(DPDK_MBUF_PACKET_TYPE, 32);
        assert_eq!(DPDK_MBUF_PKT_LEN, 36);
        assert_eq!(DPDK_MBUF_DATA_LEN, 40);
        assert_eq!(DPDK_MBUF_BUF_LEN, 54);
        assert_eq!(DPDK_MBUF_TX_OFFLOAD / 64, 1, "in the second line");
    }

    #[test]
    fn what_is_written_is_read() {
        // SAFETY: an mbuf is numbers and nullable pointers; zero is valid for all of them.
        let mut mbuf: rte_mbuf = unsafe { std::mem::zeroed() };
        // SAFETY: the mbuf is ours.
        unsafe { set_data_len(&raw mut mbuf, 0x1234) };
        // SAFETY: the mbuf is ours.
        unsafe { set_ol_flags(&raw mut mbuf, 1 << 63) };
        // SAFETY: the mbuf is ours.
        let (len, flags) = unsafe { (data_len(&raw const mbuf), ol_flags(&raw const mbuf)) };
        assert_eq!((len, flags), (0x1234, 1 << 63));
    }
}
