//! Fills the [report](pmdns_control::report) of a running instance from the counters of its engine.

use std::collections::BTreeMap;
use std::time::Duration;

use pmdns_config::StageName;
use pmdns_control::health::{NodeState, NodeVerdict};
use pmdns_control::report::{
    AnswerReport, FrameReport, LatencyReport, LinkReport, ListReport, Named, NextHopReport,
    PortReport, PrivilegeReport, RECEIVE, Report, RingReport, StageReport, TRANSMIT, TapReport,
    Times, UpstreamReport, WorkerReport,
};
use pmdns_counters::{RingGauge, by_name};
use pmdns_engine::answers::Answers;
use pmdns_engine::counters::{Counters, Flow, Handling, Link, totals};
use pmdns_engine::engine::{Gauges, RingEnds};
use pmdns_engine::latency::{Class, Latencies};
use pmdns_engine::ports::{PortWatch, mac_text};
use pmdns_engine::probe;
use pmdns_engine::station::Meter;
use pmdns_engine::topology::{Topology, WorkerPlan};
use pmdns_nics::Nic;
use pmdns_stages::Step;
use pmdns_stages::next_hop::HopReport;
use pmdns_stages::policy::ListNumber;

use super::process;

/// Reads every counter of the engine now.
pub fn read(gauges: &Gauges, topology: &Topology, nics: &[Box<dyn Nic>]) -> Report {
    let counters: Vec<Counters> = gauges.workers.iter().map(|worker| worker.read()).collect();
    let mut latencies = Latencies::default();
    let mut answers = Answers::default();
    for counters in &counters {
        latencies.merge(&counters.latencies);
        answers.merge(&counters.answers);
    }
    let (now, ticks_per_second) = (gauges.clock.now(), gauges.clock.ticks_per_second());
    let since_start = gauges.clock.duration_of(now);
    let workers = topology.workers.iter().zip(&counters);
    let taps = gauges.taps.iter().map(|(port, counters)| {
        TapReport::of(&topology.port_names[*port], by_name(counters.snapshot().named()))
    });
    let roster = gauges.upstreams.roster();
    let upstreams = roster.in_use().into_iter().map(|(_, slot)| {
        let counters = by_name(slot.counters.snapshot().named());
        UpstreamReport::of(slot.upstream.address.to_string(), counters)
    });
    let rings = gauges.rings.iter().map(|(ends, gauge)| ring_report(*ends, gauge, topology));
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: NodeState::default(),
        verdict: NodeVerdict::default(),
        standby: false,
        problems: Vec::new(),
        uptime_seconds: since_start.as_secs(),
        uptime_ticks: now,
        ticks_per_second,
        totals: totals(&counters),
        latency: latency(&latencies, ticks_per_second),
        answers: answer_report(&answers, &gauges.names.views()),
        lists: lists(&answers, gauges.names.lists()),
        process: process::read(),
        certificates: Named::new(),
        ports: nics.iter().map(|nic| port(nic.as_ref())).collect(),
        taps: taps.collect(),
        workers: workers.map(|(plan, counters)| worker(plan, counters, topology)).collect(),
        rings: rings.collect(),
        frames: FrameReport { capacity: gauges.pool.capacity(), in_use: gauges.pool.in_use() },
        cache: gauges.cache.iter().map(|shard| by_name(shard.snapshot().named())).collect(),
        slow_path: gauges.slow_path.iter().map(|one| by_name(one.snapshot().named())).collect(),
        upstreams: upstreams.collect(),
        next_hops: next_hops(gauges, topology, since_start),
        clients: None,
        query_log: Vec::new(),
        sinks: Vec::new(),
        hitters: Vec::new(),
        policy_zones: Vec::new(),
        fetched_lists: Vec::new(),
        connections: Vec::new(),
        streams: Vec::new(),
        privileges: PrivilegeReport::default(),
    }
}

/// The report with the state of the ports' devices.
pub fn watched(mut report: Report, watch: &PortWatch) -> Report {
    for (number, port) in report.ports.iter_mut().enumerate() {
        port.removed = watch.is_removed(number);
        port.stats.insert("link_changes".to_owned(), watch.link_changes(number));
    }
    report
}

/// A ring between two threads.
pub(crate) fn ring_report(ends: RingEnds, gauge: &RingGauge, topology: &Topology) -> RingReport {
    let core = |worker: usize| format!("core {}", topology.workers[worker].core);
    let slow_path = |thread: usize| format!("slow path {thread}");
    let tap = |port: usize| format!("TAP of {}", topology.port_names[port]);
    let (from, to, carries) = match ends {
        RingEnds::Packets(from, to) => (core(from), core(to), "packets"),
        RingEnds::Misses(worker, thread) => (core(worker), slow_path(thread), "misses"),
        RingEnds::Hits(worker, thread) => (core(worker), slow_path(thread), "hits"),
        RingEnds::Answers(thread, worker) => (slow_path(thread), core(worker), "answers"),
        RingEnds::Queries(thread, worker) => (slow_path(thread), core(worker), "queries"),
        RingEnds::Replies(worker, thread) => (core(worker), slow_path(thread), "replies"),
        RingEnds::Exceptions(worker, port, class) => (core(worker), tap(port), class.name()),
        RingEnds::FromKernel(port, worker) => (tap(port), core(worker), "frames of the kernel"),
    };
    let occupancy = gauge.occupancy();
    RingReport {
        from,
        to,
        carries: carries.to_owned(),
        capacity: gauge.capacity(),
        refused: gauge.refused(),
        mean: (occupancy.mean() * 100.0).round() / 100.0,
        occupancy,
    }
}

