//! Doubts: what they find out, and what they may cost.

use std::time::Duration;

use super::{BURST, GATEWAY, Link, MAX_HOPS, PROBE_COST, STEP, plan, seconds};
use crate::next_hop::HopState;
use crate::next_hop::hop::TRUSTED;

/// Doubts all next hops in every step.
fn pass_in_doubt(link: &mut Link, time: Duration) {
    let end = link.now + time;
    while link.now < end {
        (0..MAX_HOPS).for_each(|hop| link.doubt(hop));
        link.pass(STEP);
    }
}

#[test]
fn doubt_finds_a_dead_next_hop_in_seconds() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    link.pass(TRUSTED);
    link.answer = None;
    pass_in_doubt(&mut link, seconds(4));
    assert_eq!(link.state(), HopState::Stale);
}

#[test]
fn doubt_finds_a_next_hop_that_has_returned_in_a_second() {
    let mut link = Link::new(&[plan(1)]);
    link.answer = None;
    link.pass(seconds(300));
    pass_in_doubt(&mut link, seconds(10));
    let before = link.probes.len();
    pass_in_doubt(&mut link, seconds(10));
    assert!((9..=10).contains(&(link.probes.len() - before)), "{:?}", link.probes);
    link.answer = Some(GATEWAY);
    pass_in_doubt(&mut link, seconds(1));
    assert_eq!((link.state(), link.mac()), (HopState::Reachable, Some(GATEWAY)));
}

#[test]
fn doubt_of_what_answers_costs_a_probe_in_five_seconds() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    pass_in_doubt(&mut link, seconds(100));
    assert!((19..=21).contains(&link.probes.len()), "{} in 100 s", link.probes.len());
    assert!(link.probes[1..].iter().all(|probe| probe.1 == GATEWAY), "it alone is asked");
}

#[test]
fn doubt_of_all_next_hops_keeps_the_bound_of_all() {
    let plans: Vec<_> = (1..=MAX_HOPS as u8).map(plan).collect();
    for answer in [None, Some(GATEWAY)] {
        let mut link = Link::new(&plans);
        link.answer = answer;
        pass_in_doubt(&mut link, seconds(100));
        let most = BURST + seconds(100).div_duration_f32(PROBE_COST) as u32;
        assert!(link.probes.len() <= most as usize, "{}", link.probes.len());
    }
}
