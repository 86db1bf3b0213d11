//! Two processes in a hand-over: replies to queries of the one come to the other, which passes them on.

use std::time::Duration;

use pmdns_nics::Frame;

use super::wired::{Wired, reply_to};

const QUERIES: usize = 100;
const TWO_CORES: &str =
    "[[placement]]\nstages = \"all\"\ncores = [1, 2]\n[slowpath]\nthreads = 2\n";
/// Cores take what is passed when they publish their counters.
const HOUSEKEEPING: Duration = Duration::from_millis(20);

/// The frames of the real replies to everything that waits.
fn replies(wired: &Wired) -> Vec<Vec<u8>> {
    let asked = wired.under_way();
    assert_eq!(asked.len(), QUERIES);
    let reply = |asked: &super::stepping::port_wire::Asked| {
        wired.wire().datagram(asked.to, asked.from, &reply_to(&asked.message)).unwrap()
    };
    asked.iter().map(reply).collect()
}

/// What one process has to pass to the one before it.
fn passed(wired: &mut Wired) -> Vec<Frame> {
    std::iter::from_fn(|| wired.line.rig.relay.next_reply()).collect()
}

#[test]
fn replies_that_come_to_the_next_process_reach_the_one_that_asked() {
    let (mut before, mut next) = (Wired::new(TWO_CORES), Wired::new(TWO_CORES));
    before.upstream.keeps = true;
    (0..QUERIES).for_each(|number| before.ask(number % 2));
    before.settle();
    let replies = replies(&before);
    next.line.rig.relay.set_beside(true);
    next.ask(0);
    for (number, frame) in replies.iter().enumerate() {
        next.line.feed(frame, number % 2);
    }
    next.settle();
    let passed = passed(&mut next);
    assert_eq!(passed.len(), QUERIES);
    for frame in &passed {
        let frame = before.line.rig.frame(frame.bytes());
        before.line.rig.relay.take_in(frame);
    }
    drop(passed);
    before.pass(HOUSEKEEPING);
    assert_eq!(before.sum(|tally| tally.relayed), QUERIES as u64);
    before.finish();
    next.finish();
}

#[test]
fn what_comes_for_nobody_is_passed_to_nobody_once_there_is_one_process() {
    let (mut before, mut next) = (Wired::new(TWO_CORES), Wired::new(TWO_CORES));
    before.upstream.keeps = true;
    (0..QUERIES).for_each(|number| before.ask(number % 2));
    before.settle();
    next.line.rig.relay.set_beside(true);
    next.line.rig.relay.set_beside(false);
    for frame in replies(&before) {
        next.line.feed(&frame, 0);
    }
    next.settle();
    assert!(passed(&mut next).is_empty());
    next.finish();
}

#[test]
fn a_frame_of_the_process_before_leaves_by_the_port_as_it_is() {
    let mut next = Wired::new(TWO_CORES);
    let frame = next.line.rig.frame(&[0x42; 60]);
    next.line.rig.relay.send_on(frame);
    let mut other = next.line.rig.frame(&[0x43; 60]);
    other.set_port(77);
    next.line.rig.relay.send_on(other);
    next.line.time.advance(HOUSEKEEPING);
    next.line.rig.settle();
    let sent = next.line.rig.sent();
    assert_eq!(sent.iter().map(Frame::bytes).collect::<Vec<_>>(), [[0x42; 60]]);
    drop(sent);
    assert_eq!(next.line.rig.pool.in_use(), 0, "there is no port 77");
}
