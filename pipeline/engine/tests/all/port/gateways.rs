//! Two gateways to one upstream: the first dies, the second takes over, the first comes back.

use std::time::Duration;

use pmdns_stages::next_hop::HopState;
use pmdns_stages::testing::{QueryFrame, query};

use super::only_ports::link;
use super::rig::{Rig, SECOND, Setup};
use super::stub::{Asked, Stub};
use super::wired::stranger;

/// The longest time until queries leave by the second gateway. The first one's last answer is trusted for five seconds. Then
/// three probes of up to 1.25 seconds are in vain.
const LONGEST: Duration = Duration::from_millis(8_800);

/// An answer to the next question.
const AT_ONCE: Duration = Duration::from_millis(150);

/// A rig that has found both of its gateways, and asks its upstream by the first.
fn start(stub: &Stub) -> Rig {
    let mut setup = Setup::asking(&[stub]).hasty(60_000, 60_000);
    setup.gateways = ["10.9.0.1", "10.9.0.3"].map(|one| one.parse().unwrap()).into();
    let mut rig = setup.start();
    rig.pass(SECOND / 10);
    assert_eq!(states(&mut rig), [HopState::Reachable; 2]);
    rig
}

fn states(rig: &mut Rig) -> Vec<HopState> {
    let now = rig.driver.now();
    link(rig).table.report(now).map(|hop| hop.state).collect()
}

/// Asks a new name every 100 ms until one is answered, and says how long that took.
fn time_to_answer(rig: &mut Rig) -> Duration {
    time_to_answer_beside(rig, |_| ())
}

/// The same, while something else goes on.
fn time_to_answer_beside(rig: &mut Rig, other: impl Fn(&mut Rig)) -> Duration {
    let (begun, answered) = (rig.driver.now(), rig.counters().answered);
    while rig.counters().answered == answered {
        assert!(rig.driver.now() - begun < 2 * LONGEST, "no answer");
        other(rig);
        let number = rig.counters().misses;
        rig.ask(&QueryFrame { id: number as u16, ..query(&format!("n{number}.example. A")) });
        rig.pass(SECOND / 10);
    }
    rig.driver.now() - begun
}

#[test]
fn queries_leave_by_the_second_gateway_when_the_first_dies_and_by_the_first_when_it_returns() {
    let stub = Stub::replying(Asked::address);
    let mut rig = start(&stub);
    assert!(time_to_answer(&mut rig) <= AT_ONCE);
    // It has answered just now, so this takes as long as it can.
    link(&mut rig).dead = Some(0);
    let taken = time_to_answer(&mut rig);
    assert!((7 * SECOND..=LONGEST + AT_ONCE).contains(&taken), "{taken:?}");
    assert_eq!(states(&mut rig), [HopState::Stale, HopState::Reachable]);
    assert!(time_to_answer(&mut rig) <= AT_ONCE, "from then on at once");

    link(&mut rig).dead = None;
    rig.pass(31 * SECOND);
    assert_eq!(states(&mut rig), [HopState::Reachable; 2], "it is asked on, if ever more rarely");
    link(&mut rig).dead = Some(1);
    assert!(time_to_answer(&mut rig) <= AT_ONCE, "the first one is preferred again");
    rig.stop();
}

#[test]
fn a_gateway_that_answers_no_more_is_left_in_five_seconds() {
    let stub = Stub::replying(Asked::address);
    let mut rig = start(&stub);
    rig.pass(10 * SECOND);
    link(&mut rig).dead = Some(0);
    let taken = time_to_answer(&mut rig);
    assert!((4 * SECOND..=5 * SECOND).contains(&taken), "{taken:?}");
    rig.stop();
}

/// A stranger's datagram to each UDP port that a query left from.
fn forge(rig: &mut Rig) {
    let link = link(rig);
    let sources: Vec<_> = link.sources.indexes().zip(link.sources.sources()).collect();
    let mut frames = Vec::new();
    for (index, source) in sources {
        let in_use = |port: &u16| link.sources.owner(index, *port).is_some();
        for port in (1024..=u16::MAX).filter(in_use) {
            frames.extend(link.datagram(stranger(), (source.address, port).into(), &[0x80; 12]));
        }
    }
    frames.iter().for_each(|frame| link.feed(frame));
}

#[test]
fn forged_replies_keep_no_gateway_that_is_dead() {
    let stub = Stub::replying(Asked::address);
    let mut rig = start(&stub);
    rig.pass(10 * SECOND);
    link(&mut rig).dead = Some(0);
    let taken = time_to_answer_beside(&mut rig, forge);
    assert!((4 * SECOND..=5 * SECOND).contains(&taken), "{taken:?}");
    assert!(rig.upstream(0).mismatched > 0, "they have come");
    rig.stop();
}
