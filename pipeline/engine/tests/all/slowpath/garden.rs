//! Aliases by a rule lead on to what they lead to: walled gardens for stub resolvers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hickory_proto::op::Message;
use pmdns_stages::testing::{name_of, query};
use pmdns_stages::wire::dns::HEADER_LEN;
use pmdns_stages::wire::name;

use super::rig::{Rig, SECOND, Setup};
use super::stub::{Asked, Stub};

/// A rule about a name, and one about an address of names that the stub knows.
const RULES: &str = "bad.example 60 CNAME garden.test.\nhome.example 60 CNAME local.test.\n*.wild.example 60 CNAME *.garden.test.\n\
    32.7.2.0.192.rpz-ip 60 CNAME garden.test.\n32.8.2.0.192.rpz-ip 60 CNAME rpz-drop.\n\
    32.9.2.0.192.rpz-client-ip 60 CNAME rpz-passthru.\n";

/// The names that reached the stub, in lower case.
fn asked(stub: &Stub) -> Vec<Vec<u8>> {
    let name = |asked: &Asked| {
        let bytes = &asked.message[HEADER_LEN..];
        bytes[..name::length(bytes).unwrap()].to_ascii_lowercase()
    };
    stub.asked().iter().map(name).collect()
}

/// A stub that has an address for every name: 192.0.2.7 for names that begin with `s`, .8 for those with `d`.
fn stub() -> Stub {
    Stub::replying(|asked| {
        let mut reply = asked.addresses(1, 300);
        let len = reply.len();
        let last = match asked.message[HEADER_LEN + 1].to_ascii_lowercase() {
            b's' => 7,
            b'd' => 8,
            _ => 1,
        };
        reply[len - 2..].copy_from_slice(&[2, last]);
        reply
    })
}

fn rig(stub: &Stub, test: &str) -> Rig {
    let mut rig = Setup::asking(&[stub]).start();
    // An address, and an alias to a name that is not local.
    let (address, alias) = (vec![10, 0, 0, 1], name_of("far.test."));
    rig.judge_all_by(test, RULES, &[("local.test.", 1, address), ("shop.test.", 5, alias)]);
    rig
}

#[test]
fn difference_an_alias_by_a_rule_is_followed_upstream_once() {
    let stub = stub();
    let mut rig = rig(&stub, "garden-name");
    for _ in 0..3 {
        let answer = rig.resolve(&query("bad.example. A"));
        assert_eq!((answer.rcode, answer.records), (0, 2), "the alias and the address");
    }
    assert_eq!(asked(&stub), [name_of("garden.test.")], "once, and never the name itself");
    // A target that is asked for by itself is the same question to the upstream, but another answer to keep.
    assert_eq!(rig.resolve(&query("shop.test. A")).records, 2);
    let counters = rig.finish();
    assert_eq!((counters.servfail, counters.pending, counters.waiting), (0, 0, 0));
}

#[test]
fn an_alias_by_a_rule_leads_to_a_local_name_too() {
    let stub = stub();
    let mut rig = rig(&stub, "garden-local");
    assert_eq!(rig.resolve(&query("home.example. A")).records, 2, "the alias and the address");
    let nodata = rig.resolve_whole(&query("home.example. TXT"));
    let nodata = Message::from_vec(&nodata).unwrap();
    let ttls = [&nodata.answers, &nodata.authorities].map(|records| records[0].ttl);
    assert_eq!(ttls, [60, 60], "the alias and its SOA record");
    assert_eq!(nodata.authorities[0].name.to_ascii(), "local.test.");
    assert!(asked(&stub).is_empty());
    rig.finish();
}

#[test]
fn difference_an_alias_by_a_rule_about_addresses_is_followed_and_ends() {
    let stub = stub();
    let mut rig = rig(&stub, "garden-ip");
    let answer = rig.resolve(&query("shady.example. A"));
    assert_eq!((answer.rcode, answer.records), (0, 2));
    assert_eq!(asked(&stub), [name_of("shady.example."), name_of("garden.test.")]);
    rig.finish();
}

#[test]
fn difference_a_wildcard_target_takes_the_name_in() {
    let stub = stub();
    let mut rig = rig(&stub, "garden-wild");
    assert_eq!(rig.resolve(&query("www.wild.example. A")).records, 2);
    assert_eq!(asked(&stub), [name_of("www.wild.example.garden.test.")]);
    let label = "a".repeat(63);
    let long = format!("{label}.{label}.{label}.{}.wild.example. A", "b".repeat(45));
    let answer = rig.resolve(&query(&long));
    assert_eq!((answer.rcode, answer.records), (6, 0), "YXDOMAIN");
    assert_eq!(asked(&stub).len(), 1);
    rig.finish();
}

#[test]
fn difference_an_answer_that_a_rule_about_addresses_drops_is_not_given() {
    let stub = stub();
    let mut rig = rig(&stub, "garden-drop");
    rig.ask(&query("dropped.example. A"));
    rig.wait_for(|counters| counters.silenced == 1);
    assert_eq!(rig.resolve(&query("other.example. A")).records, 1, "nothing came before it");
    rig.finish();
}

#[test]
fn cve_2025_40777_2026_55717_an_alias_by_a_rule_is_never_given_stale() {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let stub = Stub::replying(move |asked| match failing.load(Ordering::Relaxed) {
        true => asked.rcode(2),
        false => asked.addresses(1, 1),
    });
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.stale_client_timeout_ms = 0;
    let mut rig = setup.start();
    rig.judge_all_by("garden-stale", RULES, &[]);
    assert_eq!(rig.resolve(&query("bad.example. A")).records, 2);
    fails.store(true, Ordering::Relaxed);
    // When the target has expired and cannot be had again, its clients are told; nobody waits for ever.
    rig.pass(SECOND);
    assert_eq!(rig.resolve(&query("bad.example. A")).rcode, 2);
    let counters = rig.finish();
    assert_eq!((counters.stale, counters.pending, counters.waiting), (0, 0, 0));
}

#[test]
fn cve_2024_4076_when_the_target_of_an_alias_fails_its_clients_are_told() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let stub = Stub::replying(move |asked| {
        count.fetch_add(1, Ordering::Relaxed);
        asked.rcode(2)
    });
    let mut rig = rig(&stub, "garden-fails");
    assert_eq!(rig.resolve(&query("bad.example. A")).rcode, 2);
    assert!(asked.load(Ordering::Relaxed) >= 1);
    let counters = rig.finish();
    assert_eq!((counters.pending, counters.waiting), (0, 0));
}
