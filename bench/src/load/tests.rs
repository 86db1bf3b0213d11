//! The whole generator against servers made of memory, good ones and bad ones.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pmdns_engine::clock::Clock;
use pmdns_nics::{
    Burst, FramePool, HeapPool, MAX_BURST, Queues, RxQueue, TxQueue, memory, release,
};
use pmdns_stages::wire::ip::turn_round;
use pmdns_stages::wire::put16;

use super::check::{AnswerClass, Authority, Checker};
use super::deck::{Deck, Popularity};
use super::generator::{Checksums, Generator, Parts};
use super::mix::{Kind, Mix};
use super::path::{HEADERS, tests::path};
use super::questions::{self, Prepared};
use super::tally::Tally;
use super::zone::Zone;

pub(super) const NAMES: usize = 20;
const CARDS: usize = 10_000;

/// How a server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Silence,
    OtherId,
    OtherQuestion,
    OtherRcode,
    OtherAddress,
    CutOff,
    OtherClient,
    Twice,
}

/// A server that answers in the same call in which it is asked; both ends of a link at once.
struct Server {
    fault: Fault,
    far: Queues,
    near: Box<dyn TxQueue>,
    pool: HeapPool,
}

impl TxQueue for Server {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let sent = self.near.transmit(burst);
        let mut queries = Burst::new();
        while self.far.rx[0].receive(&mut queries, MAX_BURST) > 0 {
            for query in queries.drain(..) {
                let times = if self.fault == Fault::Twice { 2 } else { 1 };
                for _ in 0..times {
                    if let Some(answer) = answer(query.bytes(), self.fault) {
                        let mut frame = self.pool.take().unwrap();
                        frame.resize(answer.len()).unwrap();
                        frame.bytes_mut().copy_from_slice(&answer);
                        self.far.tx[0].transmit(&mut std::iter::once(frame).collect());
                    }
                }
            }
            release(&mut queries);
        }
        sent
    }
}

/// What the server of the generated zone says to a query.
fn answer(query: &[u8], fault: Fault) -> Option<Vec<u8>> {
    let mut frame = query.to_vec();
    turn_round(&mut frame, 14, false);
    frame[34..38].rotate_left(2);
    frame[40..42].fill(0);
    let label = frame.get(55..59)?.to_vec();
    let text = String::from_utf8_lossy(frame.get(59..66)?).into_owned();
    let message = &mut frame[HEADERS..];
    let is_proper = message[2] & 0x80 == 0 && message.len() > 20;
    if !is_proper || fault == Fault::Silence {
        return None;
    }
    put16(message, 2, 0x8180);
    let is_host = label == *b"host";
    let is_miss = message.windows(5).any(|window| window == b"\x04miss");
    if is_host || is_miss {
        let number = if is_host { text.parse::<usize>().unwrap() } else { 1 };
        put16(message, 6, 1);
        let ttl = [0, 0, 1, number as u8];
        frame
            .extend([&[0xc0, 12, 0, 1, 0, 1], &ttl[..], &[0, 4, 192, 0, 2, number as u8]].concat());
    } else {
        message[3] |= 3;
    }
    spoil(&mut frame, fault);
    let len = frame.len();
    put16(&mut frame, 16, (len - 14) as u16);
    put16(&mut frame, 38, (len - 34) as u16);
    pmdns_stages::wire::ip::seal_ipv4(&mut frame[14..34]);
    Some(frame)
}

fn spoil(frame: &mut Vec<u8>, fault: Fault) {
    match fault {
        Fault::None | Fault::Silence | Fault::Twice => {}
        Fault::OtherId => frame[HEADERS + 1] ^= 0x80,
        Fault::OtherQuestion => frame[HEADERS + 14] ^= 0x20,
        Fault::OtherRcode => frame[HEADERS + 3] ^= 3,
        Fault::OtherAddress => *frame.last_mut().unwrap() ^= 1,
        Fault::CutOff => frame.truncate(frame.len() - 3),
        Fault::OtherClient => frame[33] ^= 0x40,
    }
}

fn generator(fault: Fault, mix: &Mix, checksums: Checksums) -> (Generator, Vec<u32>) {
    let (_, mut near, far) = memory::link("load", 0, 1, 4096);
    let rx: Box<dyn RxQueue> = near.rx.remove(0);
    let server = Server { fault, far, near: near.tx.remove(0), pool: HeapPool::new(4096) };
    let (parts, hits) = parts_over(rx, Box::new(server), mix);
    (Generator::new(Parts { checksums, ..parts }), hits)
}

/// The generated zone.
pub(super) fn zone(names: usize) -> Zone {
    let mut zone = Vec::new();
    crate::write_zone(&mut zone, names).unwrap();
    Zone::parse(&String::from_utf8(zone).unwrap()).unwrap()
}

