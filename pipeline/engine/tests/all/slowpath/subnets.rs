//! Answers that are for one network only (RFC 7871): who gets them, and who never does.

use std::net::Ipv4Addr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RData;
use pmdns_config::{ClientSubnet, SubnetPolicy};
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::edns::{option, option_in};
use pmdns_stages::wire::subnet::SCOPE;

use super::rig::{Rig, SECOND, Setup, purge_of};
use super::stub::{Asked, Stub};

/// The stub's reply has a record that tells networks apart: 192.0 and the first two bytes of the address it was told.
/// If it was told none, the record is 192.0.255.255.
fn tailored(asked: &Asked, ttl: u32) -> Vec<u8> {
    let mut reply = asked.addresses(1, ttl);
    let told = asked.subnet().map_or_else(|| vec![255, 255], |data| [&data[4..], &[0, 0]].concat());
    let end = reply.len();
    reply[end - 2..].copy_from_slice(&told[..2]);
    reply
}

/// A stub whose answers are for networks of this length.
fn tailor(scope: u8) -> Stub {
    Stub::replying(move |asked| asked.with_scope(tailored(asked, 300), scope))
}

fn setup(stubs: &[&Stub], policy: SubnetPolicy) -> Setup {
    let mut setup = Setup::asking(stubs);
    setup.client_subnet.policy = policy;
    setup.upstreams.iter_mut().for_each(|upstream| upstream.client_subnet = true);
    setup
}

/// A query from this address.
fn from(address: [u8; 4]) -> QueryFrame {
    QueryFrame { source: address.to_vec(), ..query("www.example. A").edns(1232, false) }
}

/// A query by somebody who says to be in this network.
fn said(network: &[u8]) -> QueryFrame {
    from([10, 77, 0, 1]).option(option::SUBNET, network)
}

/// 10.`second`.0.0/16.
fn network(second: u8) -> Vec<u8> {
    vec![0, 1, 16, 0, 10, second]
}

/// The last two bytes of the address in the answer, and the data of its subnet option.
fn ask(rig: &mut Rig, asked: &QueryFrame) -> ([u8; 2], Option<Vec<u8>>) {
    let whole = rig.resolve_whole(asked);
    let message = Message::from_vec(&whole).unwrap();
    assert_eq!(message.metadata.response_code, ResponseCode::NoError);
    let RData::A(address) = &message.answers[0].data else { panic!("an address") };
    let octets = Ipv4Addr::from(*address).octets();
    ([octets[2], octets[3]], option_in(&whole, option::SUBNET).map(<[u8]>::to_vec))
}

/// The subnets the stub was told, in the order of the queries.
fn told(stub: &Stub) -> Vec<Option<Vec<u8>>> {
    stub.asked().iter().map(Asked::subnet).collect()
}

#[test]
fn two_networks_have_their_own_answers_and_never_each_other_s() {
    let stub = tailor(24);
    let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
    for (client, tells) in [
        ([10, 1, 0, 1], [10, 1]),
        ([10, 2, 0, 1], [10, 2]),
        ([10, 1, 0, 200], [10, 1]),
        ([10, 2, 0, 200], [10, 2]),
    ] {
        assert_eq!(ask(&mut rig, &from(client)), (tells, None), "{client:?}");
    }
    let expected = [[10, 1, 0], [10, 2, 0]].map(|net| Some([&[0, 1, 24, 0][..], &net].concat()));
    assert_eq!(told(&stub), expected, "cut to the limit, and each network asked for once");
    let counters = rig.finish();
    assert_eq!((counters.answered, counters.answered_for_subnet), (2, 2));
    assert_eq!((counters.inserted, counters.subnet_answers), (0, 2));
}

#[test]
fn a_wide_answer_is_for_all_in_it_and_a_narrow_one_comes_before_it() {
    // 10.1.0.0/16 has an answer of its own; the rest of 10.0.0.0/8 shares one.
    let stub = Stub::replying(|asked| {
        let is_special = asked.subnet().is_some_and(|data| data[5] == 1);
        asked.with_scope(tailored(asked, 300), if is_special { 16 } else { 8 })
    });
    let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
    assert_eq!(ask(&mut rig, &from([10, 1, 0, 1])).0, [10, 1]);
    assert_eq!(ask(&mut rig, &from([10, 2, 0, 1])).0, [10, 2]);
    assert_eq!(ask(&mut rig, &from([10, 3, 0, 1])).0, [10, 2], "it is in 10.0.0.0/8");
    assert_eq!(ask(&mut rig, &from([10, 1, 9, 1])).0, [10, 1], "the longest scope counts");
    assert_eq!(ask(&mut rig, &from([11, 1, 0, 1])).0, [11, 1], "it is in neither");
    assert_eq!(rig.finish().answered_for_subnet, 2);
}

