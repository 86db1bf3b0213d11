//! AD, CD and DO: passed on as RFC 4035 and RFC 6840 say, and never made up. RD: what is not ours is for those who set it.

use hickory_proto::op::ResponseCode;
use pmdns_config::AnswerSettings;
use pmdns_stages::cache::{Entry, Key, Lifetimes};
use pmdns_stages::testing::{QueryFrame, name_of, query, reply};
use pmdns_stages::wire::dns::flag;
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::put16;

use super::line::{BLOCKED, LOCAL, Line, Setup, address, line, options, read};

const LIFETIMES: Lifetimes =
    Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 300, max_body: 1232 };

/// Keeps an upstream's reply to `query` with these flags besides QR and RA.
fn learn_with_flags(line: &mut Line, query: &QueryFrame, flags: u16) {
    let mut message = reply(query, &[(0, 1, 300, address(1))]);
    put16(&mut message, 2, flag::QR | flag::RA | flags);
    let dnssec_ok = query.edns.is_some_and(|(_, dnssec_ok)| dnssec_ok);
    let key_flags =
        if dnssec_ok { Key::DO } else { 0 } | if query.flags & flag::CD != 0 { Key::CD } else { 0 };
    let key = Key { name: &query.name, qtype: query.qtype, qclass: 1, flags: key_flags };
    let hash = key.hash(line.seed(), line.seed().hash(&query.name));
    let entry = Entry::from_reply(&message, key, hash, 0, &LIFETIMES).unwrap();
    line.keep(&entry);
}

#[test]
fn trap_08_ad_is_the_upstream_s_and_for_those_who_understand_it() {
    for upstream_says in [false, true] {
        for (ad, edns, shown) in [
            (false, None, false),
            (false, Some(false), false),
            (true, None, true),
            (true, Some(false), true),
            (false, Some(true), true),
            (true, Some(true), true),
        ] {
            let mut line = line();
            let mut asked = query("a.example. A");
            asked.edns = edns.map(|dnssec_ok| (1232, dnssec_ok));
            asked.flags |= if ad { flag::AD } else { 0 };
            learn_with_flags(&mut line, &asked, if upstream_says { flag::AD } else { 0 });
            let answer = read(&line.ask(&asked, 1), &asked);
            let case = format!("AD {ad}, DO {edns:?}, upstream {upstream_says}");
            assert_eq!(answer.metadata.authentic_data, shown && upstream_says, "{case}");
        }
    }
}

#[test]
fn trap_08_what_we_say_ourselves_is_not_authentic() {
    let mut line = line();
    for (name, qtype) in [(LOCAL, 1), (BLOCKED, 1), ("any.example.", 255), ("a.example.", 252)] {
        let asked = QueryFrame { name: name_of(name), qtype, ..query("a. A").edns(1232, true) };
        let asked = QueryFrame { flags: asked.flags | flag::AD, ..asked };
        let answer = read(&line.ask(&asked, 1), &asked);
        assert!(!answer.metadata.authentic_data, "{name} {qtype}");
    }
}

#[test]
fn cd_is_repeated_and_another_answer() {
    let mut line = line();
    let plain = query("a.example. A");
    let unchecked = QueryFrame { flags: plain.flags | flag::CD, ..plain.clone() };
    // The upstream's own CD, RD, AA and opcode have no say.
    learn_with_flags(&mut line, &plain, flag::CD | flag::AA);
    let answer = read(&line.ask(&plain, 1), &plain);
    assert!(!answer.metadata.checking_disabled && !answer.metadata.authoritative);
    assert!(answer.metadata.recursion_desired);
    assert_eq!(line.ask(&unchecked, 1).step, pmdns_stages::Step::SLOW_PATH);
    learn_with_flags(&mut line, &unchecked, 0);
    assert!(read(&line.ask(&unchecked, 1), &unchecked).metadata.checking_disabled);
    for name in [LOCAL, BLOCKED] {
        let asked = QueryFrame { name: name_of(name), ..unchecked.clone() };
        assert!(read(&line.ask(&asked, 1), &asked).metadata.checking_disabled, "{name}");
        let asked = QueryFrame { flags: 0, ..asked };
        let answer = read(&line.ask(&asked, 1), &asked);
        assert!(!answer.metadata.checking_disabled && !answer.metadata.recursion_desired);
    }
}

#[test]
fn without_rd_nobody_learns_what_others_asked() {
    let answers = AnswerSettings { identity: Some("node".into()), ..AnswerSettings::default() };
    let mut line = Setup { answers, ..Setup::default() }.line();
    let cached = query("a.example. A").edns(1232, false);
    line.learn(&cached, &[(0, 1, 300, address(1))], 0);
    let without_rd = |asked: QueryFrame| QueryFrame { flags: 0, ..asked };
    let any = query("a.example. TYPE255").edns(1232, false);
    for asked in [cached.clone(), query("b.example. A").edns(1232, true), any] {
        let asked = without_rd(asked);
        let answer = read(&line.ask(&asked, 1), &asked);
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        assert!(answer.answers.is_empty() && !answer.metadata.recursion_desired);
        assert_eq!(options(&answer), [(option::EXTENDED_ERROR, vec![0, 20])]);
    }
    for (name, rcode, count) in
        [(LOCAL, ResponseCode::NoError, 1), (BLOCKED, ResponseCode::NXDomain, 0)]
    {
        let asked = without_rd(QueryFrame { name: name_of(name), ..query("a. A") });
        let answer = read(&line.ask(&asked, 1), &asked);
        assert_eq!((answer.metadata.response_code, answer.answers.len()), (rcode, count), "{name}");
    }
    let chaos = without_rd(QueryFrame { qclass: 3, ..query("id.server. TXT") });
    assert_eq!(read(&line.ask(&chaos, 1), &chaos).answers.len(), 1);
    assert_eq!(read(&line.ask(&cached, 1), &cached).answers.len(), 1, "with RD it is a hit");
}
