//! Checks, as the main thread makes them: a round of probes through the data cores, and a look at everything else.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use pmdns_changes::FollowConfig;
use pmdns_changes::overlay::Overlay;
use pmdns_config::{Anycast, Config, wire_name};
use pmdns_engine::engine::Gauges;
use pmdns_engine::news::PortNews;
use pmdns_engine::probe::Prober;
use pmdns_engine::topology::Topology;

use super::rings::StuckRings;
use super::{CoreHealth, GroupHealth, NodeHealth, NodeState, NodeVerdict, PortHealth};
use crate::control::report::ring_report;
use pmdns_control::report::RingReport;

/// Who waits for the result of a check.
pub type Asker = Box<dyn FnOnce(&NodeHealth)>;

/// Askers that may wait for a round.
const MAX_ASKERS: usize = 64;
/// How often the verdict of reports is made anew. For that no probe is sent: probes are queries, and would be counted as such.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long good answers to probes count in reports. Bad ones count until the next round, which begins after this time even if
/// nobody asks.
const ANSWERS_STAND: Duration = Duration::from_secs(10);
/// The rcode of an answer that says that there is none (RFC 1035 section 4.1.1).
const SERVFAIL: u8 = 2;

/// Whether a core has not answered the probe, or said that there is no answer.
fn answers_badly(core: &CoreHealth) -> bool {
    core.is_asked && core.rcode.is_none_or(|rcode| rcode == SERVFAIL)
}

/// Makes checks for those who ask.
pub struct HealthChecks {
    prober: Prober,
    gauges: Gauges,
    topology: Topology,
    settings: Anycast,
    /// The probe's name, as it is on the wire.
    name: Box<[u8]>,
    /// The groups without which the node is unfit.
    needed: Vec<String>,
    rings: StuckRings,
    state: NodeState,
    round: Option<Round>,
    /// The rcodes of the last round, and when it ended.
    answers: Option<(Instant, Vec<Option<u8>>)>,
    askers: Vec<Asker>,
    next_id: u16,
    /// The client that probes seem to come from.
    client: IpAddr,
    /// The problems that were found last, and when to look again.
    problems: Vec<String>,
    due: Option<Instant>,
}

/// The groups without which the node is unfit.
fn needed(config: &Config) -> Vec<String> {
    let groups = config.upstreams.iter().map(|one| &one.group);
    let needed = groups.filter(|group| config.anycast.upstreams && config.needs_group(group));
    needed.cloned().collect()
}

/// Probes under way.
struct Round {
    id: u16,
    since: Instant,
    /// By worker.
    rcodes: Vec<Option<u8>>,
}

impl HealthChecks {
    /// Nobody has asked yet, and the node is to serve.
    pub fn new(prober: Prober, gauges: &Gauges, topology: &Topology, config: &Config) -> Self {
        Self {
            prober,
            gauges: gauges.clone(),
            topology: topology.clone(),
            settings: config.anycast.clone(),
            // The configuration was checked.
            name: wire_name(&config.anycast.probe).unwrap_or_else(|_| Box::from([0])),
            needed: needed(config),
            rings: StuckRings::new(&gauges.rings),
            state: NodeState::default(),
            round: None,
            answers: None,
            askers: Vec::new(),
            next_id: 0,
            client: config.probe_client(),
            problems: Vec::new(),
            due: None,
        }
    }

    /// Whether clients shall come to this node.
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// The verdict of the last check, and the problems that it found.
    pub fn verdict(&self) -> (NodeVerdict, &[String]) {
        (NodeVerdict::of(self.state, &self.problems), &self.problems)
    }

    /// Says whether clients shall come to this node from now on.
    pub fn set(&mut self, state: NodeState) {
        self.state = state;
        match state {
            NodeState::Drained => {
                tracing::warn!("drained: everything is answered, but no more clients shall come");
            }
            NodeState::Serving => tracing::info!("serving: clients may come"),
        }
    }

    /// Asks for a check. If one is under way, its result does for this asker as well. `config` is the one in use.
    pub fn ask(&mut self, now: Instant, config: &Config, asker: Asker) {
        if self.askers.len() == MAX_ASKERS {
            // The asker is dropped, which tells it that there is no result.
            return;
        }
        self.askers.push(asker);
        self.client = config.probe_client();
        if self.round.is_none() {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Instant) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        // Late answers to earlier rounds.
        self.prober.answers();
        self.prober.ask(id, self.client, &self.name);
        let rcodes = vec![None; self.topology.workers.len()];
        self.round = Some(Round { id, since: now, rcodes });
    }

