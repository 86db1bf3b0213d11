//! Fuzz target: whatever comes to the addresses that upstreams are asked from, and whatever neighbours say.
//!
//! The first byte chooses the kind of the rest. It is a frame, a frame whose checksums the port has verified, or the payload
//! of a datagram from an upstream over IPv4 or IPv6. On every second UDP port of each source a query waits.
#![no_main]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pmdns_config::Vlan;
use pmdns_fuzz::input::Input;
use pmdns_nics::Verified;
use pmdns_stages::neighbor::{Neighbor, heard};
use pmdns_stages::parse::Parse;
use pmdns_stages::ports::Port;
use pmdns_stages::query_sources::{FIRST_PORT, Owner, QuerySources, Source};
use pmdns_stages::testing::{OUR_IPV4, OUR_IPV6, OUR_MAC, Query, act_once, at, frame_of, query};
use pmdns_stages::vlan::Vlans;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Arrival, Packet, Reply, StageName, Step};

const MAX_FRAME: usize = 1600;
const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 60);
const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x60);
const NEXT_HOPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
];

thread_local! {
    static LINE: RefCell<(Parse, Neighbor, Arc<QuerySources>)> = RefCell::new(start());
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
    let case = Query { source, destination, source_port: 53, destination_port, ..query(". A") };
    case.frame_around(input.rest())
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (frame, verified) = match input.byte() % 4 {
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
        let reply = Reply::read(&packet, sources);
        if packet.step != Step::REPLY {
            assert_eq!(reply, None);
            return;
        }
        match Arrival::of_key(packet.key).expect("a packet for the slow path says what it is") {
            Arrival::Neighbor => {
                let said = heard(packet.frame.bytes(), packet.layout).expect("it was heard");
                assert!(NEXT_HOPS.contains(&said.address));
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
});
