//! The report: every counter of a running instance, at one time.

use std::collections::BTreeMap;
use std::time::Duration;

use pmdns_config::StageName;
use pmdns_engine::answers::Answers;
use pmdns_engine::counters::{Counters, Flow, Handling, Link};
use pmdns_engine::engine::Gauges;
use pmdns_engine::exceptions::TapSnapshot;
use pmdns_engine::latency::Latencies;
use pmdns_engine::ports::PortWatch;
use pmdns_engine::probe;
use pmdns_engine::slowpath::{CacheSnapshot, CountersSnapshot, UpstreamSnapshot};
use pmdns_engine::station::Meter;
use pmdns_engine::topology::{Topology, WorkerPlan};
use pmdns_nics::Nic;
use pmdns_stages::Step;
use pmdns_streams::counters::StreamReport;
use serde::{Deserialize, Serialize};

use super::answers::{AnswerReport, ListReport};
use super::distribution::{LatencyReport, RingReport};
pub use super::named::Named;
use super::named::by_name;
use super::next_hops::NextHopReport;
use super::process::ProcessReport;
use crate::admission::ConnectionReport;
use crate::clients::ClientSnapshot;
use crate::health::{NodeState, NodeVerdict};
use crate::hitters::HitterReport;
use crate::lists::FetchReport;
use crate::privileges::PrivilegeReport;
use crate::query_log::LogReport;
use crate::sinks::SinkReport;
use crate::transfer::ZoneReport;
pub use pmdns_engine::totals::Totals;

/// The driver's work before the first stage and after the last one, reported like stations.
const RECEIVE: &str = "receive";
const TRANSMIT: &str = "transmit";

/// All counters. `pmdns stats --json` prints its JSON form, which docs/counters.md describes. Fields that an older
/// instance does not send are read as zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of the program.
    pub version: String,
    /// Whether clients shall come to this node.
    pub state: NodeState,
    /// Whether it is fit to, as the last check found.
    pub verdict: NodeVerdict,
    /// Everything that makes it unfit, in sentences.
    pub problems: Vec<String>,
    /// Seconds since the clock was started.
    pub uptime_seconds: u64,
    /// Ticks since the clock was started.
    pub uptime_ticks: u64,
    /// Ticks of the clock in a second; every figure in ticks is in these.
    pub ticks_per_second: u64,
    /// The sums that must balance.
    pub totals: Totals,
    /// From arrival to TX queue, by what answered.
    pub latency: LatencyReport,
    /// Answers by rcode, type, transport and view.
    pub answers: AnswerReport,
    /// The lists of blocked names and the policy zones, by name.
    pub lists: BTreeMap<String, ListReport>,
    /// The process, as the system sees it.
    pub process: ProcessReport,
    /// When certificates expire, by the table of the configuration that names them, in seconds since 1970.
    pub certificates: Named,
    /// The ports' own counters.
    pub ports: Vec<PortReport>,
    /// The kernel's ends of ports.
    pub taps: Vec<TapReport>,
    /// The data cores.
    pub workers: Vec<WorkerReport>,
    /// The rings between threads.
    pub rings: Vec<RingReport>,
    /// The frame pool.
    pub frames: FrameReport,
    /// The cache, by shard.
    pub cache: Vec<CacheSnapshot>,
    /// The slow path, by thread.
    pub slow_path: Vec<CountersSnapshot>,
    /// The upstream resolvers.
    pub upstreams: Vec<UpstreamReport>,
    /// The next hops of queries that leave by ports.
    pub next_hops: Vec<NextHopReport>,
    /// The client table, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientSnapshot>,
    /// The parts of the query log, if queries are logged.
    #[serde(default)]
    pub query_log: Vec<LogReport>,
    /// The log, and files that are written as long as the instance runs.
    #[serde(default)]
    pub sinks: Vec<SinkReport>,
    /// Heavy hitters, floods and limits of zones.
    #[serde(default)]
    pub hitters: Vec<HitterReport>,
    /// The policy zones that are transferred.
    pub policy_zones: Vec<ZoneReport>,
    /// Lists that are fetched.
    pub fetched_lists: Vec<FetchReport>,
    /// Connections to the control socket, to the metrics, and with notifications.
    pub connections: Vec<ConnectionReport>,
    /// Clients over streams, by transport.
    pub streams: Vec<StreamReport>,
    /// The privileges that the process still has.
    pub privileges: PrivilegeReport,
}

/// One port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PortReport {
    /// Its name in the config.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Whether its device was taken out of the machine.
    #[serde(default)]
    pub removed: bool,
    /// Its counters, by the names of [`PortStats`](pmdns_nics::PortStats), and how often its link changed.
    #[serde(flatten)]
    pub stats: Named,
    /// The driver's extended counters.
    pub xstats: Named,
}

