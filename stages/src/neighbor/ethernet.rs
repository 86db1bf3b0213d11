//! Who our frames are from and to, and how far they go.

use crate::wire::ip::ETHERNET_SOURCE;

/// TTL and hop limit of our packets.
pub(super) const HOPS: u8 = 64;

/// Whether a MAC address that starts with this byte is a group's (IEEE 802.3).
pub(super) fn is_group(first: u8) -> bool {
    first & 1 != 0
}

/// Addresses the frame from us to `destination`.
pub(super) fn address_ethernet(frame: &mut [u8], destination: [u8; 6], ours: [u8; 6]) {
    frame[..ETHERNET_SOURCE].copy_from_slice(&destination);
    frame[ETHERNET_SOURCE..2 * ETHERNET_SOURCE].copy_from_slice(&ours);
}
