//! The families of exported metrics, made from a report.

use pmdns_control::health::{NodeState, NodeVerdict};
use pmdns_control::report::{
    Named, NextHopReport, PortReport, Report, RingReport, StageReport, Times, WorkerReport, count,
};
use pmdns_counters::{Counted, occupancy};
use pmdns_nics::PortStats;
use pmdns_stages::Reason;
use pmdns_stages::next_hop::HopCounts;
use prometheus_client::registry::Unit;

use pmdns_engine::exceptions::TapSnapshot;
use pmdns_engine::slowpath::{CacheSnapshot, CountersSnapshot, UpstreamSnapshot};
use pmdns_streams::counters::StreamSnapshot;

use super::family::{Family, MetricKind, Value};
use super::traffic;

use crate::admission::ConnectionSnapshot;
use crate::clients::ClientSnapshot;
use crate::lists::ListSnapshot;
use crate::sinks::SinkSnapshot;
use crate::transfer::ZoneSnapshot;
use pmdns_insight::hitters::HitterSnapshot;
use pmdns_insight::query_log::LogSnapshot;

/// Upper bounds of the exported latency buckets, in seconds. They do not depend on the clock, so the figures of several
/// machines and restarts can be compared.
const LATENCY_BOUNDS: [f64; 22] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
    5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Every family, in the order of docs/counters.md.
pub fn families(report: &Report) -> Vec<Family> {
    let mut all = instance(report);
    all.extend(traffic::answers(report));
    all.extend(traffic::process(report));
    all.extend(ports(report));
    all.extend(tables(
        "tap",
        &["port"],
        &TapSnapshot::default().named(),
        rows(&report.taps, |it| (&it.port, &it.counters)),
    ));
    all.extend(kernel_exceptions(report));
    all.extend(cores(report));
    all.extend(stages(report));
    all.extend(rings(report));
    all.extend(tables(
        "cache_shard",
        &["shard"],
        &CacheSnapshot::default().named(),
        numbered(&report.cache),
    ));
    all.extend(tables(
        "slow_path",
        &["thread"],
        &CountersSnapshot::default().named(),
        numbered(&report.slow_path),
    ));
    let upstreams = rows(&report.upstreams, |it| (&it.address, &it.counters));
    all.extend(tables("upstream", &["address"], &UpstreamSnapshot::default().named(), upstreams));
    all.extend(next_hops(report));
    let zones = rows(&report.policy_zones, |it| (&it.zone, &it.counters));
    all.extend(tables("policy_zone", &["zone"], &ZoneSnapshot::default().named(), zones));
    let clients = report.clients.iter().map(|counters| (Vec::new(), counters)).collect();
    all.extend(tables("clients", &[], &ClientSnapshot::default().named(), clients));
    let lists = rows(&report.fetched_lists, |it| (&it.list, &it.counters));
    all.extend(tables("list", &["list"], &ListSnapshot::default().named(), lists));
    let parts = rows(&report.query_log, |it| (&it.part, &it.counters));
    all.extend(tables("query_log", &["part"], &LogSnapshot::default().named(), parts));
    let sinks = rows(&report.sinks, |it| (&it.sink, &it.counters));
    all.extend(tables("sink", &["sink"], &SinkSnapshot::default().named(), sinks));
    let parts = rows(&report.hitters, |it| (&it.part, &it.counters));
    all.extend(tables("hitters", &["part"], &HitterSnapshot::default().named(), parts));
    let services = rows(&report.connections, |it| (&it.service, &it.counters));
    all.extend(tables(
        "connections",
        &["service"],
        &ConnectionSnapshot::default().named(),
        services,
    ));
    let transports = rows(&report.streams, |it| (&it.transport, &it.counters));
    all.extend(tables("stream", &["transport"], &StreamSnapshot::default().named(), transports));
    all
}

