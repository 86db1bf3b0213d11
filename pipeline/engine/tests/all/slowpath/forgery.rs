//! What a forger sends who does not see our queries, and what servers send that looks like it.

use std::cell::RefCell;

use pmdns_config::SubnetPolicy;
use pmdns_stages::testing::{QueryFrame, query};

use super::BY_PORT;
use super::rig::{Rig, Setup};
use super::stub::{Asked, Send, Stub};

/// So long that no random spelling of it is all small or all large.
const LONG: &str = "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.example. A";

/// The reply of a server that writes all names large.
fn in_capitals(asked: &Asked) -> Vec<u8> {
    let mut reply = asked.addresses(1 + u16::from(asked.over_tcp), 0);
    reply[12..76].make_ascii_uppercase();
    reply
}

#[test]
fn difference_letter_case_is_nothing_to_go_by_where_letters_are_not_mixed() {
    let stub = Stub::replying(in_capitals);
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query(LONG)).records, 1);
    assert_eq!((rig.upstream(0).mismatched, rig.upstream(0).tcp), (0, 0));
    rig.finish();
}

#[test]
fn difference_letter_case_is_nothing_to_go_by_over_tcp() {
    let stub = Stub::replying(in_capitals);
    let mut rig = Setup::asking(&[&stub]).mixed().start();
    let records: Vec<u16> = (0..5).map(|_| rig.resolve(&query(LONG)).records).collect();
    assert_eq!(records, [2, 2, 2, 1, 1], "and after three replies letters are left alone");
    rig.finish();
}

#[test]
fn difference_letter_case_costs_nobody_the_answer_where_tcp_is_refused() {
    let stub = Stub::without_tcp(in_capitals);
    let mut rig = Setup::asking(&[&stub]).mixed().start();
    for _ in 0..5 {
        let answer = rig.resolve(&query(LONG));
        assert_eq!((answer.rcode, answer.records), (0, 1));
    }
    assert_eq!((rig.upstream(0).case_mismatch, rig.upstream(0).case_mixing_paused), (3, 1));
    rig.finish();
}

/// A rig whose upstream is told of networks.
fn telling(stub: &Stub) -> Rig {
    let mut setup = Setup::asking(&[stub]);
    setup.client_subnet.policy = SubnetPolicy::Add;
    setup.upstreams[0].client_subnet = true;
    setup.start()
}

/// A query from this network.
fn from(second: u8) -> QueryFrame {
    QueryFrame { source: vec![10, second, 0, 1], ..query("www.example. A").edns(1232, false) }
}

#[test]
fn audit_04_a_reply_that_leaves_the_subnet_out_is_asked_for_over_tcp() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        false => asked.addresses(7, 300),
        true => asked.address(),
    });
    let mut rig = telling(&stub);
    for second in [1, 2] {
        assert_eq!(rig.resolve(&from(second)).records, 1, "whoever it was could not forge this");
    }
    assert_eq!((rig.upstream(0).other_subnet, rig.upstream(0).tcp), (1, 1));
    assert_eq!(rig.finish().inserted, 1, "over TCP it is for everybody (RFC 7871 section 7.3)");
}

#[test]
fn cve_2025_30192_a_forged_reply_without_subnet_reaches_nobody() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| match asked.over_tcp {
        true => vec![Send::Reply(asked.with_scope(asked.address(), 16))],
        false => [asked.addresses(7, 300), asked.nxdomain(300)].map(Send::Reply).into(),
    });
    let mut rig = telling(&stub);
    assert_eq!(rig.resolve(&from(1)).records, 1);
    assert_eq!(rig.counters().inserted, 0);
    rig.finish();
}

#[test]
fn cve_2026_40012_scope_zero_is_for_everybody_only_where_the_subnet_came_back() {
    let stub = Stub::replying(|asked| asked.with_scope(asked.address(), 0));
    let mut rig = telling(&stub);
    for second in [1, 2] {
        assert_eq!(rig.resolve(&from(second)).records, 1);
    }
    assert_eq!((stub.asked().len(), rig.upstream(0).tcp), (1, 0));
    rig.finish();
}

