//! The way of a query, and media of queries over UDP. Sockets of the kernel are few; a port of ours has a UDP port for every query.
//! So each medium has its own limit, its own shares by client prefix, and its own queue of late batches. On a port of ours
//! each family is a medium, because it has its own query sources.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::questions::prefixes::ClientPrefix;
use crate::questions::quota::Quota;

/// The addresses of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the upstream.
    pub upstream: usize,
    /// The upstream's.
    pub to: SocketAddr,
    /// Ours, if the operator chose one.
    pub from: Option<IpAddr>,
    /// The port that the queries leave by; `None`: by a socket of the kernel.
    pub port: Option<usize>,
}

/// The medium of queries to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Sockets of the kernel.
    Sockets,
    /// The query sources of one family on a port of ours (`upstream.port`).
    Port {
        /// The number of the port.
        number: usize,
        /// The family.
        is_ipv6: bool,
    },
}

impl Medium {
    /// Whether it is a port of ours.
    pub(crate) fn is_port(self) -> bool {
        matches!(self, Self::Port { .. })
    }

    /// The place of its room among all.
    pub(crate) fn room(self) -> usize {
        match self {
            Self::Sockets => 0,
            Self::Port { number, is_ipv6 } => 1 + 2 * number + usize::from(is_ipv6),
        }
    }
}

/// How much may be under way at once.
#[derive(Clone, Debug)]
pub struct NetworkLimits {
    /// Sockets that may be open.
    pub sockets: usize,
    /// Queries over each port, by family: IPv4, IPv6.
    pub port_queries: Vec<[usize; 2]>,
}

impl NetworkLimits {
    /// The rooms of all media, at the places of [`Medium::room`].
    pub(crate) fn rooms(&self) -> Vec<Room> {
        let ports = self.port_queries.iter().flatten();
        std::iter::once(&self.sockets).chain(ports).map(|most| Room::new(*most)).collect()
    }
}

/// The batches that are under way by one medium.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    batches: usize,
    /// How many batches each prefix holds. A batch is charged to the prefix of its first query. Queries of other prefixes
    /// may join it while it has room.
    quota: Quota,
    /// Batches whose queries are all late, with the time when they left. Some have ended since.
    late: VecDeque<(usize, Duration)>,
    /// Whether a query could not leave in this turn because its prefix has used up its part.
    pub(crate) is_held_back: bool,
}

impl Room {
    /// Nothing is under way. At most `most` batches may be.
    pub(crate) fn new(most: usize) -> Self {
        let (quota, late) = (Quota::new(most), VecDeque::new());
        Self { most, batches: 0, quota, late, is_held_back: false }
    }

    /// Whether one more batch may leave, if the medium is also used by `others`.
    pub(crate) fn has_room(&self, others: usize) -> bool {
        self.batches + others < self.most
    }

    /// Whether a prefix may lead one more batch.
    pub(crate) fn has_room_for(&self, prefix: ClientPrefix) -> bool {
        self.quota.has_room_for(prefix)
    }

    /// A batch of this prefix leaves.
    pub(crate) fn take(&mut self, prefix: ClientPrefix) {
        self.batches += 1;
        self.quota.take(prefix);
    }

    /// The batch of this prefix is not charged any more: it has ended, or may be closed at any time to make room.
    pub(crate) fn stop_charging(&mut self, prefix: ClientPrefix) {
        self.quota.give_back(prefix);
    }

    /// A batch has ended.
    pub(crate) fn end(&mut self) {
        self.batches -= 1;
    }

    /// The batch in this slot, which left at `sent`, may be closed at any time to make room.
    pub(crate) fn note_late(&mut self, slot: usize, sent: Duration) {
        self.late.push_back((slot, sent));
    }

    /// Takes out the batch that has been late for longest.
    pub(crate) fn take_late(&mut self) -> Option<usize> {
        self.late.pop_front().map(|(slot, _)| slot)
    }

    /// Drops batches that have ended from the front of the queue of late ones.
    pub(crate) fn forget_late(&mut self, is_there: impl Fn(&(usize, Duration)) -> bool) {
        while self.late.front().is_some_and(|late| !is_there(late)) {
            self.late.pop_front();
        }
    }
}
