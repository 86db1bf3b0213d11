//! NXDOMAIN for a name answers for those below it (RFC 8020).

use pmdns_stages::testing::query;
use pmdns_stages::wire::{name, put16};

use super::rig::{Rig, Setup};
use super::stub::{Asked, Stub};

/// The cookie of all upstreams here.
const SERVER: [u8; 8] = *b"server01";

/// A rig that cuts, whose upstream says so of every name.
fn cutting(script: fn(&Asked) -> Vec<u8>) -> (Stub, Rig) {
    // NXDOMAIN that could be forged denies nothing below.
    let stub = Stub::replying(move |asked| asked.with_cookie(script(asked), SERVER));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.nxdomain_cut = true;
    let rig = setup.start();
    (stub, rig)
}

/// NXDOMAIN behind an alias: what does not exist is the alias's target.
fn alias_to_nothing(asked: &Asked) -> Vec<u8> {
    let mut reply = asked.nxdomain(300);
    let question_end = 12 + name::length(&reply[12..]).unwrap() + 4;
    let target = b"\x06target\x07nowhere\0";
    let mut alias = vec![0xc0, 12, 0, 5, 0, 1, 0, 0, 1, 0, 0, target.len() as u8];
    alias.extend_from_slice(target);
    reply.splice(question_end..question_end, alias);
    put16(&mut reply, 6, 1);
    reply
}

#[test]
fn what_is_below_a_name_that_does_not_exist_is_not_asked_for() {
    let (stub, mut rig) = cutting(|asked| asked.nxdomain(300));
    assert_eq!(rig.resolve(&query("gone.example. A")).rcode, 3);
    for below in ["x.gone.example. A", "a.b.c.GONE.example. AAAA", "gone.example. TXT"] {
        assert_eq!(rig.resolve(&query(below)).rcode, 3, "{below}");
    }
    assert_eq!(stub.asked().len(), 1);
    for other in ["xgone.example. A", "example. A", "gone.example.org. A"] {
        rig.resolve(&query(other));
    }
    assert_eq!(stub.asked().len(), 4, "names that are not below it");
    assert_eq!(rig.resolve(&query("anything.example. A")).rcode, 3, "since example does not exist");
    let counters = rig.finish();
    assert_eq!((counters.nxdomain_cut, counters.inserted), (4, 4), "what was cut is not cached");
}

#[test]
fn nodata_and_aliases_cut_nothing() {
    let scripts: [fn(&Asked) -> Vec<u8>; 2] = [alias_to_nothing, |asked| asked.rcode(0)];
    for script in scripts {
        let (stub, mut rig) = cutting(script);
        rig.resolve(&query("gone.example. A"));
        rig.resolve(&query("x.gone.example. A"));
        assert_eq!(stub.asked().len(), 2);
        assert_eq!(rig.finish().nxdomain_cut, 0);
    }
}

#[test]
fn clients_that_want_proof_are_not_answered_without() {
    let (stub, mut rig) = cutting(|asked| asked.nxdomain(300));
    rig.resolve(&query("gone.example. A"));
    let validating = query("x.gone.example. A").edns(1232, true);
    assert_eq!(rig.resolve(&validating).rcode, 3);
    assert_eq!(stub.asked().len(), 2, "what others were told has no proof in it");
    rig.resolve(&query("gone.example. A").edns(1232, true));
    assert_eq!(rig.resolve(&query("y.gone.example. A").edns(1232, true)).rcode, 3);
    assert_eq!(stub.asked().len(), 3);
    assert_eq!(rig.finish().nxdomain_cut, 1);
}

#[test]
fn nothing_is_cut_unless_the_operator_says_so() {
    let stub = Stub::replying(|asked| asked.nxdomain(300));
    let mut rig = Setup::asking(&[&stub]).start();
    rig.resolve(&query("gone.example. A"));
    rig.resolve(&query("x.gone.example. A"));
    assert_eq!(stub.asked().len(), 2);
    assert_eq!(rig.finish().nxdomain_cut, 0);
}

#[test]
fn what_one_group_denies_says_nothing_about_names_that_another_is_asked_for() {
    let public = Stub::replying(|asked| asked.with_cookie(asked.nxdomain(300), SERVER));
    let office = Stub::replying(|asked| match asked.message[13..].starts_with(b"gone") {
        true => asked.with_cookie(asked.nxdomain(300), SERVER),
        false => asked.with_cookie(asked.address(), SERVER),
    });
    let mut setup = Setup::asking(&[&public, &office]).forward("office.internal", 1);
    setup.keeping.nxdomain_cut = true;
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("internal. A")).rcode, 3);
    let answer = rig.resolve(&query("host.office.internal. A"));
    assert_eq!((answer.rcode, answer.records), (0, 1), "the office knows it");
    assert_eq!(rig.resolve(&query("gone.office.internal. A")).rcode, 3);
    assert_eq!(rig.resolve(&query("x.gone.office.internal. A")).rcode, 3);
    assert_eq!(rig.resolve(&query("x.internal. A")).rcode, 3);
    assert_eq!((public.asked().len(), office.asked().len()), (1, 2));
    assert_eq!(rig.finish().nxdomain_cut, 2, "within a group it is as before");
}

/// A zone that only the office has: the DS records above it are denied together with its name.
#[test]
fn a_denial_of_ds_records_says_nothing_about_the_forwarded_zone() {
    let public = Stub::replying(|asked| asked.with_cookie(asked.nxdomain(300), SERVER));
    let office = Stub::replying(|asked| asked.with_cookie(asked.address(), SERVER));
    let mut setup = Setup::asking(&[&public, &office]).forward("internal", 1);
    setup.keeping.nxdomain_cut = true;
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("internal. DS")).rcode, 3);
    for name in ["internal. A", "host.internal. A", "host.internal. DS"] {
        assert_eq!(rig.resolve(&query(name)).rcode, 0, "{name}");
    }
    assert_eq!((public.asked().len(), office.asked().len()), (1, 3));
    assert_eq!(rig.finish().nxdomain_cut, 0);
}

#[test]
fn audit_low_a_forged_nxdomain_denies_nothing_below_it() {
    let stub = Stub::replying(|asked| match !asked.over_tcp && asked.message[13..16] == *b"com" {
        true => asked.nxdomain(300),
        false => asked.address(),
    });
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.nxdomain_cut = true;
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query("com. A")).rcode, 3, "forged");
    let answer = rig.resolve(&query("www.example.com. A"));
    assert_eq!((answer.rcode, answer.records), (0, 1));
    rig.wait_for(|counters| counters.inserted == 3);
    assert_eq!(rig.resolve(&query("com. A")).records, 1, "the true answer came over TCP");
    let counters = rig.finish();
    assert_eq!((counters.nxdomain_cut, counters.nxdomain_confirmed), (0, 1));
}

#[test]
fn an_nxdomain_that_could_be_forged_is_confirmed_over_tcp_and_cut_at_then() {
    let stub = Stub::replying(|asked| asked.nxdomain(300));
    let mut setup = Setup::asking(&[&stub]);
    setup.keeping.nxdomain_cut = true;
    let mut rig = setup.start();
    for name in ["gone.example. A", "x.gone.example. A"] {
        assert_eq!(rig.resolve(&query(name)).rcode, 3);
    }
    rig.wait_for(|counters| counters.inserted == 3);
    assert_eq!(rig.resolve(&query("y.gone.example. A")).rcode, 3);
    assert_eq!(stub.asked().len(), 3);
    let counters = rig.finish();
    assert_eq!((counters.nxdomain_cut, counters.nxdomain_confirmed), (1, 1));
}
