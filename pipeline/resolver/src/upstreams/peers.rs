//! The state of each upstream: its settings, its health and its capabilities.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmdns_config::Upstream;
use pmdns_stages::cache::Key;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::name::Seed;

use crate::counters::UpstreamCounters;
use crate::counters::shared::{add, count};
use crate::questions::pending::Ticket;
use crate::questions::plan::{self, Attempt, Plan};
use crate::questions::question::Question;
use crate::roster::{Roster, Slot};
use crate::settings::Settings;
use crate::upstreams::capabilities::Capabilities;
use crate::upstreams::connection::TcpQuery;
use crate::upstreams::cookies::{CookieSecret, Learnt, Sent, Shown};
use crate::upstreams::groups::Groups;
use crate::upstreams::health::Health;
use crate::upstreams::medium::Medium;
use crate::upstreams::medium::Route;
use crate::upstreams::query::{ReplyKind, rcode_of};
use crate::upstreams::retry::RetryTimeout;

/// The upstreams, by slot.
pub(crate) struct Peers {
    roster: Roster,
    groups: Groups,
    health: Health,
    capabilities: Vec<Capabilities>,
    cookie_secret: CookieSecret,
    /// The seed of the hashes of questions.
    seed: Seed,
    /// The time of this turn, since the process started.
    pub(crate) now: Duration,
}

impl Peers {
    /// Nothing is known of the upstreams yet.
    pub(crate) fn new(
        settings: Settings,
        cookie_secret: CookieSecret,
        seed: Seed,
        now: Duration,
    ) -> Self {
        let Settings { roster, groups, health, deadline, .. } = settings;
        let retries = roster.slots().iter().map(|slot| first_retry(slot, deadline));
        Self {
            health: Health::new(&health, retries),
            capabilities: vec![Capabilities::default(); roster.slots().len()],
            roster,
            groups,
            cookie_secret,
            seed,
            now,
        }
    }

    /// Takes other upstreams and groups over, and gives the old ones back. What is known of upstreams that stay is kept.
    /// Returns the slots whose upstreams have left.
    pub(crate) fn apply(&mut self, fresh: &mut Settings) -> Vec<usize> {
        std::mem::swap(&mut self.roster, &mut fresh.roster);
        std::mem::swap(&mut self.groups, &mut fresh.groups);
        let (slots, old) = (self.roster.slots(), fresh.roster.slots());
        // An upstream that comes back begins anew.
        let stays = |(n, slot): (usize, &Slot)| {
            let was = old.get(n).filter(|old| old.place.is_some() && slot.place.is_some());
            was.is_some_and(|old| old.is_same(slot))
        };
        let is_same: Vec<bool> = slots.iter().enumerate().map(stays).collect();
        let retries = slots.iter().map(|slot| first_retry(slot, fresh.deadline));
        self.health.apply(&fresh.health, retries.zip(is_same.iter().copied()));
        self.capabilities.resize(slots.len(), Capabilities::default());
        for (known, _) in self.capabilities.iter_mut().zip(&is_same).filter(|(_, same)| !**same) {
            *known = Capabilities::default();
        }
        let has_left = |n: &usize| old[*n].place.is_some() && !is_same[*n];
        let left = (0..old.len()).filter(has_left).collect();
        (0..self.len()).filter(|n| !is_same[*n]).for_each(|n| self.publish_health(n));
        left
    }

    /// Whether one is in use.
    pub(crate) fn is_asked(&self, upstream: usize) -> bool {
        self.roster.slots()[upstream].place.is_some()
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.roster.slots().len()
    }

    /// The settings of one.
    pub(crate) fn settings(&self, upstream: usize) -> &Upstream {
        &self.roster.slots()[upstream].upstream
    }

    /// The counters of one.
    pub(crate) fn counters(&self, upstream: usize) -> &UpstreamCounters {
        &self.roster.slots()[upstream].counters
    }

    /// Whether one is asked over encrypted connections.
    pub(crate) fn is_encrypted(&self, upstream: usize) -> bool {
        self.settings(upstream).address.plain().is_none()
    }

    /// What each is asked by.
    pub(crate) fn media(&self) -> Vec<Medium> {
        let medium = |slot: &Slot| {
            let is_ipv6 = slot.upstream.address.ip().is_some_and(|address| address.is_ipv6());
            slot.port.map_or(Medium::Sockets, |number| Medium::Port { number, is_ipv6 })
        };
        self.roster.slots().iter().map(medium).collect()
    }

