//! A storm of misses: every query is for a new name, and one thread plays clients, data core and upstream. The slow path
//! is turned by another thread, or by hand.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use pmdns_config::Config;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::{Burst, Frame, MAX_BURST, release};

use crate::load::arp::{self, Arp, Host};
use crate::load::send::send_frame;
use crate::load::upstreams::frames::Datagram;
use crate::numbered_query;
use crate::upstream::{Upstream, answer};

/// Queries the upstream answers before the worker's next turn.
const UPSTREAM_BURST: usize = 32;
/// The upstream on the port's link.
const ON_LINK: Host = Host { mac: [2, 0, 0, 0, 0, 0xfa], address: Ipv4Addr::new(10, 77, 0, 53) };
/// Where queries over the port come from.
const QUERY_SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 60), Ipv4Addr::new(10, 77, 0, 61)];
const DNS_PORT: u16 = 53;

/// The upstream, as the node asks it.
enum FarEnd {
    /// By sockets of the kernel.
    Sockets(Upstream),
    /// Over its own port.
    Port,
}

/// Queries for new names, and everybody who has to do with them but the slow path.
pub struct Storm {
    /// The node. Its slow path is taken out by the caller.
    pub rig: Rig,
    far_end: FarEnd,
    queries: Vec<Vec<u8>>,
    in_flight: usize,
    sent: usize,
    /// How many queries have been answered.
    pub answered: usize,
    /// Whether the node has asked where the upstream is.
    has_been_found: bool,
}

impl Storm {
    /// So many misses, no more than `in_flight` at once, and an upstream that is asked by sockets of the kernel.
    pub fn by_sockets(
        misses: usize,
        in_flight: usize,
        queries_per_port: Option<usize>,
    ) -> io::Result<Self> {
        let upstream = Upstream::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        upstream.do_not_wait()?;
        let mut settings = settings();
        settings.upstreams[0].address = upstream.address()?.into();
        if let Some(number) = queries_per_port {
            settings.slowpath.queries_per_port = number;
        }
        Ok(Self::new(Rig::new(&settings), misses, in_flight, FarEnd::Sockets(upstream)))
    }

    /// The same with an upstream that is asked over the port.
    pub fn by_port(misses: usize, in_flight: usize) -> Self {
        Self::new(Rig::new(&port_settings()), misses, in_flight, FarEnd::Port)
    }

    /// The same, and the node's clock stands still, so that nothing is late however slow the machine is.
    #[cfg(debug_assertions)]
    pub fn by_port_timeless(misses: usize, in_flight: usize) -> Self {
        let (rig, _) = Rig::stepped(&port_settings());
        Self::new(rig, misses, in_flight, FarEnd::Port)
    }

    fn new(rig: Rig, misses: usize, in_flight: usize, far_end: FarEnd) -> Self {
        let numbers = 0..misses;
        let queries = numbers.map(|index| numbered_query(index, misses).frame_bytes()).collect();
        let has_been_found = matches!(far_end, FarEnd::Sockets(_));
        Self { rig, far_end, queries, in_flight, sent: 0, answered: 0, has_been_found }
    }

    /// Whether every query has been sent and answered.
    pub fn is_over(&self) -> bool {
        self.sent == self.queries.len() && self.answered == self.sent
    }

    /// Sends the next queries, turns the worker, and has the upstream answer. Returns how many answers came to clients.
    pub fn turn(&mut self) -> usize {
        let mut burst = Burst::new();
        // Before that, queries would fail for want of a next hop.
        if self.has_been_found {
            let room = (self.in_flight + self.answered - self.sent).min(MAX_BURST);
            let next = self.queries.iter().skip(self.sent).take(room);
            burst.extend(next.map(|bytes| self.rig.frame(bytes)));
            self.sent += burst.len();
            self.rig.offer(0, &mut burst);
        }
        self.rig.workers[0].turn();
        if let FarEnd::Sockets(upstream) = &self.far_end {
            let _ = (0..UPSTREAM_BURST).try_for_each(|_| upstream.answer_one());
        }
        self.rig.far.rx[0].receive(&mut burst, MAX_BURST);
        let mut replies = Burst::new();
        let mut answers = 0;
        for mut frame in burst.drain(..) {
            if is_answered_upstream(&mut frame) {
                replies.push(frame);
                continue;
            }
            match Arp::read(frame.bytes()) {
                Some(Arp::Request(asker, _)) => {
                    let reply = arp::reply(ON_LINK, asker);
                    send_frame(&self.rig.pool, &mut *self.rig.far.tx[0], &reply);
                    self.has_been_found = true;
                }
                Some(Arp::Reply(_)) => {}
                None => answers += 1,
            }
            drop(frame);
        }
        self.rig.offer(0, &mut replies);
        release(&mut replies);
        self.answered += answers;
        answers
    }
}

fn settings() -> Config {
    config("[cache]\nsize = \"512MiB\"\n")
}

/// With an upstream that is asked over the port.
fn port_settings() -> Config {
    let mut settings = settings();
    let port = &mut settings.ports[0];
    port.query_sources = QUERY_SOURCES.map(Into::into).into();
    let upstream = &mut settings.upstreams[0];
    upstream.port = Some(port.name.clone());
    upstream.address = SocketAddr::from((ON_LINK.address, DNS_PORT)).into();
    settings
}

/// Makes the frame a reply, if it is a query to the upstream.
fn is_answered_upstream(frame: &mut Frame) -> bool {
    let Some(datagram) = Datagram::read(frame.bytes()) else { return false };
    if datagram.to != SocketAddr::from((ON_LINK.address, DNS_PORT)) {
        return false;
    }
    let message = &mut frame.buffer_mut()[datagram.start..];
    let Some(len) = answer(message, datagram.end - datagram.start) else { return false };
    let end = datagram.start + len;
    frame.resize(end).is_ok_and(|()| {
        datagram.turn_round(frame.bytes_mut(), end);
        true
    })
}