fn instance(report: &Report) -> Vec<Family> {
    let totals = &report.totals;
    let drops = report.drops();
    let count = |reason: &Reason| drops.get(reason.name()).copied().unwrap_or(0);
    let uptime = report.duration_of(report.uptime_ticks).as_secs_f64();
    let latency = |times: &Times| latency_of(times, report.ticks_per_second);
    let fates = [
        ("transmitted", totals.transmitted),
        ("dropped", totals.dropped),
        ("slow_path", totals.slow_path),
        ("exceptions", totals.exceptions),
    ];
    vec![
        Family::new(MetricKind::Info, "build", "The running program.", &["version"])
            .of([([report.version.clone()], 1)]),
        Family::gauge("drained", "1: clients are to be sent elsewhere (`pmdns drain`).", &[])
            .alone(u64::from(report.state == NodeState::Drained)),
        Family::gauge("fit", "1: the node is fit to serve, as `pmdns health` says. 0: it is not, or it is drained.", &[])
            .alone(u64::from(report.verdict == NodeVerdict::Serving)),
        Family::gauge("standby", "1: the node does not claim the addresses of its ports (`pmdns standby`).", &[])
            .alone(u64::from(report.standby)),
        Family::gauge("uptime", "Time since the clock was started.", &[])
            .in_unit(Unit::Seconds)
            .alone(uptime),
        Family::counter("frames_received", "Frames taken from RX queues.", &[])
            .alone(totals.received),
        Family::counter(
            "frames_made",
            "Frames made here: the slow path's answers and queries, announcements, and those of TAPs.",
            &[],
        )
        .alone(totals.made),
        Family::counter("frames_done", "What became of frames received or made.", &["fate"])
            .of(fates.map(|(fate, count)| ([fate.to_owned()], count))),
        Family::gauge("frames_held", "Packets in rings between cores.", &[]).alone(totals.held),
        Family::gauge("pool_frames", "Frames of the pool.", &[])
            .alone(report.frames.capacity as u64),
        Family::gauge("pool_frames_in_use", "Frames in use, those in RX queues included.", &[])
            .alone(report.frames.in_use as u64),
        Family::counter("cache_hits", "Queries answered from the cache by a data core.", &[])
            .alone(report.exits("lookup", "encode")),
        Family::counter(
            "cache_misses",
            "Queries that neither the cache nor a rule had an answer to.",
            &[],
        )
        .alone(report.exits("policy", "slow_path")),
        Family::counter("drops", "Packets dropped by a stage.", &["reason"])
            .of(Reason::ALL.iter().map(|reason| ([reason.name().to_owned()], count(reason)))),
        Family::new(
            MetricKind::Histogram,
            "latency",
            "From a query's arrival to its answer's TX queue, by what answered.",
            &["answered_by"],
        )
        .in_unit(Unit::Seconds)
        .of(report.latency.classes().map(|(class, times)| ([class.to_owned()], latency(times)))),
    ]
}

/// The rows of a table: values of its labels, and counters.
type Rows<'r> = Vec<(Vec<String>, &'r Named)>;

/// The rows of parts, each with its name and its counters.
fn rows<T>(parts: &[T], of: impl Fn(&T) -> (&String, &Named)) -> Rows<'_> {
    parts.iter().map(of).map(|(name, counters)| (vec![name.clone()], counters)).collect()
}

/// The rows of parts that have numbers.
fn numbered(parts: &[Named]) -> Rows<'_> {
    parts
        .iter()
        .enumerate()
        .map(|(number, counters)| (vec![number.to_string()], counters))
        .collect()
}

/// The families of a table of counters, which has its names and meanings. Each counter is a family, each row a sample.
fn tables(
    prefix: &str,
    labels: &'static [&'static str],
    table: &[Counted],
    rows: Rows<'_>,
) -> Vec<Family> {
    let family = |Counted { name, is_gauge, meaning: help, .. }: &Counted| {
        let kind = if *is_gauge { MetricKind::Gauge } else { MetricKind::Counter };
        let new =
            |name: &str, help: &str| Family::new(kind, &format!("{prefix}_{name}"), help, labels);
        let samples = rows.iter().map(|(labels, counters)| (labels.clone(), count(counters, name)));
        match *name {
            "srtt_us" => {
                new("srtt", "Smoothed round-trip time, as the thread that measured last sees it.")
                    .in_unit(Unit::Seconds)
                    .of(samples.map(|(label, us)| (label, us as f64 / 1e6)))
            }
            "bytes_used" => new("used", help).in_unit(Unit::Bytes).of(samples),
            "bytes_total" => new("size", help).in_unit(Unit::Bytes).of(samples),
            "refreshed" => new("refreshed_timestamp", help).in_unit(Unit::Seconds).of(samples),
            "state" => new("resting", help).of(samples),
            _ => new(name, help).of(samples),
        }
    };
    table.iter().map(family).collect()
}

