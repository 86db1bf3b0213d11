//! Replies in which nothing answers the question (docs/adr/0029-what-is-relayed-of-a-reply.md): who is asked next, and what
//! clients get when nobody is left.

use pmdns_stages::testing::query;
use pmdns_stages::wire::dns::{flag, header};
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::{be16, put16};

use super::explained::{answer, servfail};
use super::rig::Setup;
use super::stub::{Asked, Stub};

const QUESTION: &str = "www.example. A";
/// Where names of the question begin: `www.example.` and `example.`.
const WWW: &[u8] = &[0xc0, 12];
const EXAMPLE: &[u8] = &[0xc0, 16];
const OTHER: &[u8] = b"\x05other\x00";

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const AAAA: u16 = 28;
const DNAME: u16 = 39;

/// `reply` with one more record in the section that `count` counts.
fn with(mut reply: Vec<u8>, count: usize, owner: &[u8], rtype: u16, data: &[u8]) -> Vec<u8> {
    let records = be16(&reply, count).unwrap();
    put16(&mut reply, count, records + 1);
    reply.extend(owner);
    reply.extend(rtype.to_be_bytes());
    reply.extend([0, 1, 0, 0, 1, 44]);
    reply.extend((data.len() as u16).to_be_bytes());
    reply.extend(data);
    reply
}

/// A reply with one record in its answer section.
fn answering(asked: &Asked, owner: &[u8], rtype: u16, data: &[u8]) -> Vec<u8> {
    with(asked.rcode(0), header::ANCOUNT, owner, rtype, data)
}

/// A name of 253 bytes: with `www` in front of it no name any more (RFC 1035 section 2.3.4).
fn long_name() -> Vec<u8> {
    [[&[62][..], &[b'x'; 62]].concat().repeat(4), vec![0]].concat()
}

/// What a server says that does not recurse: other servers know (RFC 2308 section 2.2).
fn referral(asked: &Asked) -> Vec<u8> {
    let mut reply = with(asked.rcode(0), header::NSCOUNT, EXAMPLE, NS, OTHER);
    let flags = be16(&reply, header::FLAGS).unwrap();
    put16(&mut reply, header::FLAGS, flags & !flag::RA);
    reply
}

/// What a stub replies to a query.
type Reply = fn(&Asked) -> Vec<u8>;

/// NOERROR replies without anything of the question's own chain, each in its own way.
const NOTHING: [(&str, Reply); 6] = [
    ("another name", |asked| answering(asked, OTHER, A, &[192, 0, 2, 1])),
    ("another type", |asked| answering(asked, WWW, AAAA, &[0; 16])),
    ("an alias of another name", |asked| answering(asked, OTHER, CNAME, EXAMPLE)),
    ("a referral", referral),
    ("an alias that contradicts its DNAME record", |asked| {
        let tree = answering(asked, EXAMPLE, DNAME, OTHER);
        with(tree, header::ANCOUNT, WWW, CNAME, OTHER)
    }),
    ("a name that gets too long", |asked| answering(asked, EXAMPLE, DNAME, &long_name())),
];

#[test]
fn a_reply_that_answers_nothing_has_the_next_upstream_asked() {
    for (what, reply) in NOTHING {
        let useless = Stub::replying(reply);
        let good = Stub::replying(|asked| asked.addresses(2, 300));
        let mut rig = Setup::asking(&[&useless, &good]).start();
        let answer = rig.resolve(&query(QUESTION));
        assert_eq!((answer.rcode, answer.records), (0, 2), "{what}");
        let upstream = rig.upstream(0);
        assert_eq!((upstream.no_answer, upstream.malformed, upstream.tcp), (1, 0, 0), "{what}");
        assert_eq!((useless.asked().len(), good.asked().len()), (1, 1), "{what}");
        assert_eq!(rig.finish().inserted, 1, "{what}: only what the second said is kept");
    }
}

#[test]
fn a_client_is_told_servfail_and_why_if_no_upstream_is_left() {
    for (what, reply) in NOTHING {
        let stubs = [Stub::replying(reply), Stub::replying(reply)];
        let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
        let client = query(QUESTION).edns(1232, false);
        assert_eq!(answer(&mut rig, &client), servfail(22), "{what}: no upstream has an answer");
        assert_eq!(answer(&mut rig, &client), servfail(13), "{what}: remembered for a while");
        for (number, stub) in stubs.iter().enumerate() {
            assert_eq!((stub.asked().len(), rig.upstream(number).no_answer), (1, 1), "{what}");
        }
        let counters = rig.finish();
        assert_eq!((counters.servfail, counters.inserted), (2, 0), "{what}");
    }
}

