//! The generator's other side: it plays the upstreams of the server under test, on the same port and in the same loop.
//!
//! Queries to their addresses become their own answers, in the frames they came in. What is right comes from the zone that
//! the checker compares with. Answers can be held for a while, and some of them left out.

mod answers;
pub(crate) mod frames;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use pmdns_config::narrow::floor_u64;
use pmdns_nics::{Burst, Frame, FramePool, MAX_BURST, TxQueue};

use self::frames::Datagram;
use super::arp::{self, Arp, Host};
use super::figures::UpstreamCounts;
use super::send::send_frame;
use super::zone::Zone;

/// The most upstreams that are played.
pub const MAX_UPSTREAMS: usize = 16;
/// The fewest answers that can be held at once: a burst.
pub const MIN_HELD: u32 = 64;
/// The most answers that are held at once.
pub const MAX_HELD: u32 = 65_536;

/// What upstreams are played, and how well.
#[derive(Debug)]
pub struct Role {
    /// Where queries come to.
    pub addresses: Vec<SocketAddr>,
    /// Our hardware address.
    pub mac: [u8; 6],
    /// What is right.
    pub zone: Zone,
    /// Ticks that each answer is held.
    pub delay: u64,
    /// Answers that are held at once, at most.
    pub held: usize,
    /// The share of queries that get no answer.
    pub loss: f64,
    /// The seed of which ones those are.
    pub seed: u64,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is for none of the upstreams.
    NotOurs,
    /// It is an answer now, to be sent.
    Answer,
    /// It is done with.
    Spare,
}

/// The upstreams.
#[derive(Debug)]
pub struct Upstreams {
    role: Role,
    /// Answers and when they leave, the earliest first.
    held: VecDeque<(u64, Frame)>,
    /// Random numbers below this mean loss.
    loss_below: u64,
    random: u64,
    counts: UpstreamCounts,
}

impl Upstreams {
    /// Upstreams that have not been asked yet.
    pub fn new(role: Role) -> Self {
        let held = role.held.max(MAX_BURST);
        let loss_below = floor_u64(role.loss * u64::MAX as f64);
        let random = role.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (held, counts) = (VecDeque::with_capacity(held), UpstreamCounts::default());
        Self { role, held, loss_below, random, counts }
    }

    /// What they did so far.
    pub fn counts(&self) -> UpstreamCounts {
        self.counts
    }

    /// Makes the frame an answer, if it is a query to one of the upstreams.
    #[inline]
    pub fn take(&mut self, frame: &mut Frame, checks_sums: bool) -> Fate {
        let bytes = frame.bytes();
        let Some(datagram) = Datagram::read(bytes) else { return Fate::NotOurs };
        if !bytes.starts_with(&self.role.mac) || !self.role.addresses.contains(&datagram.to) {
            return Fate::NotOurs;
        }
        if checks_sums && !datagram.is_undamaged(bytes, frame.verified()) {
            self.counts.damaged += 1;
            return Fate::Spare;
        }
        let len = datagram.end - datagram.start;
        let message = &mut frame.buffer_mut()[datagram.start..];
        let Some(len) = answers::answer(message, len, &self.role.zone) else {
            self.counts.strange += 1;
            return Fate::Spare;
        };
        self.counts.queries += 1;
        if self.loss_below > 0 && self.draw() < self.loss_below {
            self.counts.left_out += 1;
            return Fate::Spare;
        }
        let end = datagram.start + len;
        if frame.resize(end).is_err() {
            self.counts.strange += 1;
            return Fate::Spare;
        }
        datagram.turn_round(frame.bytes_mut(), end);
        Fate::Answer
    }

    /// Keeps an answer until it is due. The frame comes back if too many are kept.
    #[inline]
    pub fn hold(&mut self, answer: Frame, now: u64) -> Option<Frame> {
        if self.held.len() >= self.role.held.max(MAX_BURST) {
            self.counts.overflowed += 1;
            return Some(answer);
        }
        self.held.push_back((now + self.role.delay, answer));
        None
    }

    /// Sends the answers that are due, a burst at most. What the port does not take is left in `burst`.
    #[inline]
    pub fn send_due(&mut self, now: u64, tx: &mut dyn TxQueue, burst: &mut Burst) {
        while !burst.is_full() && self.held.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, answer)) = self.held.pop_front() else { break };
            burst.push(answer);
        }
        if !burst.is_empty() {
            self.counts.answers += tx.transmit(burst) as u64;
            self.counts.refused += burst.len() as u64;
        }
    }

    /// Answers who asks where one of the upstreams is. False: nobody does.
    #[cold]
    pub fn tell_where(&self, bytes: &[u8], pool: &FramePool, tx: &mut dyn TxQueue) -> bool {
        let mac = self.role.mac;
        if let Some(Arp::Request(asker, wanted)) = Arp::read(bytes)
            && self.has(wanted.into())
        {
            send_frame(pool, tx, &arp::reply(Host { mac, address: wanted }, asker));
            return true;
        }
        if let Some(target) = frames::solicited(bytes)
            && self.has(target.into())
            && let Some(answer) = frames::advertisement(bytes, target, mac)
        {
            send_frame(pool, tx, &answer);
            return true;
        }
        false
    }

    fn has(&self, address: IpAddr) -> bool {
        self.role.addresses.iter().any(|upstream| upstream.ip() == address)
    }

    /// The next random number (Marsaglia's xorshift).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests;