#[test]
fn cve_2025_59023_a_reply_longer_than_announced_goes_to_tcp() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        // 1,233 bytes: one more than fits.
        false => {
            let mut reply = asked.addresses(75, 300);
            reply.resize(1233, 0);
            reply
        }
        true => asked.address(),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).oversized, rig.upstream(0).tcp), (1, 1));
    rig.finish();
}

#[test]
fn audit_low_a_reply_as_long_as_announced_is_taken() {
    let stub = Stub::replying(|asked| asked.addresses(75, 300));
    let mut rig = Setup::asking(&[&stub]).start();
    assert!(
        rig.resolve(&query("www.example. A")).truncated,
        "1,231 bytes are too many for the client"
    );
    assert_eq!((rig.upstream(0).oversized, rig.upstream(0).tcp), (0, 0));
    assert_eq!(rig.finish().inserted, 1);
}

#[test]
fn audit_low_a_forged_formerr_does_not_take_edns_away() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| {
        let mut forged = asked.rcode(1)[..12].to_vec();
        forged[5] = 0;
        match asked.over_tcp {
            false => vec![Send::Reply(forged), Send::Reply(asked.address())],
            true => vec![Send::Reply(asked.address())],
        }
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert!(stub.asked().iter().all(Asked::has_edns));
    rig.finish();
}

/// Datagrams that no resolver may make anything of, after "TuDoor" (Li and others, IEEE S&P 2024).
fn malformed(asked: &Asked) -> Vec<Vec<u8>> {
    let right = asked.address();
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut reply = right.clone();
        change(&mut reply);
        reply
    };
    vec![
        Vec::new(),
        right[..1].to_vec(),
        right[..12].to_vec(),
        right[..right.len() - 17].to_vec(),
        changed(|reply| reply[2] &= 0x7f),
        changed(|reply| reply[2] |= 0x28),
        changed(|reply| reply[5] = 0),
        changed(|reply| reply[5] = 2),
        changed(|reply| (reply[2], reply[3], reply[5]) = (0x80, 2, 0)),
        changed(|reply| (reply[2], reply[3], reply[5]) = (0x80, 5, 0)),
        changed(|reply| reply[13] = 0xc0),
        changed(|reply| reply[0] ^= 1),
    ]
}

#[test]
fn tudoor_what_is_malformed_ends_no_query() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| {
        let mut sends: Vec<Send> = malformed(asked).into_iter().map(Send::Reply).collect();
        sends.push(Send::Reply(asked.address()));
        sends
    });
    let mut rig = Setup::asking(&[&stub]).start();
    let answer = rig.resolve(&query("www.example. A"));
    assert_eq!((answer.rcode, answer.records), (0, 1));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.queries, upstream.replies, upstream.tcp), (1, 1, 0));
    // Parse drops two that have no whole header.
    assert_eq!(upstream.mismatched, if BY_PORT { 10 } else { 12 });
    rig.finish();
}

#[test]
fn cve_2026_33602_ids_beside_the_right_one_belong_to_no_query() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| {
        let ids = [asked.id().wrapping_add(1), asked.id().wrapping_sub(1), u16::MAX, 0];
        let others = ids.into_iter().filter(|id| *id != asked.id());
        let mut replies: Vec<Vec<u8>> =
            others.map(|id| [&id.to_be_bytes(), &asked.addresses(7, 300)[2..]].concat()).collect();
        if asked.over_tcp {
            replies.truncate(1);
        } else {
            replies.push(asked.truncated());
        }
        replies.into_iter().map(Send::Reply).collect()
    });
    let honest = Stub::replying(|asked| asked.addresses(2, 300));
    let mut rig = Setup::asking(&[&stub, &honest]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 2);
    assert!(rig.upstream(0).mismatched >= 3);
    assert_eq!((rig.upstream(0).tcp, rig.upstream(0).errors), (1, 1), "it ends the connection");
    rig.finish();
}

