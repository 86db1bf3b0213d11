//! Upstreams: their health and capabilities, the queries under way to them, and the checks of their replies.
//!
//! A question comes in as a try ([`Upstreams::ask`]). A try ends with a reply that belongs to it ([`Replied`]), or with
//! a failure ([`Upstreams::next_failed`]). Other modules decide what happens to the question then.

mod believed_errors;
pub(crate) mod capabilities;
pub(crate) mod connection;
pub(crate) mod cookies;
pub mod encrypted;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod letter_case;
pub(crate) mod medium;
pub(crate) mod network;
#[cfg(test)]
mod odds;
pub(crate) mod peers;
pub(crate) mod port_replies;
pub(crate) mod query;
pub(crate) mod replies;
pub(crate) mod retry;
mod tcp_queries;
mod turns;
pub(crate) mod udp_batch;
mod udp_queries;

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pmdns_stages::wire::name::Seed;

use crate::counters::{Counters, counts_rarely};
use crate::output::Output;
use crate::questions::pending::{Pending, Ticket};
use crate::questions::plan::{Attempt, Plan, Transport, TryFailure};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::question::Question;
use crate::random::Random;
use crate::settings::Settings;
use crate::timers::MAX_DUE;
use believed_errors::BelievedErrors;
use cookies::CookieSecret;
use encrypted::Encrypted;
use medium::NetworkLimits;
pub use medium::Route;
use network::{Network, Timer};
use peers::Peers;
use query::{Proof, Try};
use udp_batch::UdpQuery;

/// The upstreams of one thread, and its queries to them.
pub(crate) struct Upstreams {
    pub(crate) peers: Peers,
    network: Network,
    encrypted: Encrypted,
    random: Random,
    /// Tries that failed. Their questions have not been told yet.
    failed: VecDeque<Failed>,
    /// Queries whose connections ended before their replies came. They are sent once more.
    unsent: Vec<(Ticket, Attempt)>,
    /// The queries of the batch that is about to leave. It is kept for its memory.
    departing: Vec<(Ticket, Attempt)>,
    /// The memory of batches that have ended.
    spare: Vec<Vec<UdpQuery>>,
    /// The memory of the last answer.
    entry_memory: Vec<u64>,
    counters: Arc<Counters>,
    queries_per_port: usize,
    believed_errors: BelievedErrors,
    /// How long replies are accepted.
    deadline: Duration,
    /// How long to wait for the reply to a probe.
    probe_timeout: Duration,
}

/// What the upstreams of a thread begin with, apart from their settings.
pub(crate) struct Start {
    pub(crate) cookie_secret: CookieSecret,
    /// The seed of the hashes of questions.
    pub(crate) seed: Seed,
    pub(crate) now: Duration,
    pub(crate) random: Random,
    pub(crate) limits: NetworkLimits,
}

/// A try whose reply has come. It has been checked that the reply belongs to the query.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) ticket: Ticket,
    /// As it was asked.
    pub(crate) question: Rc<Question>,
    pub(crate) attempt: Attempt,
    pub(crate) proof: Proof,
}

/// A try that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    pub(crate) failure: TryFailure,
}

impl Upstreams {
    /// Nothing is under way yet. `queries_per_port` and the deadline are those of the settings.
    pub(crate) fn new(settings: Settings, counters: Arc<Counters>, start: Start) -> Self {
        let Start { cookie_secret, seed, now, random, limits } = start;
        let (queries_per_port, deadline) = (settings.queries_per_port, settings.deadline);
        let probe_timeout = Duration::from_millis(settings.health.timeout_ms);
        let peers = Peers::new(settings, cookie_secret, seed, now);
        Self {
            network: Network::new(peers.media(), &limits),
            encrypted: Encrypted::new(peers.len()),
            random,
            failed: VecDeque::new(),
            unsent: Vec::new(),
            departing: Vec::new(),
            spare: Vec::new(),
            entry_memory: Vec::new(),
            counters,
            queries_per_port,
            believed_errors: BelievedErrors::default(),
            deadline,
            probe_timeout,
            peers,
        }
    }

    /// Takes other upstreams over. Nothing is under way any more to those that have left: their sockets are closed, and their
    /// tries have failed.
    pub(crate) fn apply(&mut self, fresh: &mut Settings) {
        fresh.deadline = self.deadline;
        self.queries_per_port = fresh.queries_per_port;
        self.probe_timeout = Duration::from_millis(fresh.health.timeout_ms);
        for upstream in self.peers.apply(fresh) {
            self.leave(upstream);
        }
        self.network.apply(self.peers.media());
        self.encrypted.resize(self.peers.len());
    }

