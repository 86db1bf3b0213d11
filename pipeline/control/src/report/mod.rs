//! The report: every counter of a running instance, at one time. The instance fills it; metrics, `pmdns top` and the others
//! read it.

mod distribution;
mod parts;
mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use pmdns_config::StageName;
pub use pmdns_counters::{Named, Totals};
use serde::{Deserialize, Serialize};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

pub use self::distribution::{LatencyReport, RingReport, Times};
pub use self::parts::{
    ConnectionReport, FetchReport, HitterReport, LogReport, NextHopReport, SinkReport,
    StreamReport, TapReport, UpstreamReport, ZoneReport, count,
};
use self::parts::{numbers, table, tables};
pub use self::process::{PrivilegeReport, ProcessReport};
use crate::health::{NodeState, NodeVerdict};

/// The driver's work before the first stage, reported like that of a stage.
pub const RECEIVE: &str = "receive";
/// The driver's work after the last stage.
pub const TRANSMIT: &str = "transmit";

/// Its fields are described in docs/counters.md.
impl PartialSchema for Report {
    fn schema() -> RefOr<Schema> {
        Object::new().into()
    }
}

impl ToSchema for Report {}

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
    /// Whether it stands by: another node has the addresses of its ports.
    pub standby: bool,
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
    #[serde(deserialize_with = "tables")]
    pub cache: Vec<Named>,
    /// The slow path, by thread.
    #[serde(deserialize_with = "tables")]
    pub slow_path: Vec<Named>,
    /// The upstream resolvers.
    pub upstreams: Vec<UpstreamReport>,
    /// The next hops of queries that leave by ports.
    pub next_hops: Vec<NextHopReport>,
    /// The client table, if there is one.
    #[serde(default, deserialize_with = "table", skip_serializing_if = "Option::is_none")]
    pub clients: Option<Named>,
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
    /// Its counters, by name, and how often its link changed.
    #[serde(flatten, deserialize_with = "numbers")]
    pub stats: Named,
    /// The driver's extended counters.
    pub xstats: Named,
}

/// One data core.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its CPU.
    pub core: usize,
    /// Its counters, by name.
    #[serde(flatten, deserialize_with = "numbers")]
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

/// Answers over all data cores, each counted once in each table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerReport {
    /// By rcode.
    pub rcodes: Named,
    /// By class of type.
    pub qtypes: Named,
    /// By transport.
    pub transports: Named,
    /// By view; `none`: the client is in none.
    pub views: Named,
}

/// A block list or policy zone, or another source of blocked names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListReport {
    /// Queries that it decided.
    pub hits: u64,
    /// When its file was written, or confirmed by its server, in seconds since 1970; absent: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
}

impl Report {
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

impl WorkerReport {
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

    /// The counter of this name.
    pub fn counter(&self, name: &str) -> u64 {
        count(&self.counters, name)
    }
}
