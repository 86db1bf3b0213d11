//! Questions and answers as frames: our next hops on one end of a link, a gateway's stages on the other.

use super::*;
use crate::neighbor::Neighbor;
use crate::neighbor::message::NeighborMessage;
use crate::parse::Parse;
use crate::query_sources::{QuerySources, Source};
use crate::testing::{act_once, at, frame_of};
use crate::vlan::Vlans;
use crate::{Packet, StageName, Step};

/// What the stages of a host make of a frame.
fn received(host: &Ports, bytes: &[u8]) -> Packet {
    let mut parse = Parse::new(Arc::clone(host), Seed::new([3; 16]));
    let packet = act_once(&mut parse, Packet::arrived(frame_of(bytes), 0), &at(0));
    if packet.step != Step::at(StageName::Neighbor) {
        return packet;
    }
    let mut neighbor = Neighbor::new(Arc::clone(host), 1000, Seed::new([3; 16]));
    act_once(&mut neighbor, packet, &at(0))
}

fn host(mac: [u8; 6], addresses: &[IpAddr], vlans: &[pmdns_config::Vlan]) -> Port {
    Port { vlans: Vlans::of(vlans), ..Port::new(mac, addresses.iter().copied()) }
}

#[test]
fn a_gateway_is_found_and_confirmed_over_both_families_and_in_a_vlan() {
    use pmdns_config::Vlan::{Double, Tagged, Untagged};
    let gateways = [IpAddr::from([10, 77, 0, 1]), "fd77::1".parse().unwrap()];
    let sources = [IpAddr::from([10, 77, 0, 60]), "fd77::60".parse().unwrap()];
    for vlans in [vec![Untagged], vec![Tagged(7), Untagged], vec![Double(7, 8)]] {
        let source = |address| Source { port: 0, address };
        let table = Arc::new(QuerySources::new(sources.map(source).into()));
        let plans = [0, 1].map(|family| HopPlan {
            port: 0,
            address: gateways[family],
            from: sources[family],
        });
        let ours: Ports = [host(OUR_MAC, &[OUR_IPV4.into(), OUR_IPV6.into()], &vlans)
            .with_query_sources(table, 0)
            .with_next_hops(gateways.into())]
        .into();
        let theirs: Ports = [host(GATEWAY, &gateways, &vlans[..1])].into();
        let mut hops = NextHops::new(&plans, Arc::clone(&ours), Seed::new([9; 16]));
        let pool = FramePool::Heap(HeapPool::new(8));
        let mut answers = 0;
        for second in 0..60 {
            let mut frames = Burst::new();
            hops.turn(seconds(second), &pool, &mut frames);
            for frame in &frames {
                let answer = received(&theirs, frame.bytes());
                assert_eq!(answer.step, Step::TRANSMIT, "{vlans:?}");
                let packet = received(&ours, answer.frame.bytes());
                assert_eq!(packet.step, Step::REPLY, "{vlans:?}");
                let message = NeighborMessage::read(packet.frame.bytes(), packet.layout).unwrap();
                assert!(hops.receive(0, &message, seconds(second)));
                answers += 1;
            }
            let reports = || hops.table().report(seconds(second));
            assert!(reports().all(|hop| hop.state == HopState::Reachable));
            assert!(reports().all(|hop| hop.mac == Some(GATEWAY) && hop.counts.gratuitous == 0));
        }
        assert!((6..=8).contains(&answers), "found, then confirmed twice or more: {answers}");
    }
}
