//! What a check finds, and what reports say between checks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use pmdns_engine::clock::SteppedTime;
use pmdns_engine::testing::{Rig, config};
use pmdns_stages::testing::query;

use super::*;

const PATIENCE: Duration = Duration::from_millis(200);
const SPLIT: &str = "[[placement]]\nstages = \"parse..ratelimit\"\ncores = [1]\n\
    [[placement]]\nstages = \"lookup..encode\"\ncores = [3]\n";

struct Node {
    rig: Rig,
    time: SteppedTime,
    config: Config,
    checks: HealthChecks,
    told: Rc<RefCell<Vec<NodeHealth>>>,
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
        let asker = move |health: &NodeHealth| told.borrow_mut().push(health.clone());
        self.checks.ask(self.now, &self.config, Box::new(asker));
    }

    /// Asks, has these workers turn, and lets so much time pass.
    fn check(&mut self, turning: &[usize], passes: Duration) -> Option<NodeHealth> {
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
    assert_eq!((verdict, problems.len()), (NodeVerdict::Unfit, 1), "the core does not turn");
    node.rig.settle();
    node.now += INTERVAL;
    node.checks.turn(node.now, &node.rig.news);
    assert_eq!(node.checks.verdict(), (NodeVerdict::Serving, &[][..]));
}

#[test]
fn between_checks_reports_have_what_is_new_and_the_last_answers_to_probes() {
    let mut node = Node::new("");
    assert!(!node.check(&[], PATIENCE + Duration::from_millis(1)).unwrap().healthy);
    node.rig.settle();
    node.now += INTERVAL;
    let core = node.rig.topology.workers[0].core;
    let silent = format!("core {core} does not answer within {} ms", PATIENCE.as_millis());
    for (is_dead, problems) in [
        (0, vec![silent.clone()]),
        (1, vec![silent, "no upstream of the group default is alive".to_owned()]),
    ] {
        let roster = node.rig.gauges.upstreams.roster();
        roster.slots()[0].counters.dead.store(is_dead, Ordering::Relaxed);
        node.now += INTERVAL;
        node.checks.turn(node.now, &node.rig.news);
        assert_eq!(node.checks.verdict(), (NodeVerdict::Unfit, &problems[..]));
        node.rig.settle();
    }
}

/// Turns the checks and the core each 100 ms for so long. Returns how many rounds of probes have begun.
fn pass(node: &mut Node, time: Duration, is_turning: bool) -> u16 {
    let (step, first) = (Duration::from_millis(100), node.checks.next_id);
    for _ in 0..time.as_millis() / step.as_millis() {
        node.time.advance(step);
        node.now += step;
        if is_turning {
            node.rig.settle();
        }
        node.checks.turn(node.now, &node.rig.news);
    }
    node.checks.next_id - first
}

#[test]
fn a_bad_answer_counts_until_a_probe_of_ours_disproves_it() {
    let mut node = Node::new("");
    assert!(!node.check(&[], PATIENCE + Duration::from_millis(1)).unwrap().healthy);
    for _ in 0..3 {
        assert_eq!(pass(&mut node, ANSWERS_STAND + INTERVAL, false), 1, "one round in that time");
        assert_eq!(node.checks.verdict().0, NodeVerdict::Unfit);
    }
    let before = node.checks.verdict().1.to_vec();
    assert!(before[0].contains("does not answer within"), "{before:?}");
    pass(&mut node, ANSWERS_STAND + INTERVAL, true);
    assert_eq!(
        node.checks.verdict(),
        (NodeVerdict::Serving, &[][..]),
        "the next round has shown it"
    );
    assert_eq!(pass(&mut node, 10 * ANSWERS_STAND, true), 0, "all is well, and nobody asks");
}

#[test]
fn while_all_is_well_no_probe_is_sent_unasked() {
    let mut node = Node::new("");
    assert!(node.check(&[0], Duration::from_millis(10)).unwrap().healthy);
    assert_eq!(pass(&mut node, 10 * ANSWERS_STAND, true), 0);
    let roster = node.rig.gauges.upstreams.roster();
    roster.slots()[0].counters.dead.store(1, Ordering::Relaxed);
    assert_eq!(pass(&mut node, 10 * ANSWERS_STAND, true), 0, "a probe says nothing about that");
    assert_eq!(node.checks.verdict().0, NodeVerdict::Unfit);
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
    node.checks.set(NodeState::Drained);
    let health = node.check(&[0], Duration::from_millis(10)).unwrap();
    assert_eq!((health.healthy, health.state), (false, NodeState::Drained));
    assert!(health.problems.is_empty(), "{health:?}");
    node.checks.set(NodeState::Serving);
    assert!(node.check(&[0], Duration::from_millis(10)).unwrap().healthy);
}

#[test]
fn askers_have_a_bound() {
    let mut node = Node::new("");
    (0..2 * MAX_ASKERS).for_each(|_| node.ask());
    assert!(node.check(&[0], Duration::from_millis(10)).is_some());
    assert_eq!(node.told.borrow().len(), MAX_ASKERS - 1);
}