#[test]
fn an_answer_for_everybody_is_in_the_cache() {
    let unscoped: fn(&Asked) -> Vec<u8> = |asked| asked.address();
    let zero: fn(&Asked) -> Vec<u8> = |asked| asked.with_scope(asked.address(), 0);
    // RFC 7871 section 7.4.
    let negative: fn(&Asked) -> Vec<u8> = |asked| asked.with_scope(asked.nxdomain(300), 24);
    for (reply, queries) in [(unscoped, 2), (zero, 1), (negative, 1)] {
        let stub = Stub::replying(reply);
        let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
        let first = rig.resolve(&from([10, 1, 0, 1]));
        assert_eq!(rig.resolve(&from([10, 2, 0, 1])), first);
        assert_eq!(stub.asked().len(), queries, "without the option it is asked over TCP too");
        let counters = rig.finish();
        assert_eq!((counters.inserted, counters.answered_from_cache_late), (1, 1));
        assert_eq!((counters.answered_for_subnet, counters.subnet_answers), (0, 0));
    }
}

#[test]
fn forwarding_sends_what_was_said_and_nothing_else() {
    let stub = tailor(20);
    let mut rig = setup(&[&stub], SubnetPolicy::Forward).start();
    assert_eq!(ask(&mut rig, &from([10, 1, 0, 1])), ([255, 255], None));
    let client = [0, 1, 32, 0, 10, 1, 16, 7];
    let mut echo = client.to_vec();
    echo[SCOPE] = 20;
    assert_eq!(ask(&mut rig, &said(&client)), ([10, 1], Some(echo)));
    assert_eq!(ask(&mut rig, &from([10, 1, 0, 2])), ([255, 255], None), "a hit of its own");
    let sixth = [0, 2, 64, 0, 0x20, 1, 0xd, 0xb8, 1, 2, 3, 4];
    assert_eq!(ask(&mut rig, &said(&sixth)).0, [0x20, 1]);
    let expected: [Option<&[u8]>; 3] =
        [None, Some(&[0, 1, 24, 0, 10, 1, 16]), Some(&[0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 1, 2, 3])];
    assert_eq!(told(&stub), expected.map(|data| data.map(<[u8]>::to_vec)));
    rig.finish();
}

#[test]
fn who_opts_out_is_told_of_to_nobody_and_shares_with_nobody_else() {
    for policy in [SubnetPolicy::Forward, SubnetPolicy::Add] {
        let stub = tailor(16);
        let mut rig = setup(&[&stub], policy).start();
        let opted_out = said(&[0, 1, 0, 0]);
        assert_eq!(ask(&mut rig, &opted_out), ([0, 0], Some(vec![0, 1, 0, 0])));
        assert_eq!(ask(&mut rig, &said(&network(1))).0, [10, 1]);
        assert_eq!(ask(&mut rig, &said(&[0, 2, 0, 0])), ([0, 0], Some(vec![0, 2, 0, 0])));
        assert_eq!(told(&stub), [Some(vec![0, 1, 0, 0]), Some(network(1))]);
        assert_eq!(rig.finish().answered_for_subnet, 1);
    }
}

#[test]
fn a_scope_longer_than_what_was_sent_is_for_no_more_than_that() {
    let stub = tailor(32);
    let mut rig = setup(&[&stub], SubnetPolicy::Forward).start();
    let mut echo = network(1);
    echo[SCOPE] = 16;
    assert_eq!(ask(&mut rig, &said(&network(1))), ([10, 1], Some(echo)));
    assert_eq!(ask(&mut rig, &said(&[0, 1, 24, 0, 10, 1, 2])).0, [10, 1]);
    assert_eq!(ask(&mut rig, &said(&[0, 1, 8, 0, 10])).0, [10, 0], "it is not all in it");
    assert_eq!(rig.finish().answered_for_subnet, 1);
}

#[test]
fn a_reply_about_another_network_is_dropped_and_tcp_is_asked() {
    let changes: [fn(&mut Vec<u8>); 4] = [
        |reply| *reply.last_mut().unwrap() ^= 1,
        |reply| {
            let end = reply.len();
            reply[end - 4] -= 1;
        },
        |reply| {
            let end = reply.len();
            reply[end - 5] = 2;
        },
        // A bit beyond the prefix: malformed.
        |reply| {
            let end = reply.len();
            reply[end - 4] = 15;
            reply[end - 1] |= 1;
        },
    ];
    for change in changes {
        let stub = Stub::replying(move |asked| {
            let mut reply = asked.with_scope(tailored(asked, 300), 16);
            if !asked.over_tcp {
                change(&mut reply);
            }
            reply
        });
        let mut rig = setup(&[&stub], SubnetPolicy::Forward).start();
        assert_eq!(ask(&mut rig, &said(&network(1))).0, [10, 1]);
        assert_eq!((rig.upstream(0).other_subnet, rig.upstream(0).tcp), (1, 1));
        rig.finish();
    }
}

