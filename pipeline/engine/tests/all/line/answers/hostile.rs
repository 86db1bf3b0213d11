//! Inputs that broke other servers, as bytes on the wire through the whole line. Each test bears the number it was published under.

use pmdns_config::AnswerSettings;
use pmdns_stages::cookie::{Calendar, Cookies};
use pmdns_stages::testing::{QueryFrame, name_of, query};
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header};
use pmdns_stages::wire::edns::{MAX_QUERY_OPTIONS, option};
use pmdns_stages::wire::put16;
use pmdns_stages::{Packet, Step};

use super::line::{BLOCKED, Line, MAX_UDP_SIZE, Setup, address, line, options, read, read_any};

const FORMERR: u8 = 1;
const NOTIMP: u8 = 4;
const REFUSED: u8 = 5;
/// Padding (RFC 7830).
const PADDING: u16 = 12;

/// The rcode of the reply to a message, which must get one.
fn rcode(line: &mut Line, message: &[u8]) -> u8 {
    let packet = line.send(message);
    assert_eq!(packet.step, Step::TRANSMIT, "{message:?}");
    message_of(&packet)[3] & 15
}

fn message_of(packet: &Packet) -> &[u8] {
    &packet.frame.bytes()[packet.layout.dns()..]
}

/// A line with cookies and a name to tell.
fn with_cookies() -> Line {
    let cookies = Cookies::new([7; 16], None, false, Calendar::default());
    let answers = AnswerSettings { nsid: Some("edge-1".into()), ..AnswerSettings::default() };
    Setup { cookies: Some(cookies), answers, ..Setup::default() }.line()
}

/// BIND: classes that are none ended the process, with queries, updates and notifications.
#[test]
fn cve_2026_5946_no_class_but_in_and_no_other_operation_gets_anywhere() {
    let mut line = line();
    line.learn(&query("a.example. A"), &[(0, 1, 300, address(1))], 0);
    for class in [0, 2, 3, 4, 5, 254, 255, 256, 0xffff] {
        for qtype in [1, 6, 16, 255] {
            for flags in [0, flag::RD, flag::RD | flag::CD] {
                let asked = QueryFrame { qclass: class, qtype, flags, ..query("a.example. A") };
                assert_eq!(rcode(&mut line, &asked.message()), REFUSED, "{class} {qtype} {flags}");
            }
        }
    }
    for opcode in [1_u16, 2, 3, 4, 5, 6, 9, 15] {
        for class in [1, 3, 4, 254, 255] {
            for sections in [[0, 0], [1, 0], [0, 1], [3, 90]] {
                let asked =
                    QueryFrame { qclass: class, flags: opcode << 11, ..query("a.example. SOA") };
                let mut message = asked.message();
                let record = [0xc0, 12, 0, 6, 0, class as u8, 0, 0, 0, 0, 0, 0];
                put16(&mut message, header::ANCOUNT, sections[0]);
                put16(&mut message, header::NSCOUNT, sections[1]);
                message.extend(record.repeat(usize::from(sections[0] + sections[1])));
                assert_eq!(rcode(&mut line, &message), NOTIMP, "{opcode} {class} {sections:?}");
            }
        }
    }
}

/// Unbound: what did not fit was trimmed again and again.
#[test]
fn cve_2024_1931_errors_and_options_are_left_out_once() {
    let mut line = with_cookies();
    let longest =
        [vec!["a".repeat(63); 3].join("."), "b".repeat(61 - BLOCKED.len()), BLOCKED.into()];
    for name in [longest.join("."), BLOCKED.into()] {
        for size in (0..=MAX_UDP_SIZE + 64).step_by(16) {
            let asked = QueryFrame { name: name_of(&name), ..query("a. A") };
            let asked = asked.edns(size, true).option(option::NSID, b"");
            let asked = asked.option(option::COOKIE, &[1; 8]);
            let answer = line.ask(&asked, 0);
            assert_eq!(read(&answer, &asked).metadata.response_code.low(), 3, "{size}");
            let room = usize::from(size.clamp(512, MAX_UDP_SIZE));
            assert!(message_of(&answer).len() <= room, "{size}");
        }
    }
}

/// Unbound: the same option many times had it write beyond its room.
#[test]
fn cve_2026_42944_an_option_that_is_repeated_is_answered_once() {
    let mut line = with_cookies();
    let mut asked = query("blocked.example. A").edns(1232, false);
    for _ in 0..MAX_QUERY_OPTIONS / 3 {
        asked = asked.option(option::NSID, b"").option(option::COOKIE, &[1; 8]);
        asked = asked.option(PADDING, &[0; 40]);
    }
    let codes: Vec<u16> =
        options(&read(&line.ask(&asked, 0), &asked)).into_iter().map(|option| option.0).collect();
    for code in [option::NSID, option::COOKIE] {
        assert_eq!(codes.iter().filter(|one| **one == code).count(), 1, "{codes:?}");
    }
    assert!(!codes.contains(&PADDING));
}

/// Unbound: thousands of options kept a thread busy.
#[test]
fn cve_2026_41292_options_are_few() {
    let mut line = with_cookies();
    for (count, is_wrong) in
        [(MAX_QUERY_OPTIONS, false), (MAX_QUERY_OPTIONS + 1, true), (300, true), (16_000, true)]
    {
        let asked =
            QueryFrame { options: [0xff, 0, 0, 0].repeat(count), ..query("blocked.example. A") };
        let message = asked.edns(1232, false).message();
        let is_formerr = match message.len() {
            ..1400 => rcode(&mut line, &message) == FORMERR,
            // No frame has room for it; what reads it is the same.
            _ => pmdns_stages::wire::query::ParsedQuery::read(&message).error.is_some(),
        };
        assert_eq!(is_formerr, is_wrong, "{count}");
    }
}

