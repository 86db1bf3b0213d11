//! Stage: ARP, neighbour discovery and ping, so that others can find us, and we can find our next hops.
//!
//! Parse sends here ARP frames, ICMP to one of our addresses, ICMPv6 to one of ours or to a multicast group, and MLD
//! queries. The reply is written into the frame that asked, its VLAN tags left in place. What nobody asked for, or
//! has to wait, is written into frames of its own ([`Neighbor::write_due`]). What next hops say of where they are
//! ([`message`]) goes to the slow path.

mod announce;
mod arp;
mod ask;
mod ethernet;
mod icmpv4;
mod icmpv6;
pub mod message;
mod mld;

use std::sync::Arc;

use pmdns_nics::{Burst, FramePool};

use self::announce::Announcer;
pub(crate) use self::ask::Question;
pub(crate) use self::ethernet::is_group;
pub(crate) use self::icmpv6::{ADVERTISEMENT, SOLICITATION};
pub use self::message::NeighborMessage;
pub(crate) use self::mld::{ALL_MLD_ROUTERS, HOP_BY_HOP};
use crate::arrival::Arrival;
use crate::packet::{Packet, Tick};
use crate::ports::Ports;
use crate::ratelimit::Limiter;
use crate::step::{Reason, Step};
use crate::vlan::Tags;
use crate::wire::be16;
use crate::wire::ip::{ETHERNET_SOURCE, IPV4_MIN_LEN, IPV6_LEN, TYPE_ARP, v6};
use crate::wire::layout::{Flags, Layout};
use crate::wire::name::Seed;
use crate::{Context, Stage, StageName};

/// The stage that answers for our addresses on the link.
#[derive(Clone, Debug)]
pub struct Neighbor {
    ports: Ports,
    announcer: Announcer,
    /// How many pings of one client are answered.
    pings: Limiter,
}

impl Neighbor {
    /// A stage that answers for the addresses of these ports. Reports are spread over time by `seed`.
    pub fn new(ports: Ports, ticks_per_second: u64, seed: Seed) -> Self {
        let announcer = Announcer::new(Arc::clone(&ports), ticks_per_second, seed);
        Self { ports, announcer, pings: Limiter::off(seed) }
    }

    /// The same stage, with a limit on ping replies.
    pub fn with_limit(self, pings: Limiter) -> Self {
        Self { pings, ..self }
    }