    /// The way to one that is not encrypted.
    pub(crate) fn route(&self, upstream: usize) -> Option<Route> {
        let Slot { upstream: to, port, .. } = &self.roster.slots()[upstream];
        Some(Route { upstream, to: to.address.plain()?, from: to.source, port: *port })
    }

    /// The plan of a question.
    pub(crate) fn plan(&mut self, question: &Question) -> Plan {
        self.groups.plan(question.zone(), &mut self.health, self.now)
    }

    /// The order in which upstreams would be asked a question now.
    pub(crate) fn order(&self, question: &Question) -> plan::Order {
        self.groups.foresee(question.zone(), &self.health, self.now)
    }

    /// What is known of the upstreams' health.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// The group that a question goes to, whose name is in lower case.
    pub(crate) fn group_of(&self, key: Key<'_>) -> usize {
        self.groups.of(key)
    }

    /// Whether any upstream that may be asked this question is told the client's network.
    pub(crate) fn sends_subnets(&self, key: Key<'_>) -> bool {
        self.groups.sends_subnets(key)
    }

    /// Whether the configuration in use has views of this scope.
    pub(crate) fn has_scope(&self, scope: u8) -> bool {
        self.groups.has_scope(scope)
    }

    /// The question in the form that an upstream is asked.
    pub(crate) fn as_sent(&self, question: &Rc<Question>, upstream: usize) -> Rc<Question> {
        if self.settings(upstream).client_subnet || question.subnet().is_none() {
            return Rc::clone(question);
        }
        let mut told = Question::clone(question);
        told.ask_for(None, self.seed);
        Rc::new(told)
    }

    /// Whether a query that leaves now has an OPT record.
    pub(crate) fn takes_edns(&self, upstream: usize) -> bool {
        !self.capabilities[upstream].without_edns.holds(self.now)
    }

    /// Whether a query that leaves now has a mixed letter case.
    pub(crate) fn mixes_case(&self, upstream: usize) -> bool {
        self.settings(upstream).mix_case
            && !self.capabilities[upstream].in_lower_case.holds(self.now)
    }

