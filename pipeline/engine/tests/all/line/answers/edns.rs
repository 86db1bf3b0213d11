//! EDNS as RFC 6891 says, and what RFC 8906 has found servers to get wrong.

use hickory_proto::op::{Message, OpCode, ResponseCode};
use pmdns_config::{Access, AnswerSettings};
use pmdns_config::{BlockAction, Blocklist, ListReason};
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::testing::{QueryFrame, ReplyRecord, query};
use pmdns_stages::wire::edns::{ExtendedError, OPT_LEN, option};
use pmdns_stages::{Answer, Step};

use super::line::{
    BLOCKED, LOCAL, Line, MAX_UDP_SIZE, Setup, address, line, options, read, read_any,
};

/// EXPIRE, which means nothing to us, and a code nobody has.
const EXPIRE: u16 = 9;
const UNKNOWN: u16 = 100;

const Z: u16 = 1 << 6;
const AD: u16 = 1 << 5;
const CD: u16 = 1 << 4;
const RD: u16 = 1 << 8;

/// A line that has learnt an address for `a.example.`, with and without CD and DO.
fn learnt() -> Line {
    let settings = AnswerSettings { nsid: Some("node 7".into()), ..AnswerSettings::default() };
    let cookies = Cookies::new([1; 16], None, false, Calendar::default());
    let mut line = Setup { answers: settings, cookies: Some(cookies), ..Setup::default() }.line();
    for text in ["a.example. A", "a.example. TYPE1000"] {
        for asked in [query(text), query(text).edns(1232, true)] {
            let rtype = asked.qtype;
            line.learn(&asked, &[(0, rtype, 300, address(1))], 0);
            let checking_disabled = QueryFrame { flags: asked.flags | CD, ..asked };
            line.learn(&checking_disabled, &[(0, rtype, 300, address(1))], 0);
        }
    }
    line
}

/// What RFC 8906 section 8 tries, and whether the answer shall be one, with which OPT record. What is cut (8.2.7) is in a
/// test of its own, below; over TCP (8.1.5) clients are not served.
struct Behaviour {
    section: &'static str,
    query: QueryFrame,
    /// Changes the message; the number is where its OPT record starts, if it has one.
    change: fn(&mut [u8], usize),
    rcode: ResponseCode,
    answers: usize,
    has_opt: bool,
    options: &'static [u16],
}