#[test]
fn one_network_asks_once_at_a_time_and_every_network_for_itself() {
    let stub = tailor(24);
    stub.faults.delay_ms.set(200);
    let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
    for last in 1..=20 {
        for second in 1..=3 {
            rig.ask(&from([10, second, 0, last]));
        }
    }
    assert_eq!(rig.answers(60).len(), 60);
    assert_eq!(stub.asked().len(), 3);
    let counters = rig.finish();
    assert_eq!((counters.leaders, counters.answered), (3, 60 - counters.answered_for_subnet));
}

#[test]
fn upstreams_are_told_if_the_operator_says_so() {
    // The first is not told, and fails; the second is.
    let (mute, stub) = (Stub::replying(|asked| asked.rcode(2)), tailor(16));
    let mut setup = setup(&[&mute, &stub], SubnetPolicy::Add);
    setup.upstreams[0].client_subnet = false;
    let mut rig = setup.start();
    assert_eq!(ask(&mut rig, &from([10, 1, 0, 1])).0, [10, 1]);
    assert_eq!((told(&mute), told(&stub).len()), (vec![None], 1));
    rig.finish();

    // Where nobody may know, there is one question for all networks.
    let (near, far) = (tailor(16), tailor(16));
    let mut setup = self::setup(&[&near, &far], SubnetPolicy::Add).forward("example.", 1);
    setup.upstreams[1].client_subnet = false;
    let mut rig = setup.start();
    assert_eq!(ask(&mut rig, &from([10, 1, 0, 1])).0, [255, 255]);
    assert_eq!(ask(&mut rig, &from([10, 2, 0, 1])).0, [255, 255]);
    assert_eq!((near.asked().len(), told(&far)), (0, vec![None]));
    rig.finish();
}

#[test]
fn stripping_tells_nobody() {
    let stub = tailor(16);
    let mut rig = setup(&[&stub], SubnetPolicy::Strip).start();
    assert_eq!(ask(&mut rig, &said(&network(1))), ([255, 255], None));
    assert_eq!(ask(&mut rig, &from([10, 2, 0, 1])), ([255, 255], None));
    assert_eq!(told(&stub), [None]);
    rig.finish();
}

#[test]
fn so_many_answers_are_kept_and_no_more() {
    let stub = tailor(16);
    let mut setup = setup(&[&stub], SubnetPolicy::Add);
    setup.client_subnet = ClientSubnet { max_answers: 2, ..setup.client_subnet };
    let mut rig = setup.start();
    for second in [1, 2, 1, 3, 1, 2] {
        assert_eq!(ask(&mut rig, &from([10, second, 0, 1])).0, [10, second]);
        assert!(rig.counters().subnet_answers <= 2);
    }
    let asked_for: Vec<u8> = told(&stub).iter().map(|data| data.as_ref().unwrap()[5]).collect();
    assert_eq!(asked_for, [1, 2, 3, 2], "the one asked for longest ago made room");
    rig.finish();
}

#[test]
fn an_answer_for_a_network_expires_and_is_never_served_after_that() {
    let stub = Stub::replying(|asked| asked.with_scope(tailored(asked, 1), 16));
    let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
    let asked = from([10, 1, 0, 1]);
    ask(&mut rig, &asked);
    rig.pass(SECOND);
    ask(&mut rig, &asked);
    assert_eq!(stub.asked().len(), 2);
    stub.faults.dead.set(true);
    let counters = rig.stop().0;
    assert_eq!((counters.stale, counters.subnet_answers), (0, 1));
}

#[test]
fn what_is_purged_is_lost_for_networks_too() {
    let stub = tailor(16);
    let mut rig = setup(&[&stub], SubnetPolicy::Add).start();
    let clients = [from([10, 1, 0, 1]), from([10, 2, 0, 1])];
    clients.iter().for_each(|client| drop(ask(&mut rig, client)));
    for (name, lost) in [("other.example", 0), ("www.example", 2)] {
        let purge = purge_of(name, false, None);
        assert_eq!(rig.cache_job(|jobs| jobs.purge(&purge)).unwrap(), lost);
    }
    assert_eq!(rig.counters().subnet_answers, 0);
    clients.iter().for_each(|client| drop(ask(&mut rig, client)));
    assert_eq!(stub.asked().len(), 4);
    rig.finish();
}
