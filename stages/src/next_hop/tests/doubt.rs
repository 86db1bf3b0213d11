//! Doubts: what they find out, and what they may cost.

use std::time::Duration;

use super::{BURST, GATEWAY, Link, MAX_HOPS, PROBE_COST, STEP, plan, seconds};
use crate::next_hop::HopState;
use crate::next_hop::hop::{RETRANSMIT, Spread, TRUSTED};
use crate::wire::name::Seed;

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

/// The longest that it takes: it dies with its answer, and each pause between the three probes is the longest.
#[test]
fn a_next_hop_that_dies_with_its_answer_is_found_out_in_nine_seconds() {
    for seed in 0..50 {
        let mut link = Link::new(&[plan(1)]);
        link.hops.spread = Spread::new(Seed::new([seed; 16]));
        link.turn();
        link.answer = None;
        pass_in_doubt(&mut link, TRUSTED + 3 * (RETRANSMIT + RETRANSMIT / 4 + STEP));
        assert_eq!(link.state(), HopState::Stale, "{seed}");
    }
}

#[test]
fn a_doubt_right_after_an_answer_waits_and_is_not_lost() {
    let mut link = Link::new(&[plan(1)]);
    link.turn();
    link.pass(seconds(1));
    link.doubt(0);
    link.pass(TRUSTED - seconds(1) - STEP);
    assert_eq!(link.probes.len(), 1);
    link.pass(STEP);
    assert_eq!(link.probes.len(), 2);
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
