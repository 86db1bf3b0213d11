//! A whole pmdns on the memory driver that asks over its port by the engine's own rings, and an upstream that knows all names.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_resolver::encrypted::EncryptedQuery;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::be16;
use pmdns_stages::wire::dns::header;

use super::rig;
use super::stepping::port_wire::{Asked, PortWire};
use super::stepping::{Arrival, Bytes, DATE, Network, Setup, Socket, Stepping, Transport};

/// A step of the time.
const STEP: Duration = Duration::from_micros(2);
/// Steps in which everything that is under way gets on.
const STEPS: usize = 2_000;
/// Turns of a core in a step, if it finds something to do.
pub(crate) const TURNS: usize = 1_000;
/// Where the message stands in a frame over IPv4 without VLAN.
const MESSAGE_AT: usize = 42;

/// A pmdns, its clients and its upstream.
pub(crate) struct Wired {
    pub(crate) line: Stepping,
    pub(crate) upstream: Upstream,
    /// Queries that clients have sent.
    pub(crate) asked: u64,
    /// For each of them, how many answers with an address have come.
    pub(crate) answers: Vec<u32>,
    /// Answers that are failures.
    pub(crate) failures: u32,
}

/// Replies to everything, as soon as it is let.
#[derive(Default)]
pub(crate) struct Upstream {
    /// Whether it keeps its replies for later.
    pub(crate) keeps: bool,
    kept: VecDeque<Arrival>,
    arrivals: VecDeque<Arrival>,
    /// Connections that were tried.
    pub(crate) connections: u64,
}

impl Wired {
    /// One with two cores, of which each has a receive queue, and `more` in its configuration.
    pub(crate) fn new(more: &str) -> Self {
        let config = format!(
            "[control]\nsocket = \"unused\"\n[acl]\ndefault = \"allow\"\n\
             [[port]]\nname = \"p0\"\ndevice = \"memory\"\naddresses = [\"10.77.0.2/24\"]\n\
             query_sources = [\"10.77.0.60\"]\ngateways = [\"10.77.0.1\"]\n\
             [[upstream]]\naddress = \"192.0.2.1:53\"\nport = \"p0\"\ntimeout_ms = 2000\n\
             [cache]\nsize = \"16MiB\"\npages = \"normal\"\n{more}"
        );
        let config = Config::from_toml(&config).unwrap();
        let setup =
            Setup { seed: 1, frames: 16_384, sockets: 64, port_queries: usize::MAX, date: DATE };
        let line = Stepping::new(&config, &setup);
        let (upstream, answers) = (Upstream::default(), Vec::new());
        let mut wired = Self { line, upstream, asked: 0, answers, failures: 0 };
        // The next hop is found.
        wired.settle();
        wired
    }

    /// A client asks for a name of its own, by a queue of its choice.
    pub(crate) fn ask(&mut self, queue: usize) {
        let number = self.answers.len();
        let source = vec![10, 100 + (number % 100) as u8, (number / 100) as u8, 5];
        let name = format!("n{number}.example. A");
        let frame = QueryFrame { source, id: number as u16, ..query(&name) }.frame_bytes();
        assert!(self.line.offer(queue, &frame), "there is room");
        self.answers.push(0);
        self.asked += 1;
    }

    /// Takes turns of these threads, of cores up to `most`, and takes the answers that have left.
    pub(crate) fn turn(&mut self, threads: impl Iterator<Item = usize>, most: usize) {
        self.line.time.advance(STEP);
        self.line.receive(&mut self.upstream);
        threads.for_each(|thread| self.line.turn(thread, most, &mut self.upstream));
        for frame in self.line.sent(&mut self.upstream) {
            let message = &frame.bytes()[MESSAGE_AT..];
            match be16(message, header::ANCOUNT) {
                Some(1) => self.answers[usize::from(be16(message, 0).unwrap())] += 1,
                _ => self.failures += 1,
            }
        }
    }

    /// Lets everything go on that is under way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS {
            self.turn(0..self.line.threads(), TURNS);
        }
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, duration: Duration) {
        for _ in 0..STEPS {
            self.line.time.advance(duration / STEPS as u32);
            self.turn(0..self.line.threads(), TURNS);
        }
    }

    /// Replies that did not belong to the query that waited at their UDP port.
    pub(crate) fn mismatched(&self) -> u64 {
        let roster = self.line.rig.gauges.upstreams.roster();
        roster.slots()[0].counters.snapshot().mismatched
    }

    /// The queries that are under way.
    pub(crate) fn under_way(&self) -> Vec<Asked> {
        let threads = self.line.slow_path.iter();
        threads.flat_map(|thread| thread.over_port.iter().flatten().cloned()).collect()
    }

    /// What writes frames to us.
    pub(crate) fn wire(&self) -> &PortWire {
        self.line.slow_path[0].port.as_ref().unwrap()
    }

    /// The sum of a counter over all cores.
    pub(crate) fn sum(&self, of: impl Fn(&pmdns_engine::counters::Tally) -> u64) -> u64 {
        self.line.rig.workers.iter().map(|worker| of(&worker.counters().tally)).sum()
    }

    /// Every client has one answer, and every frame is accounted for.
    pub(crate) fn finish(mut self) {
        assert_eq!(self.failures, 0);
        assert!(self.answers.iter().all(|answers| *answers == 1), "{:?}", self.answers);
        let (totals, link) = (self.line.totals(), self.line.link.as_ref().unwrap());
        assert!(totals.balance() && totals.held == 0, "{totals:?}");
        assert_eq!(totals.received, self.asked + link.fed);
        assert_eq!(totals.transmitted, self.asked + link.taken);
        assert_eq!(link.sources.claimed(), 0, "every UDP port is free again");
        assert_eq!(self.line.rig.pool.in_use(), 0, "every frame is back in the pool");
        assert!(self.line.stop(STEPS, &mut self.upstream), "everything ends");
    }
}

impl Upstream {
    /// Sends so many of the replies that were kept.
    pub(crate) fn release(&mut self, count: usize) {
        self.arrivals.extend(self.kept.drain(..count.min(self.kept.len())));
    }
}

impl Network for Upstream {
    fn open(&mut self, socket: Socket) -> io::Result<()> {
        match socket.transport {
            Transport::Udp => Ok(()),
            Transport::Tcp => {
                self.connections += 1;
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
    }

    fn send(&mut self, socket: Socket, bytes: &[u8]) -> io::Result<usize> {
        let Socket { thread, number, to, .. } = socket;
        let bytes = Bytes::Datagram(to, reply_to(bytes));
        let replies = if self.keeps { &mut self.kept } else { &mut self.arrivals };
        replies.push_back(Arrival { thread, socket: number, bytes });
        Ok(0)
    }

    fn close(&mut self, _: Socket) {}

    fn ask_encrypted(&mut self, _: usize, _: EncryptedQuery) {}

    fn arrival(&mut self, _: Duration) -> Option<Arrival> {
        self.arrivals.pop_front()
    }
}

/// One address, for the question of a query.
pub(crate) fn reply_to(query: &[u8]) -> Vec<u8> {
    rig::Asked { message: query.to_vec(), from: stranger(), over_tcp: false }.address()
}

/// Who sends forged replies from another address than the upstream's.
pub(crate) fn stranger() -> SocketAddr {
    SocketAddr::new([203, 0, 113, 9].into(), 53)
}
