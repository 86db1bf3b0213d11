//! Exchanges: questions put to the upstreams, until one of them answers, the plan gives up, or nobody waits
//! for the answer any more.
//!
//! Here plans meet the network: what a plan says is carried out, and the plan is told what came of it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use arrayvec::ArrayVec;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;

use crate::counters::{add, count};
use crate::questions::pending::Ticket;
use crate::questions::plan::{Attempt, Next, Setback, Transport};
use crate::questions::prefixes::ClientPrefix;
use crate::questions::query::{Query, Question, Rule};
use crate::questions::shedding::Reason;
use crate::resolver::{Outcome, Resolver};
use crate::upstreams::network::Timer;
use crate::upstreams::udp::{Flight, InFlight, Received};

/// One who leaves in a flight.
struct Passenger {
    ticket: Ticket,
    question: Rc<Question>,
    attempt: Attempt,
    /// How long to wait for its reply until its question is asked again.
    retry: Duration,
}

/// Between which addresses queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The upstream's.
    pub to: SocketAddr,
    /// Ours, if the operator chose one.
    pub from: Option<IpAddr>,
}

/// Those who leave in one flight.
type Passengers = ArrayVec<Passenger, MAX_QUERIES_PER_PORT>;

impl Resolver {
    /// Does what a question's plan says, until it has to wait. A question that has ended needs nothing.
    pub(crate) fn advance(&mut self, ticket: Ticket) {
        while let Some((question, plan)) = self.pending.find(ticket) {
            if let Rule::Alias(found, _) = question.rule() {
                return self.begin_alias(ticket, found);
            }
            match plan.next() {
                Next::Try(attempt) => {
                    if let Some(usual) = plan.take_hedge() {
                        self.network.wake_at(self.now + usual, Timer::Hedge(ticket));
                    }
                    let attempt = self.suited(ticket, attempt);
                    match self.upstreams[attempt.upstream].address.plain() {
                        Some(_) => self.send(ticket, attempt),
                        None => self.ask_encrypted(ticket, attempt),
                    }
                }
                Next::Wait => return,
                Next::Pause(pause) => {
                    return self.network.wake_at(self.now + pause, Timer::Pause(ticket));
                }
                Next::GiveUp if plan.was_shed() => {
                    self.shed_question(ticket, Reason::Upstream);
                }
                Next::GiveUp => {
                    let why = plan.why_none();
                    self.settle(ticket, &Outcome::Failure(why));
                }
            }
        }
    }

    /// Lets a query wait until it can leave, which its client prefix is charged for.
    pub(crate) fn send(&mut self, ticket: Ticket, attempt: Attempt) {
        if let Some(prefix) = self.pending.prefix_of(ticket) {
            self.network.send(prefix, ticket, attempt);
        }
    }

    /// Asks a second upstream, if the first has not replied yet.
    fn hedge(&mut self, ticket: Ticket) {
        if self.pending.find(ticket).is_some_and(|(_, plan)| plan.hedge()) {
            count(&self.counters.hedged);
            self.advance(ticket);
        }
    }

    /// Gives up what is due, and goes on after pauses.
    pub(crate) fn serve_timers(&mut self) {
        for timer in self.network.due(self.now) {
            match timer {
                Timer::Flight(slot) => self.serve_flight(slot),
                Timer::Connection(slot) => self.serve_connection(slot),
                Timer::Pause(ticket) => self.advance(ticket),
                Timer::Hedge(ticket) => self.hedge(ticket),
                Timer::Abandon(ticket) => self.abandon(ticket),
            }
        }
    }

    /// Probes the upstreams that rest and whose time has come.
    pub(crate) fn probe(&mut self) {
        while self.make_room()
            && let Some(upstream) = self.health.take_probe(self.now)
        {
            count(&self.upstream_counters[upstream].probes);
            let (probe, patience) = (Rc::new(Question::probe()), self.probe_timeout);
            match self.upstreams[upstream].address.plain() {
                Some(_) => {
                    let (ticket, question, attempt) = (Ticket::NONE, probe, udp_attempt(upstream));
                    let passenger = Passenger { ticket, question, attempt, retry: patience };
                    let passengers = [passenger].into_iter().collect();
                    self.launch(upstream, ClientPrefix::OURS, passengers, (patience, patience));
                }
                None => {
                    let attempt = udp_attempt(upstream);
                    self.send_encrypted(Ticket::NONE, probe, attempt, (patience, patience));
                }
            }
        }
    }