    /// The limiter of pings.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.pings
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
        let query = mld::MldQuery::read(bytes, packet.layout.l3.into())?;
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
        if message::is_of_next_hop(bytes, layout, port) {
            packet.key = Arrival::Neighbor.key();
            return Some(Step::REPLY);
        }
        if asks_for_echo(bytes, layout) {
            // RFC 1122 section 3.2.2.6: what all hosts of the link get is not echoed.
            if !bytes.starts_with(&port.mac) {
                return None;
            }
            // Sources can be forged, and a reply is as long as its request. A ping's checksum covers all of it, so it is not
            // read before it is known to be answered.
            if self.pings.is_exceeded(packet, now) {
                return Some(Step::drop(Reason::EchoLimited));
            }
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

/// Whether a frame with this layout is an echo request, as far as its type says.
fn asks_for_echo(frame: &[u8], layout: Layout) -> bool {
    let (header_len, request) = match layout.flags.has(Flags::IPV6) {
        true => (IPV6_LEN, icmpv6::ECHO_REQUEST),
        false => (IPV4_MIN_LEN, icmpv4::ECHO_REQUEST),
    };
    let l4 = usize::from(layout.l4);
    l4 >= usize::from(layout.l3) + header_len && frame.get(l4) == Some(&request)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use pmdns_config::Vlan;
    use proptest::prelude::*;

    use super::*;
    use crate::Exception;
    use crate::parse::Parse;
    use crate::ports::Port;
    use crate::query_sources::{QuerySources, Source};
    use crate::testing::{CLIENT_MAC, OUR_IPV4, OUR_IPV6, OUR_MAC, act_once, at, frame_of};
    use crate::vlan::Vlans;
    use crate::wire::ip::{PROTOCOL_ICMPV6, pseudo_header, seal_ipv4};
    use crate::wire::put16;

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

    /// Lets the stage act on a frame whose IP (or ARP) header starts at `l3` and is `header_len` long.
    /// Says what becomes of the frame.
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

    /// A stage that answers three pings a second of one prefix, on a clock of a thousand ticks a second.
    fn limited() -> Neighbor {
        let settings = pmdns_config::RateLimitSettings {
            error_replies_per_second: 3,
            ..pmdns_config::RateLimitSettings::default()
        };
        neighbor().with_limit(Limiter::of_error_replies(&settings, 1000, Seed::new([3; 16])))
    }

    /// Where parse and then the stage send a frame.
    fn step_of(neighbor: &mut Neighbor, bytes: &[u8], context: &Context) -> Step {
        let mut parse = Parse::new(Arc::clone(&neighbor.ports), Seed::new([3; 16]));
        let packet = act_once(&mut parse, Packet::arrived(frame_of(bytes), 0), context);
        match packet.step == Step::at(StageName::Neighbor) {
            true => act_once(neighbor, packet, context).step,
            false => packet.step,
        }
    }

    /// A ping over IPv4 from this address.
    fn ping_from(source: [u8; 4]) -> Vec<u8> {
        let mut ping = hex(icmpv4::tests::REQUEST);
        ping[26..30].copy_from_slice(&source);
        seal_ipv4(&mut ping[14..34]);
        ping
    }

    /// A ping over IPv6 from this address. The sum of the message stays right: 16 bits make up for what changes.
    fn ping_from_v6(source: [u8; 16]) -> Vec<u8> {
        let mut ping = hex(icmpv6::tests::ECHO_REQUEST);
        ping[22..38].copy_from_slice(&source);
        put16(&mut ping, 56, 0);
        let len = (ping.len() - 54) as u16;
        let sum = pseudo_header(&ping[22..54], PROTOCOL_ICMPV6, len).add_bytes(&ping[54..]);
        put16(&mut ping, 56, sum.checksum());
        ping
    }

    #[test]
    fn audit_low_ping_replies_to_one_prefix_have_a_bound() {
        let shed = Step::drop(Reason::EchoLimited);
        let elsewhere_v6 = [&[0xfd, 0x78][..], &OUR_IPV6[2..]].concat().try_into().unwrap();
        for (same, other) in [
            (ping_from([10, 77, 0, 1]), ping_from([10, 77, 9, 1])),
            (hex(icmpv6::tests::ECHO_REQUEST), ping_from_v6(elsewhere_v6)),
        ] {
            let mut neighbor = limited();
            let mut now = Context { now: 5000, seconds: 5 };
            for number in 0..3 {
                assert_eq!(step_of(&mut neighbor, &same, &now), Step::TRANSMIT, "{number}");
            }
            assert!((0..10).all(|_| step_of(&mut neighbor, &same, &now) == shed));
            assert_eq!(step_of(&mut neighbor, &other, &now), Step::TRANSMIT, "another prefix");
            for (request, ..) in [requests()[0].clone(), requests()[3].clone()] {
                let step = step_of(&mut neighbor, &request, &now);
                assert_eq!(step, Step::TRANSMIT, "who asks for our address is always told");
            }
            now.now += 1000;
            assert_eq!(step_of(&mut neighbor, &same, &now), Step::TRANSMIT, "a second later");
        }
    }

    #[test]
    fn audit_low_pings_of_groups_get_no_reply() {
        let mut neighbor = neighbor();
        let mut step = |bytes: &[u8]| step_of(&mut neighbor, bytes, &at(0));
        let own = OUR_IPV4;
        let no_host = [[255; 4], [224, 0, 0, 1], [240, 0, 0, 1], [0; 4], [127, 0, 0, 1], own];
        for source in no_host {
            assert_eq!(step(&ping_from(source)), Step::drop(Reason::SourceAddress), "{source:?}");
        }
        let group = [&[0xff, 2][..], &[0; 13], &[1]].concat().try_into().unwrap();
        let loopback = u128::to_be_bytes(1);
        for source in [group, [0; 16], loopback, OUR_IPV6] {
            assert_eq!(step(&ping_from_v6(source)), IGNORED, "{source:?}");
        }
        for ping in [ping_from([10, 77, 0, 1]), hex(icmpv6::tests::ECHO_REQUEST)] {
            assert_eq!(step(&ping), Step::TRANSMIT);
            let to = |mac: [u8; 6]| [&mac[..], &ping[6..]].concat();
            assert_eq!(step(&to([0xff; 6])), IGNORED, "to everybody on the link");
            assert_eq!(step(&to([0x33, 0x33, 0, 0, 0, 1])), IGNORED, "to a group");
            assert_eq!(step(&to([2, 0, 0, 0, 0, 9])), IGNORED, "to somebody else");
            let mut from_a_group = ping.clone();
            from_a_group[ETHERNET_SOURCE] |= 1;
            assert_eq!(step(&from_a_group), IGNORED);
        }
    }

    /// A port in VLAN 7 and in none, which asks from 10.77.0.2 and fd77::2 by 10.77.0.1 and fd77::1.
    fn asking() -> Neighbor {
        let source = |address| Source { port: 0, address };
        let sources = vec![source(OUR_IPV4.into()), source(OUR_IPV6.into())];
        let next_hops = vec![[10, 77, 0, 1].into(), "fd77::1".parse().unwrap()];
        let vlans = Vlans::of(&[Vlan::Tagged(7), Vlan::Untagged]);
        let port = Port { vlans, ..Port::new(OUR_MAC, []) }
            .with_query_sources(Arc::new(QuerySources::new(sources)), 0)
            .with_next_hops(next_hops);
        Neighbor::new([port].into(), 1000, Seed::new([3; 16]))
    }

    /// Where a frame goes that is in VLAN 7.
    fn step_in_vlan(neighbor: &mut Neighbor, frame: &[u8]) -> Step {
        let tagged = [&frame[..12], &hex("8100 0007"), &frame[12..]].concat();
        step_of(neighbor, &tagged, &at(0))
    }

    #[test]
    fn who_asks_for_a_query_source_in_its_vlan_is_told() {
        let mut neighbor = asking();
        for which in [0, 3, 4] {
            let (request, ..) = &requests()[which];
            assert_eq!(step_in_vlan(&mut neighbor, request), Step::TRANSMIT, "{which}");
            assert_eq!(step_of(&mut neighbor, request, &at(0)), IGNORED, "{which} elsewhere");
        }
        let unicast = icmpv6::tests::with(icmpv6::tests::UNICAST_SOLICITATION, 0, "");
        assert_eq!(step_in_vlan(&mut neighbor, &unicast), Step::TRANSMIT);
        for which in [1, 2] {
            let step = step_in_vlan(&mut neighbor, &requests()[which].0);
            assert_eq!(step, Step::drop(Reason::QuerySource), "pings are for other addresses");
        }
    }

    #[test]
    fn who_asks_for_an_address_of_a_node_that_stands_by_is_not_told() {
        let mut neighbor = neighbor();
        let claim = neighbor.ports[0].claim.clone();
        for (is_standby, expected) in [(true, IGNORED), (false, Step::TRANSMIT)] {
            claim.set_standby(is_standby);
            for which in [0, 3, 4] {
                let step = step_of(&mut neighbor, &requests()[which].0, &at(0));
                assert_eq!(step, expected, "{which}");
            }
        }
        // Its query sources are its own.
        let mut asking = asking();
        asking.ports[0].claim.set_standby(true);
        for which in [0, 3, 4] {
            assert_eq!(step_in_vlan(&mut asking, &requests()[which].0), Step::TRANSMIT, "{which}");
        }
    }

    #[test]
    fn what_a_next_hop_says_of_itself_goes_to_the_slow_path() {
        use message::tests::{ADVERTISEMENT, REPLY};
        let mut neighbor = asking();
        let reply = hex(REPLY);
        let mut announcement = reply.clone();
        announcement[..6].fill(0xff);
        announcement[38..42].copy_from_slice(&[10, 77, 0, 1]);
        let advertisement = icmpv6::tests::with(ADVERTISEMENT, 0, "");
        let to_all = "ff020000000000000000000000000001";
        let mut unasked = icmpv6::tests::with(ADVERTISEMENT, 38, to_all);
        (unasked[0], unasked[1], unasked[58]) = (0x33, 0x33, 0xa0);
        icmpv6::seal(&mut unasked[14..]);
        for frame in [&reply, &announcement, &advertisement, &unasked] {
            let tagged = [&frame[..12], &hex("8100 0007"), &frame[12..]].concat();
            let mut parse = Parse::new(Arc::clone(&neighbor.ports), Seed::new([3; 16]));
            let packet = act_once(&mut parse, Packet::arrived(frame_of(&tagged), 0), &at(0));
            let packet = act_once(&mut neighbor, packet, &at(0));
            assert_eq!(packet.step, Step::REPLY);
            assert_eq!(Arrival::of_key(packet.key), Some(Arrival::Neighbor));
            let said = NeighborMessage::read(packet.frame.bytes(), packet.layout)
                .map(|message| message.mac);
            assert_eq!(said, Some(CLIENT_MAC));
            let elsewhere = step_of(&mut neighbor, frame, &at(0));
            assert_ne!(elsewhere, Step::REPLY, "in another VLAN it is a client that says so");
            let mut for_another = tagged.clone();
            for_another[5] ^= 2;
            let is_asked = frame[0] == OUR_MAC[0];
            let step = step_of(&mut neighbor, &for_another, &at(0));
            assert_eq!(step != Step::REPLY, is_asked, "an answer to another host is not ours");
        }
        let mut from_another = reply;
        from_another[31] = 9;
        let step = step_in_vlan(&mut neighbor, &from_another);
        assert_eq!(step, Step::exception(Exception::Arp), "it is no next hop");
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
