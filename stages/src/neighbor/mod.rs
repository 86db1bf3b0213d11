//! Stage: ARP, neighbour discovery and ping, so that others can find us.
//!
//! Parse sends here ARP frames, ICMP to one of our addresses, ICMPv6 to one of ours or to a multicast group, and MLD
//! queries. The reply is written into the frame that asked, its VLAN tags left in place. What nobody asked for, or
//! has to wait, is written into frames of its own ([`Neighbor::write_due`]).

mod announce;
mod arp;
mod icmpv4;
mod icmpv6;
mod mld;

use std::sync::Arc;

use pmdns_nics::{Burst, FramePool};

use self::announce::Announcer;
pub(crate) use self::mld::{ALL_MLD_ROUTERS, HOP_BY_HOP};
use crate::packet::{Flags, Packet, Tick};
use crate::ports::Ports;
use crate::step::{Reason, Step};
use crate::vlan::Tags;
use crate::wire::be16;
use crate::wire::ip::{ETHERNET_SOURCE, TYPE_ARP, v6};
use crate::wire::name::Seed;
use crate::{Context, Stage, StageName};

/// TTL and hop limit of our packets.
const HOPS: u8 = 64;

/// The stage that answers for our addresses on the link.
#[derive(Clone, Debug)]
pub struct Neighbor {
    ports: Ports,
    announcer: Announcer,
}

impl Neighbor {
    /// A stage that answers for the addresses of these ports. Reports are spread over time by `seed`.
    pub fn new(ports: Ports, ticks_per_second: u64, seed: Seed) -> Self {
        let announcer = Announcer::new(Arc::clone(&ports), ticks_per_second, seed);
        Self { ports, announcer }
    }

    /// Announces our addresses and groups on a port whose link came up, from `now` on.
    pub fn announce(&mut self, port: usize, now: Tick) {
        self.announcer.start_round(port, now);
    }

    /// Writes what is to be said now: announcements, and reports that MLD queries asked for. The frames say on which
    /// port. What finds no room follows next time.
    pub fn write_due(&mut self, now: Tick, pool: &FramePool, frames: &mut Burst) {
        self.announcer.write_due(now, pool, frames);
    }

    /// Notes an MLD query for a group of ours; a report follows.
    fn note_query(&mut self, packet: &Packet, now: Tick) -> Option<Step> {
        let number = usize::from(packet.frame.port());
        let bytes = packet.frame.bytes();
        let vlan = self.ports.get(number)?.vlans.find(Tags::read(bytes).ok()?)?;
        let query = mld::Query::read(bytes, packet.layout.l3.into())?;
        self.announcer.note(number, vlan, query, now)?;
        Some(Step::drop(Reason::MldQuery))
    }

    /// Answers, or says who else will; `None`: it asks nothing of us, or is malformed.
    fn answer(&mut self, packet: &mut Packet, now: Tick) -> Option<Step> {
        let port = self.ports.get(usize::from(packet.frame.port()))?;
        let layout = packet.layout;
        let bytes = packet.frame.bytes();
        // Nobody sends from a group address, and a reply to one would go to everybody.
        if is_group(*bytes.get(ETHERNET_SOURCE)?) {
            return None;
        }
        if layout.flags.has(Flags::IPV6) {
            if *bytes.get(usize::from(layout.l3) + v6::NEXT_HEADER)? == HOP_BY_HOP {
                return self.note_query(packet, now);
            }
            return icmpv6::answer(&mut packet.frame, layout, port);
        }
        match be16(bytes, usize::from(layout.l3).checked_sub(2)?)? {
            TYPE_ARP => arp::answer(&mut packet.frame, layout, port),
            _ => icmpv4::answer(&mut packet.frame, layout, port),
        }
    }
}

impl Stage for Neighbor {
    const NAME: StageName = StageName::Neighbor;

    #[inline(always)]
    fn hint(&self, packet: &Packet) {
        packet.frame.prefetch();
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        self.answer(packet, context.now).unwrap_or(Step::drop(Reason::NeighborIgnored))
    }
}

/// Whether a MAC address that starts with this byte is a group's (IEEE 802.3).
fn is_group(first: u8) -> bool {
    first & 1 != 0
}