fn ports(report: &Report) -> Vec<Family> {
    let each = |value: &dyn Fn(&PortReport) -> u64| {
        let samples = report.ports.iter();
        let samples = samples.map(|port| ([port.name.clone()], value(port)));
        samples.collect::<Vec<_>>()
    };
    let mut all = vec![
        Family::gauge("port_link_up", "Whether the port's link is up: 1 or 0.", &["port"])
            .of(each(&|port| u64::from(port.link_up))),
        Family::gauge(
            "port_removed",
            "Whether the port's device was taken out of the machine: 1 or 0.",
            &["port"],
        )
        .of(each(&|port| u64::from(port.removed))),
        Family::counter(
            "port_queue_frames",
            "Frames that a core has taken from an RX queue of the port.",
            &["port", "queue"],
        )
        .of(report.ports.iter().flat_map(|port| {
            let queues = report.workers.iter().flat_map(|worker| worker.rx_queues(&port.name));
            queues.map(|(queue, link)| ([port.name.clone(), queue.to_owned()], link.passed))
        })),
    ];
    let names = PortStats::default().named().map(|one| (one.name, one.meaning));
    let links = ("link_changes", "How often the port's link went up or down.");
    for (name, help) in names.into_iter().chain([links]) {
        let value = |port: &PortReport| count(&port.stats, name);
        let family = match name.strip_suffix("_bytes") {
            Some(direction) => {
                Family::counter(&format!("port_{direction}"), help, &["port"]).in_unit(Unit::Bytes)
            }
            None => Family::counter(&format!("port_{name}"), help, &["port"]),
        };
        all.push(family.of(each(&value)));
    }
    all
}

fn cores(report: &Report) -> Vec<Family> {
    let seconds = |ticks: u64| report.duration_of(ticks).as_secs_f64();
    let states = |worker: &WorkerReport, suffix: &str, states: &[&str]| {
        let core = worker.core.to_string();
        let of = |state: &&str| {
            ([core.clone(), (*state).to_owned()], worker.counter(&format!("{state}_{suffix}")))
        };
        states.iter().map(of).collect::<Vec<_>>()
    };
    let turns = report.workers.iter().flat_map(|worker| states(worker, "turns", &["busy", "idle"]));
    let times = ["busy", "idle", "resolving", "housekeeping"];
    let times = report.workers.iter().flat_map(|worker| states(worker, "ticks", &times));
    let links = || {
        report.workers.iter().flat_map(|worker| {
            let core = worker.core.to_string();
            worker.links.iter().map(move |link| ([core.clone(), link.link.clone()], link))
        })
    };
    vec![
        Family::counter("core_turns",
            "Turns of a data core's poll loop, by whether they found work.",
            &["core", "state"],
        )
        .of(turns),
        Family::counter("core",
            "Time of a data core: turns with work, turns without, misses if it resolves, publishing counters; the rest it slept.",
            &["core", "state"],
        )
        .in_unit(Unit::Seconds)
        .of(times.map(|(labels, ticks)| (labels, seconds(ticks)))),
        Family::counter("link_passed",
            "Packets that went over a core's queue or ring.",
            &["core", "link"],
        )
        .of(links().map(|(labels, link)| (labels, link.passed))),
        Family::counter("link_refused",
            "Packets dropped because a core's queue or ring was full.",
            &["core", "link"],
        )
        .of(links().map(|(labels, link)| (labels, link.refused))),
    ]
}

fn stages(report: &Report) -> Vec<Family> {
    const LABELS: &[&str] = &["core", "stage"];
    let each = |value: &dyn Fn(&StageReport) -> Value| {
        let stages = report.workers.iter().flat_map(|worker| {
            let core = worker.core.to_string();
            let labels = move |name: &String| [core.clone(), name.clone()];
            worker.stages.iter().map(move |(name, stage)| (labels(name), value(stage)))
        });
        stages.collect::<Vec<_>>()
    };
    let exits = report.workers.iter().flat_map(|worker| {
        let core = worker.core.to_string();
        worker.stages.iter().flat_map(move |(name, stage)| {
            let labels = [core.clone(), name.clone()];
            stage.exits.iter().map(move |(exit, count)| {
                let [core, stage] = labels.clone();
                ([core, stage, exit.clone()], *count)
            })
        })
    });
    let seconds =
        |stage: &StageReport| Value::Number(report.duration_of(stage.ticks).as_secs_f64());
    vec![
        Family::counter("stage_batches", "Batches with a packet for the stage.", LABELS)
            .of(each(&|stage| Value::Count(stage.batches))),
        Family::counter("stage_packets", "Packets the stage has handled.", LABELS)
            .of(each(&|stage| Value::Count(stage.packets))),
        Family::counter("stage", "Time the stage took for them.", LABELS)
            .in_unit(Unit::Seconds)
            .of(each(&seconds)),
        Family::counter("stage_exits",
            "Where the stage sent packets: another stage, transmit, slow_path, reply, exception.KIND, drop.REASON.",
            &["core", "stage", "exit"],
        )
        .of(exits),
    ]
}