    /// Sends what waits to be sent, as far as there are sockets for it.
    pub(crate) fn depart(&mut self) {
        // Another upstream is the first each turn: where sockets are short, none has them all.
        let upstreams = self.upstreams.len();
        self.network.is_held_back = false;
        self.network.first = (self.network.first + 1) % upstreams.max(1);
        for offset in 0..upstreams {
            self.make_calls((self.network.first + offset) % upstreams);
        }
        for offset in 0..upstreams {
            let upstream = (self.network.first + offset) % upstreams;
            // What fails at once and waits again does so until the next turn.
            let mut waiting = self.network.departures[upstream].len();
            while waiting > 0 {
                if !self.make_room() {
                    return;
                }
                match self.send_flight(upstream) {
                    0 => break,
                    size => waiting = waiting.saturating_sub(size),
                }
            }
        }
    }

    /// Makes room for a flight, if need be and if it can. Late queries give way to those that have yet to leave.
    fn make_room(&mut self) -> bool {
        while !self.network.may_fly() {
            let Some(slot) = self.network.take_late() else { return false };
            self.end_flight(slot, Setback::Silent);
        }
        true
    }

    /// Sends a flight to this upstream, and says how many were to leave in it.
    fn send_flight(&mut self, upstream: usize) -> usize {
        let Self { network, pending, health, .. } = self;
        let departing = network.take_departures(upstream, self.queries_per_port);
        let Some((prefix, waiting)) = departing else { return 0 };
        let size = waiting.len();
        // Of some the clients have gone while they waited.
        let mut passengers: Passengers = waiting
            .into_iter()
            .filter_map(|(ticket, attempt)| {
                let (question, plan) = pending.find(ticket)?;
                let retry = health.retry_timeout(upstream, plan.round());
                Some(Passenger { ticket, question: Rc::clone(question), attempt, retry })
            })
            .collect();
        for Passenger { question, .. } in &mut passengers {
            *question = self.as_told(question, upstream);
        }
        if !passengers.is_empty() {
            let usual = self.usual_patience(upstream);
            self.launch(upstream, prefix, passengers, (usual, self.deadline));
        }
        size
    }

    /// Sends a flight, which `prefix` is charged for. Its silence counts as the upstream's failure after `usual`; replies
    /// are taken for `patience`.
    fn launch(
        &mut self,
        upstream: usize,
        prefix: ClientPrefix,
        passengers: Passengers,
        (usual, patience): (Duration, Duration),
    ) {
        let ids = match self.random.ids() {
            Ok(ids) => ids,
            Err(error) => {
                self.note_socket_error(&error);
                for Passenger { ticket, attempt, .. } in passengers {
                    self.learn(ticket, attempt, Setback::Unreachable);
                }
                return;
            }
        };
        let mixes = self.capabilities[upstream].speller.mixes(self.now);
        let queries = passengers
            .into_iter()
            .zip(ids)
            .map(|(Passenger { ticket, question, attempt, retry }, id)| {
                let mixes = mixes && attempt.transport == Transport::Udp;
                // Without random numbers no id would have been drawn either.
                let spelling = mixes.then(|| self.random.spelling().ok()).flatten();
                let retry = Some(self.now + retry);
                InFlight { ticket, question, attempt, id, spelling, retry }
            })
            .collect();
        let times = [self.now, self.now + usual, self.now + patience];
        let flight = Flight::new(upstream, times, queries);
        add(&self.upstream_counters[upstream].queries, flight.left().len() as u64);
        self.network.begin_flight(prefix, flight);
    }

    /// Where a flight goes to, and from where if the operator says so.
    pub fn route_of_flight(&self, slot: usize) -> Option<Route> {
        self.route(self.network.flights.get(slot)?.upstream)
    }

    /// Whether there is a flight in this slot.
    pub fn has_flight(&self, slot: usize) -> bool {
        self.network.flights.contains(slot)
    }

    pub(crate) fn route(&self, upstream: usize) -> Option<Route> {
        let to = &self.upstreams[upstream];
        Some(Route { to: to.address.plain()?, from: to.source })
    }

