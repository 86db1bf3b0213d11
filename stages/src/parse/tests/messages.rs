//! DNS messages: plain queries, others, and those that get an rcode.

use super::*;
use crate::wire::dns::Rcode;
use crate::wire::edns::OPT_LEN;

/// A change to a message whose question ends at the number given.
type ChangeFrom = fn(&mut Vec<u8>, usize);

/// Where the DNS message `message` goes, and what it is to be answered.
fn outcome(message: &[u8]) -> (Step, Answer) {
    let packet = parsed(&query("a. A").frame_around(message));
    (packet.step, packet.answer)
}

#[test]
fn responses_and_stubs_of_messages_are_never_answered() {
    let mut message = query("a. A").message();
    message[2] |= 0x80;
    assert_eq!(outcome(&message).0, Step::drop(Reason::DnsResponse));
    assert_eq!(outcome(&message[..11]).0, Step::drop(Reason::DnsHeader));
}

#[test]
fn queries_we_do_not_do_get_their_rcode() {
    let plain = query("a. A").message();
    let with_edns = query("a. A").edns(1232, false).message();
    let opt = plain.len();
    let changed = |message: &[u8], change: ChangeFrom| {
        let mut message = message.to_vec();
        change(&mut message, opt);
        outcome(&message)
    };
    let cases: [(Rcode, &[u8], ChangeFrom); 14] = [
        (Rcode::NOTIMP, &plain, |m, _| m[2] |= 5 << 3),
        (Rcode::FORMERR, &plain, |m, _| m[5] = 0),
        (Rcode::FORMERR, &plain, |m, _| m[5] = 2),
        (Rcode::FORMERR, &plain, |m, _| m[7] = 1),
        (Rcode::FORMERR, &plain, |m, _| m.truncate(13)),
        (Rcode::FORMERR, &plain, |m, _| m[12] = 0xc0),
        (Rcode::FORMERR, &with_edns, |m, opt| m[opt + 10] = 1),
        (Rcode::FORMERR, &with_edns, |m, opt| {
            m[11] = 2;
            m.extend_from_within(opt..);
        }),
        (Rcode::BADVERS, &with_edns, |m, opt| m[opt + 6] = 1),
        (Rcode::FORMERR, &plain, |m, opt| put16(m, opt - 4, 41)),
        (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 4, 252)),
        // IXFR with its SOA in the authority section (RFC 1995 section 3).
        (Rcode::REFUSED, &plain, |m, opt| {
            put16(m, opt - 4, 251);
            m[9] = 1;
            m.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22]);
            m.extend_from_slice(&[0; 22]);
        }),
        (Rcode::NOTIMP, &plain, |m, opt| put16(m, opt - 4, 254)),
        (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 2, 3)),
    ];
    for (index, (rcode, message, change)) in cases.into_iter().enumerate() {
        assert_eq!(changed(message, change), (ON, Answer::Rcode(rcode)), "case {index}");
    }
}

#[test]
fn bytes_behind_a_query_mean_nothing() {
    let opt = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
    for asked in [
        query("a. A"),
        query("a. A").edns(1232, true),
        query("a. A").edns(1232, false).option(10, &[1; 8]),
    ] {
        let message = asked.message();
        let bare = parsed(&asked.frame_around(&message));
        assert_eq!((bare.step, bare.answer), (ON, Answer::None));
        for more in [&[0][..], &[0; 440], &[0xff; 9], &opt] {
            let longer = parsed(&asked.frame_around(&[&message, more].concat()));
            assert_eq!((longer.step, longer.answer), (bare.step, bare.answer), "{more:?}");
            assert_eq!(longer.layout.qtype, bare.layout.qtype);
            for flag in [Flags::EDNS, Flags::DO] {
                assert_eq!(longer.layout.flags.has(flag), bare.layout.flags.has(flag));
            }
            assert_eq!(longer.query().question(), bare.query().question());
        }
    }
}

#[test]
fn a_formerr_keeps_the_opt_record_that_could_be_read() {
    for (change, name_len) in [(4usize, 0), (6, 3)] {
        // QDCOUNT 0 without a question, ANCOUNT 1 with a record before the OPT.
        let mut message = query("a. A").edns(1232, true).message();
        if change == 4 {
            message[5] = 0;
            message.drain(HEADER_LEN..HEADER_LEN + 7);
        } else {
            message[7] = 1;
            let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
            message.splice(HEADER_LEN + 7..HEADER_LEN + 7, record);
        }
        let packet = parsed(&query("a. A").frame_around(&message));
        assert_eq!(packet.answer, Answer::Rcode(Rcode::FORMERR));
        assert!(packet.layout.flags.has(Flags::EDNS), "RFC 6891 section 6.1.1");
        assert_eq!(packet.layout.name_len, name_len);
    }
}

/// A query that is plain, or nearly.
fn nearly_plain() -> impl Strategy<Value = Vec<u8>> {
    let types = prop_oneof![0u16..260, Just(65_280)];
    let edns = proptest::option::of((any::<u16>(), any::<bool>()));
    let option = proptest::option::of(Just(10u16));
    (types, edns, option, proptest::option::of((0usize..60, any::<u8>())), 0usize..3).prop_map(
        |(qtype, edns, option, change, cut)| {
            let mut query = QueryFrame { qtype, edns, ..query("www.Example. A") };
            if let Some(code) = option {
                query = query.option(code, &[1; 8]);
            }
            let mut message = query.message();
            if let Some((at, value)) = change {
                let len = message.len();
                message[at % len] = value;
            }
            message.truncate(message.len() - cut);
            message
        },
    )
}

proptest! {
    #[test]
    fn what_is_read_as_plain_is_read_the_same_as_any_query(message in nearly_plain()) {
        let name_len = name_len(name::length(&message[HEADER_LEN..]));
        let any = ParsedQuery::read_any(&message, name_len);
        let plain = ParsedQuery::read_plain(&message, name_len);
        if let Some(plain) = plain.filter(|_| ParsedQuery::may_be_plain(&message)) {
            prop_assert_eq!(plain, any);
            prop_assert_eq!(any.error, None);
        } else {
            let opt_len = if any.edns.is_some() { OPT_LEN } else { 0 };
            let bare_len = HEADER_LEN + question_len(any.name_len) + opt_len;
            // Options, or bytes that mean nothing.
            let has_more = message.len() > bare_len;
            let has_others = message[HEADER_LEN - 1] > u8::from(any.edns.is_some());
            let wants_recursion = message[header::FLAGS] & 1 != 0;
            let is_other = any.error.is_some() || has_more || has_others || !wants_recursion;
            prop_assert!(is_other, "it is plain");
        }
    }
}
