//! Any type, letter for letter and bit for bit.

use pmdns_stages::testing::{QueryFrame, ReplyRecord, name_of, query, reply};
use pmdns_stages::wire::dns::HEADER_LEN;

use super::line::{BLOCKED, LOCAL, line, opened, read};

/// A type, and data as it stands in a record of it.
fn records() -> Vec<(&'static str, Vec<u8>)> {
    let https = [
        b"\0\x01\0".as_slice(),
        b"\0\x01\0\x06\x02h2\x02h3",
        b"\0\x04\0\x04\xc0\0\x02\x01",
        b"\0\x06\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\xff\x01\0\x03\xc0\x0c\0",
    ];
    vec![
        ("HTTPS", https.concat()),
        (
            "TYPE64",
            [b"\0\x10".as_slice(), &name_of("svc.Example."), b"\0\x03\0\x02\x20\xfb"].concat(),
        ),
        ("TYPE257", b"\x80\x05issueca.example.net; account=1".to_vec()),
        ("SRV", [b"\0\x01\0\x02\x01\xbb".as_slice(), &name_of("Host.example.")].concat()),
        ("PTR", name_of("Host.Example.")),
        ("TYPE65280", vec![0xc0, 12, 0xff, 0, 0xc0, 0xc0]),
        ("TYPE65280", vec![]),
        ("TYPE1000", (0..=255).collect()),
    ]
}

#[test]
fn trap_06_every_type_passes_bit_by_bit() {
    for (rtype, data) in records() {
        for edns in [None, Some((1232, false)), Some((1232, true))] {
            let asked = QueryFrame { edns, ..query(&format!("_x._tcp.Name.example. {rtype}")) };
            let records: [ReplyRecord; 1] = [(0, asked.qtype, 300, data.clone())];
            let mut line = line();
            line.learn(&asked, &records, 0);
            let packet = line.ask(&asked, 0);
            let sent = reply(&QueryFrame { edns: None, ..asked.clone() }, &records);
            let question_end = HEADER_LEN + asked.name.len() + 4;
            let opt_len = if edns.is_some() { 11 } else { 0 };
            let message = opened(&packet, &asked);
            let got = &message[question_end..message.len() - opt_len];
            assert_eq!(got, &sent[question_end..], "{rtype} {edns:?}");
        }
    }
}

#[test]
fn trap_02_every_kind_of_answer_has_the_client_s_own_letters() {
    let mut line = line();
    line.learn(&query("hit.example. A"), &[(0, 1, 300, vec![192, 0, 2, 1])], 0);
    let local = LOCAL.to_uppercase();
    let blocked = BLOCKED.replace('b', "B");
    for (kind, name, qtype, records) in [
        ("a hit", "hIt.EXAmple.", 1, 1),
        ("a local answer", &local, 1, 1),
        ("a blocked name", &blocked, 1, 0),
        ("an error", "wWw.example.", 252, 0),
        ("ANY", "wWW.example.", 255, 1),
    ] {
        for edns in [None, Some((512, true))] {
            // The cached answer was learnt without DO.
            let edns = edns.map(|(size, dnssec_ok)| (size, dnssec_ok && kind != "a hit"));
            let asked = QueryFrame { name: name_of(name), qtype, edns, ..query("a. A") };
            let packet = line.ask(&asked, 1);
            // This compares the question with the query's.
            let answer = read(&packet, &asked);
            assert_eq!(answer.answers.len(), records, "{kind}");
            assert!(answer.answers.iter().all(|record| record.name.to_string() == name), "{kind}");
        }
    }
}

#[test]
fn trap_07_names_that_lead_in_circles_cost_no_more_than_others() {
    let mut line = line();
    let mut formerr = |message: &[u8]| {
        let packet = line.send(message);
        let answer = &packet.frame.bytes()[packet.layout.dns()..];
        answer[3] & 0xf == 1
    };
    let mut message = query("a.example. A").message();
    message[11] = 1;
    let end = message.len() as u8;
    for owner in [vec![0xc0, end], vec![1, b'x', 0xc0, end], vec![0xc0, end + 2], vec![0xc0, 4]] {
        let record = [&owner[..], &[0, 1, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert!(formerr(&[&message[..], &record].concat()), "an owner that begins {owner:?}");
    }
    let mut question = query("a. A").message();
    question.splice(12..15, [0xc0, 12]);
    assert!(formerr(&question), "a question that points at itself");
    // Names each of which leads to the one before it: as many as a query may have, and as many as a frame can hold.
    for (count, is_wrong) in [(2_u16, false), (100, true)] {
        let mut chain = message.clone();
        chain[10..12].copy_from_slice(&count.to_be_bytes());
        for number in 0..usize::from(count) {
            let target = if number == 0 { 12 } else { usize::from(end) + (number - 1) * 14 };
            chain.extend([1, b'x', 0xc0 | (target >> 8) as u8, target as u8]);
            chain.extend([0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(formerr(&chain), is_wrong, "{count}");
    }
}