#[test]
fn cve_2026_33596_replies_over_tcp_that_have_each_other_s_ids_are_nobody_s() {
    let first = RefCell::new(None::<Asked>);
    let stub = Stub::start([127, 0, 0, 1].into(), move |asked| {
        if !asked.over_tcp {
            return vec![Send::Reply(asked.truncated())];
        }
        let Some(first) = first.take() else {
            first.replace(Some(asked.clone()));
            return Vec::new();
        };
        let crossed = |id: &Asked, of: &Asked| {
            Send::Reply([&id.id().to_be_bytes(), &of.addresses(7, 300)[2..]].concat())
        };
        vec![crossed(&first, asked), crossed(asked, &first)]
    });
    let honest = Stub::replying(|asked| asked.addresses(2, 300));
    let mut rig = Setup::asking(&[&stub, &honest]).start();
    for name in ["n1.example. A", "n2.example. A"] {
        rig.ask(&query(name));
    }
    assert!(rig.answers(2).iter().all(|answer| answer.records == 2));
    assert_eq!((rig.upstream(0).tcp, rig.upstream(0).errors), (2, 2), "the connection ends");
    rig.finish();
}

#[test]
fn cve_2025_5994_a_name_is_asked_over_udp_for_a_handful_of_networks_at_once() {
    let stub = Stub::replying(|asked| asked.with_scope(asked.address(), 24));
    stub.faults.delay_ms.set(300);
    let mut rig = telling(&stub);
    (0..40).for_each(|second| rig.ask(&from(second)));
    assert!(rig.answers(40).iter().all(|answer| answer.records == 1));
    let (over_tcp, over_udp): (Vec<Asked>, Vec<Asked>) =
        stub.asked().into_iter().partition(|asked| asked.over_tcp);
    assert_eq!((over_udp.len(), over_tcp.len()), (4, 36));
    assert_eq!(rig.counters().crowded, 36);
    rig.ask(&from(50));
    assert_eq!(rig.answers(1)[0].records, 1);
    assert!(!stub.asked().last().unwrap().over_tcp, "there is room again");
    rig.finish();
}

const SERVER: [u8; 8] = *b"server01";

#[test]
fn cookies_come_back_to_the_upstream_that_made_them() {
    let stub = Stub::replying(|asked| asked.with_cookie(asked.addresses(1, 0), SERVER));
    let other = Stub::replying(|asked| asked.with_cookie(asked.addresses(1, 0), SERVER));
    let mut rig = Setup::asking(&[&stub, &other]).forward("other.", 1).start();
    for name in ["www.example. A", "www.example. A", "www.other. A"] {
        assert_eq!(rig.resolve(&query(name)).records, 1);
    }
    let cookies: Vec<Vec<u8>> = stub.asked().iter().filter_map(Asked::cookie).collect();
    assert_eq!((cookies[0].len(), &cookies[1][8..]), (8, &SERVER[..]));
    assert_eq!(cookies[0], cookies[1][..8], "ours stays the same");
    assert_ne!(other.asked()[0].cookie().unwrap(), cookies[0], "nobody learns it elsewhere");
    assert_eq!((rig.upstream(0).cookies, rig.upstream(0).tcp), (2, 0));
    rig.finish();
}

#[test]
fn who_shows_cookies_is_not_believed_without() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| {
        let right = Send::Reply(asked.with_cookie(asked.addresses(1, 0), SERVER));
        let is_known = asked.cookie().is_some_and(|cookie| cookie.len() > 8);
        match asked.over_tcp || !is_known {
            true => vec![right],
            false => vec![Send::Reply(asked.addresses(7, 300)), right],
        }
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for tcp in [0, 1, 2] {
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
        assert_eq!((rig.upstream(0).cookieless, rig.upstream(0).tcp), (tcp, tcp));
    }
    assert_eq!(rig.finish().inserted, 0);
}