    /// Ends the check under way, if all answers are there or its time has passed. Looks for problems now and then. Never waits.
    pub fn turn(&mut self, now: Instant, ports: &[PortNews]) {
        if self.round.is_none() && self.due.is_none_or(|due| due <= now) {
            self.due = Some(now + INTERVAL);
            let is_old = |since| now.saturating_duration_since(since) >= ANSWERS_STAND;
            if self.answers.as_ref().is_some_and(|(since, _)| is_old(*since)) {
                match self.cores().iter().any(answers_badly) {
                    true => self.begin(now),
                    false => self.answers = None,
                }
            }
            self.problems = self.judge(ports).problems;
        }
        let Some(round) = &mut self.round else { return };
        for answer in self.prober.answers() {
            if answer.id == round.id
                && let Some(rcode) = round.rcodes.get_mut(answer.worker)
            {
                *rcode = Some(answer.rcode);
            }
        }
        let is_complete = self.prober.workers().all(|worker| round.rcodes[worker].is_some());
        let patience = Duration::from_millis(self.settings.timeout_ms);
        if !is_complete && now.saturating_duration_since(round.since) < patience {
            return;
        }
        self.answers = Some((now, std::mem::take(&mut round.rcodes)));
        self.round = None;
        self.due = Some(now + INTERVAL);
        let health = self.judge(ports);
        self.problems.clone_from(&health.problems);
        self.askers.drain(..).for_each(|tell| tell(&health));
    }

    /// The node's health by the answers to probes, if there were any, and everything else.
    fn judge(&mut self, ports: &[PortNews]) -> NodeHealth {
        let mut health = NodeHealth {
            state: self.state,
            cores: self.cores(),
            ports: self.ports(ports),
            groups: self.groups(),
            stuck_rings: self.stuck_rings(),
            ..NodeHealth::default()
        };
        health.problems = self.problems(&health);
        health.verdict = NodeVerdict::of(self.state, &health.problems);
        health.healthy = health.verdict == NodeVerdict::Serving;
        health
    }

    fn cores(&self) -> Vec<CoreHealth> {
        let clock = &self.gauges.clock;
        let rcodes = self.answers.as_ref().map(|(_, rcodes)| rcodes);
        let plans = self.topology.workers.iter().zip(self.gauges.published());
        let cores = plans.enumerate().map(|(worker, (plan, published))| {
            let silent = clock.duration_of(clock.now().saturating_sub(published));
            CoreHealth {
                core: plan.core,
                rcode: rcodes.and_then(|rcodes| *rcodes.get(worker)?),
                is_asked: rcodes.is_some() && plan.rx_queue.is_some(),
                silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            }
        });
        cores.collect()
    }

    fn ports(&self, news: &[PortNews]) -> Vec<PortHealth> {
        let ports = self.topology.port_names.iter().zip(news);
        ports.map(|(name, news)| PortHealth { port: name.clone(), link_up: news.is_up() }).collect()
    }

    /// The groups of upstreams.
    pub fn groups(&self) -> Vec<GroupHealth> {
        let mut groups: Vec<GroupHealth> = Vec::new();
        for (_, slot) in self.gauges.upstreams.roster().in_use() {
            let name = &slot.upstream.group;
            let place = groups.iter().position(|group| group.group == *name);
            let place = place.unwrap_or_else(|| {
                let is_needed = self.needed.contains(name);
                groups.push(GroupHealth {
                    group: name.clone(),
                    is_needed,
                    ..GroupHealth::default()
                });
                groups.len() - 1
            });
            groups[place].upstreams += 1;
            groups[place].alive += usize::from(slot.counters.snapshot().dead == 0);
        }
        groups
    }

    fn stuck_rings(&mut self) -> Vec<String> {
        let stuck = self.rings.poll();
        let rings = self.gauges.rings.iter().filter(|(ends, _)| stuck.contains(ends));
        rings
            .map(|(ends, gauge)| {
                let RingReport { from, to, carries, .. } =
                    ring_report(*ends, gauge, &self.topology);
                format!("{from} to {to}: {carries}")
            })
            .collect()
    }

    /// Everything that makes the node unfit.
    fn problems(&self, health: &NodeHealth) -> Vec<String> {
        let (patience, probe) = (self.settings.timeout_ms, &self.settings.probe);
        let mut problems = Vec::new();
        for core in &health.cores {
            match core.rcode {
                None if core.is_asked => {
                    problems
                        .push(format!("core {} does not answer within {patience} ms", core.core));
                }
                Some(SERVFAIL) => {
                    problems.push(format!("core {} answers SERVFAIL for {probe}", core.core));
                }
                _ if core.silent_ms > patience => problems.push(format!(
                    "core {} has shown no sign of life for {} ms",
                    core.core, core.silent_ms
                )),
                _ => {}
            }
        }
        if !health.ports.is_empty() && health.ports.iter().all(|port| !port.link_up) {
            problems.push("no port has a link".to_owned());
        }
        for group in health.groups.iter().filter(|group| group.is_needed && group.alive == 0) {
            problems.push(format!("no upstream of the group {} is alive", group.group));
        }
        problems.extend(health.stuck_rings.iter().map(|ring| format!("a ring stays full: {ring}")));
        problems
    }
}

impl FollowConfig for HealthChecks {
    fn apply_config(&mut self, config: &Config, _: &Overlay) {
        self.needed = needed(config);
        self.client = config.probe_client();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests;
