//! What holds in any order of events.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::{BROADCAST, GATEWAY, Link, OTHER, STEP, plan, seconds};
use crate::neighbor::message::NeighborMessage;
use crate::next_hop::HopState;
use crate::next_hop::hop::{RETRANSMIT, USABLE};

/// What happens to a link.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Message(NeighborMessage),
    LinkUp,
    Doubt(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    let mac = prop_oneof![Just(GATEWAY), Just(OTHER), Just([0; 6]), Just(BROADCAST)];
    let heard = (1u8..5, mac, any::<[bool; 3]>()).prop_map(|(host, mac, flags)| {
        let [solicited, override_, is_reply] = flags;
        let address = plan(host).address;
        Event::Message(NeighborMessage { address, mac, solicited, override_, is_reply })
    });
    prop_oneof![
        4 => (0u64..40_000).prop_map(Event::Pass),
        4 => heard,
        1 => Just(Event::LinkUp),
        1 => (0usize..4).prop_map(Event::Doubt),
    ]
}

proptest! {
    #[test]
    fn in_any_order_probes_are_bounded_and_nothing_is_made_up(
        events in proptest::collection::vec(any_event(), 0..80), answers: bool,
    ) {
        let mut link = Link::new(&[plan(1), plan(2), plan(3)]);
        link.answer = answers.then_some([2, 0, 0, 0, 0, 0x77]);
        let mut told: HashSet<(IpAddr, [u8; 6])> = HashSet::new();
        for event in events {
            match event {
                Event::Pass(millis) => link.now += Duration::from_millis(millis),
                Event::Message(heard) => {
                    told.insert((heard.address, heard.mac));
                    link.receive(&heard);
                }
                Event::LinkUp => link.hops.note_link_up(0, link.now),
                Event::Doubt(hop) => link.doubt(hop),
            }
            link.turn();
            for hop in link.hops.table().report(link.now) {
                if let Some(mac) = hop.mac {
                    let is_answer = link.answer == Some(mac);
                    prop_assert!(is_answer || told.contains(&(hop.plan.address, mac)));
                    prop_assert!(mac[0] & 1 == 0 && mac != [0; 6]);
                }
            }
        }
        for host in 1..=3 {
            let mut times = link.probes.iter().filter(|probe| probe.2 == plan(host).address);
            let Some(mut last) = times.next() else { continue };
            for probe in times {
                prop_assert!(probe.0 - last.0 >= RETRANSMIT);
                last = probe;
            }
        }
        prop_assert_eq!(link.pool.in_use(), 0);
        // When answers come, all are found within the longest pause, and without them all are lost.
        link.answer = Some(GATEWAY);
        link.pass(seconds(31));
        let reports: Vec<_> = link.hops.table().report(link.now).collect();
        prop_assert!(reports.iter().all(|hop| hop.state == HopState::Reachable), "{:?}", reports);
        prop_assert!(reports.iter().all(|hop| hop.mac == Some(GATEWAY)));
        link.answer = None;
        link.pass(USABLE + STEP);
        prop_assert!(link.hops.table().report(link.now).all(|hop| hop.mac.is_none()));
    }
}
