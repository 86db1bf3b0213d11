//! Stage: ARP, neighbour discovery and ping, so that others can find us.
//!
//! Parse sends ARP frames, ICMP to one of our addresses, and ICMPv6 to one of ours or to a multicast group.
//! The reply is written into the frame that asked, its VLAN tags left in place.

use pmdns_nics::Frame;

use crate::packet::{Flags, Layout, Packet};
use crate::ports::{Port, Ports};
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::ip::{
    ETHERNET_SOURCE, IPV6_LEN, PROTOCOL_ICMPV6, TYPE_ARP, TYPE_IPV4, pseudo_header, seal_ipv4,
    turn_round, v4, v6,
};
use crate::wire::{be16, put16};
use crate::{Context, Stage, StageName};

/// TTL and hop limit of our packets.
const HOPS: u8 = 64;

/// Offsets in an ARP packet for Ethernet and IPv4 (RFC 826), and its length.
mod arp {
    pub(super) const HARDWARE_TYPE: usize = 0;
    pub(super) const PROTOCOL_TYPE: usize = 2;
    pub(super) const LENGTHS: usize = 4;
    pub(super) const OPERATION: usize = 6;
    pub(super) const SENDER_MAC: usize = 8;
    pub(super) const SENDER_IP: usize = 14;
    pub(super) const TARGET_MAC: usize = 18;
    pub(super) const TARGET_IP: usize = 24;
    pub(super) const LEN: usize = 28;

    pub(super) const ETHERNET: u16 = 1;
    /// Six bytes of MAC, four of IP.
    pub(super) const LENGTHS_6_4: u16 = 0x0604;
    pub(super) const REQUEST: u16 = 1;
    pub(super) const REPLY: u16 = 2;
}

/// Offsets in ICMP messages (RFC 792, RFC 4443) and neighbour discovery's (RFC 4861 section 4).
mod icmp {
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    /// Flags of a neighbour advertisement.
    pub(super) const FLAGS: usize = 4;
    pub(super) const TARGET: usize = 8;
    pub(super) const OPTIONS: usize = 24;
    /// A neighbour advertisement with the one option we send.
    pub(super) const ADVERTISEMENT_LEN: usize = 32;
    /// The least that an ICMP message has, and an ICMPv6 message of the types answered here.
    pub(super) const MIN_LEN: usize = 8;

    pub(super) const V4_ECHO_REQUEST: u8 = 8;
    pub(super) const V4_ECHO_REPLY: u8 = 0;
    pub(super) const V6_ECHO_REQUEST: u8 = 128;
    pub(super) const V6_ECHO_REPLY: u8 = 129;
    pub(super) const SOLICITATION: u8 = 135;
    pub(super) const ADVERTISEMENT: u8 = 136;

    pub(super) const SOLICITED: u8 = 0x40;
    pub(super) const OVERRIDE: u8 = 0x20;
    pub(super) const SOURCE_LINK_ADDRESS: u8 = 1;
    pub(super) const TARGET_LINK_ADDRESS: u8 = 2;
}

/// The stage that answers for our addresses on the link.
#[derive(Clone, Debug)]
pub struct Neighbor {
    ports: Ports,
}

impl Neighbor {
    /// A stage that answers for the addresses of these ports.
    pub fn new(ports: Ports) -> Self {
        Self { ports }
    }

    /// `None`: it asks nothing of us, or is malformed.
    fn answer(&self, packet: &mut Packet) -> Option<Step> {
        let port = self.ports.get(usize::from(packet.frame.port()))?;
        let layout = packet.layout;
        let frame = &mut packet.frame;
        // A reply to a group address would go to everybody (RFC 1812 section 3.3.2 for ARP).
        if is_group(frame.bytes().get(ETHERNET_SOURCE..)?) {
            return None;
        }
        if layout.flags.has(Flags::IPV6) {
            return answer_icmpv6(frame, layout, port);
        }
        match be16(frame.bytes(), usize::from(layout.l3).checked_sub(2)?)? {
            TYPE_ARP => answer_arp(frame, layout, port),
            _ => answer_icmpv4(frame, layout, port),
        }
    }
}
