//! DNS cookies from query to answer (RFC 7873, RFC 9018).

use hickory_proto::op::ResponseCode;
use pmdns_config::AnswerSettings;
use pmdns_stages::cookie::{Calendar, CookieCounts, Cookies};
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::edns::COOKIE_LEN;
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::layout::Flags;
use pmdns_stages::{Answer, Packet, Step};

use super::line::{Line, Setup, address, opened, options, read, read_any};

/// RFC 9018 appendix A.1.
const SECRET: [u8; 16] = 0xe5e973e5a6b2a43f48e7dc849e37bfcf_u128.to_be_bytes();
const NOW: u32 = 1_559_731_985;
const CLIENT_COOKIE: [u8; 8] = 0x2464c4abcf10c957_u64.to_be_bytes();
const WHOLE: &str = "2464c4abcf10c957010000005cf79f111f8130c3eee29480";

/// A line that checks cookies, at the time of the RFC's examples, and knows `a.example.`.
fn line(require: bool) -> Line {
    let calendar = Calendar::default();
    calendar.set(NOW, 0);
    let cookies = Some(Cookies::new(SECRET, None, require, calendar));
    let answers = AnswerSettings { nsid: Some("node".into()), ..AnswerSettings::default() };
    let mut line = Setup { cookies, answers, ..Setup::default() }.line();
    line.learn(&asked(), &[(0, 1, 300, address(1))], 0);
    line
}

/// A query without cookie, from the client of the RFC's example.
fn asked() -> QueryFrame {
    QueryFrame { source: vec![198, 51, 100, 100], ..query("a.example. A").edns(1232, false) }
}

fn with_cookie(cookie: &[u8]) -> QueryFrame {
    asked().option(option::COOKIE, cookie)
}

/// The cookie of an answer; there is one at most.
fn cookie_in(packet: &Packet, asked: &QueryFrame) -> Option<Vec<u8>> {
    let mut cookies: Vec<_> = options(&read(packet, asked))
        .into_iter()
        .filter_map(|(code, data)| (code == option::COOKIE).then_some(data))
        .collect();
    assert!(cookies.len() <= 1);
    cookies.pop()
}

