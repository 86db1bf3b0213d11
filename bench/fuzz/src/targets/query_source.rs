//! Fuzz target: whatever comes to the addresses that upstreams are asked from, and whatever neighbours say.
//!
//! The first byte chooses the kind of the rest. It is a frame, a frame whose checksums the port has verified, or the payload
//! of a datagram from an upstream over IPv4 or IPv6. On every second UDP port of each source a query waits. What is heard of
//! next hops goes on to their states.
//!
//! Or it is a frame for a whole pmdns that asks over its port. Or it changes a frame that would be right for the query under way:
//! a reply, an ICMP error or a fragment.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::asking::{Asked, Asking, FAR_MAC};
use crate::input::Input;
use pmdns_config::Vlan;
use pmdns_nics::{Burst, FramePool, HeapPool, Verified};
use pmdns_stages::datagram::{self, Endpoints};
use pmdns_stages::neighbor::{Neighbor, NeighborMessage};
use pmdns_stages::next_hop::{HopPlan, NextHops};
use pmdns_stages::parse::Parse;
use pmdns_stages::ports::Port;
use pmdns_stages::query_sources::{FIRST_PORT, Owner, QuerySources, Source};
use pmdns_stages::testing::{
    OUR_IPV4, OUR_IPV6, OUR_MAC, QueryFrame, act_once, at, frame_of, query,
};
use pmdns_stages::vlan::Vlans;
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::ip::{self, v4, v6};
use pmdns_stages::wire::name::Seed;
use pmdns_stages::wire::put16;
use pmdns_stages::{Arrival, Packet, ReplyPacket, StageName, Step};

const MAX_FRAME: usize = 1600;
const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 60);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x60);
const NEXT_HOPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];

/// Inputs that one pmdns sees.
const LIFE: usize = 2_000;
/// The most changes of what would be right.
const CHANGES: usize = 8;

thread_local! {
    static LINE: RefCell<(Parse, Neighbor, Arc<QuerySources>)> = RefCell::new(start());
    static HOPS: RefCell<Hops> = RefCell::new(Hops::start());
    static ASKING: RefCell<Asking> = RefCell::new(Asking::start());
}

/// The states of the next hops.
struct Hops {
    hops: NextHops,
    pool: FramePool,
    now: Duration,
}

impl Hops {
    fn start() -> Self {
        let ours = [OUR_IPV4.into(), OUR_IPV6.into()];
        let plans: Vec<HopPlan> = NEXT_HOPS
            .iter()
            .zip(ours)
            .map(|(address, from)| HopPlan { port: 0, address: *address, from })
            .collect();
        let hops = NextHops::new(&plans, [Port::new(OUR_MAC, ours)].into(), Seed::new([8; 16]));
        Self { hops, pool: FramePool::Heap(HeapPool::new(64)), now: Duration::ZERO }
    }

    /// What is said of a next hop counts once, and is published if it is believed. Probes keep to their bound.
    fn receive(&mut self, said: &NeighborMessage) {
        // Whoever talks all the time is heard in all states of a next hop.
        self.now += Duration::from_millis(u64::from(said.mac[5]) * 100);
        let mut probes = Burst::new();
        self.hops.turn(self.now, &self.pool, &mut probes);
        assert!(probes.len() <= NEXT_HOPS.len(), "each is asked once at a time");
        drop(probes);
        assert_eq!(self.pool.in_use(), 0);
        let counted = self.counted(said);
        let is_believed = self.hops.receive(0, said, self.now);
        assert_eq!(self.counted(said), counted + 1, "it is believed or refused");
        let report =
            self.hops.table().report(self.now).find(|hop| hop.plan.address == said.address);
        let mac = report.and_then(|report| report.mac);
        assert!(!is_believed || mac == Some(said.mac));
        assert!(mac.is_none_or(|mac| mac[0] & 1 == 0 && mac != [0; 6]), "{mac:02x?} is no host");
    }

