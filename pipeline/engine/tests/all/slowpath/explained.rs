//! What SERVFAIL and expired answers are explained with (RFC 8914), and the other options of answers that took their time.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::edns::option;
use pmdns_stages::wire::ip::{ETHERNET_LEN, IPV4_MIN_LEN, UDP_LEN};

use super::rig::{Rig, SECOND, Setup};
use super::stale::first_then;
use super::stub::{Asked, Stub};

/// The rcode of a query's answer, and the options in it; `None` without OPT record.
pub(crate) type Answer = (ResponseCode, Option<Vec<(u16, Vec<u8>)>>);

/// What a stub replies to a query.
type Reply = fn(&Asked) -> Vec<u8>;

pub(crate) fn answer(rig: &mut Rig, query: &QueryFrame) -> Answer {
    let frame = rig.resolve_frame(query);
    let message = &frame.bytes()[ETHERNET_LEN + IPV4_MIN_LEN + UDP_LEN..];
    let message = Message::from_vec(message).unwrap();
    let data = |option: &EdnsOption| Vec::try_from(option).unwrap();
    let options = message.edns.as_ref().map(|edns| {
        let options = edns.options().as_ref().iter();
        options.map(|(code, option)| ((*code).into(), data(option))).collect()
    });
    (message.metadata.response_code, options)
}

/// SERVFAIL with this extended error.
pub(crate) fn servfail(code: u8) -> Answer {
    (ResponseCode::ServFail, Some(vec![(option::EXTENDED_ERROR, vec![0, code])]))
}

#[test]
fn a_failure_says_that_no_upstream_answered_and_then_that_it_is_remembered() {
    let stub = Stub::replying(|asked| asked.rcode(2));
    let mut rig = Setup::asking(&[&stub]).start();
    let asked = query("www.example. A").edns(1232, false);
    assert_eq!(answer(&mut rig, &asked), servfail(22));
    assert_eq!(answer(&mut rig, &asked), servfail(13));
    let plain = QueryFrame { edns: None, ..asked };
    assert_eq!(answer(&mut rig, &plain), (ResponseCode::ServFail, None));
    rig.finish();
}

#[test]
fn what_an_upstream_says_of_its_failure_is_passed_on_also_while_it_is_remembered() {
    // 9: no DNSKEY is there; the upstream's text stays behind. 4096 is for private use.
    for (code, told) in [(9, [9, 9]), (22, [22, 13]), (4096, [22, 13]), (0, [22, 13])] {
        let silent = Stub::replying(|asked| asked.rcode(5));
        let stub = Stub::replying(move |asked| {
            let data = [&u16::to_be_bytes(code)[..], b"because"].concat();
            asked.with_option(asked.rcode(2), option::EXTENDED_ERROR, &data)
        });
        let mut rig = Setup::asking(&[&silent, &stub]).start();
        let asked = query("www.example. A").edns(1232, false);
        for told in told {
            assert_eq!(answer(&mut rig, &asked), servfail(told), "{code}");
        }
        assert_eq!((stub.asked().len(), rig.finish().failed_recently), (1, 1));
    }
}

#[test]
fn a_deadline_says_that_no_upstream_answered() {
    let stub = Stub::silent();
    let mut rig = Setup::asking(&[&stub]).hasty(50, 20_000).start();
    assert_eq!(answer(&mut rig, &query("www.example. A").edns(1232, true)), servfail(22));
    rig.finish();
}

#[test]
fn an_upstream_that_is_not_there_is_an_error_of_the_network() {
    let setup = Setup::asking(&[&Stub::silent()]);
    // The stub is gone, and its port is closed.
    let mut rig = setup.start();
    assert_eq!(answer(&mut rig, &query("www.example. A").edns(1232, true)), servfail(23));
    rig.finish();
}

#[test]
fn an_expired_answer_says_that_it_is_one() {
    let firsts: [(Reply, _, _); 2] = [
        (|asked| asked.addresses(1, 1), ResponseCode::NoError, 3),
        (|asked| asked.nxdomain(1), ResponseCode::NXDomain, 19),
    ];
    for (first, rcode, code) in firsts {
        let stub = first_then(first, |asked, _| Some(asked.rcode(2)));
        let mut rig = Setup::asking(&[&stub]).start();
        let asked = query("www.example. A").edns(1232, false);
        assert_eq!(answer(&mut rig, &asked), (rcode, Some(vec![])));
        let stale = (rcode, Some(vec![(option::EXTENDED_ERROR, vec![0, code])]));
        // Both ways: upstreams have just failed, and nobody is asked again.
        rig.pass(SECOND);
        assert_eq!(answer(&mut rig, &asked), stale);
        assert_eq!(answer(&mut rig, &asked), stale);
        let plain = QueryFrame { edns: None, ..asked };
        assert_eq!(answer(&mut rig, &plain), (rcode, None));
        assert_eq!(rig.finish().stale, 3);
    }
}

#[test]
fn an_answer_has_no_options_that_nobody_asked_for() {
    let stub = Stub::replying(|asked| asked.address());
    let mut rig = Setup::asking(&[&stub]).start();
    let asked = query("www.example. A").edns(1232, false).option(option::NSID, &[]);
    assert_eq!(answer(&mut rig, &asked), (ResponseCode::NoError, Some(vec![])));
    rig.finish();
}
