//! Upstreams on a link made of memory.

mod forwarder;

use std::net::SocketAddr;

use pmdns_nics::{FramePool, HeapPool, MAX_BURST, Queues, RxQueue, Verified, memory};
use pmdns_stages::testing::{OUR_IPV6, QueryFrame, frame_of, query};
use pmdns_stages::wire::be16;
use proptest::prelude::*;

use super::frames::Datagram;
use super::*;
use crate::load::path::has_right_checksums;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xdd];
const ZONE: &str = "$ORIGIN example.\n@ 60 SOA ns host 1 2 3 4 5\nwww 60 A 192.0.2.1\n";

fn role() -> Role {
    Role {
        addresses: ["10.77.0.2:53", "[fd77::2]:53"].map(|text| text.parse().unwrap()).into(),
        mac: MAC,
        zone: Zone::parse(ZONE).unwrap(),
        delay: 0,
        held: 64,
        loss: 0.0,
        seed: 1,
    }
}

/// A frame of the server's to us.
fn asked(query: &QueryFrame) -> Vec<u8> {
    let mut frame = query.frame_bytes();
    frame[..6].copy_from_slice(&MAC);
    frame
}

fn take(upstreams: &mut Upstreams, bytes: &[u8]) -> (Fate, Vec<u8>) {
    let mut frame = frame_of(bytes);
    let fate = upstreams.take(&mut frame, true);
    (fate, frame.bytes().to_vec())
}

/// Both ends of a link.
fn link() -> (Box<dyn TxQueue>, Box<dyn RxQueue>) {
    let (_, mut near, far): (_, Queues, Queues) = memory::link("load", 0, 1, 256);
    let Queues { mut rx, .. } = far;
    (near.tx.remove(0), rx.remove(0))
}

fn received(rx: &mut dyn RxQueue) -> Vec<Vec<u8>> {
    let mut burst = Burst::new();
    rx.receive(&mut burst, MAX_BURST);
    burst.iter().map(|frame| frame.bytes().to_vec()).collect()
}

#[test]
fn a_query_becomes_its_answer_over_both_families() {
    let mut upstreams = Upstreams::new(role());
    for (is_ipv6, id) in (0..500).flat_map(|id| [(false, id), (true, id)]) {
        let asked_for = QueryFrame { id: id * 131, ..query("www.example. A").edns(1232, false) };
        let asked_for = if is_ipv6 { asked_for.over_ipv6() } else { asked_for };
        let before = asked(&asked_for);
        let (fate, answer) = take(&mut upstreams, &before);
        assert_eq!((fate, &answer[..6], &answer[6..12]), (Fate::Answer, &before[6..12], &MAC[..]));
        let datagram = Datagram::read(&answer).unwrap();
        assert_eq!((datagram.is_ipv6, datagram.end), (is_ipv6, answer.len()));
        assert_eq!(datagram.to.port(), asked_for.source_port);
        assert!(datagram.is_undamaged(&answer, Verified::NOTHING), "id {id}");
        assert!(is_ipv6 || has_right_checksums(&answer));
        assert_eq!(be16(&answer, datagram.start), Some(asked_for.id));
        assert!(answer.windows(4).any(|bytes| bytes == [192, 0, 2, 1]));
    }
    assert_eq!(upstreams.counts().queries, 1000);
}

#[test]
fn frames_for_others_are_left_alone() {
    let mut upstreams = Upstreams::new(role());
    let good = asked(&query("www.example. A"));
    for (at, value, what) in [
        (5, 1, "to another MAC address"),
        (33, 9, "to another address"),
        (37, 54, "to another port"),
        (13, 6, "ARP"),
    ] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(take(&mut upstreams, &other), (Fate::NotOurs, other.clone()), "{what}");
    }
    for len in 0..good.len() {
        assert_eq!(take(&mut upstreams, &good[..len]).0, Fate::NotOurs, "{len} bytes");
    }
    assert_eq!(upstreams.counts(), UpstreamCounts::default());
}

#[test]
fn damage_and_what_is_no_query_are_counted() {
    let mut upstreams = Upstreams::new(role());
    let good = asked(&query("www.example. A"));
    for at in [22, 45] {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        assert_eq!(take(&mut upstreams, &damaged).0, Fate::Spare, "byte {at}");
        let mut frame = frame_of(&damaged);
        frame.set_verified(Verified::ALL);
        assert_eq!(upstreams.take(&mut frame, true), Fate::Answer, "the port vouches for it");
    }
    let response = QueryFrame { flags: 0x8000, ..query("www.example. A") };
    assert_eq!(take(&mut upstreams, &asked(&response)).0, Fate::Spare);
    let counts = upstreams.counts();
    assert_eq!((counts.damaged, counts.strange, counts.queries), (2, 1, 2));
}

#[test]
fn answers_are_held_for_their_time_in_order_and_no_more_than_fit() {
    let mut upstreams = Upstreams::new(Role { delay: 100, ..role() });
    let (mut tx, mut rx) = link();
    for number in 0..66_u16 {
        let question = QueryFrame { id: number, ..query("www.example. A") };
        let mut frame = frame_of(&asked(&question));
        assert_eq!(upstreams.take(&mut frame, true), Fate::Answer);
        let came_back = upstreams.hold(frame, u64::from(number)).is_some();
        assert_eq!(came_back, number >= 64, "{number}");
    }
    let mut ids: Vec<Vec<u16>> = Vec::new();
    for now in [99, 100, 163, 1000] {
        upstreams.send_due(now, tx.as_mut(), &mut Burst::new());
        ids.push(received(rx.as_mut()).iter().map(|frame| be16(frame, 42).unwrap()).collect());
    }
    let expected: [Vec<u16>; 4] = [vec![], vec![0], (1..64).collect(), vec![]];
    assert_eq!(ids, expected);
    let counts = upstreams.counts();
    assert_eq!((counts.queries, counts.answers, counts.overflowed), (66, 64, 2));
}