/// The kernel's end of a port.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TapReport {
    /// The port's name in the config.
    pub port: String,
    /// The counts.
    #[serde(flatten)]
    pub counters: TapSnapshot,
}

/// One data core.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its CPU.
    pub core: usize,
    /// Its counters, by the names of [`Tally`](pmdns_engine::counters::Tally).
    #[serde(flatten)]
    pub counters: Named,
    /// Its queues and rings.
    pub links: Vec<LinkReport>,
    /// The stations it runs, by stage.
    pub stages: BTreeMap<String, StageReport>,
}

/// A queue or a ring of a core.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name: `tap:rx0`, `ring to core 2`.
    pub link: String,
    /// Packets that went over it.
    pub passed: u64,
    /// Packets dropped because it was full.
    pub refused: u64,
}

/// A station.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// Batches in which at least one packet stood there.
    pub batches: u64,
    /// Packets.
    pub packets: u64,
    /// Ticks spent on them.
    pub ticks: u64,
    /// Where they went; exits that no packet took are left out.
    pub exits: Named,
}

/// The frame pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameReport {
    /// Frames in all.
    pub capacity: usize,
    /// Frames in use, those in RX queues included.
    pub in_use: usize,
}

/// An upstream resolver.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UpstreamReport {
    /// Its address and port.
    pub address: String,
    /// The counts.
    #[serde(flatten)]
    pub counters: UpstreamSnapshot,
}

impl Report {
    /// Reads every counter now.
    pub fn read(gauges: &Gauges, topology: &Topology, nics: &[Box<dyn Nic>]) -> Self {
        let counters: Vec<Counters> = gauges.workers.iter().map(|worker| worker.read()).collect();
        let mut latencies = Latencies::default();
        let mut answers = Answers::default();
        for counters in &counters {
            latencies.merge(&counters.latencies);
            answers.merge(&counters.answers);
        }
        let (now, ticks_per_second) = (gauges.clock.now(), gauges.clock.ticks_per_second());
        let workers = topology.workers.iter().zip(&counters);
        let rings = gauges.rings.iter();
        let roster = gauges.upstreams.roster();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: NodeState::default(),
            verdict: NodeVerdict::default(),
            problems: Vec::new(),
            uptime_seconds: gauges.clock.duration_of(now).as_secs(),
            uptime_ticks: now,
            ticks_per_second,
            totals: Totals::of(&counters),
            latency: LatencyReport::of(&latencies, ticks_per_second),
            answers: AnswerReport::of(&answers, &gauges.names.views()),
            lists: ListReport::all(&answers, gauges.names.lists()),
            process: ProcessReport::read(),
            certificates: Named::new(),
            ports: nics.iter().map(|nic| PortReport::read(nic.as_ref())).collect(),
            taps: gauges
                .taps
                .iter()
                .map(|(port, counters)| TapReport {
                    port: topology.port_names[*port].clone(),
                    counters: counters.snapshot(),
                })
                .collect(),
            workers: workers
                .map(|(plan, counters)| WorkerReport::of(plan, counters, topology))
                .collect(),
            rings: rings.map(|(ends, gauge)| RingReport::of(*ends, gauge, topology)).collect(),
            frames: FrameReport { capacity: gauges.pool.capacity(), in_use: gauges.pool.in_use() },
            cache: gauges.cache.iter().map(|shard| shard.snapshot()).collect(),
            slow_path: gauges.slow_path.iter().map(|thread| thread.snapshot()).collect(),
            upstreams: roster
                .in_use()
                .into_iter()
                .map(|(_, slot)| UpstreamReport {
                    address: slot.upstream.address.to_string(),
                    counters: slot.counters.snapshot(),
                })
                .collect(),
            next_hops: NextHopReport::all(
                &gauges.next_hops,
                &topology.port_names,
                gauges.clock.duration_of(now),
            ),
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

    /// The same, with the state of the ports' devices.
    pub fn watched(mut self, watch: &PortWatch) -> Self {
        for (number, port) in self.ports.iter_mut().enumerate() {
            port.removed = watch.is_removed(number);
            port.stats.insert("link_changes".to_owned(), watch.link_changes(number));
        }
        self
    }

    /// How many packets left `stage` by `exit`, over all cores: hits are `lookup` by `encode`.
    pub fn exits(&self, stage: &str, exit: &str) -> u64 {
        self.workers.iter().map(|worker| worker.exits(stage, exit)).sum()
    }

    /// Packets dropped by stages, by reason, over all cores.
    pub fn drops(&self) -> Named {
        let mut drops = Named::new();
        let stages = self.workers.iter().flat_map(|worker| worker.stages.values());
        for (exit, count) in stages.flat_map(|stage| &stage.exits) {
            if let Some(reason) = exit.strip_prefix("drop.") {
                *drops.entry(reason.to_owned()).or_default() += count;
            }
        }
        drops
    }

    /// The work of each stage, over all cores, in line order, between the driver's receiving and transmitting.
    pub fn stages(&self) -> Vec<(&'static str, StageReport)> {
        let sum = |name| {
            let mut sum = StageReport::default();
            for stage in self.workers.iter().filter_map(|worker| worker.stages.get(name)) {
                sum.batches += stage.batches;
                sum.packets += stage.packets;
                sum.ticks += stage.ticks;
                for (exit, count) in &stage.exits {
                    *sum.exits.entry(exit.clone()).or_default() += count;
                }
            }
            (name, sum)
        };
        let stations = StageName::ALL.into_iter().map(StageName::name);
        [RECEIVE].into_iter().chain(stations).chain([TRANSMIT]).map(sum).collect()
    }

    /// So many ticks, as a duration.
    pub fn duration_of(&self, ticks: u64) -> Duration {
        Duration::from_secs_f64(self.seconds_of(ticks))
    }

    /// So many ticks, in seconds.
    pub fn seconds_of(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second.max(1) as f64
    }
}

impl PortReport {
    fn read(nic: &dyn Nic) -> Self {
        Self {
            name: nic.facts().name.clone(),
            driver: nic.facts().driver.clone(),
            link_up: nic.link_up(),
            removed: false,
            stats: by_name(nic.stats().named()),
            xstats: nic.xstats().into_iter().collect(),
        }
    }
}

impl WorkerReport {
    fn of(plan: &WorkerPlan, counters: &Counters, topology: &Topology) -> Self {
        let stages = StageName::ALL.iter().zip(&counters.meters);
        let stations = stages
            .filter(|(stage, _)| plan.stages.contains(**stage))
            .map(|(stage, meter)| (stage.name().to_owned(), StageReport::of(meter)));
        let inlets = counters.flow(|link| matches!(link, Link::Rx(_) | Link::RingFrom(_)));
        let sent = counters.flow(|link| matches!(link, Link::Tx(_)));
        let ends = [(RECEIVE, counters.ends.receive, inlets)]
            .into_iter()
            .chain(plan.tx_queue.map(|_| (TRANSMIT, counters.ends.transmit, sent)))
            .map(|(name, handling, flow)| (name.to_owned(), StageReport::at_end(handling, flow)));
        let links = counters.links.iter().map(|(link, flow)| LinkReport {
            link: link_name(*link, plan, topology),
            passed: flow.passed,
            refused: flow.refused,
        });
        Self {
            core: plan.core,
            counters: by_name(counters.tally.named()),
            links: links.collect(),
            stages: stations.chain(ends).collect(),
        }
    }