#[test]
fn the_behaviours_of_rfc_8906() {
    let plain = || query("a.example. A");
    let edns = || query("a.example. A").edns(4096, false);
    let flagged = |flags| QueryFrame { flags, ..plain() };
    let no_change: fn(&mut [u8], usize) = |_, _| ();
    let version: fn(&mut [u8], usize) = |message, opt| message[opt + 6] = 1;
    let unknown_flags: fn(&mut [u8], usize) = |message, opt| message[opt + 8] = 0x80;
    let ok = |section, query, change, has_opt, options| Behaviour {
        section,
        query,
        change,
        rcode: ResponseCode::NoError,
        answers: 1,
        has_opt,
        options,
    };
    let bad_version = |section, query, change| Behaviour {
        section,
        query,
        change,
        rcode: ResponseCode::BADVERS,
        answers: 0,
        has_opt: true,
        options: &[],
    };
    let several = edns()
        .option(option::NSID, &[])
        .option(option::COOKIE, &[7; 8])
        .option(EXPIRE, &[])
        .option(option::SUBNET, &[0, 1, 24, 0, 192, 0, 2]);
    let behaviours = [
        ok("8.1.1 a name that is there", plain(), no_change, false, &[]),
        ok("8.1.2 a type nobody knows", query("a.example. TYPE1000"), no_change, false, &[]),
        ok("8.1.3.1 CD", flagged(RD | CD), no_change, false, &[]),
        ok("8.1.3.2 AD", flagged(RD | AD), no_change, false, &[]),
        ok("8.1.3.3 the bit nobody knows", flagged(RD | Z), no_change, false, &[]),
        ok("8.1.3.4 RD", flagged(RD), no_change, false, &[]),
        Behaviour {
            section: "8.1.4 an operation nobody knows",
            query: plain(),
            change: |message, _| message[2] |= 15 << 3,
            rcode: ResponseCode::NotImp,
            answers: 0,
            has_opt: false,
            options: &[],
        },
        ok("8.2.1 EDNS", edns(), no_change, true, &[]),
        bad_version("8.2.2 a version nobody knows", edns(), version),
        ok("8.2.3 an option nobody knows", edns().option(UNKNOWN, b"x"), no_change, true, &[]),
        ok("8.2.4 a flag nobody knows", edns(), unknown_flags, true, &[]),
        bad_version("8.2.5 version and flag", edns(), |message, opt| {
            message[opt + 6] = 1;
            message[opt + 8] = 0x80;
        }),
        bad_version("8.2.6 version and option", edns().option(UNKNOWN, b"x"), version),
        ok("8.2.8 DO", query("a.example. A").edns(4096, true), no_change, true, &[]),
        bad_version("8.2.9 version and DO", query("a.example. A").edns(4096, true), version),
        ok("8.2.10 several options", several, no_change, true, &[option::COOKIE, option::NSID]),
    ];
    let mut line = learnt();
    for behaviour in behaviours {
        let Behaviour { section, query, change, rcode, answers, has_opt, options: codes } =
            behaviour;
        let mut message = query.message();
        let opt = message.len() - query.options.len() - OPT_LEN;
        change(&mut message, opt);
        let packet = line.send(&message);
        let answer = read_any(&packet);
        // 16 is BADVERS and BADSIG: the library cannot know which.
        assert_eq!(u16::from(answer.metadata.response_code), u16::from(rcode), "{section}");
        assert_eq!(answer.answers.len(), answers, "{section}");
        assert!(!answer.metadata.authoritative, "{section}");
        let [high, low] = [message[2], message[3]];
        let dns = packet.layout.dns();
        let flags = &packet.frame.bytes()[dns + 2..dns + 4];
        assert_eq!(flags[0] & 0x79, high & 0x79, "{section}: operation and RD are repeated");
        assert_eq!(flags[1] & 0x70, low & 0x10, "{section}: CD is repeated, AD and Z are not");
        assert_eq!(answer.edns.is_some(), has_opt, "{section}");
        if let Some(opt) = &answer.edns {
            assert_eq!((opt.version(), opt.flags().z), (0, 0), "{section}");
            assert_eq!(opt.flags().dnssec_ok, query.edns.unwrap().1, "{section}: DO is repeated");
            assert_eq!(opt.max_payload(), MAX_UDP_SIZE, "{section}");
            let given: Vec<u16> = options(&answer).iter().map(|(code, _)| *code).collect();
            assert_eq!(given, codes, "{section}");
        }
    }
}

/// RFC 8906 section 8.2.7.
#[test]
fn truncated_answers_and_errors_have_their_opt_record() {
    let mut line = line();
    let asked = query("big.example. TXT").edns(512, true);
    let text = [vec![199], vec![b'x'; 199]].concat();
    let records: Vec<ReplyRecord> = (0..4).map(|_| (0, 16, 60, text.clone())).collect();
    line.learn(&asked, &records, 0);
    let packet = line.ask(&asked, 1);
    let answer = read(&packet, &asked);
    assert!(answer.metadata.truncation && answer.answers.is_empty());
    assert!(answer.edns.unwrap().flags().dnssec_ok);
    for (text, rcode) in [
        ("a.example. TYPE252", ResponseCode::Refused),
        ("a.example. TYPE253", ResponseCode::NotImp),
        ("a.example. TYPE249", ResponseCode::FormErr),
    ] {
        let asked = query(text).edns(1232, true);
        let packet = line.ask(&asked, 0);
        let answer = read(&packet, &asked);
        assert_eq!(answer.metadata.response_code, rcode, "{text}");
        assert!(answer.edns.unwrap().flags().dnssec_ok, "{text}");
    }
}