    /// The cookie for queries that leave for this upstream now. `local` gives the source address if the operator chose
    /// none.
    pub(crate) fn cookie_for(
        &mut self,
        upstream: usize,
        local: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<Sent> {
        let to = &self.roster.slots()[upstream].upstream;
        let address = to.address.plain().filter(|_| to.cookies)?;
        let source = to.source.or_else(local)?;
        let cookies = &mut self.capabilities[upstream].cookies;
        let client = cookies.client(source, || self.cookie_secret.cookie(address, source));
        Some(cookies.take(client, self.now))
    }

    /// How long to wait for a reply to a query that leaves now, before its question is asked again.
    pub(crate) fn retry_timeout(&self, upstream: usize, round: u32) -> Duration {
        self.health.retry_timeout(upstream, round)
    }

    /// After how long a query without a reply counts as timed out. An upstream that is usually slower than the setting
    /// gets more time.
    pub(crate) fn usual_patience(&self, upstream: usize) -> Duration {
        let expected = Duration::from_millis(self.settings(upstream).timeout_ms);
        self.health.retry_timeout(upstream, 0).max(expected)
    }

    /// An upstream that rests and is to be probed now.
    pub(crate) fn due_probe(&self) -> Option<usize> {
        self.health.due_probe(self.now, |upstream| self.is_asked(upstream))
    }

    /// A probe leaves for an upstream.
    pub(crate) fn note_probe(&mut self, upstream: usize) {
        count(&self.counters(upstream).probes);
        self.health.note_probe(upstream, self.now);
        self.publish_health(upstream);
    }

    /// The way to an upstream is open again.
    pub(crate) fn hurry(&mut self, upstream: usize) {
        self.health.hurry(upstream, self.now);
    }

    /// An upstream replied so to a query sent at `sent`; [`Ticket::NONE`]: a probe.
    pub(crate) fn note_reply(
        &mut self,
        upstream: usize,
        sent: Duration,
        ticket: Ticket,
        reply: &[u8],
    ) {
        count(&self.counters(upstream).replies);
        let rtt = self.now.saturating_sub(sent);
        match rcode_of(reply) {
            Rcode::SERVFAIL => {
                self.health.servfailed(upstream, rtt, ticket == Ticket::NONE, self.now);
            }
            _ => self.health.replied(upstream, rtt, self.now),
        }
        self.publish_health(upstream);
    }

    /// A query sent at `sent` has had no reply in the retry timeout.
    pub(crate) fn note_retry(&mut self, upstream: usize, sent: Duration) {
        count(&self.counters(upstream).late);
        self.health.retried(upstream, sent, self.now);
    }

    /// A query sent at `sent` counts as timed out.
    pub(crate) fn note_timeout(&mut self, upstream: usize, sent: Duration) {
        count(&self.counters(upstream).timeouts);
        self.note_failure(upstream, sent);
    }

    /// Queries sent at `sent` ended with an error of the network.
    pub(crate) fn note_error(
        &mut self,
        upstream: usize,
        sent: Duration,
        error: &io::Error,
        queries: usize,
    ) {
        tracing::debug!("upstream {}: {error}", self.settings(upstream).address);
        add(&self.counters(upstream).errors, queries as u64);
        self.health.unreachable(upstream, sent, self.now);
        self.publish_health(upstream);
    }

    /// An upstream did not reply to queries sent at `sent`, or could not be reached.
    fn note_failure(&mut self, upstream: usize, sent: Duration) {
        self.health.failed(upstream, sent, self.now);
        self.publish_health(upstream);
    }

    fn publish_health(&self, upstream: usize) {
        let counters = self.counters(upstream);
        let srtt_us = u64::try_from(self.health.srtt(upstream).as_micros()).unwrap_or(u64::MAX);
        counters.srtt_us.store(srtt_us, Ordering::Relaxed);
        let rests = self.health.next_probe(upstream).is_some();
        counters.state.store(u64::from(rests), Ordering::Relaxed);
        counters.dead.store(u64::from(self.health.is_dead(upstream)), Ordering::Relaxed);
    }

    /// A reply over UDP has the letter case of its query.
    pub(crate) fn note_case_kept(&mut self, upstream: usize) {
        self.capabilities[upstream].in_lower_case.note_success();
    }

    /// A reply over UDP differs from its query in letter case. A forger may have sent it who knows all but the case.
    pub(crate) fn note_case_mismatch(&mut self, upstream: usize) {
        let Slot { counters, upstream: settings, .. } = &self.roster.slots()[upstream];
        count(&counters.mismatched);
        count(&counters.case_mismatch);
        if self.capabilities[upstream].in_lower_case.note_failure(self.now) {
            count(&counters.case_mixing_paused);
            let address = &settings.address;
            tracing::warn!(
                "upstream {address} does not keep the letter case of queries, and is asked in small letters \
                 for an hour; leave out its mix_case"
            );
        }
    }

    /// A reply over UDP has the cookie of its query, and this cookie for the next ones.
    pub(crate) fn note_cookie(&mut self, upstream: usize, learnt: Learnt) {
        count(&self.counters(upstream).cookies);
        self.capabilities[upstream].cookies.learn(learnt, self.now);
    }

    /// Learns from a reply over TCP whether its upstream uses cookies.
    pub(crate) fn note_tcp_cookie(&mut self, query: &TcpQuery, reply: &[u8]) {
        let upstream = query.attempt.upstream;
        let Some(sent) = query.cookie.as_ref().filter(|_| query.attempt.edns) else { return };
        match sent.shown_in(reply) {
            Shown::Right(learnt) => self.note_cookie(upstream, learnt),
            Shown::Missing if ReplyKind::of(reply) == ReplyKind::Answer => {
                if self.capabilities[upstream].cookies.miss(self.now) {
                    let address = &self.settings(upstream).address;
                    tracing::info!(
                        "upstream {address} has left DNS cookies off, and is not held to them for an hour"
                    );
                }
            }
            Shown::Missing | Shown::Wrong => {}
        }
    }

    /// Learns from an answer whether its upstream knows EDNS.
    pub(crate) fn note_edns(&mut self, attempt: Attempt) {
        let fallback = &mut self.capabilities[attempt.upstream].without_edns;
        if attempt.edns {
            fallback.note_success();
        } else if fallback.note_failure(self.now) {
            count(&self.counters(attempt.upstream).without_edns);
            let address = &self.settings(attempt.upstream).address;
            tracing::warn!(
                "upstream {address} does not know EDNS, and is asked without for 15 minutes; signatures, subnets \
                 and cookies need it"
            );
        }
    }
}

/// The retry timeout of an upstream that has not been asked yet.
fn first_retry(slot: &Slot, deadline: Duration) -> RetryTimeout {
    RetryTimeout::new(Duration::from_millis(slot.upstream.timeout_ms), deadline)
}