/// Addresses the frame from us to `destination`.
fn address_ethernet(frame: &mut [u8], destination: [u8; 6], ours: [u8; 6]) {
    frame[..ETHERNET_SOURCE].copy_from_slice(&destination);
    frame[ETHERNET_SOURCE..2 * ETHERNET_SOURCE].copy_from_slice(&ours);
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::Layout;
    use crate::ports::Port;
    use crate::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC, act_once, at, frame_of};

    pub(super) const IGNORED: Step = Step::drop(Reason::NeighborIgnored);

    /// `02 00 0a4d` and so on as bytes.
    pub(super) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    fn neighbor() -> Neighbor {
        let addresses = [IpAddr::from(OUR_IPV4), IpAddr::from(OUR_IPV6)];
        Neighbor::new([Port::new(OUR_MAC, addresses)].into(), 1000, Seed::new([3; 16]))
    }

    /// Lets the stage act on a frame whose IP (or ARP) header starts at `l3` and is `header_len` long, and
    /// says what becomes of the frame.
    pub(super) fn reply(bytes: &[u8], l3: u8, header_len: u8, ipv6: bool) -> (Step, Vec<u8>) {
        let mut packet = Packet::arrived(frame_of(bytes), 0);
        packet.layout = Layout { l3, l4: l3 + header_len, ..Layout::default() };
        if ipv6 {
            packet.layout.flags.set(Flags::IPV6);
        }
        let packet = act_once(&mut neighbor(), packet, &at(0));
        (packet.step, packet.frame.bytes().to_vec())
    }

    #[test]
    fn a_frame_from_a_group_address_gets_no_answer() {
        let mut request = hex(arp::tests::REQUEST);
        assert_eq!(reply(&request, 14, 0, false).0, Step::TRANSMIT);
        request[ETHERNET_SOURCE] |= 1;
        assert_eq!(reply(&request, 14, 0, false).0, IGNORED);
    }

    #[test]
    fn a_frame_of_an_unknown_port_gets_no_answer() {
        let mut packet = Packet::arrived(frame_of(&hex(arp::tests::REQUEST)), 0);
        packet.layout.l3 = 14;
        packet.frame.set_port(1);
        assert_eq!(act_once(&mut neighbor(), packet, &at(0)).step, IGNORED);
    }

    #[test]
    fn bound_b2_an_mld_query_is_answered_by_a_report_of_its_own() {
        let mut neighbor = neighbor();
        let mut packet = Packet::arrived(frame_of(&mld::tests::changed(|_| ())), 0);
        packet.layout = Layout { l3: 14, l4: 54, ..Layout::default() };
        packet.layout.flags.set(Flags::IPV6);
        let packet = act_once(&mut neighbor, packet, &at(0));
        assert_eq!(packet.step, Step::drop(Reason::MldQuery));
        let pool = FramePool::Heap(pmdns_nics::HeapPool::new(8));
        let mut frames = Burst::new();
        neighbor.write_due(u64::from(u32::MAX), &pool, &mut frames);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].bytes()[62], 143, "a report of version 2");
    }

    /// Requests that are answered, with their header lengths.
    fn requests() -> [(Vec<u8>, u8, bool); 5] {
        [
            (hex(arp::tests::REQUEST), 0, false),
            (hex(icmpv4::tests::REQUEST), 20, false),
            (hex(icmpv6::tests::ECHO_REQUEST), 40, true),
            (hex(icmpv6::tests::SOLICITATION), 40, true),
            (hex(icmpv6::tests::PROBE), 40, true),
        ]
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 14..160),
            ethertype in prop_oneof![Just(0x0800u16), Just(0x0806), Just(0x86dd)],
            l3 in prop_oneof![Just(14u8), Just(18), Just(22)],
            header_len in prop_oneof![Just(0u8), Just(20), Just(24), Just(40), Just(60)],
        ) {
            let mut bytes = bytes;
            if let Some(field) = bytes.get_mut(usize::from(l3) - 2..usize::from(l3)) {
                field.copy_from_slice(&ethertype.to_be_bytes());
            }
            reply(&bytes, l3, header_len, ethertype == 0x86dd);
        }

        #[test]
        fn nearly_right_requests_do_not_either(
            which in 0usize..5, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3),
            keep in any::<prop::sample::Index>(), whole: bool,
        ) {
            let (mut bytes, header_len, ipv6) = requests()[which].clone();
            for (at, value) in changes {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            if !whole {
                bytes.truncate(keep.index(bytes.len()));
            }
            let (step, reply) = reply(&bytes, 14, header_len, ipv6);
            if step == Step::TRANSMIT {
                prop_assert_eq!(&reply[6..12], &OUR_MAC);
            } else {
                prop_assert_eq!(reply, bytes, "what is not answered is left as it was");
            }
        }
    }
}