#[test]
fn operations_other_than_query_are_not_implemented_but_their_opt_record_is_answered() {
    let mut line = line();
    for opcode in 1..16 {
        let mut message = query("a.example. SOA").edns(1232, false).message();
        message[2] |= opcode << 3;
        let answer = read_any(&line.send(&message));
        assert_eq!(answer.metadata.response_code, ResponseCode::NotImp);
        assert_eq!(answer.metadata.op_code, OpCode::from_u8(opcode));
        assert_eq!((answer.queries.len(), answer.edns.is_some()), (1, true));
        // Stateful operations have no sections (RFC 8490): nothing of this can be read.
        message.truncate(20);
        let packet = line.send(&message);
        let answer = &packet.frame.bytes()[packet.layout.dns()..];
        assert_eq!((answer.len(), answer[3] & 0xf, answer[5]), (12, 4, 0));
    }
}

#[test]
fn a_second_opt_record_is_a_format_error_wherever_the_first_stands() {
    let plain = query("a.example. A").message();
    let opt = [0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0];
    let other = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 192, 0, 2, 1];
    let mut line = learnt();
    let mut rcode = |additional: &[&[u8]]| {
        let mut message = [&[plain.as_slice()], additional].concat().concat();
        message[11] = additional.len() as u8;
        let answer = read_any(&line.send(&message));
        (answer.metadata.response_code, answer.edns.is_some())
    };
    assert_eq!(rcode(&[&opt]), (ResponseCode::NoError, true));
    assert_eq!(rcode(&[&other, &opt]), (ResponseCode::NoError, true));
    assert_eq!(rcode(&[&opt, &other]), (ResponseCode::NoError, true));
    assert_eq!(rcode(&[&opt, &opt]).0, ResponseCode::FormErr);
    assert_eq!(rcode(&[&opt, &other, &opt]).0, ResponseCode::FormErr);
}

#[test]
fn trap_03_clients_with_and_without_edns_share_an_answer() {
    let mut line = line();
    let plain = query("a.example. A");
    line.learn(&plain, &[(0, 1, 300, address(1))], 0);
    for size in [None, Some(0), Some(511), Some(512), Some(1232), Some(4096), Some(65_535)] {
        let asked = QueryFrame { edns: size.map(|size| (size, false)), ..plain.clone() };
        let packet = line.ask(&asked, 1);
        let answer = read(&packet, &asked);
        assert_eq!(answer.answers.len(), 1, "{size:?}");
        assert_eq!(answer.edns.is_some(), size.is_some());
        if let Some(opt) = answer.edns {
            assert_eq!((opt.version(), opt.max_payload()), (0, MAX_UDP_SIZE));
            assert!(!opt.flags().dnssec_ok && opt.options().as_ref().is_empty());
        }
    }
    let with_do = plain.edns(1232, true);
    assert_eq!(line.ask(&with_do, 1).step, Step::SLOW_PATH, "DO is another answer");
    line.learn(&with_do, &[(0, 1, 300, address(1)), (0, 46, 300, vec![0; 40])], 1);
    let answer = read(&line.ask(&with_do, 2), &with_do);
    assert_eq!(answer.answers.len(), 2);
    assert!(answer.edns.unwrap().flags().dnssec_ok);
}

#[test]
fn the_name_of_this_server_is_for_those_who_ask() {
    let mut line = learnt();
    let asked = query("a.example. A").edns(1232, false);
    let curious = asked.clone().option(option::NSID, &[]);
    let name = (option::NSID, b"node 7".to_vec());
    assert_eq!(options(&read(&line.ask(&curious, 1), &curious)), std::slice::from_ref(&name));
    assert_eq!(options(&read(&line.ask(&asked, 1), &asked)), []);
    let local = QueryFrame { name: pmdns_stages::testing::name_of(LOCAL), ..curious.clone() };
    assert_eq!(options(&read(&line.ask(&local, 1), &local)), [name]);
    let mut nameless = super::line::line();
    nameless.learn(&asked, &[(0, 1, 300, address(1))], 0);
    assert_eq!(options(&read(&nameless.ask(&curious, 1), &curious)), []);
}

/// The codes of the extended errors in an answer.
fn errors(answer: &Message) -> Vec<u16> {
    let errors = options(answer).into_iter().filter(|(code, _)| *code == option::EXTENDED_ERROR);
    errors.map(|(_, data)| u16::from_be_bytes(data.try_into().unwrap())).collect()
}