/// dnsdist: an OPT record that its rules could not read was mended on the way upstream.
#[test]
fn cve_2026_42004_a_malformed_opt_record_is_not_forwarded() {
    let mut line = line();
    let good = query("a.example. A").edns(1232, false).option(3, b"");
    let message = good.message();
    let opt = HEADER_LEN + good.name.len() + 4;
    assert_eq!(line.send(&message).step, Step::SLOW_PATH, "it would be a miss");
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = message.clone();
        change(&mut message);
        message
    };
    let wrong = [
        // Owned by another name than the root, by a pointer to it.
        changed(&|m| drop(m.splice(opt..=opt, [1, b'a', 0]))),
        changed(&|m| drop(m.splice(opt..=opt, [0xc0, opt as u8 - 5]))),
        // Longer and shorter than what is there.
        changed(&|m| m[opt + 10] += 1),
        changed(&|m| m[opt + 10] -= 1),
        changed(&|m| m[opt + 14] = 1),
        changed(&|m| m[opt + 9] = 0xff),
        changed(&|m| m.truncate(m.len() - 1)),
        // Twice; and where no OPT record stands.
        changed(&|m| {
            m[11] = 2;
            m.extend_from_within(opt..);
        }),
        changed(&|m| (m[7], m[11]) = (1, 0)),
        changed(&|m| (m[9], m[11]) = (1, 0)),
    ];
    for (number, message) in wrong.iter().enumerate() {
        assert_eq!(rcode(&mut line, message), FORMERR, "{number}");
    }
    for at in opt..message.len() {
        for value in 0..=255 {
            let packet = line.send(&changed(&|m| m[at] = value));
            let asks_upstream = packet.step == Step::SLOW_PATH;
            // Its size, flags and version, and which option it is, are the sender's to choose; of another type it is no OPT record.
            // One without options is whole, and the bytes behind it mean nothing.
            let is_free = matches!(at - opt, 1..=8 | 11 | 12) || (at - opt, value) == (10, 0);
            assert!(!asks_upstream || is_free || message[at] == value, "{at}: {value}");
        }
    }
}

/// dnsdist: a name of 256 octets went through where 255 are the end.
#[test]
fn cve_2026_52682_names_end_at_255_octets() {
    let mut line = line();
    let label = |len: usize| [vec![len as u8], vec![b'a'; len]].concat();
    for (last, fits) in [(61, true), (62, false), (63, false)] {
        let name = [label(63), label(63), label(63), label(last), vec![0]].concat();
        assert_eq!(name.len() <= 255, fits);
        let asked = QueryFrame { name, ..query("a. A") };
        let packet = line.send(&asked.message());
        assert_eq!(packet.step == Step::SLOW_PATH, fits, "{last}");
        assert!(fits || message_of(&packet)[3] & 15 == FORMERR);
    }
}

/// Unbound: behind a proxy the cookie was the proxy's, and so everybody's.
#[test]
fn cve_2026_54478_a_cookie_is_one_client_s_own() {
    let mut line = with_cookies();
    let first = query("blocked.example. A").edns(1232, false).option(option::COOKIE, &[1; 8]);
    let cookie_in = |packet: &Packet, asked: &QueryFrame| {
        let options = options(&read(packet, asked));
        options.into_iter().find(|(code, _)| *code == option::COOKIE).unwrap().1
    };
    let given = cookie_in(&line.ask(&first, 0), &first);
    let with = |source: [u8; 4]| {
        let asked = query("blocked.example. A").edns(1232, false).option(option::COOKIE, &given);
        QueryFrame { source: source.to_vec(), ..asked }
    };
    let own = with([10, 77, 0, 1]);
    assert_eq!(cookie_in(&line.ask(&own, 0), &own), given, "its owner's");
    for source in [[10, 77, 0, 3], [10, 77, 1, 1], [192, 0, 2, 1]] {
        let stolen = with(source);
        assert_ne!(cookie_in(&line.ask(&stolen, 0), &stolen), given, "{source:?}");
    }
}

/// PowerDNS Recursor: type ANY for a name whose answers the cache had in an odd form.
#[test]
fn cve_2025_59029_any_of_whatever_the_cache_has() {
    for minimal_any in [true, false] {
        let answers = AnswerSettings { minimal_any, ..AnswerSettings::default() };
        let mut line = Setup { answers, ..Setup::default() }.line();
        for (number, qtype) in [1, 257, 65_280, 255].into_iter().enumerate() {
            let name = name_of(&format!("n{number}.example."));
            for flags in [flag::RD, flag::RD | flag::CD] {
                for edns in [None, Some((1232, true))] {
                    let asked =
                        QueryFrame { name: name.clone(), qtype, flags, edns, ..query("a. A") };
                    let rtype = if qtype == 255 { 1 } else { qtype };
                    let record = (0, rtype, 300, address(1));
                    line.learn(&asked, &[record], 0);
                    let any = QueryFrame { qtype: 255, ..asked };
                    let packet = line.ask(&any, 1);
                    let is_known = minimal_any || qtype == 255;
                    assert_eq!(packet.step == Step::TRANSMIT, is_known, "{minimal_any} {qtype}");
                }
            }
        }
    }
}

#[test]
fn whatever_is_said_of_the_sections_is_read_by_others() {
    let mut line = line();
    let message = query("blocked.example. A").edns(1232, true).message();
    for at in 4..12 {
        for value in 0..=255 {
            let mut message = message.clone();
            message[at] = value;
            let packet = line.send(&message);
            if packet.step == Step::TRANSMIT {
                read_any(&packet);
            }
        }
    }
}