    /// Ends everything that is under way to an upstream.
    fn leave(&mut self, upstream: usize) {
        let mut ended = self.network.leave(upstream);
        ended.extend(self.encrypted.leave(upstream));
        let (unsent, others) = self.unsent.drain(..).partition(|(_, one)| one.upstream == upstream);
        self.unsent = others;
        ended.extend::<Vec<_>>(unsent);
        for (ticket, attempt) in ended {
            self.fail(ticket, attempt, TryFailure::Gone);
        }
        // These tries may have failed for another reason, but the upstream is not to be asked again.
        let of_upstream = self.failed.iter_mut().filter(|one| one.attempt.upstream == upstream);
        of_upstream.for_each(|one| one.failure = TryFailure::Gone);
    }

    /// What is to be done next.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.network.outputs.pop_front()
    }

    /// The next failed try whose question has not been told.
    pub(crate) fn next_failed(&mut self) -> Option<Failed> {
        self.failed.pop_front()
    }

    /// Whether no query waits that could leave now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.network.is_quiet()
    }

    /// Asks a question, and charges `prefix`. An error: too many queries are under way to this upstream, and the try
    /// has failed.
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
        let question = self.peers.as_sent(question, attempt.upstream);
        let patience = (self.peers.usual_patience(attempt.upstream), self.deadline);
        self.send_encrypted(prefix, Try { ticket, question, attempt }, patience)
    }

    /// Gives up what is due, and counts what is late.
    pub(crate) fn serve_timers(&mut self) {
        for _ in 0..MAX_DUE {
            let Some(timer) = self.network.next_due(self.peers.now) else { return };
            match timer {
                Timer::Batch(slot) => self.serve_batch(slot),
                Timer::Connection(slot) => self.serve_connection(slot),
            }
        }
    }

    /// Probes the upstreams that rest and whose time has come.
    pub(crate) fn probe(&mut self) {
        while let Some(upstream) = self.peers.due_probe()
            && self.make_room(upstream)
        {
            self.peers.note_probe(upstream);
            let (question, patience) = (Rc::new(Question::probe()), self.probe_timeout);
            let attempt = Attempt { upstream, transport: Transport::Udp, edns: true, late: false };
            if !self.peers.is_encrypted(upstream) {
                self.launch_probe(question, attempt, patience);
                continue;
            }
            let probe = Try { ticket: Ticket::NONE, question, attempt };
            // If there is no room for a probe, the next one is due soon.
            let _ = self.send_encrypted(ClientPrefix::OURS, probe, (patience, patience));
        }
    }

    /// Sends the waiting queries, as far as there are sockets. Those over ports do not wait for a UDP port: without one they
    /// are shed. `pending` has their questions.
    pub(crate) fn send_queued(&mut self, pending: &mut Pending<Plan>) {
        for (ticket, attempt) in std::mem::take(&mut self.unsent) {
            if let Some(prefix) = pending.prefix_of(ticket) {
                self.network.send(prefix, ticket, attempt);
            }
        }
        // Each turn begins with another upstream, so that no upstream takes all sockets when they are short.
        let upstreams = self.peers.len();
        self.network.begin_turn();
        self.network.first = (self.network.first + 1) % upstreams.max(1);
        for offset in 0..upstreams {
            self.send_tcp_queries((self.network.first + offset) % upstreams, pending);
        }
        for offset in 0..upstreams {
            let upstream = (self.network.first + offset) % upstreams;
            let mut waiting = self.network.udp_queues[upstream].len();
            while waiting > 0 {
                if !self.make_room(upstream) {
                    break;
                }
                match self.send_batch(upstream, pending) {
                    0 => break,
                    size => waiting = waiting.saturating_sub(size),
                }
            }
            while let Some((ticket, attempt)) = self.network.take_without_port(upstream) {
                self.shed_over_port(ticket, attempt);
            }
        }
    }

    fn fail(&mut self, ticket: Ticket, attempt: Attempt, failure: TryFailure) {
        self.failed.push_back(Failed { ticket, attempt, failure });
    }

    /// A socket could not be opened. The cause is this machine, so the operator has to know, but not a thousand times a
    /// second.
    fn note_socket_error(&self, error: &io::Error) {
        if counts_rarely(&self.counters.socket_errors) {
            tracing::warn!(
                "cannot ask upstream: {error}; check upstream.source, port.query_sources and the limit \
                 of open files (this warning is rarer each time, slowpath.socket_errors counts all)"
            );
        }
    }
}
