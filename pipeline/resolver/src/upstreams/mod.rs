//! Upstreams: what is known of each, the queries on the way to them, and what is believed of their replies.
//!
//! Questions come in as tries ([`Upstreams::ask`]), and leave in two ways: with a reply that belongs to them ([`Replied`]), or
//! with what the try came to otherwise ([`Upstreams::next_failed`]). What becomes of a question is not decided here.

pub(crate) mod capabilities;
pub(crate) mod connection;
pub(crate) mod cookies;
pub mod encrypted;
pub(crate) mod fallback;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod letter_case;
pub(crate) mod network;
#[cfg(test)]
mod odds;
pub(crate) mod peers;
pub(crate) mod query;
pub(crate) mod replies;
pub(crate) mod retry;
mod tcp_queries;
pub(crate) mod udp_batch;
mod udp_queries;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmdns_config::Config;

use crate::counters::Counters;
use crate::output::Output;
use crate::questions::pending::{Pending, Ticket};
use crate::questions::plan::{Attempt, Plan, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::random::Random;
use encrypted::Encrypted;
use network::{Network, Timer};
use peers::Peers;
use query::Proof;

/// Between which addresses queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The upstream's.
    pub to: SocketAddr,
    /// Ours, if the operator chose one.
    pub from: Option<IpAddr>,
}

/// The upstreams of one thread, and its queries to them.
pub(crate) struct Upstreams {
    pub(crate) peers: Peers,
    network: Network,
    encrypted: Encrypted,
    random: Random,
    /// What tries came to that brought no reply, until the questions are told.
    failed: VecDeque<Failed>,
    /// Queries whose connections ended before their replies came: they are sent once more.
    unsent: Vec<(Ticket, Attempt)>,
    counters: Arc<Counters>,
    queries_per_port: usize,
    /// How long replies are taken.
    deadline: Duration,
    /// How long to wait for the reply to a probe.
    probe_timeout: Duration,
}

/// A try whose reply has come. That it belongs to its query is known.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) ticket: Ticket,
    /// As it was asked.
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) proof: Proof,
}

/// A try that came to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    pub(crate) failure: TryFailure,
}

impl Upstreams {
    /// Nothing is under way yet.
    pub(crate) fn new(
        config: &Config,
        peers: Peers,
        counters: Arc<Counters>,
        random: Random,
        max_sockets: usize,
    ) -> Self {
        Self {
            network: Network::new(peers.len(), max_sockets),
            encrypted: Encrypted::new(peers.len()),
            random,
            failed: VecDeque::new(),
            unsent: Vec::new(),
            counters,
            queries_per_port: config.slowpath.queries_per_port,
            deadline: Duration::from_millis(config.slowpath.deadline_ms),
            probe_timeout: Duration::from_millis(config.health.timeout_ms),
            peers,
        }
    }

    /// What is to be done next.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.network.outputs.pop_front()
    }

    /// A try that came to nothing, and of which its question has not been told.
    pub(crate) fn next_failed(&mut self) -> Option<Failed> {
        self.failed.pop_front()
    }

    /// Whether nothing waits to leave that could.
    pub(crate) fn is_quiet(&self) -> bool {
        self.network.is_quiet()
    }

    /// Asks a question, for which `prefix` is charged. An error: too much is under way to this upstream, and the try has failed.
    pub(crate) fn ask(
        &mut self,
        prefix: ClientPrefix,
        ticket: Ticket,
        question: &Rc<Question>,
        attempt: Attempt,
    ) -> Result<(), Failed> {
        if !self.peers.is_encrypted(attempt.upstream) {
            self.network.send(prefix, ticket, attempt);
            return Ok(());
        }
        let question = self.peers.as_told(question, attempt.upstream);
        let patience = (self.peers.usual_patience(attempt.upstream), self.deadline);
        self.send_encrypted(prefix, (ticket, question, attempt), patience)
    }

    /// Gives up what is due, and counts what is late.
    pub(crate) fn serve_timers(&mut self) {
        for timer in self.network.timers.due(self.peers.now) {
            match timer {
                Timer::Batch(slot) => self.serve_batch(slot),
                Timer::Connection(slot) => self.serve_connection(slot),
            }
        }
    }

    /// Probes the upstreams that rest and whose time has come.
    pub(crate) fn probe(&mut self) {
        while self.make_room()
            && let Some(upstream) = self.peers.take_probe()
        {
            let (probe, patience) = (Rc::new(Question::probe()), self.probe_timeout);
            let attempt = Attempt { upstream, transport: Transport::Udp, edns: true, late: false };
            if !self.peers.is_encrypted(upstream) {
                self.launch_probe(probe, attempt, patience);
                continue;
            }
            let query = (Ticket::NONE, probe, attempt);
            // No room for a probe is no harm: the next one is due soon.
            let _ = self.send_encrypted(ClientPrefix::OURS, query, (patience, patience));
        }
    }

    /// Sends what waits to be sent, as far as there are sockets for it. What it is sent for is in `pending`.
    pub(crate) fn send_queued(&mut self, pending: &mut Pending<Plan>) {
        for (ticket, attempt) in std::mem::take(&mut self.unsent) {
            if let Some(prefix) = pending.prefix_of(ticket) {
                self.network.send(prefix, ticket, attempt);
            }
        }
        // Another upstream is the first each turn: where sockets are short, none has them all.
        let upstreams = self.peers.len();
        self.network.is_held_back = false;
        self.network.first = (self.network.first + 1) % upstreams.max(1);
        for offset in 0..upstreams {
            self.send_tcp_queries((self.network.first + offset) % upstreams, pending);
        }
        for offset in 0..upstreams {
            let upstream = (self.network.first + offset) % upstreams;
            let mut waiting = self.network.udp_queues[upstream].len();
            while waiting > 0 {
                if !self.make_room() {
                    return;
                }
                match self.send_batch(upstream, pending) {
                    0 => break,
                    size => waiting = waiting.saturating_sub(size),
                }
            }
        }
    }

    fn fail(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        self.failed.push_back(Failed { ticket, attempt, failure });
    }

    /// A socket could not be opened. It is this machine's fault, and the operator's to know, but not
    /// a thousand times a second.
    fn note_socket_error(&self, error: &io::Error) {
        let before = self.counters.socket_errors.fetch_add(1, Ordering::Relaxed);
        if before == 0 || before.is_power_of_two() {
            tracing::warn!(
                "cannot open a socket to ask upstream: {error}; check upstream.source and the limit \
                 of open files (this warning is rarer each time, slowpath.socket_errors counts all)"
            );
        }
    }
}
