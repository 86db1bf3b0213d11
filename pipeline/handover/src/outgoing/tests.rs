//! What the outgoing process says, and how long it waits.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::message::PassedDevice;

#[test]
fn another_protocol_is_refused_by_a_sentence_that_says_what_to_do() {
    let (now, mut outgoing) = (Instant::now(), Outgoing::new(HandoverLimits::default()));
    assert!(outgoing.connected(None, now));
    let hello = Hello { protocol: PROTOCOL + 1, version: "9.0.0".to_owned(), keeper: None };
    outgoing.receive(FromIncoming::Hello(hello), || panic!("nothing is offered"), now);
    let Some(OutgoingOutput::Send(FromOutgoing::Refused(why))) = outgoing.next_output() else {
        panic!("{outgoing:?}");
    };
    assert!(why.contains("9.0.0") && why.contains("restart the service"), "{why}");
    assert!(matches!(outgoing.next_output(), Some(OutgoingOutput::Close(_))));
    assert!(outgoing.connected(None, now), "the next one may try");
}

#[test]
fn who_has_a_keeper_leaves_to_none_that_it_has_not_started() {
    for (own, theirs, is_refused) in [
        (Some(7), None, true),
        (Some(7), Some(8), true),
        (Some(7), Some(7), false),
        (None, Some(7), false),
    ] {
        let hello = Hello { protocol: PROTOCOL, version: "1".to_owned(), keeper: theirs };
        assert_eq!(refusal(&hello, own).is_some(), is_refused, "{own:?} {theirs:?}");
    }
}

/// It has offered a device, and the incoming process, which opens so many, has just begun to serve.
fn serving(wanted: usize, now: Instant) -> Outgoing {
    let device = PassedDevice { device: "net_memif0".to_owned(), facts: Value::Null };
    let wanted = vec![device.device.clone(); wanted];
    let mut outgoing = Outgoing::new(HandoverLimits::default());
    outgoing.connected(None, now);
    let hello = Hello { protocol: PROTOCOL, version: "1".to_owned(), keeper: None };
    let offer = || Offer { devices: vec![device], ..Offer::default() };
    outgoing.receive(FromIncoming::Hello(hello), offer, now);
    outgoing.receive(FromIncoming::Prepared(wanted), Offer::default, now);
    outgoing.frozen(NodeRole::default(), now - HandoverLimits::default().taking / 2);
    outgoing.receive(FromIncoming::Serving, Offer::default, now);
    assert_eq!(outputs(&mut outgoing).last(), Some(&OutgoingOutput::Drain));
    outgoing
}

fn outputs(outgoing: &mut Outgoing) -> Vec<OutgoingOutput> {
    std::iter::from_fn(|| outgoing.next_output()).collect()
}

#[test]
fn it_ends_only_after_the_incoming_process_has_opened_the_devices() {
    let (now, limits) = (Instant::now(), HandoverLimits::default());
    let mut outgoing = serving(1, now);
    outgoing.drained();
    assert!(outgoing.is_closing() && !outgoing.is_draining());
    outgoing.devices_closed();
    assert_eq!(outputs(&mut outgoing), [OutgoingOutput::Send(FromOutgoing::Closed)]);
    outgoing.devices_closed();
    outgoing.drained();
    assert!(!outgoing.is_closing() && !outgoing.is_draining());
    let opened = now + limits.passing - Duration::from_millis(1);
    outgoing.turn(opened);
    assert_eq!(outputs(&mut outgoing), []);
    outgoing.receive(FromIncoming::Opened, Offer::default, opened);
    assert!(outgoing.is_draining());
    outgoing.turn(opened + limits.draining - Duration::from_millis(1));
    assert_eq!(outputs(&mut outgoing), [], "the time to drain begins when they are opened");
    outgoing.drained();
    assert_eq!(outputs(&mut outgoing), [OutgoingOutput::End]);
}

#[test]
fn devices_that_pass_too_slowly_are_opened_again() {
    let (now, late) = (Instant::now(), HandoverLimits::default().passing);
    for has_closed in [false, true] {
        let mut outgoing = serving(1, now);
        if has_closed {
            outgoing.devices_closed();
            outputs(&mut outgoing);
        }
        outgoing.turn(now + late);
        let killed = outputs(&mut outgoing);
        assert!(matches!(&killed[..], [OutgoingOutput::Kill(_)]), "{killed:?}");
        outgoing.closed();
        outgoing.devices_closed();
        outgoing.thawed(true);
        assert_eq!(outputs(&mut outgoing), [OutgoingOutput::Thaw, OutgoingOutput::Resume]);
    }
}

#[test]
fn a_device_that_the_incoming_process_does_not_open_stays_until_this_one_ends() {
    let mut outgoing = serving(0, Instant::now());
    assert!(outgoing.is_draining() && outgoing.wanted().is_empty());
    outgoing.drained();
    assert_eq!(outputs(&mut outgoing), [OutgoingOutput::End]);
}

#[test]
fn devices_are_opened_once_and_only_if_they_were_closed() {
    let now = Instant::now();
    let mut early = serving(1, now);
    let mut twice = serving(1, now);
    twice.devices_closed();
    twice.receive(FromIncoming::Opened, Offer::default, now);
    outputs(&mut twice);
    for outgoing in [&mut early, &mut twice] {
        outgoing.receive(FromIncoming::Opened, Offer::default, now);
        assert!(matches!(outputs(outgoing)[..], [OutgoingOutput::Kill(_)]), "{outgoing:?}");
    }
}

#[test]
fn changes_wait_from_the_offer_on() {
    let (now, mut outgoing) = (Instant::now(), Outgoing::new(HandoverLimits::default()));
    outgoing.connected(None, now);
    assert!(!outgoing.is_under_way());
    let hello = Hello { protocol: PROTOCOL, version: "1".to_owned(), keeper: None };
    outgoing.receive(FromIncoming::Hello(hello), Offer::default, now);
    assert!(outgoing.is_under_way());
    outgoing.turn(now + HandoverLimits::default().preparing);
    assert!(!outgoing.is_under_way(), "it took too long");
    outgoing.connected(None, now);
    outgoing.turn(now + Duration::from_secs(1));
    assert!(!outgoing.connected(None, now), "it may still greet");
}

#[test]
fn why_the_next_process_has_ended_is_said_by_its_keeper_if_it_has_one() {
    let now = Instant::now();
    for keeper in [None, Some(7)] {
        let mut outgoing = Outgoing::new(HandoverLimits::default());
        outgoing.connected(keeper, now);
        let hello = Hello { protocol: PROTOCOL, version: "1".to_owned(), keeper };
        outgoing.receive(FromIncoming::Hello(hello), Offer::default, now);
        outgoing.closed();
        assert_eq!(outgoing.take_failure().is_some(), keeper.is_none());
        assert_eq!(outgoing.take_failure(), None, "once");
    }
    // Its end does not hide why it was ended.
    let mut outgoing = serving(1, now);
    outgoing.turn(now + HandoverLimits::default().passing);
    outgoing.closed();
    assert!(outgoing.take_failure().is_some_and(|why| why.contains("takes too long")));
}
