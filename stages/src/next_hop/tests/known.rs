//! Next hops that another process has found.

use super::{BROADCAST, GATEWAY, Link, OTHER, STEP, answer_from, plan, seconds};
use crate::next_hop::hop::USABLE;
use crate::next_hop::{HopChange, HopState, KnownHop, LinkAddresses, NextHop, NextHops, Routes};
use crate::wire::name::Seed;

fn known(host: u8, mac: [u8; 6]) -> KnownHop {
    KnownHop { port: 0, address: plan(host).address, mac }
}

/// Its process has run for so long when it begins.
fn link(known: &[KnownHop]) -> Link {
    let mut link = Link::new(&[plan(1), plan(2)]);
    let seed = Seed::new([7; 16]);
    link.hops = NextHops::new(&[plan(1), plan(2)], link.hops.ports.clone(), seed).with_known(known);
    link.now = seconds(100_000);
    link
}

#[test]
fn what_is_known_is_chosen_before_the_first_turn_and_asked_for_on_it() {
    let on_link = LinkAddresses {
        addresses: vec!["10.77.0.53/24".parse().unwrap()],
        query_sources: vec![[10, 77, 0, 60].into()],
        gateways: vec![plan(1).address, plan(2).address],
    };
    let routes = Routes::new(&[on_link], &[Some((0, [192, 0, 2, 1].into()))]);
    let mut link = link(&[known(2, GATEWAY)]);
    let chosen = |link: &Link| {
        let NextHop { hop, place } = routes.choose(0, link.hops.table())?;
        Some((hop, place.mac))
    };
    assert_eq!(chosen(&link), Some((1, GATEWAY)));
    link.answer = None;
    link.turn();
    assert_eq!(chosen(&link), Some((1, GATEWAY)), "it is used until it answers");
    assert!(link.probes.contains(&(link.now, BROADCAST, plan(2).address)));
    assert_eq!(link.changes(), [HopChange::Found(GATEWAY)]);
    let is_known = |link: &Link| link.hops.table().known().any(|hop| hop == known(2, GATEWAY));
    assert!(!is_known(&link), "another process gets what has answered this one");
    link.answer = Some(GATEWAY);
    link.pass(seconds(1) + seconds(1) / 4 + STEP);
    assert_eq!(link.report(1).state, HopState::Reachable, "the first answer went elsewhere");
    assert!(is_known(&link));
    let counts = link.report(1).counts;
    assert_eq!((counts.probes, counts.answers, counts.mac_changes), (2, 1, 0));
}

#[test]
fn a_known_next_hop_that_has_moved_is_found_by_its_answer() {
    let mut link = link(&[known(1, OTHER)]);
    assert_eq!(link.mac(), Some(OTHER));
    link.turn();
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(GATEWAY)));
    assert_eq!(link.report(0).counts.mac_changes, 1);
}

#[test]
fn a_known_next_hop_that_never_answers_is_lost() {
    let mut link = link(&[known(1, GATEWAY)]);
    link.answer = None;
    link.turn();
    link.pass(USABLE - STEP);
    assert_eq!((link.state(), link.mac()), (HopState::Stale, Some(GATEWAY)));
    link.pass(STEP * 2);
    assert_eq!((link.state(), link.mac()), (HopState::Failed, None));
}

#[test]
fn what_is_not_in_the_plan_or_no_hosts_address_is_ignored() {
    let elsewhere = KnownHop { port: 1, ..known(1, GATEWAY) };
    let group = [1, 0, 0x5e, 0, 0, 1];
    for wrong in [elsewhere, known(9, GATEWAY)]
        .into_iter()
        .chain([[0; 6], BROADCAST, group].map(|mac| known(1, mac)))
    {
        let mut link = link(&[wrong]);
        assert_eq!((link.state(), link.mac()), (HopState::Incomplete, None), "{wrong:x?}");
        assert!(link.receive(&answer_from(GATEWAY)), "it is found as ever");
    }
}

#[test]
fn a_process_whose_addresses_another_one_has_asks_for_nobody_and_keeps_what_it_knows() {
    let mut link = link(&[]);
    link.pass(seconds(1));
    let (claim, asked) = (link.hops.ports[0].claim.clone(), link.probes.len());
    claim.set_left(true);
    link.pass(seconds(60));
    assert_eq!((link.probes.len(), link.mac()), (asked, Some(GATEWAY)));
    claim.set_left(false);
    link.pass(seconds(1));
    assert!(link.probes.len() > asked);
}
