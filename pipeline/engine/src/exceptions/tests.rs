//! The whole way: from the port over a data core and the thread of a TAP to the kernel, and back.

use std::sync::Arc;

use pmdns_nics::{Burst, FramePool, HeapPool};
use pmdns_stages::exceptions::{ClassLimit, ExceptionClass, KnownRouters};
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::testing::{CLIENT_MAC, OUR_IPV4, OUR_MAC, QueryFrame, frame_from, query};
use pmdns_stages::wire::ip::seal_ipv4;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Arrival, Exception, Packet, Step};

use super::fake::Fake;
use super::outlet::KernelOutlets;
use super::{SLOTS, TapThread};
use crate::counters::{Counters, Tally};
use crate::ring::{RingReceiver, ring};
use crate::testing::{Rig, config};
use pmdns_counters::Totals;

/// A port with a TAP, the TAP's thread, and the kernel.
struct Lab {
    rig: Rig,
    tap: TapThread,
    kernel: Fake,
}

impl Lab {
    fn new(more: &str) -> Self {
        let mut config = config(more);
        config.ports[0].tap = Some("pm-test".to_owned());
        let mut rig = Rig::new(&config);
        let tap = rig.taps.remove(0);
        Self { rig, tap, kernel: Fake::default() }
    }

    fn offer<'f>(&mut self, frames: impl IntoIterator<Item = &'f Vec<u8>>) {
        for bytes in frames {
            let mut burst = Burst::new();
            burst.push(self.rig.frame(bytes));
            self.rig.offer(0, &mut burst);
            self.rig.settle();
        }
    }

    fn turn(&mut self) {
        while self.tap.turn(&mut self.kernel) > 0 {}
        self.rig.settle();
    }

    /// The counters of the data cores, which balance.
    fn counted(&self) -> (Tally, Totals) {
        let counters: Vec<Counters> =
            self.rig.workers.iter().map(|worker| worker.counters()).collect();
        let totals = crate::counters::totals(&counters);
        assert!(totals.balance(), "{totals:?}");
        let first = counters.first().map(|first| first.tally).unwrap_or_default();
        (first, totals)
    }
}

fn tcp(vlans: Vec<u16>, to: u16) -> Vec<u8> {
    let ip = 14 + 4 * vlans.len();
    let mut frame = QueryFrame { vlans, destination_port: to, ..query("a. A") }.frame_bytes();
    frame[ip + 9] = 6;
    seal_ipv4(&mut frame[ip..ip + 20]);
    frame
}

/// From the link: BFD over one hop has this TTL.
fn udp(to: u16) -> Vec<u8> {
    let mut frame = QueryFrame { destination_port: to, ..query("a. A") }.frame_bytes();
    frame[14 + 8] = 255;
    seal_ipv4(&mut frame[14..34]);
    frame
}

/// 10.77.0.`host` answers to us, or to the holder of this address.
fn arp_reply(host: u8, to: [u8; 6]) -> Vec<u8> {
    let mut frame = [&to[..], &CLIENT_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &CLIENT_MAC].concat();
    frame.extend_from_slice(&[10, 77, 0, host]);
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&OUR_IPV4);
    frame.resize(60, 0);
    frame
}

#[test]
fn invariant_1_frames_pass_to_the_kernel_and_from_it_whole_and_all_are_counted() {
    let mut lab = Lab::new("");
    let exceptions = [tcp(vec![], 22), tcp(vec![], 853), udp(3784), udp(9), arp_reply(9, OUR_MAC)];
    lab.offer(&exceptions);
    lab.offer(&[udp(53), arp_reply(9, [2, 9, 9, 9, 9, 9])]);
    lab.turn();
    let mut got = lab.kernel.got.clone();
    got.sort();
    let mut expected = exceptions.to_vec();
    expected.sort();
    assert_eq!(got, expected, "neither the query nor what is for another host");
    lab.kernel.sends = [vec![1; 60], vec![2; 1514]].into();
    lab.turn();
    let sent: Vec<_> = lab.rig.sent().iter().map(|frame| frame.bytes().to_vec()).collect();
    assert_eq!(sent, [vec![1; 60], vec![2; 1514]]);
    let (tally, totals) = lab.counted();
    assert_eq!((totals.exceptions, totals.made), (6, 2), "of the six one is for another host");
    assert_eq!((tally.kernel_link, tally.kernel_streams, tally.kernel_rest), (2, 1, 2));
    assert_eq!((tally.from_kernel, totals.transmitted), (2, 2));
}

#[test]
fn tags_of_our_vlans_are_kept_and_others_are_dropped() {
    let mut lab = Lab::new("");
    lab.offer(&[tcp(vec![7], 22), tcp(vec![8], 22), tcp(vec![7, 7], 22)]);
    lab.turn();
    assert_eq!(lab.kernel.got, [tcp(vec![7], 22), tcp(vec![7, 7], 22)]);
    lab.counted();
}

#[test]
fn invariant_1_a_thread_that_hangs_costs_exceptions_and_nothing_else() {
    let mut lab = Lab::new("[exceptions]\nlink_per_second = 0\n");
    lab.offer(&vec![arp_reply(9, OUR_MAC); SLOTS + 40]);
    lab.offer(&[tcp(vec![], 22), tcp(vec![], 53)]);
    let (tally, totals) = lab.counted();
    assert_eq!((tally.kernel_link, tally.kernel_link_full), (SLOTS as u64, 40));
    assert_eq!((tally.kernel_rest, tally.kernel_streams), (1, 1), "each class has its ring");
    assert_eq!(totals.exceptions, SLOTS as u64 + 42);
    lab.turn();
    assert_eq!(lab.kernel.got.len(), SLOTS + 2);
}