    fn counted(&self, said: &NeighborMessage) -> u64 {
        let mut report = self.hops.table().report(self.now);
        let hop = report.find(|hop| hop.plan.address == said.address).expect("it is a next hop");
        hop.counts.answers + hop.counts.gratuitous + hop.counts.refused
    }
}

fn start() -> (Parse, Neighbor, Arc<QuerySources>) {
    let sources = [IpAddr::V4(SOURCE_V4), IpAddr::V6(SOURCE_V6)];
    let sources = sources.map(|address| Source { port: 0, address });
    let sources = Arc::new(QuerySources::new(sources.to_vec()));
    for source in sources.indexes() {
        for port in (FIRST_PORT..=u16::MAX).step_by(2) {
            assert!(sources.claim(source, port, owner(port)));
        }
    }
    let port = Port::new(OUR_MAC, [OUR_IPV4.into(), OUR_IPV6.into()]);
    let port = Port { vlans: Vlans::of(&[Vlan::Untagged, Vlan::Tagged(7)]), ..port }
        .with_query_sources(Arc::clone(&sources), 0)
        .with_next_hops(NEXT_HOPS.to_vec());
    let (ports, seed): (Arc<[Port]>, _) = ([port].into(), Seed::new([7; 16]));
    let neighbor = Neighbor::new(Arc::clone(&ports), 1000, seed);
    (Parse::new(ports, seed), neighbor, sources)
}

/// Whose query waits on a UDP port.
fn owner(port: u16) -> Owner {
    Owner { thread: (port % 5) as u8, slot: port.into() }
}

/// A frame around a payload from an upstream. Two bytes are the UDP port it goes to.
fn datagram(is_ipv6: bool, input: &mut Input<'_>) -> Vec<u8> {
    let (source, destination) = match is_ipv6 {
        true => (vec![0xfd; 16], SOURCE_V6.octets().to_vec()),
        false => (vec![192, 0, 2, 53], SOURCE_V4.octets().to_vec()),
    };
    let destination_port = input.number();
    let case =
        QueryFrame { source, destination, source_port: 53, destination_port, ..query(". A") };
    case.frame_around(input.rest())
}

/// Changes some bytes of what would be right.
fn change(bytes: &mut [u8], input: &mut Input<'_>) {
    for _ in 0..usize::from(input.byte()) % CHANGES {
        let (at, value) = (usize::from(input.number()), input.byte());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= value;
        }
    }
}

/// A reply to a query, with changes, and maybe only its first part.
fn reply(asked: &Asked, is_part: bool, input: &mut Input<'_>) -> Vec<u8> {
    let mut message = asked.packet[asked.message_at..].to_vec();
    message[header::FLAGS] |= (flag::QR >> 8) as u8;
    change(&mut message, input);
    message.extend(input.rest().iter().take(1_000));
    let mut frame = frame_of(&[0; 64]);
    let ends = Endpoints { next_hop: OUR_MAC, from: asked.to, to: asked.from };
    let written = datagram::write(&mut frame, &Port::new(FAR_MAC, []), ends, &message);
    written.expect("it fits a frame");
    let mut bytes = frame.bytes().to_vec();
    if is_part && asked.to.is_ipv4() {
        let header = &mut bytes[ip::ETHERNET_LEN..][..ip::IPV4_MIN_LEN];
        let total = ip::IPV4_MIN_LEN + ip::UDP_LEN + message.len() / 8 * 8;
        put16(header, v4::TOTAL_LEN, total as u16);
        put16(header, v4::FRAGMENT, 0x2000);
        ip::seal_ipv4(header);
        bytes.truncate(ip::ETHERNET_LEN + total);
    }
    bytes
}