    /// What is to be sent for a flight, whose address at our end is `local`.
    pub fn messages(
        &mut self,
        slot: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> impl Iterator<Item = Query> {
        let upstream = self.network.flights.get(slot).map(|flight| flight.upstream);
        let cookie = upstream.and_then(|upstream| self.cookie_for(upstream, local));
        let flight = self.network.flights.get_mut(slot);
        flight.into_iter().flat_map(move |flight| {
            flight.cookie.clone_from(&cookie);
            flight.messages()
        })
    }

    /// Takes in a datagram that has come for a flight.
    pub fn hear_flight(&mut self, slot: usize, datagram: &[u8]) {
        let Some(flight) = self.network.flights.get_mut(slot) else { return };
        let (upstream, sent) = (flight.upstream, flight.sent);
        let received = flight.sort(datagram);
        if flight.left().is_empty() {
            self.network.close_flight(slot);
        }
        let counters = &self.upstream_counters[upstream];
        match received {
            Received::Reply(query, learnt) => {
                self.note_reply(upstream, sent);
                self.take_reply(&query, datagram, learnt);
            }
            Received::Respelt(query) => {
                self.note_respelt(upstream);
                self.learn(query.ticket, query.attempt, Setback::Respelt);
            }
            Received::Cookieless(query) => {
                count(&counters.mismatched);
                count(&counters.cookieless);
                self.learn(query.ticket, query.attempt, Setback::NeedsTcp);
            }
            Received::Mismatch => count(&counters.mismatched),
            Received::Flood => {
                count(&counters.mismatched);
                self.end_flight(slot, Setback::NeedsTcp);
            }
        }
    }

    /// No socket could be opened for a flight.
    pub fn fail_flight(&mut self, slot: usize, error: &io::Error) {
        if self.network.flights.contains(slot) {
            self.note_socket_error(error);
            self.end_flight(slot, Setback::Unreachable);
        }
    }

    /// Asks the questions of a flight again that are due, counts its silence, and gives it up in the end.
    fn serve_flight(&mut self, slot: usize) {
        let Some(flight) = self.network.flights.get_mut(slot) else { return };
        let (upstream, sent) = (flight.upstream, flight.sent);
        let (late, overdue) = (flight.take_late(self.now), flight.take_overdue(self.now));
        if flight.has_expired(self.now) {
            self.end_flight(slot, Setback::Silent);
        } else {
            self.network.set_flight_timer(slot);
        }
        (0..overdue).for_each(|_| self.note_timeout(upstream, sent));
        if !late.is_empty() {
            self.network.note_late(slot);
        }
        for (ticket, attempt) in late {
            self.note_retry(upstream, sent);
            self.learn(ticket, attempt, Setback::Late);
        }
    }

    /// Ends a flight that the network returned an error to.
    pub fn break_flight(&mut self, slot: usize, error: &io::Error) {
        let Some(flight) = self.network.flights.get(slot) else { return };
        let (upstream, sent, lost) = (flight.upstream, flight.sent, flight.left().len());
        self.note_broken(upstream, error, lost as u64);
        self.note_failure(upstream, sent);
        self.end_flight(slot, Setback::Unreachable);
    }

    /// Closes a flight's port. Those without a reply go on otherwise.
    fn end_flight(&mut self, slot: usize, setback: Setback) {
        let flight = self.network.close_flight(slot);
        for query in flight.left() {
            self.learn(query.ticket, query.attempt, setback);
        }
    }

    /// Tells a question's plan what an attempt came to, and goes on.
    pub(crate) fn learn(&mut self, ticket: Ticket, attempt: Attempt, setback: Setback) {
        self.tell_plan(ticket, attempt, setback);
        self.advance(ticket);
    }

    /// Tells a question's plan, if there still is a question, and leaves going on to others.
    pub(crate) fn tell_plan(&mut self, ticket: Ticket, attempt: Attempt, setback: Setback) {
        if let Some((_, plan)) = self.pending.find(ticket) {
            plan.learn(attempt, setback);
        }
    }
}

fn udp_attempt(upstream: usize) -> Attempt {
    Attempt { upstream, transport: Transport::Udp, edns: true, late: false }
}