/// A segment of BGP from a client, with these ports.
fn bgp(from: [u8; 4], flags: u8) -> Vec<u8> {
    let mut frame = tcp(vec![], 179);
    frame.resize(14 + 20 + 20, 0);
    frame[14 + 2..][..2].copy_from_slice(&40_u16.to_be_bytes());
    frame[14 + 12..][..4].copy_from_slice(&from);
    (frame[34 + 12], frame[34 + 13]) = (5 << 4, flags);
    seal_ipv4(&mut frame[14..34]);
    frame
}

#[test]
fn attack_e_a_router_is_known_once_the_kernel_has_a_session_with_it() {
    const ACK: u8 = 1 << 4;
    let mut lab = Lab::new("");
    let peer = [10, 77, 0, 9];
    lab.offer(&[bgp(peer, ACK)]);
    assert_eq!((lab.counted().0.kernel_control, lab.counted().0.kernel_rest), (0, 1));
    // What the kernel sends: the same the other way, with a message in it.
    let mut sent = bgp(OUR_IPV4, ACK);
    sent.extend([0; 19]);
    sent[14 + 2..][..2].copy_from_slice(&59_u16.to_be_bytes());
    sent[14 + 16..][..4].copy_from_slice(&peer);
    lab.kernel.sends = [sent].into();
    lab.turn();
    lab.offer(&[bgp(peer, ACK), bgp([10, 77, 0, 10], ACK)]);
    assert_eq!((lab.counted().0.kernel_control, lab.counted().0.kernel_rest), (1, 2));
}

#[test]
fn attack_f_no_redirect_goes_to_the_kernel() {
    let mut lab = Lab::new("");
    let mut frame = QueryFrame { source: vec![10, 77, 0, 1], ..query("a. A") }.frame_bytes();
    frame[14 + 9] = 1;
    frame[34] = 5;
    frame[36..38].fill(0);
    let sum = pmdns_stages::wire::checksum::Sum::default().add_bytes(&frame[34..]).checksum();
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    seal_ipv4(&mut frame[14..34]);
    lab.offer(&[frame]);
    lab.turn();
    let (tally, totals) = lab.counted();
    assert_eq!((tally.kernel_redirects, totals.exceptions), (1, 1));
    assert!(lab.kernel.got.is_empty());
}

#[test]
fn a_flood_is_limited_by_class_and_prefix() {
    let mut lab = Lab::new("[exceptions]\nrest_per_second = 1\n");
    lab.offer(&vec![tcp(vec![], 22); 200]);
    lab.offer(&[udp(3784), tcp(vec![], 53)]);
    let (tally, _) = lab.counted();
    assert!(tally.kernel_rest >= 32 && tally.kernel_rest_limited > 100, "{tally:?}");
    assert_eq!((tally.kernel_link, tally.kernel_streams), (1, 1));
}

/// The ways of a core to the TAP of the only port, and their other ends.
fn outlets(pool: &FramePool) -> (KernelOutlets, Vec<RingReceiver<Packet>>) {
    let ports: Ports = [Port { has_tap: true, ..Port::new(OUR_MAC, []) }].into();
    let limits = ClassLimit::of_all(&config(""), 1000, Seed::new([3; 16]));
    let (senders, receivers): (Vec<_>, Vec<_>) = limits.iter().map(|_| ring(8)).unzip();
    let peers = Arc::new(KnownRouters::new([], Seed::new([3; 16])));
    let mut outlets = KernelOutlets::new(ports, peers, pool.clone());
    outlets.add(0, senders.into_iter().zip(limits).collect());
    (outlets, receivers)
}

#[test]
fn what_a_next_hop_says_goes_to_the_kernel_as_well() {
    let pool = FramePool::Heap(HeapPool::new(4));
    let (mut outlets, mut rings) = outlets(&pool);
    let mut tally = Tally::default();
    let bytes = arp_reply(1, OUR_MAC);
    let said =
        |key| Packet { key, step: Step::REPLY, ..Packet::arrived(frame_from(&pool, &bytes), 0) };
    let heard = said(Arrival::Neighbor.key());
    outlets.pass_copy(&heard, &mut tally);
    let copy = rings[ExceptionClass::Link as usize].pop().unwrap();
    assert_eq!((copy.frame.bytes(), heard.frame.bytes()), (&*bytes, &*bytes));
    assert_eq!((tally.made, tally.exceptions, tally.kernel_link), (1, 1, 1));
    outlets.pass_copy(&said(0), &mut tally);
    assert_eq!(tally.made, 1, "replies of upstreams are not copied");
    drop((copy, heard));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn without_a_frame_for_the_copy_the_slow_path_still_gets_its_own() {
    let pool = FramePool::Heap(HeapPool::new(1));
    let (mut outlets, mut rings) = outlets(&pool);
    let mut tally = Tally::default();
    let heard = Packet {
        key: Arrival::Neighbor.key(),
        ..Packet::arrived(frame_from(&pool, &arp_reply(1, OUR_MAC)), 0)
    };
    outlets.pass_copy(&heard, &mut tally);
    assert_eq!(tally, Tally::default());
    assert!(rings.iter_mut().all(|ring| ring.pop().is_none()));
}

#[test]
fn a_port_without_tap_drops_and_counts_as_before() {
    let mut rig = Rig::new(&config(""));
    assert!(rig.taps.is_empty());
    let mut burst = Burst::new();
    burst.push(rig.frame(&tcp(vec![], 22)));
    rig.offer(0, &mut burst);
    rig.settle();
    let counters = rig.workers[0].counters();
    assert_eq!((counters.tally.exceptions, counters.tally.kernel_rest), (1, 0));
    assert_eq!(rig.pool.in_use(), 0);
    let step = Step::exception(Exception::Tcp);
    assert_eq!(counters.meters[0].exits.of(step), 1);
}