fn latency(latencies: &Latencies, ticks_per_second: u64) -> LatencyReport {
    let times = |class| Times::of(latencies.of(class), ticks_per_second);
    LatencyReport {
        hit: times(Class::Hit),
        miss: times(Class::Miss),
        local: times(Class::Local),
        other: times(Class::Other),
    }
}

/// What was counted. `views` has the names of all views, by number; those of views that are gone are empty.
fn answer_report(answers: &Answers, views: &[String]) -> AnswerReport {
    AnswerReport {
        rcodes: summed(answers.rcodes()),
        qtypes: summed(answers.qtypes()),
        transports: summed(answers.transports()),
        views: summed(views.iter().map(String::as_str).zip(answers.views())),
    }
}

/// Names may repeat; their counts are added.
fn summed<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> Named {
    let mut all = Named::new();
    for (name, count) in counts.filter(|(name, _)| !name.is_empty()) {
        *all.entry(name.to_owned()).or_default() += count;
    }
    all
}

/// What was counted of each list, by name. Two lists of one file have one entry.
fn lists(
    answers: &Answers,
    lists: Vec<(ListNumber, String, Option<u64>)>,
) -> BTreeMap<String, ListReport> {
    let mut all: BTreeMap<String, ListReport> = BTreeMap::new();
    for (number, name, modified) in lists {
        let entry = all.entry(name).or_default();
        entry.hits += answers.of_list(number);
        entry.modified = modified;
    }
    all
}

fn port(nic: &dyn Nic) -> PortReport {
    PortReport {
        name: nic.facts().name.clone(),
        driver: nic.facts().driver.clone(),
        link_up: nic.link_up(),
        removed: false,
        stats: by_name(nic.stats().named()),
        xstats: nic.xstats().into_iter().collect(),
    }
}

fn next_hops(gauges: &Gauges, topology: &Topology, now: Duration) -> Vec<NextHopReport> {
    let report = |HopReport { plan, state, mac, age, counts }: HopReport| NextHopReport {
        port: topology.port_names.get(plan.port).cloned().unwrap_or_default(),
        address: plan.address.to_string(),
        state: state.name().to_owned(),
        mac: mac.map(mac_text),
        age_seconds: age.map(|age| age.as_secs()),
        counters: by_name(counts.named()),
    };
    gauges.next_hops.report(now).map(report).collect()
}

fn worker(plan: &WorkerPlan, counters: &Counters, topology: &Topology) -> WorkerReport {
    let stages = StageName::ALL.iter().zip(&counters.meters);
    let stations = stages
        .filter(|(stage, _)| plan.stages.contains(**stage))
        .map(|(stage, meter)| (stage.name().to_owned(), station(meter)));
    let inlets = counters.flow(|link| matches!(link, Link::Rx(_) | Link::RingFrom(_)));
    let sent = counters.flow(|link| matches!(link, Link::Tx(_)));
    let ends = [(RECEIVE, counters.ends.receive, inlets)]
        .into_iter()
        .chain(plan.tx_queue.map(|_| (TRANSMIT, counters.ends.transmit, sent)))
        .map(|(name, handling, flow)| (name.to_owned(), driver(handling, flow)));
    let links = counters.links.iter().map(|(link, flow)| LinkReport {
        link: link_name(*link, plan, topology),
        passed: flow.passed,
        refused: flow.refused,
    });
    WorkerReport {
        core: plan.core,
        counters: by_name(counters.tally.named()),
        links: links.collect(),
        stages: stations.chain(ends).collect(),
    }
}

fn station(meter: &Meter) -> StageReport {
    let taken = Step::all().filter(|step| meter.exits.of(*step) > 0);
    StageReport {
        batches: meter.batches,
        packets: meter.exits.total(),
        ticks: meter.ticks,
        exits: taken.map(|step| (step.to_string(), meter.exits.of(step))).collect(),
    }
}

/// The driver's work at one end of the line.
fn driver(handling: Handling, flow: Flow) -> StageReport {
    let Handling { batches, ticks } = handling;
    StageReport { batches, packets: flow.passed, ticks, exits: Named::new() }
}

/// The name of a link in reports: `tap:rx0`, `ring from core 2`.
fn link_name(link: Link, plan: &WorkerPlan, topology: &Topology) -> String {
    let port = |port: usize, direction, queue: Option<u16>| {
        let name = topology.port_names.get(port).map_or(probe::PORT_NAME, |name| name);
        format!("{name}:{direction}{}", queue.unwrap_or(0))
    };
    match link {
        Link::Rx(number) => port(number, "rx", plan.rx_queue),
        Link::Tx(number) => port(number, "tx", plan.tx_queue),
        Link::RingFrom(worker) => format!("ring from core {}", topology.workers[worker].core),
        Link::RingTo(worker) => format!("ring to core {}", topology.workers[worker].core),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_file_have_one_entry() {
        let list = |number, name: &str| (ListNumber::List(number), name.to_owned(), Some(7));
        let all = lists(&Answers::default(), vec![list(0, "ads"), list(1, "ads")]);
        assert_eq!(all, [("ads".to_owned(), ListReport { hits: 0, modified: Some(7) })].into());
    }

    /// The client knows these classes and states by name.
    #[test]
    fn classes_and_states_have_the_names_that_readers_know() {
        let latency = latency(&Latencies::default(), 1);
        assert_eq!(latency.classes().map(|(name, _)| name), Class::ALL.map(Class::name));
        let state = pmdns_stages::next_hop::HopState::Reachable.name().to_owned();
        assert!(NextHopReport { state, ..NextHopReport::default() }.is_reachable());
    }
}