fn whole() -> Vec<u8> {
    let pairs = (0..COOKIE_LEN).map(|index| &WHOLE[2 * index..2 * index + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn a_client_cookie_gets_a_whole_one_and_that_is_right_from_then_on() {
    let mut line = line(false);
    let first = with_cookie(&CLIENT_COOKIE);
    let packet = line.ask(&first, 0);
    assert_eq!(cookie_in(&packet, &first), Some(whole()));
    assert_eq!(read(&packet, &first).answers.len(), 1);
    assert!(!packet.layout.flags.has(Flags::RIGHT_COOKIE));
    let second = with_cookie(&whole());
    let packet = line.ask(&second, 100);
    assert_eq!(cookie_in(&packet, &second), Some(whole()), "it is young enough");
    assert!(packet.layout.flags.has(Flags::RIGHT_COOKIE));
    let packet = line.ask(&second, 200 + 1800);
    assert_eq!(packet.step, Step::SLOW_PATH, "the answer has expired meanwhile");
    assert!(packet.layout.flags.has(Flags::RIGHT_COOKIE));
}

#[test]
fn queries_without_cookie_are_answered_without() {
    for require in [false, true] {
        let packet = line(require).ask(&asked(), 0);
        let answer = read(&packet, &asked());
        assert_eq!((answer.answers.len(), options(&answer).len()), (1, 0));
        let plain = QueryFrame { edns: None, ..asked() };
        assert!(read(&line(require).ask(&plain, 0), &plain).edns.is_none());
    }
}

#[test]
fn a_wrong_cookie_counts_as_the_client_s_part_only() {
    let mut forged = whole();
    forged[23] ^= 1;
    let elsewhere = QueryFrame { source: vec![198, 51, 100, 101], ..with_cookie(&whole()) };
    for wrong in [with_cookie(&forged), with_cookie(&forged[..16]), elsewhere] {
        let packet = line(false).ask(&wrong, 0);
        assert!(!packet.layout.flags.has(Flags::RIGHT_COOKIE));
        assert_eq!(read(&packet, &wrong).answers.len(), 1);
        let given = cookie_in(&packet, &wrong).unwrap();
        assert_eq!((given.len(), &given[..8]), (24, CLIENT_COOKIE.as_slice()));
    }
}

#[test]
fn of_several_cookies_the_first_counts() {
    let several =
        with_cookie(&whole()).option(option::COOKIE, &[1]).option(option::COOKIE, &[2; 8]);
    let packet = line(false).ask(&several, 0);
    assert_eq!(cookie_in(&packet, &several), Some(whole()));
}

#[test]
fn lengths_that_no_cookie_has_are_format_errors() {
    for length in (0..8).chain(9..16).chain(41..50) {
        let malformed = with_cookie(&vec![7; length]);
        let packet = line(false).ask(&malformed, 0);
        let answer = read(&packet, &malformed);
        assert_eq!(answer.metadata.response_code, ResponseCode::FormErr, "{length} bytes");
        assert_eq!(options(&answer), []);
        let mut without_cookies = Setup::default().line();
        assert_eq!(without_cookies.ask(&malformed, 0).step, Step::SLOW_PATH, "unknown option");
    }
}

#[test]
fn where_cookies_are_required_a_client_comes_back_with_a_right_one() {
    let mut line = line(true);
    let first = with_cookie(&CLIENT_COOKIE);
    let packet = line.ask(&first, 0);
    let answer = read(&packet, &first);
    assert_eq!(answer.metadata.response_code, ResponseCode::BADCOOKIE);
    assert!(answer.answers.is_empty());
    let second = with_cookie(&cookie_in(&packet, &first).unwrap());
    assert_eq!(read(&line.ask(&second, 0), &second).answers.len(), 1);
}

#[test]
fn a_query_without_question_asks_for_a_cookie() {
    let mut forged = whole();
    forged[9] ^= 1;
    for (cookie, rcode, answered) in [
        (Some(CLIENT_COOKIE.to_vec()), ResponseCode::NoError, true),
        (Some(whole()), ResponseCode::BADCOOKIE, true),
        (Some(forged), ResponseCode::BADCOOKIE, true),
        (Some(vec![1; 9]), ResponseCode::FormErr, false),
        (None, ResponseCode::FormErr, false),
    ] {
        for require in [false, true] {
            let client = cookie.as_ref().map_or_else(asked, |cookie| with_cookie(cookie));
            let mut message = client.message();
            message[5] = 0;
            message.drain(12..12 + client.name.len() + 4);
            // This client is another than that of the RFC's cookie.
            let answer = read_any(&line(require).send(&message));
            assert_eq!(answer.metadata.response_code, rcode);
            assert_eq!((answer.queries.len(), answer.answers.len()), (0, 0));
            assert_eq!(options(&answer).len(), usize::from(answered));
        }
    }
}

#[test]
fn the_slow_path_s_answers_have_the_cookie_too() {
    let mut line = line(false);
    let missed = QueryFrame { name: query("b.example. A").name, ..with_cookie(&CLIENT_COOKIE) };
    let missed = missed.option(option::NSID, &[]).over_ipv6();
    let entry = line.entry(&missed, &[(0, 1, 60, address(2))], 0);
    let packet = line.ask(&missed, 0);
    assert_eq!(packet.step, Step::SLOW_PATH);
    let mut fresh = Line::rebuilt(&packet, Answer::None);
    fresh.step = line.stages.encode.answer_with(&mut fresh, &entry, &pmdns_stages::testing::at(0));
    line.keep(&entry);
    let cached = line.ask(&missed, 0);
    assert_eq!(opened(&fresh, &missed), opened(&cached, &missed));
    let codes: Vec<u16> = options(&read(&fresh, &missed)).iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [option::COOKIE, option::NSID]);
}

#[test]
fn cookies_are_counted_by_what_they_are_worth() {
    for require in [false, true] {
        let mut line = line(require);
        let mut forged = whole();
        forged[20] ^= 1;
        for (cookie, times) in [(&CLIENT_COOKIE[..], 1), (&whole(), 2), (&forged, 3), (&[1; 9], 4)]
        {
            for _ in 0..times {
                line.ask(&with_cookie(cookie), 0);
            }
        }
        line.ask(&asked(), 0);
        let refused = if require { 4 } else { 0 };
        let counts = CookieCounts { right: 2, wrong: 3, new: 1, refused };
        assert_eq!(line.stages.parse.cookie_counts(), counts);
    }
}