    /// A core that has done nothing.
    pub const fn none() -> Self {
        Self { core: 0, counters: Named::new(), links: Vec::new(), stages: BTreeMap::new() }
    }

    /// Packets that went over the links with such names.
    pub fn passed(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        self.links.iter().filter(|link| is_meant(&link.link)).map(|link| link.passed).sum()
    }

    /// The RX queues of a port that it polls, by their numbers.
    pub fn rx_queues(&self, port: &str) -> impl Iterator<Item = (&str, &LinkReport)> {
        self.links.iter().filter_map(move |link| {
            Some((link.link.strip_prefix(port)?.strip_prefix(":rx")?, link))
        })
    }

    /// Packets that left `stage` by `exit`.
    pub fn exits(&self, stage: &str, exit: &str) -> u64 {
        self.stages.get(stage).and_then(|stage| stage.exits.get(exit)).copied().unwrap_or(0)
    }

    /// Packets dropped, for whatever reason, as [`Totals::dropped`] counts them.
    pub fn dropped(&self) -> u64 {
        let shed = ["dropped", "miss_full", "miss_share", "replies_lost"];
        let shed = shed.map(|name| self.counter(name));
        let into =
            |link: &&LinkReport| !link.link.contains(":rx") && !link.link.starts_with("ring from");
        let refused = self.links.iter().filter(into).map(|link| link.refused);
        shed.into_iter().chain(refused).sum()
    }

    /// A counter of [`Tally`](pmdns_engine::counters::Tally), or 0.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

impl StageReport {
    /// The driver's work at one end of the line.
    fn at_end(handling: Handling, flow: Flow) -> Self {
        let Handling { batches, ticks } = handling;
        Self { batches, packets: flow.passed, ticks, exits: Named::new() }
    }

    fn of(meter: &Meter) -> Self {
        let taken = Step::all().filter(|step| meter.exits.of(*step) > 0);
        Self {
            batches: meter.batches,
            packets: meter.exits.total(),
            ticks: meter.ticks,
            exits: taken.map(|step| (step.to_string(), meter.exits.of(step))).collect(),
        }
    }
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