/// An ICMP error about a query, with changes in what it quotes.
fn icmp_error(asked: &Asked, input: &mut Input<'_>) -> Vec<u8> {
    let is_ipv6 = asked.to.is_ipv6();
    let mut quoted = asked.packet.clone();
    change(&mut quoted, input);
    let mut icmp = vec![input.byte(), input.byte(), 0, 0, 0, 0, 0, 0];
    icmp.extend(quoted);
    icmp.truncate(8 + usize::from(input.number()));
    let len = icmp.len() as u16;
    let mut frame = [OUR_MAC, FAR_MAC].concat();
    let (mut header, sum) = match is_ipv6 {
        true => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, ip::PROTOCOL_ICMPV6, 64];
            header.extend([upstream_side(asked), our_side(asked)].concat());
            put16(&mut header, v6::PAYLOAD_LEN, len);
            frame.extend(ip::TYPE_IPV6.to_be_bytes());
            let sum = ip::pseudo_header(&header[8..], ip::PROTOCOL_ICMPV6, len);
            (header, sum)
        }
        false => {
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, ip::PROTOCOL_ICMP, 0, 0];
            header.extend([upstream_side(asked), our_side(asked)].concat());
            put16(&mut header, v4::TOTAL_LEN, ip::IPV4_MIN_LEN as u16 + len);
            ip::seal_ipv4(&mut header);
            frame.extend(ip::TYPE_IPV4.to_be_bytes());
            (header, Sum::default())
        }
    };
    let checksum = sum.add_bytes(&icmp).checksum();
    put16(&mut icmp, 2, checksum);
    header.extend(icmp);
    [frame, header].concat()
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn upstream_side(asked: &Asked) -> Vec<u8> {
    octets(asked.to.ip())
}

fn our_side(asked: &Asked) -> Vec<u8> {
    octets(asked.from.ip())
}

/// Something comes to a pmdns that asks.
fn fuzz_asking(kind: u8, input: &mut Input<'_>) {
    ASKING.with_borrow_mut(|asking| {
        let is_ipv6 = kind & 8 != 0;
        let asked = asking.under_way(is_ipv6);
        let Some(asked) = asked.filter(|_| asking.inputs() < LIFE) else {
            *asking = Asking::start();
            return;
        };
        // Nothing is to be changed.
        let is_right = kind % 8 == 5 && input.is_empty();
        let frame = match kind % 8 {
            4 => input.rest().to_vec(),
            5 => reply(&asked, false, input),
            6 => icmp_error(&asked, input),
            _ => reply(&asked, true, input),
        };
        asking.hand(&frame, if kind & 16 != 0 { Verified::ALL } else { Verified::NOTHING });
        assert!(!is_right || !asking.waits(&asked), "the reply is taken");
    });
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.byte();
    if kind % 8 >= 4 {
        return fuzz_asking(kind, &mut input);
    }
    let (frame, verified) = match kind % 4 {
        0 => (input.rest().to_vec(), Verified::NOTHING),
        1 => (input.rest().to_vec(), Verified::ALL),
        kind => (datagram(kind == 3, &mut input), Verified::NOTHING),
    };
    LINE.with_borrow_mut(|(parse, neighbor, sources)| {
        let mut frame = frame_of(&frame[..frame.len().min(MAX_FRAME)]);
        frame.set_verified(verified);
        let mut packet = act_once(parse, Packet::arrived(frame, 0), &at(0));
        if packet.step == Step::at(StageName::Neighbor) {
            packet = act_once(neighbor, packet, &at(0));
        }
        let reply = ReplyPacket::read(&packet, sources);
        if packet.step != Step::REPLY {
            assert_eq!(reply, None);
            return;
        }
        match Arrival::of_key(packet.key).expect("a packet for the slow path says what it is") {
            Arrival::Neighbor => {
                let said = NeighborMessage::read(packet.frame.bytes(), packet.layout)
                    .expect("it was heard");
                assert!(NEXT_HOPS.contains(&said.address));
                HOPS.with_borrow_mut(|hops| hops.receive(&said));
            }
            arrival => {
                let reply = reply.expect("what passes can be read");
                assert_eq!((reply.arrival, reply.owner), (arrival, owner(reply.udp_port)));
                assert_eq!(sources.owner(reply.source, reply.udp_port), Some(reply.owner));
                assert_eq!(
                    sources.sources()[reply.source.get()].address.is_ipv4(),
                    reply.upstream.is_ipv4()
                );
            }
        }
    });
}
