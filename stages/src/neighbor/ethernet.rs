//! Who our frames are from and to, and how far they go.

use pmdns_config::Vlan;
use pmdns_nics::Frame;

use crate::ports::Port;
use crate::vlan;
use crate::wire::ip::{ETHERNET_LEN, ETHERNET_SOURCE};
use crate::wire::put16;

/// TTL and hop limit of our packets.
pub(super) const HOPS: u8 = 64;
/// Everybody on the link.
pub(super) const BROADCAST: [u8; 6] = [0xff; 6];

/// Whether a MAC address that starts with this byte is a group's (IEEE 802.3).
pub(crate) fn is_group(first: u8) -> bool {
    first & 1 != 0
}

/// Addresses the frame from us to `destination`.
pub(super) fn address_ethernet(frame: &mut [u8], destination: [u8; 6], ours: [u8; 6]) {
    frame[..ETHERNET_SOURCE].copy_from_slice(&destination);
    frame[ETHERNET_SOURCE..2 * ETHERNET_SOURCE].copy_from_slice(&ours);
}

/// Begins a frame of our own in a VLAN of port `number`: addresses, tags, EtherType, and `len` zero bytes behind them.
/// Says where those are. `None`: the frame has no room for them.
pub(super) fn begin(
    frame: &mut Frame,
    number: usize,
    port: &Port,
    vlan: Vlan,
    destination: [u8; 6],
    ethertype: u16,
    len: usize,
) -> Option<usize> {
    let tags = vlan::write(vlan);
    let l3 = ETHERNET_LEN + tags.len();
    frame.set_port(u8::try_from(number).ok()?);
    frame.resize(l3 + len).ok()?;
    let bytes = frame.bytes_mut();
    address_ethernet(bytes, destination, port.mac);
    bytes[2 * ETHERNET_SOURCE..l3 - 2].copy_from_slice(&tags);
    put16(bytes, l3 - 2, ethertype);
    bytes[l3..].fill(0);
    Some(l3)
}