#[test]
fn a_reply_with_another_cookie_is_waited_out() {
    let stub = Stub::start([127, 0, 0, 1].into(), |asked| {
        let wrong = asked.with_option(asked.addresses(7, 300), 10, b"guessed!server01");
        let empty = asked.with_option(asked.addresses(7, 300), 10, b"");
        let right = asked.with_cookie(asked.addresses(1, 0), SERVER);
        [wrong, empty, right].map(Send::Reply).into()
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    let upstream = rig.upstream(0);
    assert_eq!((upstream.mismatched, upstream.cookies, upstream.tcp), (2, 1, 0));
    rig.finish();
}

/// BADCOOKIE with a server cookie.
fn bad_cookie(asked: &Asked, server: [u8; 8]) -> Vec<u8> {
    let plain = asked.rcode(7);
    let extended_rcode_at = plain.len() + 5;
    let mut reply = asked.with_cookie(plain, server);
    reply[extended_rcode_at] = 1;
    reply
}

#[test]
fn badcookie_is_asked_again_with_the_new_one_and_then_over_tcp() {
    let picky = Stub::replying(|asked| match asked.cookie().unwrap().get(8..) {
        Some(server) if server == SERVER => asked.with_cookie(asked.addresses(1, 0), SERVER),
        _ => bad_cookie(asked, SERVER),
    });
    let mut rig = Setup::asking(&[&picky]).mixed().start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).queries, rig.upstream(0).tcp), (2, 0));
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(rig.upstream(0).queries, 3, "it is known now");
    rig.finish();

    let lost = Stub::replying(|asked| match asked.over_tcp {
        false => bad_cookie(asked, *b"whatever"),
        true => asked.address(),
    });
    let mut rig = Setup::asking(&[&lost]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!((rig.upstream(0).queries, rig.upstream(0).tcp), (2, 1));
    rig.finish();
}

#[test]
fn who_leaves_cookies_off_is_believed_after_one_look_over_tcp() {
    let shows = std::sync::atomic::AtomicBool::new(true);
    let stub = Stub::replying(move |asked| {
        match shows.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => asked.with_cookie(asked.addresses(1, 0), SERVER),
            false => asked.addresses(1, 0),
        }
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for _ in 0..5 {
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    }
    assert_eq!((rig.upstream(0).cookieless, rig.upstream(0).tcp), (1, 1));
    rig.finish();
}

#[test]
fn no_cookie_is_sent_if_the_operator_says_so() {
    let stub = Stub::replying(|asked| asked.address());
    let mut setup = Setup::asking(&[&stub]);
    setup.upstreams[0].cookies = false;
    let mut rig = setup.start();
    rig.resolve(&query("www.example. A"));
    assert_eq!(stub.asked()[0].cookie(), None);
    rig.finish();
}

#[test]
fn audit_04_with_a_right_cookie_letters_and_subnets_need_no_tcp() {
    let stub = Stub::replying(|asked| asked.with_cookie(in_capitals(asked), SERVER));
    let mut setup = Setup::asking(&[&stub]).mixed();
    setup.client_subnet.policy = SubnetPolicy::Add;
    setup.upstreams[0].client_subnet = true;
    let mut rig = setup.start();
    assert_eq!(rig.resolve(&query(LONG)).records, 1);
    assert_eq!(
        (rig.upstream(0).case_mismatch, rig.upstream(0).other_subnet, rig.upstream(0).tcp),
        (0, 0, 0)
    );
    rig.finish();
}

#[test]
fn audit_low_who_knows_no_edns_is_asked_without_after_three_questions() {
    let stub = Stub::replying(|asked| match asked.has_edns() {
        true => asked.rcode(1),
        false => asked.addresses(1, 0),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    for queries in [2, 4, 6, 7, 8] {
        assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
        assert_eq!(stub.asked().len(), queries);
    }
    assert_eq!(rig.upstream(0).without_edns, 1);
    rig.finish();
}
