//! Expired answers while the upstreams fail (RFC 8767).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pmdns_stages::testing::query;

use super::rig::{Answer, Rig, SECOND, Setup, alike};
use super::stub::{Asked, Send, Stub};

/// What a stub does about its first query, and about all later ones.
pub(crate) fn first_then(
    first: fn(&Asked) -> Vec<u8>,
    later: impl Fn(&Asked, u32) -> Option<Vec<u8>> + 'static,
) -> Stub {
    let asked_before = Arc::new(AtomicU32::new(0));
    Stub::start(Ipv4Addr::LOCALHOST.into(), move |asked| {
        let reply = match asked_before.fetch_add(1, Ordering::Relaxed) {
            0 => Some(first(asked)),
            number => later(asked, number),
        };
        reply.map(Send::Reply).into_iter().collect()
    })
}

/// An answer that lives for a second.
fn short_lived(asked: &Asked) -> Vec<u8> {
    asked.addresses(1, 1)
}

/// Asks, and asks again when an answer that lives for a second has expired. The second answer.
pub(crate) fn ask_when_expired(rig: &mut Rig) -> Answer {
    rig.resolve(&query("www.example. A"));
    rig.pass(SECOND);
    rig.resolve(&query("www.example. A"))
}

#[test]
fn an_expired_answer_is_given_when_every_upstream_has_failed() {
    let stub = first_then(short_lived, |asked, _| Some(asked.rcode(2)));
    let mut rig = Setup::asking(&[&stub]).start();
    let answer = ask_when_expired(&mut rig);
    assert_eq!((answer.rcode, answer.records, answer.ttl), (0, 1, 30));
    assert_eq!(stub.asked().len(), 2, "the upstream was asked first");
    // RFC 8767 section 5: what failed is not asked again at once, however many ask us.
    for client in alike(&query("www.example. A"), 20) {
        assert_eq!(rig.resolve(&client).ttl, 30);
    }
    assert_eq!(stub.asked().len(), 2);
    let counters = rig.finish();
    assert_eq!((counters.stale, counters.servfail, counters.inserted), (21, 0, 1));
}

#[test]
fn a_client_does_not_wait_longer_than_it_has_to_and_asking_goes_on() {
    let stub = first_then(short_lived, |asked, _| Some(asked.address()));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.stale_client_timeout_ms = 50;
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("www.example. A")).ttl, 1);
    stub.faults.busy.set(true);
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    rig.wait_for(|counters| (counters.pending, counters.waiting) == (1, 0));
    assert_eq!(rig.resolve(&query("www.example. A")).ttl, 30, "at once, from now on");
    stub.faults.busy.set(false);
    rig.wait_for(|counters| (counters.pending, counters.inserted) == (0, 2));
    assert_eq!(rig.resolve(&query("www.example. A")).ttl, 300);
    let counters = rig.finish();
    assert_eq!((counters.stale, counters.leaders, counters.coalesced), (2, 2, 0));
}

#[test]
fn nobody_waits_where_the_timeout_is_zero() {
    let stub = first_then(short_lived, |asked, _| Some(asked.address()));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.stale_client_timeout_ms = 0;
    let mut rig = setup.start();
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    rig.wait_for(|counters| counters.inserted == 2);
    assert_eq!(rig.resolve(&query("www.example. A")).ttl, 300);
    assert_eq!(rig.finish().stale, 1);
}

#[test]
fn asking_for_nobody_ends() {
    let stub = first_then(short_lived, |_, _| None);
    let mut setup = Setup::asking(&[&stub]).hasty(100, 5_000);
    setup.keeping.stale_client_timeout_ms = 10;
    let mut rig = setup.start();
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    rig.wait_for(|counters| counters.pending == 0);
    let counters = rig.finish();
    assert_eq!((counters.stale, counters.deadline, counters.servfail), (1, 0, 0));
}

#[test]
fn what_expired_long_ago_is_not_served() {
    let stub = first_then(short_lived, |asked, _| Some(asked.rcode(2)));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.stale_window_seconds = 1;
    let mut rig = setup.start();
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    rig.pass(SECOND);
    assert_eq!(rig.resolve(&query("www.example. A")).rcode, 2);
    rig.finish();
}

#[test]
fn cve_2026_11622_a_flood_of_one_name_does_not_keep_its_expired_answer_alive() {
    let stub = first_then(short_lived, |asked, _| Some(asked.rcode(2)));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.stale_window_seconds = 2;
    setup.prefetch.enabled = true;
    let mut rig = setup.start();
    let asked = query("www.example. A");
    assert_eq!(ask_when_expired(&mut rig).ttl, 30);
    for _ in 0..9 {
        rig.pass(SECOND / 5);
        rig.hit(&asked, 1000);
        assert_eq!(rig.resolve(&asked).ttl, 30);
    }
    rig.pass(SECOND / 5);
    assert_eq!(rig.resolve(&asked).rcode, 2);
    assert_eq!(rig.finish().inserted, 1);
}

#[test]
fn nothing_expired_is_served_where_the_operator_says_so() {
    let stub = first_then(short_lived, |asked, _| Some(asked.rcode(2)));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.serve_stale = false;
    let mut rig = setup.start();
    assert_eq!(ask_when_expired(&mut rig).rcode, 2);
    assert_eq!(rig.finish().stale, 0);
}

#[test]
fn what_an_upstream_says_is_newer_even_if_it_must_not_be_kept() {
    let stub = first_then(short_lived, |asked, number| {
        Some(if number == 1 { asked.addresses(2, 0) } else { asked.rcode(2) })
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(ask_when_expired(&mut rig).records, 2);
    let answer = rig.resolve(&query("www.example. A"));
    assert_eq!((answer.rcode, answer.records), (2, 0), "and not what was there before");
    rig.finish();
}