fn rings(report: &Report) -> Vec<Family> {
    const LABELS: &[&str] = &["from", "to", "carries"];
    let each = |value: &dyn Fn(&RingReport) -> Value| {
        let labels = |ring: &RingReport| [ring.from.clone(), ring.to.clone(), ring.carries.clone()];
        report.rings.iter().map(|ring| (labels(ring), value(ring))).collect::<Vec<_>>()
    };
    vec![
        Family::gauge("ring_slots", "Slots of a ring between two threads.", LABELS)
            .of(each(&|ring| Value::Count(ring.capacity as u64))),
        Family::counter("ring_taken", "Values taken from the ring.", LABELS)
            .of(each(&|ring| Value::Count(ring.occupancy.taken))),
        Family::counter("ring_refused", "Values that found the ring full.", LABELS)
            .of(each(&|ring| Value::Count(ring.refused))),
        Family::new(
            MetricKind::Histogram,
            "ring_occupancy",
            "Values that waited in the ring, each time some were taken.",
            LABELS,
        )
        .of(each(&occupancy_of)),
        Family::gauge("ring_occupancy_max", "The most values that ever waited.", LABELS)
            .of(each(&|ring| Value::Count(ring.occupancy.max))),
    ]
}

/// Exceptions on ports with a TAP, by class and by what became of them.
fn kernel_exceptions(report: &Report) -> Vec<Family> {
    const FATES: [(&str, &str); 3] = [("passed", ""), ("limited", "_limited"), ("full", "_full")];
    let sum = |name: &str| report.workers.iter().map(|worker| worker.counter(name)).sum::<u64>();
    let samples = ["link", "control", "streams", "rest"].into_iter().flat_map(|class| {
        FATES.map(|(fate, suffix)| {
            ([class.to_owned(), fate.to_owned()], sum(&format!("kernel_{class}{suffix}")))
        })
    });
    let help =
        "Exceptions on ports with a TAP: passed to its thread, over a limit, or the ring was full.";
    vec![
        Family::counter("kernel_exceptions", help, &["class", "fate"])
            .of(samples.collect::<Vec<_>>()),
    ]
}

/// The states of the next hops, and the counts of each.
fn next_hops(report: &Report) -> Vec<Family> {
    const LABELS: &[&str] = &["port", "address"];
    let each = |value: &dyn Fn(&NextHopReport) -> Option<u64>| {
        let labels = |hop: &NextHopReport| [hop.port.clone(), hop.address.clone()];
        let hops = report.next_hops.iter();
        hops.filter_map(|hop| Some((labels(hop), value(hop)?))).collect::<Vec<_>>()
    };
    let mut all = vec![
        Family::gauge("next_hop_usable", "Whether queries go there: 1 or 0.", LABELS)
            .of(each(&|hop| Some(u64::from(hop.is_usable())))),
        Family::gauge("next_hop_age", "Time since it last answered; absent: never.", LABELS)
            .in_unit(Unit::Seconds)
            .of(each(&|hop| hop.age_seconds)),
    ];
    all.extend(HopCounts::default().named().map(|Counted { name, meaning, .. }| {
        Family::counter(&format!("next_hop_{name}"), meaning, LABELS)
            .of(each(&|hop| Some(hop.counter(name))))
    }));
    all
}

/// Latencies in the exported buckets. If an exported bound lies inside one of our buckets, that bucket counts as above
/// the bound. So no latency appears shorter than it was.
fn latency_of(times: &Times, ticks_per_second: u64) -> Value {
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second.max(1) as f64;
    let mut buckets: Vec<(f64, u64)> = LATENCY_BOUNDS.map(|bound| (bound, 0)).into();
    buckets.push((f64::INFINITY, 0));
    for (bound, count) in &times.buckets {
        let place = LATENCY_BOUNDS.partition_point(|exported| *exported < seconds(*bound));
        buckets[place].1 += count;
    }
    Value::Distribution { sum: seconds(times.sum_ticks), count: times.count, buckets }
}

fn occupancy_of(ring: &RingReport) -> Value {
    let counts = ring.occupancy.histogram.iter().enumerate();
    let mut buckets: Vec<(f64, u64)> =
        counts.map(|(index, count)| (occupancy::upper_bound(index) as f64, *count)).collect();
    buckets.push((f64::INFINITY, 0));
    // The parts are published one by one, so the count is the sum of the buckets.
    let count = buckets.iter().map(|(_, count)| count).sum();
    Value::Distribution { sum: ring.occupancy.waited as f64, count, buckets }
}