#[test]
fn blocked_names_and_refused_clients_are_told_why() {
    let blocked = QueryFrame { name: pmdns_stages::testing::name_of(BLOCKED), ..query("a. A") };
    let with_edns = blocked.clone().edns(1232, false);
    let mut line = line();
    let answer = read(&line.ask(&with_edns, 0), &with_edns);
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(errors(&answer), [15]);
    let answer = read(&line.ask(&blocked, 0), &blocked);
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    assert!(answer.edns.is_none(), "there is no place to say it");
    let acl = pmdns_config::AclSettings { default: Access::Refuse, ..Default::default() };
    let mut closed = Setup { acl, ..Setup::default() }.line();
    let answer = read(&closed.ask(&with_edns, 0), &with_edns);
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    assert_eq!(errors(&answer), [18]);
}

/// RFC 8914 sections 4.16 to 4.18.
#[test]
fn each_list_has_its_own_reason_and_text() {
    let file = std::env::temp_dir().join(format!("pmdns-reasons-{}", std::process::id()));
    let list = |name: &str, action, extended_error, text: &str| {
        let file = file.with_extension(name);
        std::fs::write(&file, format!("{name}.example\n")).unwrap();
        let text = Some(text.to_owned()).filter(|text| !text.is_empty());
        Blocklist { file, action, extended_error, text, ..Blocklist::default() }
    };
    let (long, censored) = ("\u{e4}".repeat(64), Some(ListReason::Censored));
    let blocklists = vec![
        list("ads", BlockAction::Nxdomain, None, ""),
        list("court", BlockAction::Refused, censored, "order 7"),
        list("family", BlockAction::Nodata, Some(ListReason::Filtered), &long),
        list("null", BlockAction::Null, None, "sinkhole"),
    ];
    let mut line = Setup { blocklists: blocklists.clone(), ..Setup::default() }.line();
    blocklists.iter().for_each(|list| std::fs::remove_file(&list.file).unwrap());
    let mut told = |text: &str| {
        let asked = query(text).edns(512, false);
        let whole = line.ask(&asked, 0);
        assert!(read(&line.ask(&query(text), 0), &query(text)).edns.is_none());
        options(&read(&whole, &asked)).into_iter().map(|(_, data)| data).collect::<Vec<_>>()
    };
    assert_eq!(told("x.ads.example. A"), [[0, 15]]);
    assert_eq!(told("x.court.example. A"), [[&[0, 16][..], b"order 7"].concat()]);
    assert_eq!(told("x.family.example. A"), [[&[0, 17], long.as_bytes()].concat()]);
    assert_eq!(told("null.example. A"), [[&[0, 15][..], b"sinkhole"].concat()]);
    let label = "a".repeat(63);
    let far = format!("{label}.{label}.{label}.{}", "b".repeat(40));
    assert!(told(&format!("{far}.family.example. A")) != [[0, 17]], "all fits into 512 bytes");
}

#[test]
fn an_extended_error_makes_room_for_records() {
    let mut line = line();
    let asked = query("a.example. TXT").edns(512, false);
    let room = 512 - 12 - (asked.name.len() + 4) - OPT_LEN;
    for (spare, told) in [(6, true), (5, false), (0, false)] {
        let data = vec![b'x'; room - 12 - spare];
        let entry = line.entry(&asked, &[(0, 16, 60, data)], 0);
        let mut packet = Line::rebuilt(&line.ask(&asked, 0), Answer::None);
        packet.extended_error = Some(ExtendedError::STALE_ANSWER);
        let context = pmdns_stages::testing::at(0);
        packet.step = line.stages.encode.answer_with(&mut packet, &entry, &context);
        let message = super::line::opened(&packet, &asked);
        assert_eq!((message[7], message[2] & 2), (1, 0), "{spare} bytes to spare: not truncated");
        assert_eq!(message.ends_with(&[0, 15, 0, 2, 0, 3]), told, "{spare} bytes to spare");
        assert_eq!(message.len(), 512 - spare + 6 * usize::from(told));
    }
}