#[test]
fn an_upstream_that_answers_nothing_may_say_why() {
    let stub = Stub::replying(|asked| {
        // 9: no DNSKEY is there.
        asked.with_option(referral(asked), option::EXTENDED_ERROR, &[0, 9])
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(answer(&mut rig, &query(QUESTION).edns(1232, false)), servfail(9));
    rig.finish();
}

/// `www.example.` and so many aliases, one behind the other, and the address of the last one.
fn chain(asked: &Asked, aliases: u8) -> Vec<u8> {
    let name = |number: u8| match number {
        0 => WWW.to_vec(),
        number => [&[1, number][..], OTHER].concat(),
    };
    let reply = (0..aliases).fold(asked.rcode(0), |reply, number| {
        with(reply, header::ANCOUNT, &name(number), CNAME, &name(number + 1))
    });
    with(reply, header::ANCOUNT, &name(aliases), A, &[192, 0, 2, 1])
}

#[test]
fn a_chain_of_17_aliases_is_servfail_with_invalid_data() {
    let stub = Stub::replying(|asked| chain(asked, 16));
    let mut rig = Setup::asking(&[&stub]).start();
    let whole = rig.resolve(&query(QUESTION));
    assert_eq!((whole.rcode, whole.records), (0, 17));
    rig.finish();
    let stubs =
        [Stub::replying(|asked| chain(asked, 17)), Stub::replying(|asked| chain(asked, 17))];
    let mut rig = Setup::asking(&[&stubs[0], &stubs[1]]).start();
    let client = query(QUESTION).edns(1232, false);
    for _ in 0..2 {
        assert_eq!(answer(&mut rig, &client), servfail(24), "also while it is remembered");
    }
    for (number, stub) in stubs.iter().enumerate() {
        assert_eq!(
            (stub.asked().len(), rig.upstream(number).no_answer),
            (1, 1),
            "both are asked once"
        );
    }
    rig.finish();
}

#[test]
fn what_says_that_there_is_nothing_is_an_answer() {
    let nothing: [(&str, Reply, u16); 5] = [
        ("an empty reply", |asked| asked.rcode(0), 0),
        (
            "the SOA record of another zone",
            |asked| with(asked.rcode(0), header::NSCOUNT, OTHER, SOA, &[0; 22]),
            0,
        ),
        (
            "a recursive server's name servers",
            |asked| with(asked.rcode(0), header::NSCOUNT, EXAMPLE, NS, OTHER),
            0,
        ),
        (
            "a SOA record beside name servers",
            |asked| with(referral(asked), header::NSCOUNT, EXAMPLE, SOA, &[0; 22]),
            0,
        ),
        ("an alias that leads nowhere", |asked| answering(asked, WWW, CNAME, OTHER), 1),
    ];
    for (what, reply, records) in nothing {
        let stub = Stub::replying(reply);
        let next = Stub::replying(|asked| asked.addresses(2, 300));
        let mut rig = Setup::asking(&[&stub, &next]).start();
        let answer = rig.resolve(&query(QUESTION));
        assert_eq!((answer.rcode, answer.records), (0, records), "{what}");
        assert_eq!((rig.upstream(0).no_answer, next.asked().len()), (0, 0), "{what}");
        rig.finish();
    }
}

#[test]
fn a_name_that_a_dname_makes_too_long_is_yxdomain() {
    let stub = Stub::replying(|asked| {
        let mut reply = answering(asked, EXAMPLE, DNAME, &long_name());
        reply[3] |= 6;
        reply
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for _ in 0..2 {
        let answer = rig.resolve(&query(QUESTION));
        assert_eq!((answer.rcode, answer.records), (6, 1), "RFC 6672 section 2.2");
    }
    assert_eq!((rig.upstream(0).rcode_failures, rig.upstream(0).no_answer), (0, 0));
    let counters = rig.finish();
    assert_eq!((counters.servfail, counters.inserted, stub.asked().len()), (0, 1, 1), "kept");
}
