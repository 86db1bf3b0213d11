//! The whole generator as clients and as upstream at once, with a forwarder of a few lines between.

use std::time::Duration;

use pmdns_nics::{HeapPool, MAX_BURST, Queues, memory};
use pmdns_stages::wire::ip::{seal_ipv4, turn_round};
use pmdns_stages::wire::{be16, put16};

use crate::load::generator::Generator;
use crate::load::path::{HEADERS, tests::path};
use crate::load::tally::Tally;
use crate::load::tests::{NAMES, parts_over, zone};
use crate::load::upstreams::*;

const UPSTREAM: [u8; 4] = [10, 77, 0, 9];
const QUERY_SOURCE: [u8; 4] = [10, 77, 0, 60];
const TABLE: usize = 1 << 16;

/// A forwarder without a cache. It works in the call in which it gets a frame.
struct Forwarder {
    near: Box<dyn TxQueue>,
    far: Queues,
    pool: HeapPool,
    /// The clients' frames, by the id under which they were passed on.
    waiting: Vec<Vec<u8>>,
    next: u16,
}

impl Forwarder {
    fn pass_on(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut bytes = frame.to_vec();
        if bytes[30..34] == QUERY_SOURCE {
            let id = be16(&bytes, HEADERS).unwrap();
            let client = std::mem::take(&mut self.waiting[usize::from(id)]);
            bytes[..34].copy_from_slice(&client[..34]);
            turn_round(&mut bytes, 14, false);
            let ports = [&client[36..38], &client[34..36]].concat();
            bytes[34..38].copy_from_slice(&ports);
            bytes[HEADERS..HEADERS + 2].copy_from_slice(&client[HEADERS..HEADERS + 2]);
        } else {
            self.next = self.next.wrapping_add(1);
            self.waiting[usize::from(self.next)] = bytes.clone();
            bytes[..6].copy_from_slice(&path(16).ends().client_mac);
            bytes[26..30].copy_from_slice(&QUERY_SOURCE);
            bytes[30..34].copy_from_slice(&UPSTREAM);
            put16(&mut bytes, HEADERS, self.next);
        }
        let len = bytes.len();
        put16(&mut bytes, 16, u16::try_from(len - 14).unwrap());
        put16(&mut bytes, 40, 0);
        seal_ipv4(&mut bytes[14..34]);
        bytes
    }
}

impl TxQueue for Forwarder {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let sent = self.near.transmit(burst);
        let mut came = Burst::new();
        while self.far.rx[0].receive(&mut came, MAX_BURST) > 0 {
            for frame in came.drain(..) {
                let bytes = self.pass_on(frame.bytes());
                let mut passed = self.pool.take().unwrap();
                passed.resize(bytes.len()).unwrap();
                passed.bytes_mut().copy_from_slice(&bytes);
                self.far.tx[0].transmit(&mut std::iter::once(passed).collect());
            }
        }
        sent
    }
}

fn run(delay: Duration, loss: f64) -> Tally {
    let (_, mut near, far) = memory::link("load", 0, 1, 4096);
    let (rx, tx) = (near.rx.remove(0), near.tx.remove(0));
    let waiting = vec![Vec::new(); TABLE];
    let forwarder = Forwarder { near: tx, far, pool: HeapPool::new(4096), waiting, next: 0 };
    let mix = "hit=2,miss=6,nxdomain=1,random-prefix=1".parse().unwrap();
    let (mut parts, _) = parts_over(rx, Box::new(forwarder), &mix);
    let clock = parts.clock;
    parts.upstreams = Some(Upstreams::new(Role {
        addresses: vec![(UPSTREAM, 53).into()],
        mac: path(16).ends().client_mac,
        zone: zone(NAMES),
        delay: clock.ticks_of(delay),
        held: 4096,
        loss,
        seed: 5,
    }));
    Generator::new(parts).offer(20_000, Duration::from_millis(100), Duration::from_millis(10))
}

fn sent(tally: &Tally) -> u64 {
    tally.sent.iter().sum()
}

#[test]
fn every_query_is_answered_right_by_the_generator_s_own_upstream() {
    let tally = run(Duration::ZERO, 0.0);
    let good: u64 = tally.good.iter().sum();
    assert!(good > 100);
    assert_eq!((good, tally.strays, tally.unexpected), (sent(&tally), 0, 0));
    assert_eq!(tally.good.iter().filter(|good| **good > 0).count(), 4, "each kind");
    let upstream = tally.upstream.unwrap();
    assert_eq!((upstream.queries, upstream.answers), (good, good));
    assert_eq!(UpstreamCounts { queries: 0, answers: 0, ..upstream }, UpstreamCounts::default());
}

#[test]
fn lost_answers_and_late_ones_are_seen_by_the_clients() {
    let tally = run(Duration::from_millis(2), 0.25);
    let (good, lost): (u64, u64) = (tally.good.iter().sum(), tally.lost.iter().sum());
    let upstream = tally.upstream.unwrap();
    assert_eq!(upstream.queries, sent(&tally));
    assert!(upstream.left_out > 0 && lost >= upstream.left_out);
    assert_eq!(good + lost, sent(&tally));
    assert!(good + tally.unexpected <= upstream.answers);
}