#[test]
fn what_the_port_does_not_take_is_counted() {
    let mut upstreams = Upstreams::new(role());
    let (_, mut near, _far): (_, Queues, Queues) = memory::link("load", 0, 1, 1);
    for _ in 0..2 {
        let mut frame = frame_of(&asked(&query("www.example. A")));
        upstreams.take(&mut frame, true);
        assert!(upstreams.hold(frame, 0).is_none());
    }
    let mut left = Burst::new();
    upstreams.send_due(0, near.tx[0].as_mut(), &mut left);
    let counts = upstreams.counts();
    assert_eq!((counts.answers + counts.refused, left.len() as u64), (2, counts.refused));
    assert!(counts.refused > 0);
}

#[test]
fn loss_is_as_large_as_asked_for_and_the_same_each_time() {
    let lost = |loss: f64, seed: u64| {
        let mut upstreams = Upstreams::new(Role { loss, seed, ..role() });
        let frame = asked(&query("www.example. A"));
        let fates: Vec<_> = (0..2000).map(|_| take(&mut upstreams, &frame).0).collect();
        (upstreams.counts().left_out, fates)
    };
    assert_eq!((lost(0.0, 1).0, lost(1.0, 1).0), (0, 2000));
    let (tenth, fates) = lost(0.1, 7);
    assert!((140..=260).contains(&tenth), "{tenth}");
    assert_eq!(lost(0.1, 7).1, fates);
    assert_ne!(lost(0.1, 8).1, fates);
}

#[test]
fn who_asks_where_an_upstream_is_gets_an_answer() {
    let upstreams = Upstreams::new(role());
    let (mut tx, mut rx) = link();
    let pool = FramePool::Heap(HeapPool::new(8));
    let asker = Host { mac: [2, 0, 0, 0, 0, 0xc1], address: [10, 77, 0, 1].into() };
    let ours = Host { mac: MAC, address: [10, 77, 0, 2].into() };
    assert!(upstreams.tell_where(&arp::request(asker, ours.address), &pool, tx.as_mut()));
    assert_eq!(received(rx.as_mut()), [arp::reply(ours, asker).to_vec()]);
    assert!(!upstreams.tell_where(&arp::request(asker, [10, 77, 0, 3].into()), &pool, tx.as_mut()));

    assert!(upstreams.tell_where(&hex(SOLICITATION), &pool, tx.as_mut()));
    assert_eq!(received(rx.as_mut()), [hex(ADVERTISEMENT)]);
    for (at, value, what) in [
        (21, 254, "another hop limit"),
        (54, 136, "an advertisement"),
        (77, 3, "another target"),
        (20, 17, "no ICMP"),
    ] {
        let mut other = hex(SOLICITATION);
        other[at] = value;
        assert!(!upstreams.tell_where(&other, &pool, tx.as_mut()), "{what}");
    }
    let whole = hex(SOLICITATION);
    for len in 0..78 {
        assert!(!upstreams.tell_where(&whole[..len], &pool, tx.as_mut()), "{len} bytes");
    }
    assert!(received(rx.as_mut()).is_empty());
    assert_eq!(OUR_IPV6, [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
}

/// fd77::1 asks ff02::1:ff00:2 who has fd77::2.
const SOLICITATION: &str = "3333ff000002 0200000000c1 86dd \
    60000000 00203aff fd770000000000000000000000000001 ff0200000000000000000001ff000002 \
    87007be9 00000000 fd770000000000000000000000000002 0101 0200000000c1";
/// It is at 02:00:00:00:00:dd.
const ADVERTISEMENT: &str = "0200000000c1 0200000000dd 86dd \
    60000000 00203aff fd770000000000000000000000000002 fd770000000000000000000000000001 \
    88001a5a 60000000 fd770000000000000000000000000002 0201 0200000000dd";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
}

#[test]
fn an_address_with_another_port_is_another_upstream() {
    let address: SocketAddr = "10.77.0.2:5300".parse().unwrap();
    let mut upstreams = Upstreams::new(Role { addresses: vec![address], ..role() });
    let mut frame = asked(&query("www.example. A"));
    assert_eq!(take(&mut upstreams, &frame).0, Fate::NotOurs);
    pmdns_stages::wire::put16(&mut frame, 36, 5300);
    pmdns_stages::wire::put16(&mut frame, 40, 0);
    assert_eq!(take(&mut upstreams, &frame).0, Fate::Answer);
}

proptest! {
    #[test]
    fn no_frame_makes_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), is_ipv6: bool,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut upstreams = Upstreams::new(role());
        let (mut tx, _rx) = link();
        let pool = FramePool::Heap(HeapPool::new(8));
        let good = query("www.example. A").edns(1232, true);
        let mut nearly = asked(&if is_ipv6 { good.over_ipv6() } else { good });
        let mut solicitation = hex(SOLICITATION);
        for (at, value) in changes {
            let (first, second) = (at.index(nearly.len()), at.index(solicitation.len()));
            (nearly[first], solicitation[second]) = (value, value);
        }
        for frame in [&bytes, &nearly, &solicitation] {
            let mut taken = frame_of(frame);
            let fate = upstreams.take(&mut taken, bytes.len() % 2 == 0);
            let is_answer = fate == Fate::Answer;
            prop_assert!(is_answer || taken.bytes().len() == frame.len());
            upstreams.tell_where(frame, &pool, tx.as_mut());
        }
    }
}
