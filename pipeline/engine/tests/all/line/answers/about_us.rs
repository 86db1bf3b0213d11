//! Questions about this server, in class CH, and to type ANY: answered with what was made at start.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, RData, RecordType};
use pmdns_config::AnswerSettings;
use pmdns_stages::Step;
use pmdns_stages::testing::{QueryFrame, name_of, query};

use super::line::{BLOCKED, LOCAL, Line, Setup, address, line, read};

const CHAOS: u16 = 3;
const TXT: u16 = 16;
const ANY: u16 = 255;

fn talkative() -> Line {
    let answers = AnswerSettings {
        identity: Some("node 7".into()),
        version: Some("secret".into()),
        ..AnswerSettings::default()
    };
    Setup { answers, ..Setup::default() }.line()
}

fn chaos(name: &str, qtype: u16) -> QueryFrame {
    QueryFrame { name: name_of(name), qtype, qclass: CHAOS, ..query("a. A") }
}

#[test]
fn who_we_are_is_told_as_the_operator_wants() {
    let mut line = talkative();
    for (name, text) in [
        ("id.server.", "node 7"),
        ("Hostname.BIND.", "node 7"),
        ("version.bind.", "secret"),
        ("VERSION.server.", "secret"),
    ] {
        for qtype in [TXT, ANY] {
            let asked = chaos(name, qtype).edns(1232, false);
            let answer = read(&line.ask(&asked, 7), &asked);
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError, "{name}");
            assert!(answer.metadata.authoritative && answer.edns.is_some());
            let [record] = &answer.answers[..] else { panic!("{name}: one record") };
            assert_eq!((record.dns_class, record.ttl), (DNSClass::CH, 0));
            assert_eq!(record.name.to_string(), name, "in the client's letters");
            let RData::TXT(txt) = &record.data else { panic!("{name}: TXT") };
            assert_eq!(&*txt.txt_data[0], text.as_bytes());
        }
    }
}

#[test]
fn what_the_operator_keeps_to_himself_is_refused() {
    for (mut line, name, qtype, qclass) in [
        (line(), "id.server.", TXT, CHAOS),
        (line(), "version.bind.", TXT, CHAOS),
        (talkative(), "id.server.", 1, CHAOS),
        (talkative(), "authors.bind.", TXT, CHAOS),
        (talkative(), "x.id.server.", TXT, CHAOS),
        (talkative(), "id.server.", TXT, 4),
        (talkative(), "id.server.", TXT, 255),
        (talkative(), "a.example.", 1, CHAOS),
    ] {
        let asked = QueryFrame { qclass, ..chaos(name, qtype) };
        let answer = read(&line.ask(&asked, 0), &asked);
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "{name} {qtype} {qclass}");
        assert!(answer.answers.is_empty());
    }
    let internet = QueryFrame { qclass: 1, ..chaos("id.server.", TXT) };
    assert_eq!(talkative().ask(&internet, 0).step, Step::SLOW_PATH, "a name like any other");
}

#[test]
fn any_is_answered_with_one_record_that_says_so() {
    let mut line = line();
    for asked in [
        query("wWw.Example. ANY"),
        query(". ANY").edns(512, true),
        query("www.example. ANY").over_ipv6(),
    ] {
        let answer = read(&line.ask(&asked, 9), &asked);
        assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
        assert!(!answer.metadata.authoritative, "it is not our zone");
        let [record] = &answer.answers[..] else { panic!("one record") };
        assert_eq!((record.record_type(), record.ttl), (RecordType::HINFO, 3600));
        assert_eq!(record.name, answer.queries[0].name);
        let RData::HINFO(hinfo) = &record.data else { panic!("HINFO") };
        assert_eq!((&*hinfo.cpu, &*hinfo.os), (b"RFC8482".as_slice(), [].as_slice()));
    }
}

#[test]
fn any_of_local_and_blocked_names_is_answered_as_policy_says() {
    let mut line = line();
    let local = QueryFrame { name: name_of(LOCAL), ..query("a. ANY") };
    let answer = read(&line.ask(&local, 0), &local);
    assert_eq!(answer.answers[0].data, RData::A("192.0.2.77".parse().unwrap()));
    let blocked = QueryFrame { name: name_of(BLOCKED), ..query("a. ANY") };
    let answer = read(&line.ask(&blocked, 0), &blocked);
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
}

#[test]
fn any_goes_upstream_if_the_operator_wants_it_to() {
    let answers = AnswerSettings { minimal_any: false, ..AnswerSettings::default() };
    let mut line = Setup { answers, ..Setup::default() }.line();
    let asked = query("a.example. ANY");
    assert_eq!(line.ask(&asked, 0).step, Step::SLOW_PATH);
    line.learn(&asked, &[(0, 1, 60, address(1)), (0, 16, 50, b"\x02hi".to_vec())], 0);
    assert_eq!(read(&line.ask(&asked, 1), &asked).answers.len(), 2);
}
