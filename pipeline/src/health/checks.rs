//! Checks, as the main thread makes them: a round of probes through the data cores, and a look at everything else.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use pmdns_config::{Anycast, Config, wire_name};

use super::rings::StuckRings;
use super::{CoreHealth, GroupHealth, Health, PortHealth, State, Verdict};
use crate::control::distribution::RingReport;
use crate::engine::Gauges;
use crate::ports::PortNews;
use crate::probe::Prober;
use crate::topology::Topology;

/// Who waits for the result of a check.
pub type Asker = Box<dyn FnOnce(&Health)>;

/// Askers that may wait for a round.
const MAX_ASKERS: usize = 64;
/// How often the verdict of reports is made anew. For that no probe is sent: probes are queries, and would be counted as such.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the verdict of a check with probes stands in reports.
const CHECK_STANDS: Duration = Duration::from_secs(10);
/// The rcode of an answer that says that there is none (RFC 1035 section 4.1.1).
const SERVFAIL: u8 = 2;

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
    state: State,
    round: Option<Round>,
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
            state: State::default(),
            round: None,
            askers: Vec::new(),
            next_id: 0,
            client: config.probe_client(),
            problems: Vec::new(),
            due: None,
        }
    }

    /// Whether clients shall come to this node.
    pub fn state(&self) -> State {
        self.state
    }

    /// The verdict of the last check, and the problems that it found.
    pub fn verdict(&self) -> (Verdict, &[String]) {
        (Verdict::of(self.state, &self.problems), &self.problems)
    }

    /// Says whether clients shall come to this node from now on.
    pub fn set(&mut self, state: State) {
        self.state = state;
        match state {
            State::Drained => {
                tracing::warn!("drained: everything is answered, but no more clients shall come");
            }
            State::Serving => tracing::info!("serving: clients may come"),
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
            self.problems = self.judge(None, ports).problems;
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
        let rcodes = std::mem::take(&mut round.rcodes);
        self.round = None;
        let health = self.judge(Some(&rcodes), ports);
        self.due = Some(now + CHECK_STANDS);
        self.problems.clone_from(&health.problems);
        self.askers.drain(..).for_each(|tell| tell(&health));
    }

    /// The node's health by the answers to probes, if there were any, and everything else.
    fn judge(&mut self, rcodes: Option<&[Option<u8>]>, ports: &[PortNews]) -> Health {
        let mut health = Health {
            state: self.state,
            cores: self.cores(rcodes),
            ports: self.ports(ports),
            groups: self.groups(),
            stuck_rings: self.stuck_rings(),
            ..Health::default()
        };
        health.problems = self.problems(&health);
        health.verdict = Verdict::of(self.state, &health.problems);
        health.healthy = health.verdict == Verdict::Serving;
        health
    }

    fn cores(&self, rcodes: Option<&[Option<u8>]>) -> Vec<CoreHealth> {
        let clock = &self.gauges.clock;
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

    /// Another configuration is in use.
    pub fn follow(&mut self, config: &Config) {
        self.needed = needed(config);
        self.client = config.probe_client();
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
        let stuck = self.rings.look();
        let rings = self.gauges.rings.iter().filter(|(ends, _)| stuck.contains(ends));
        rings
            .map(|(ends, gauge)| {
                let RingReport { from, to, carries, .. } =
                    RingReport::of(*ends, gauge, &self.topology);
                format!("{from} to {to}: {carries}")
            })
            .collect()
    }

    /// Everything that makes the node unfit.
    fn problems(&self, health: &Health) -> Vec<String> {
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

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::atomic::Ordering;

    use super::*;
    use pmdns_stages::testing::query;

    use crate::clock::SteppedTime;
    use crate::testing::{Rig, config};

    const PATIENCE: Duration = Duration::from_millis(200);
    const SPLIT: &str = "[[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
        [[placement]]\nstages = \"lookup..encode\"\ncores = [3]\n";

    struct Node {
        rig: Rig,
        time: SteppedTime,
        config: Config,
        checks: HealthChecks,
        told: Rc<RefCell<Vec<Health>>>,
        now: Instant,
    }

    impl Node {
        fn new(more: &str) -> Self {
            let config = config(more);
            let (mut rig, time) = Rig::stepped(&config);
            rig.news[0].link_came_up();
            let (other, _) = Rig::stepped(&config);
            let prober = std::mem::replace(&mut rig.prober, other.prober);
            let checks = HealthChecks::new(prober, &rig.gauges, &rig.topology, &config);
            Self { rig, time, config, checks, told: Rc::default(), now: Instant::now() }
        }

        fn ask(&mut self) {
            let told = Rc::clone(&self.told);
            let asker = move |health: &Health| told.borrow_mut().push(health.clone());
            self.checks.ask(self.now, &self.config, Box::new(asker));
        }

        /// Asks, has these workers turn, and lets so much time pass.
        fn check(&mut self, turning: &[usize], passes: Duration) -> Option<Health> {
            self.ask();
            self.time.advance(passes);
            for worker in turning {
                self.rig.workers[*worker].turn();
            }
            self.now += passes;
            self.checks.turn(self.now, &self.rig.news);
            self.told.borrow_mut().pop()
        }
    }

    #[test]
    fn a_node_whose_cores_all_answer_is_healthy_and_told_so_at_once() {
        let mut node = Node::new(SPLIT);
        assert_eq!(node.check(&[], Duration::ZERO), None, "the cores have not turned yet");
        let health = node.check(&[0, 1], Duration::from_millis(10)).unwrap();
        assert!(health.healthy && health.problems.is_empty(), "{health:?}");
        let cores: Vec<_> =
            health.cores.iter().map(|core| (core.core, core.is_asked, core.rcode)).collect();
        assert_eq!(cores, [(1, true, Some(0)), (3, false, None)]);
        assert_eq!(health.ports, [PortHealth { port: "p0".to_owned(), link_up: true }]);
        assert_eq!((health.groups[0].alive, health.groups[0].upstreams), (1, 1));
        assert_eq!(node.told.borrow().len(), 1, "both askers got the result of one round");
    }

    #[test]
    fn a_core_that_does_not_turn_makes_the_node_unfit_wherever_it_stands() {
        for (turning, problems) in [
            (&[1][..], vec!["core 1 does not answer within 200 ms"]),
            (
                &[0],
                vec![
                    "core 1 does not answer within 200 ms",
                    "core 3 has shown no sign of life for 201 ms",
                ],
            ),
        ] {
            let mut node = Node::new(SPLIT);
            node.rig.settle();
            assert_eq!(node.check(&[], Duration::ZERO), None);
            let health = node.check(turning, PATIENCE + Duration::from_millis(1)).unwrap();
            assert_eq!(health.problems, problems);
            assert!(!health.healthy);
        }
    }

    #[test]
    fn dead_upstreams_and_links_make_the_node_unfit() {
        let dead = |more: &str| {
            let mut node = Node::new(more);
            let roster = node.rig.gauges.upstreams.roster();
            let counters = &roster.slots()[0].counters;
            counters.state.store(1, Ordering::Relaxed);
            let health = node.check(&[0], Duration::from_millis(10)).unwrap();
            assert!(health.healthy, "clients have made it rest, no probe has failed: {health:?}");
            counters.dead.store(1, Ordering::Relaxed);
            node.check(&[0], Duration::from_millis(10)).unwrap().problems
        };
        assert_eq!(dead(""), ["no upstream of the group default is alive"]);
        assert_eq!(dead("[anycast]\nupstreams = false\n"), [""; 0]);
        let mut node = Node::new("");
        node.rig.news[0].link_went_down();
        let health = node.check(&[0], Duration::from_millis(10)).unwrap();
        assert_eq!(health.problems, ["no port has a link"]);
    }

    #[test]
    fn the_verdict_of_reports_needs_no_probe() {
        let mut node = Node::new("");
        let silence = INTERVAL + PATIENCE;
        node.checks.turn(node.now, &node.rig.news);
        node.time.advance(silence);
        node.now += silence;
        node.checks.turn(node.now, &node.rig.news);
        let (verdict, problems) = node.checks.verdict();
        assert_eq!((verdict, problems.len()), (Verdict::Unfit, 1), "the core does not turn");
        node.rig.settle();
        node.now += INTERVAL;
        node.checks.turn(node.now, &node.rig.news);
        assert_eq!(node.checks.verdict(), (Verdict::Serving, &[][..]));
    }

    #[test]
    fn clients_of_the_probe_s_prefix_over_their_limit_do_not_make_the_node_unfit() {
        let limit =
            "[ratelimit]\nqueries_per_second = 1\nburst = 1\n[anycast]\nclient = \"10.77.0.9\"\n";
        let mut node = Node::new(limit);
        for _ in 0..5 {
            let mut burst: pmdns_nics::Burst =
                (0..20).map(|_| node.rig.frame(&query("localhost. A").frame_bytes())).collect();
            node.rig.offer(0, &mut burst);
            node.rig.settle();
            let health = node.check(&[0], Duration::from_millis(10)).unwrap();
            assert!(health.healthy, "{health:?}");
        }
    }

    #[test]
    fn a_drained_node_serves_but_is_not_healthy() {
        let mut node = Node::new("");
        node.checks.set(State::Drained);
        let health = node.check(&[0], Duration::from_millis(10)).unwrap();
        assert_eq!((health.healthy, health.state), (false, State::Drained));
        assert!(health.problems.is_empty(), "{health:?}");
        node.checks.set(State::Serving);
        assert!(node.check(&[0], Duration::from_millis(10)).unwrap().healthy);
    }

    #[test]
    fn askers_have_a_bound() {
        let mut node = Node::new("");
        (0..2 * MAX_ASKERS).for_each(|_| node.ask());
        assert!(node.check(&[0], Duration::from_millis(10)).is_some());
        assert_eq!(node.told.borrow().len(), MAX_ASKERS - 1);
    }
}
