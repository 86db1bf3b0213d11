//! What hostile clients send: bounds on replies, on reading, and inputs that broke other servers.

use hickory_proto::op::ResponseCode;
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::testing::{Query, name_of, query};
use pmdns_stages::wire::dns::header;
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::put16;
use pmdns_stages::{Packet, Reason, Step};

use crate::line::{BLOCKED, LOCAL, Line, Setup, address, options, read};

/// A query for a zone transfer, which is refused.
fn transfer() -> Query {
    query("a.example. TYPE252")
}

/// A line that sends three error replies a second.
fn strict() -> Line {
    Setup { errors_per_second: 3, ..Setup::default() }.line()
}

fn is_one_too_many(packet: &Packet) -> bool {
    packet.step == Step::drop(Reason::ErrorLimited)
}

#[test]
fn audit_10_error_replies_to_one_prefix_have_a_bound() {
    let version_1 = query("a.example. A").edns(1232, false).message();
    let kinds: [(ResponseCode, Vec<u8>); 4] = [
        (ResponseCode::FormErr, [transfer().message(), vec![0]].concat()),
        (ResponseCode::NotImp, query("a.example. TYPE254").message()),
        (ResponseCode::Refused, transfer().message()),
        (ResponseCode::BADVERS, {
            let mut message = version_1;
            let at = message.len() - 5;
            message[at] = 1;
            message
        }),
    ];
    for (rcode, message) in kinds {
        let mut line = strict();
        for number in 0..3 {
            assert_eq!(line.send(&message).step, Step::TRANSMIT, "{rcode} {number}");
        }
        assert!((0..10).all(|_| is_one_too_many(&line.send(&message))), "{rcode}");
        let elsewhere = Query { source: vec![10, 77, 9, 1], ..transfer() };
        assert_eq!(line.ask(&elsewhere, 0).step, Step::TRANSMIT, "{rcode}: another prefix");
        assert_eq!(line.ask(&transfer(), 1).step, Step::TRANSMIT, "{rcode}: a second later");
    }
}

#[test]
fn audit_10_answers_are_not_errors() {
    let mut line = strict();
    let hit = query("hit.example. A");
    line.learn(&hit, &[(0, 1, 300, address(1))], 0);
    while !is_one_too_many(&line.ask(&transfer(), 0)) {}
    for name in [LOCAL, BLOCKED, "hit.example."] {
        for _ in 0..10 {
            let asked = Query { name: name_of(name), ..query("a. A") };
            assert_eq!(line.ask(&asked, 0).step, Step::TRANSMIT, "{name}");
        }
    }
    let without_rd = Query { flags: 0, ..hit };
    assert!(is_one_too_many(&line.ask(&without_rd, 0)), "REFUSED by policy, which decides late");
}

#[test]
fn audit_10_who_has_a_right_cookie_is_told_of_every_error() {
    let cookies = Cookies::new([7; 16], None, false, Calendar::default());
    let mut line =
        Setup { errors_per_second: 3, cookies: Some(cookies), ..Setup::default() }.line();
    let first = transfer().edns(1232, false).option(option::COOKIE, &[1; 8]);
    let cookie = options(&read(&line.ask(&first, 0), &first))
        .into_iter()
        .find_map(|(code, data)| (code == option::COOKIE).then_some(data))
        .unwrap();
    let known = transfer().edns(1232, false).option(option::COOKIE, &cookie);
    while !is_one_too_many(&line.ask(&transfer(), 0)) {}
    assert_eq!(line.ask(&known, 0).step, Step::TRANSMIT);
}

/// NSD, Unbound and BIND do not say either that recursion is available.
#[test]
fn difference_notimp_does_not_offer_recursion() {
    let mut line = Setup::default().line();
    let refused = read(&line.ask(&transfer(), 0), &transfer());
    assert!(refused.metadata.recursion_available);
    for opcode in [1, 2, 4, 5, 6, 15] {
        let mut message = query("a.example. A").message();
        message[header::FLAGS] |= opcode << 3;
        let answer = line.send(&message);
        let bytes = &answer.frame.bytes()[answer.layout.dns()..];
        assert_eq!((bytes[3] & 15, bytes[3] & 0x80), (4, 0), "opcode {opcode}");
    }
    let mut mail = query("a.example. A").message();
    let at = mail.len() - 4;
    put16(&mut mail, at, 254);
    let answer = line.send(&mail);
    assert_eq!(answer.frame.bytes()[answer.layout.dns() + 3], 4);
}
