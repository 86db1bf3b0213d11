//! Replies that are not what they seem.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use pmdns_stages::testing::query;
use pmdns_stages::wire::name;

use super::BY_PORT;
use super::rig::Setup;
use super::stub::{Asked, Send, Stub};

/// Replies that answer another query, each in its own way.
fn forgeries(asked: &Asked) -> Vec<Vec<u8>> {
    let mut other_id = asked.address();
    other_id[0] ^= 0xff;
    let mut other_name = asked.address();
    other_name[13] ^= 1;
    let mut other_type = asked.address();
    other_type[12 + 13 + 1] = 28;
    let mut not_a_response = asked.address();
    not_a_response[2] &= 0x7f;
    let cut_off = asked.address()[..11].to_vec();
    vec![other_id, other_name, other_type, not_a_response, cut_off]
}

#[test]
fn trap_09_forged_reply_keeps_the_pending_entry() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        let mut sends = vec![Send::FromElsewhere(asked.addresses(7, 300))];
        sends.extend(forgeries(asked).into_iter().map(Send::Reply));
        sends.push(Send::Reply(asked.address()));
        sends
    });
    let mut rig = Setup::asking(&[&stub]).start();
    let answer = rig.resolve(&query("www.example. A"));
    assert_eq!((answer.rcode, answer.records), (0, 1), "the right reply, not a forged one");
    let upstream = rig.upstream(0);
    assert_eq!((upstream.queries, upstream.replies, upstream.tcp), (1, 1, 0));
    // The one from elsewhere is not counted: the kernel does not even show it.
    assert_eq!(upstream.mismatched, 5);
    assert_eq!(rig.finish().inserted, 1);
}

#[test]
fn a_flood_of_forgeries_ends_in_tcp() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        if asked.over_tcp {
            return vec![Send::Reply(asked.address())];
        }
        (0..20).flat_map(|_| forgeries(asked)).map(Send::Reply).collect()
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(rig.upstream(0).tcp, 1);
    rig.finish();
}

#[test]
fn a_reply_that_cannot_be_read_is_fetched_over_tcp() {
    let stub = Stub::replying(|asked| match asked.over_tcp {
        false => {
            let whole = asked.address();
            whole[..whole.len() - 2].to_vec()
        }
        true => asked.address(),
    });
    let mut rig = Setup::asking(&[&stub]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 1);
    assert_eq!(rig.upstream(0).malformed, 1);
    rig.finish();
}

#[test]
fn a_forged_reply_over_tcp_is_no_answer() {
    let liar = Stub::replying(|asked| match asked.over_tcp {
        false => asked.truncated(),
        true => forgeries(asked).remove(0),
    });
    let honest = Stub::replying(|asked| asked.addresses(2, 300));
    let mut rig = Setup::asking(&[&liar, &honest]).start();
    assert_eq!(rig.resolve(&query("www.example. A")).records, 2);
    assert_eq!(rig.upstream(0).errors, 1);
    rig.finish();
}

/// Queries that left at once, as the upstream saw them: how many from each port, at most so many
/// together.
fn volley(queries_per_port: usize) -> Vec<Vec<u16>> {
    const QUERIES: usize = 200;
    let stub = Stub::replying(|asked| asked.address());
    let mut setup = Setup::asking(&[&stub]);
    setup.settings.queries_per_port = queries_per_port;
    let mut rig = setup.start();
    for number in 0..QUERIES {
        rig.ask(&query(&format!("n{number}.example. A")));
    }
    assert!(rig.answers(QUERIES).iter().all(|answer| answer.records == 1));
    rig.finish();
    let mut ids_by_port: HashMap<u16, Vec<u16>> = HashMap::new();
    for asked in stub.asked() {
        ids_by_port.entry(asked.from.port()).or_default().push(asked.id());
    }
    ids_by_port.into_values().collect()
}

#[test]
fn queries_that_share_a_port_have_different_ids() {
    let ports = volley(4);
    let (count, why) = match BY_PORT {
        true => (200, "each has a port of its own"),
        false => (50, "no more than four leave together"),
    };
    assert_eq!(ports.len(), count, "{why}");
    for ids in &ports {
        let different: HashSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}

#[test]
fn every_query_has_its_own_port_if_the_operator_says_so() {
    assert!(volley(1).iter().all(|ids| ids.len() == 1));
}

/// The name in a query.
fn name_in(asked: &Asked) -> &[u8] {
    &asked.message[12..12 + name::length(&asked.message[12..]).unwrap()]
}

/// Long enough that no two spellings of it are alike, nor one of them all small.
const LONG: &str = "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.example. A";

#[test]
fn fwd_capsid_letters_are_mixed_and_clients_get_their_own() {
    let stub = Stub::replying(|asked| asked.addresses(1, 0));
    let mut rig = Setup::asking(&[&stub]).mixed().start();
    let client = query(LONG);
    for _ in 0..10 {
        let answer = rig.resolve_whole(&client);
        assert_eq!(answer[12..12 + client.name.len()], client.name);
    }
    let asked = stub.asked();
    let spellings: HashSet<&[u8]> = asked.iter().map(name_in).collect();
    assert_eq!((asked.len(), spellings.len()), (10, 10), "each in its own letters");
    assert!(spellings.iter().all(|name| name.eq_ignore_ascii_case(&client.name)));
    let upstream = rig.upstream(0);
    assert_eq!((upstream.replies, upstream.mismatched, upstream.tcp), (10, 0, 0));
    rig.finish();
}

#[test]
fn fwd_capsid_who_does_not_keep_letters_is_asked_over_tcp_and_then_in_small_ones() {
    let stub = Stub::replying(|asked| {
        let mut reply = asked.addresses(1 + u16::from(asked.over_tcp), 0);
        reply[12..].make_ascii_lowercase();
        reply
    });
    let mut rig = Setup::asking(&[&stub]).mixed().start();
    let records: Vec<u16> = (0..6).map(|_| rig.resolve(&query(LONG)).records).collect();
    assert_eq!(records, [2, 2, 2, 1, 1, 1]);
    let upstream = rig.upstream(0);
    assert_eq!((upstream.case_mismatch, upstream.mismatched), (3, 3));
    assert_eq!((upstream.case_mixing_paused, upstream.tcp, upstream.queries), (1, 3, 6));
    rig.finish();
}

#[test]
fn fwd_capsid_a_forger_who_knows_all_but_the_letters_does_not_get_in() {
    let stub = Stub::start(Ipv4Addr::LOCALHOST.into(), |asked| {
        let mut forged = asked.addresses(7, 300);
        forged[12..].make_ascii_lowercase();
        match asked.over_tcp {
            false => vec![Send::Reply(forged), Send::Reply(asked.address())],
            true => vec![Send::Reply(asked.address())],
        }
    });
    let mut rig = Setup::asking(&[&stub]).mixed().start();
    assert_eq!(rig.resolve(&query(LONG)).records, 1);
    assert_eq!((rig.upstream(0).case_mismatch, rig.upstream(0).tcp), (1, 1));
    rig.finish();
}
