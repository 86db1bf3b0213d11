//! What hostile clients send: bounds on replies, on reading, and inputs that broke other servers.

use hickory_proto::op::ResponseCode;
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::testing::{QueryFrame, act_once, at, frame_of, name_of, query};
use pmdns_stages::wire::dns::{Rcode, header};
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::put16;
use pmdns_stages::{Answer, Packet, Reason, Step};

use super::line::{BLOCKED, LOCAL, Line, Setup, address, options, read};

/// A query for a zone transfer, which is refused.
fn transfer() -> QueryFrame {
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
        let elsewhere = QueryFrame { source: vec![10, 77, 9, 1], ..transfer() };
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
            let asked = QueryFrame { name: name_of(name), ..query("a. A") };
            assert_eq!(line.ask(&asked, 0).step, Step::TRANSMIT, "{name}");
        }
    }
    let without_rd = QueryFrame { flags: 0, ..hit };
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

/// A query with these records in its additional section.
fn with_additional(query: &QueryFrame, records: &[Vec<u8>]) -> Vec<u8> {
    let mut message = query.message();
    let count = u16::from_be_bytes([message[10], message[11]]) + records.len() as u16;
    put16(&mut message, header::ARCOUNT, count);
    [message, records.concat()].concat()
}

/// A record of type A without data that belongs to `owner`.
fn record_of(owner: &[u8]) -> Vec<u8> {
    [owner, &[0, 1, 0, 1, 0, 0, 0, 0, 0, 0]].concat()
}

/// A name of so many labels of one letter.
fn labels(count: usize) -> Vec<u8> {
    [vec![[1, b'a']; count].concat(), vec![0]].concat()
}

/// The rcode of the reply to a message, if there is one.
fn rcode(line: &mut Line, message: &[u8]) -> Option<u8> {
    let packet = line.send(message);
    let bytes = packet.frame.bytes();
    (packet.step == Step::TRANSMIT).then(|| bytes[packet.layout.dns() + 3] & 15)
}

const FORMERR: Option<u8> = Some(1);

/// One datagram cost 90,933 ticks, where a query costs 197.
#[test]
fn audit_11_a_query_has_few_records_and_their_names_are_short() {
    let mut line = Setup::default().line();
    let local = query("local.example. A");
    let pointer = record_of(&[0xc0, 12]);
    for (records, expected) in [
        (vec![pointer.clone(); 2], Some(0)),
        (vec![pointer.clone(); 3], FORMERR),
        (vec![pointer; 100], FORMERR),
        (vec![record_of(&labels(16))], Some(0)),
        (vec![record_of(&labels(17))], FORMERR),
        (vec![record_of(&labels(8)); 2], Some(0)),
        (vec![record_of(&labels(8)), record_of(&labels(9))], FORMERR),
        // 256 bytes in labels of 63.
        (
            vec![record_of(&[[vec![63], vec![b'a'; 63]].concat().repeat(4), vec![0]].concat())],
            FORMERR,
        ),
    ] {
        assert_eq!(rcode(&mut line, &with_additional(&local, &records)), expected, "{records:?}");
    }
    let said = |section: usize, count: u16| {
        let mut message = local.message();
        put16(&mut message, section, count);
        message
    };
    for section in [header::ANCOUNT, header::NSCOUNT, header::ARCOUNT] {
        for count in [1, 2, 3, 0xffff] {
            assert_eq!(rcode(&mut line, &said(section, count)), FORMERR, "{count} at {section}");
        }
    }
}

#[test]
fn audit_11_no_pointer_of_a_query_is_followed() {
    let mut line = Setup::default().line();
    let long = QueryFrame { name: labels(127), ..query("a. A") };
    let end = long.message().len();
    // The second record's name leads to the first one's, which leads to a name of 127 labels.
    let chain = [record_of(&[0xc0, 12]), record_of(&[0xc0 | (end >> 8) as u8, end as u8])];
    let packet = line.send(&with_additional(&long, &chain));
    assert_eq!(packet.step, Step::SLOW_PATH, "what they lead to is nobody's business");
    let question = [&long.message()[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    assert_eq!(rcode(&mut line, &question), FORMERR);
}

#[test]
fn audit_11_what_a_buffer_held_before_is_no_part_of_a_query() {
    let mut line = Setup::default().line();
    let whole = query("www.example. A").message();
    for cut in 12..whole.len() {
        let bytes = query("a. A").frame_around(&whole[..cut]);
        let mut packet = Packet::arrived(frame_of(&bytes), 0);
        // As if the whole query had been in this buffer before.
        let rest = &mut packet.frame.buffer_mut()[bytes.len()..];
        rest[..whole.len() - cut].copy_from_slice(&whole[cut..]);
        let packet = act_once(&mut line.stages.parse, packet, &at(0));
        assert_eq!(packet.answer, Answer::Rcode(Rcode::FORMERR), "cut after {cut} bytes");
        assert_eq!(packet.layout.name_len, 0);
    }
}

#[test]
fn audit_11_the_access_list_comes_before_the_dns() {
    let acl = pmdns_config::AclSettings {
        drop: vec!["10.77.0.0/24".parse().unwrap(), "fd77::/64".parse().unwrap()],
        ..pmdns_config::AclSettings::open()
    };
    let mut line = Setup { acl, ..Setup::default() }.line();
    let hostile = with_additional(
        &QueryFrame { name: labels(127), ..query("a. A") },
        &vec![record_of(&[0xc0, 12]); 100],
    );
    let many = query("a. A").edns(1232, false).option(option::NSID, b"");
    for asked in [query("a. A"), query("a. A").over_ipv6()] {
        for message in [&hostile, &many.message(), &asked.message()[..12].to_vec()] {
            let packet = Packet::arrived(frame_of(&asked.frame_around(message)), 0);
            let packet = act_once(&mut line.stages.parse, packet, &at(0));
            assert_eq!(packet.step, Step::drop(Reason::AclDrop), "parse itself drops it");
            assert_eq!(packet.layout.qtype, 0, "no more than a name has been read");
        }
        assert_eq!(line.ask(&asked, 0).step, Step::drop(Reason::AclDrop));
    }
    let other = QueryFrame { source: vec![10, 77, 1, 1], ..query("a. TYPE252") };
    assert_eq!(line.ask(&other, 0).step, Step::TRANSMIT);
}