/// What a generator is made of that asks over these queues, and the templates of the list.
pub(super) fn parts_over(
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    mix: &Mix,
) -> (Parts, Vec<u32>) {
    let list = questions::numbered(NAMES).unwrap();
    let Prepared { templates, pools } = questions::prepare(&list, "example.", 1, None).unwrap();
    let parts = Parts {
        rx,
        tx,
        pool: FramePool::Heap(HeapPool::new(4096)),
        clock: Clock::start(),
        path: path(16),
        deck: Deck::shuffle(mix, &pools, Popularity::Zipf(0.9), CARDS, 1),
        checker: Checker::new(templates, Authority::Zone(Box::new(zone(NAMES)))),
        slots: 1 << 16,
        timeout: Duration::from_millis(20),
        checksums: Checksums::All,
        upstreams: None,
        stop: Arc::new(AtomicBool::new(false)),
    };
    (parts, pools[Kind::Hit.index()].clone().collect())
}

/// One tenth of a second at a rate that any machine manages.
fn run(fault: Fault, mix: &str) -> (Tally, u64) {
    let (mut generator, _) = generator(fault, &mix.parse().unwrap(), Checksums::All);
    let tally = generator.offer(20_000, Duration::from_millis(100), Duration::from_millis(10));
    (tally, generator.checker().full_checks())
}

fn sent(tally: &Tally) -> u64 {
    tally.sent.iter().sum()
}

#[test]
fn right_answers_are_good_and_little_law_holds() {
    let (tally, full_checks) = run(Fault::None, "hit=6,nxdomain=2,miss=1,random-prefix=1");
    let good: u64 = tally.good.iter().sum();
    assert!(good > 0);
    assert_eq!((good, tally.verdicts[AnswerClass::Good as usize]), (sent(&tally), good));
    assert_eq!(sent(&tally) + tally.refused.iter().sum::<u64>() + tally.withheld, tally.planned);
    assert_eq!((tally.unexpected, tally.strays, tally.lost), (0, 0, [0; 5]));
    assert!(tally.good.iter().filter(|good| **good > 0).count() == 4, "{:?}", tally.good);
    assert!(full_checks <= 20 + 1000 + 2, "each template once: {full_checks}");
    let (counted, computed) = (tally.counted_under_way(), tally.computed_under_way());
    assert!((counted - computed).abs() <= computed * 0.05 + 0.05, "{counted} {computed}");
}

#[test]
fn every_fault_is_found_in_first_and_in_later_answers() {
    for (fault, verdict) in [
        (Fault::OtherQuestion, AnswerClass::WrongQuestion),
        (Fault::OtherRcode, AnswerClass::WrongRcode),
        (Fault::OtherAddress, AnswerClass::WrongRecords),
        (Fault::CutOff, AnswerClass::Malformed),
        (Fault::OtherClient, AnswerClass::WrongAddress),
    ] {
        let (tally, _) = run(fault, "hit=1");
        assert!(sent(&tally) > 0);
        assert_eq!(
            tally.verdicts[verdict as usize],
            sent(&tally),
            "{fault:?} {:?}",
            tally.verdicts
        );
        assert_eq!(tally.good, [0; 5]);
    }
}

#[test]
fn faults_are_found_when_the_right_answer_is_known() {
    let (mut generator, wanted) = generator(Fault::None, &Mix::HITS, Checksums::None);
    let mut tally = Tally::new(0, 0, 1, 1000);
    generator.warm_up(&wanted, 8, &mut tally);
    assert_eq!(tally.good[0], NAMES as u64);
    let full_checks = generator.checker().full_checks();
    assert_eq!(full_checks, NAMES as u64);
    generator.warm_up(&wanted, 8, &mut tally);
    assert_eq!(tally.good[0], NAMES as u64, "what is known is not asked again");
    let tally = generator.offer(20_000, Duration::from_millis(50), Duration::from_millis(10));
    assert_eq!(tally.good[0], sent(&tally));
    assert_eq!(generator.checker().full_checks(), full_checks, "all equalled their images");
}

#[test]
fn an_answer_with_another_id_is_nobodys() {
    let (tally, _) = run(Fault::OtherId, "hit=1");
    assert_eq!((tally.good[0], tally.lost[0]), (0, sent(&tally)));
    assert_eq!(tally.unexpected, sent(&tally));
}

#[test]
fn a_second_answer_is_unexpected() {
    let (tally, _) = run(Fault::Twice, "hit=1");
    assert_eq!((tally.good[0], tally.unexpected), (sent(&tally), sent(&tally)));
}

#[test]
fn silence_is_loss_but_for_malformed_queries() {
    let (tally, _) = run(Fault::Silence, "hit=1,malformed=1");
    let lost: u64 = tally.lost.iter().sum();
    assert_eq!((lost, tally.good), (sent(&tally), [0; 5]));
    let (counted, computed) = (tally.counted_under_way(), tally.computed_under_way());
    assert!((counted - computed).abs() <= computed * 0.05, "{counted} {computed}");
    assert!(counted > 0.0);
}

#[test]
fn clients_are_where_they_say() {
    let path = path(16);
    assert!(path.is_client(Ipv4Addr::new(10, 77, 0, 25)));
    assert!(!path.is_client(Ipv4Addr::new(10, 77, 0, 26)));
}
