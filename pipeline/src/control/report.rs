//! The report: every counter of a running instance, at one time.

use pmdns_config::{Config, StageName};
use pmdns_nics::{Nic, PortStats};
use pmdns_stages::Step;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::counters::{Counters, Link};
use crate::engine::Gauges;
use crate::slowpath::{CacheSnapshot, CountersSnapshot, UpstreamSnapshot};
use crate::topology::{Topology, WorkerPlan};

/// Everything that is counted. Its JSON form is what `pmdns stats --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the program.
    pub version: &'static str,
    /// Seconds since the clock was started.
    pub uptime_seconds: u64,
    /// Ticks of the clock in a second; every figure in ticks is in these.
    pub ticks_per_second: u64,
    /// The sums that must balance.
    pub totals: Totals,
    /// The ports' own counters.
    pub ports: Vec<PortReport>,
    /// The data cores.
    pub workers: Vec<WorkerReport>,
    /// The frame pool.
    pub frames: FrameReport,
    /// The cache, by shard.
    pub cache: Vec<CacheSnapshot>,
    /// The slow path, by thread.
    pub slow_path: Vec<CountersSnapshot>,
    /// The upstream resolvers.
    pub upstreams: Vec<UpstreamSnapshot>,
}

/// The balance: `received + made = transmitted + dropped + slow_path + exceptions + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Frames taken from RX queues.
    pub received: u64,
    /// Frames the slow path made for answers.
    pub made: u64,
    /// Frames given to TX queues.
    pub transmitted: u64,
    /// Packets dropped, for whatever reason, full queues and rings included.
    pub dropped: u64,
    /// Packets that went to the slow path.
    pub slow_path: u64,
    /// Frames for this host but not for us.
    pub exceptions: u64,
    /// Packets in rings between cores.
    pub held: u64,
}

/// One port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Its name in the config.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Its counters, by the names of [`PortStats`].
    #[serde(flatten)]
    pub stats: Map<String, Value>,
    /// The driver's extended counters.
    pub xstats: Map<String, Value>,
}

/// One data core.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// Its CPU.
    pub core: usize,
    /// Its counters, by the names of [`Tally`](crate::counters::Tally).
    #[serde(flatten)]
    pub counters: Map<String, Value>,
    /// Its queues and rings: packets that went over each, and those refused because it was full.
    pub links: Vec<Value>,
    /// The stations it mans, by stage.
    pub stages: Map<String, Value>,
}

/// The frame pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrameReport {
    /// Frames in all.
    pub capacity: usize,
    /// Frames that somebody holds, RX queues included.
    pub in_use: usize,
}

impl Report {
    /// Reads every counter now.
    pub fn read(gauges: &Gauges, topology: &Topology, nics: &[Box<dyn Nic>]) -> Self {
        let counters: Vec<Counters> = gauges.workers.iter().map(|worker| worker.read()).collect();
        let now = gauges.clock.now();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: gauges.clock.duration_of(now).as_secs(),
            ticks_per_second: gauges.clock.ticks_per_second(),
            totals: Totals::of(&counters),
            ports: nics.iter().map(|nic| PortReport::read(nic.as_ref())).collect(),
            workers: topology
                .workers
                .iter()
                .zip(&counters)
                .map(|(plan, counters)| WorkerReport::of(plan, counters, topology))
                .collect(),
            frames: FrameReport { capacity: gauges.pool.capacity(), in_use: gauges.pool.in_use() },
            cache: gauges.cache.iter().map(|shard| shard.snapshot()).collect(),
            slow_path: gauges.slow_path.iter().map(|thread| thread.snapshot()).collect(),
            upstreams: gauges.upstreams.iter().map(|upstream| upstream.snapshot()).collect(),
        }
    }
}

impl Totals {
    /// The sums over all data cores.
    pub fn of(workers: &[Counters]) -> Self {
        let mut totals = Self::default();
        let (mut taken, mut put) = (0, 0);
        for worker in workers {
            let sent = worker.flow(|link| matches!(link, Link::Tx(_)));
            let ring = worker.flow(|link| matches!(link, Link::RingTo(_)));
            totals.received += worker.flow(|link| matches!(link, Link::Rx(_))).passed;
            totals.made += worker.tally.made;
            totals.transmitted += sent.passed;
            totals.slow_path += worker.tally.slow_path;
            totals.exceptions += worker.tally.exceptions;
            totals.dropped +=
                worker.tally.dropped + worker.tally.miss_full + sent.refused + ring.refused;
            taken += worker.flow(|link| matches!(link, Link::RingFrom(_))).passed;
            put += ring.passed;
        }
        // Cores publish at different times, so a running instance may seem to pop before it pushes.
        totals.held = u64::saturating_sub(put, taken);
        totals
    }

    /// Whether every packet is accounted for.
    pub fn balance(&self) -> bool {
        self.received + self.made
            == self.transmitted + self.dropped + self.slow_path + self.exceptions + self.held
    }
}

impl PortReport {
    fn read(nic: &dyn Nic) -> Self {
        // Taken apart by name, so that a counter that is added must be reported.
        let PortStats {
            rx_frames,
            rx_bytes,
            rx_missed,
            rx_errors,
            rx_no_buffer,
            tx_frames,
            tx_bytes,
            tx_errors,
        } = nic.stats();
        let stats = [
            ("rx_frames", rx_frames),
            ("rx_bytes", rx_bytes),
            ("rx_missed", rx_missed),
            ("rx_errors", rx_errors),
            ("rx_no_buffer", rx_no_buffer),
            ("tx_frames", tx_frames),
            ("tx_bytes", tx_bytes),
            ("tx_errors", tx_errors),
        ];
        Self {
            name: nic.facts().name.clone(),
            driver: nic.facts().driver.clone(),
            link_up: nic.link_up(),
            stats: stats.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect(),
            xstats: nic.xstats().into_iter().map(|(name, value)| (name, value.into())).collect(),
        }
    }
}

impl WorkerReport {
    fn of(plan: &WorkerPlan, counters: &Counters, topology: &Topology) -> Self {
        let named = counters.tally.named();
        let stages = StageName::ALL.iter().zip(&counters.meters);
        let links = counters.links.iter().map(|(link, flow)| {
            let name = link_name(*link, plan, topology);
            serde_json::json!({ "link": name, "passed": flow.passed, "refused": flow.refused })
        });
        Self {
            core: plan.core,
            links: links.collect(),
            counters: named
                .iter()
                .map(|(name, value, _)| (name.to_string(), (*value).into()))
                .collect(),
            stages: stages
                .filter(|(_, meter)| meter.batches > 0)
                .map(|(stage, meter)| {
                    let exits: Map<String, Value> = Step::all()
                        .filter(|step| meter.exits.of(*step) > 0)
                        .map(|step| (exit_name(step), meter.exits.of(step).into()))
                        .collect();
                    let value = serde_json::json!({
                        "batches": meter.batches,
                        "packets": meter.exits.total(),
                        "ticks": meter.ticks,
                        "exits": exits,
                    });
                    (stage.name().to_owned(), value)
                })
                .collect(),
        }
    }
}

/// How reports call a link: `tap:rx0`, `ring from core 2`.
fn link_name(link: Link, plan: &WorkerPlan, topology: &Topology) -> String {
    let port = |port: usize, direction, queue: Option<u16>| {
        format!("{}:{direction}{}", topology.port_names[port], queue.unwrap_or(0))
    };
    match link {
        Link::Rx(number) => port(number, "rx", plan.rx_queue),
        Link::Tx(number) => port(number, "tx", plan.tx_queue),
        Link::RingFrom(worker) => format!("ring from core {}", topology.workers[worker].core),
        Link::RingTo(worker) => format!("ring to core {}", topology.workers[worker].core),
    }
}

/// How reports call an exit: `lookup`, `transmit`, `drop.runt`.
pub fn exit_name(step: Step) -> String {
    match step {
        Step::At(stage) => stage.name().to_owned(),
        Step::Transmit => "transmit".to_owned(),
        Step::SlowPath => "slow_path".to_owned(),
        Step::Exception => "exception".to_owned(),
        Step::Drop(reason) => format!("drop.{}", reason.name()),
    }
}

/// Prints a report's JSON form for people: one counter a line, zeros left out, nested names indented.
pub fn print_for_people(report: &Value, out: &mut impl std::io::Write) -> std::io::Result<()> {
    print_level(report, 0, out)
}

fn print_level(value: &Value, depth: usize, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(_, field)| !is_nothing(field)) {
                match field {
                    Value::Object(_) | Value::Array(_) => {
                        writeln!(out, "{indent}{name}")?;
                        print_level(field, depth + 1, out)?;
                    }
                    Value::String(text) => writeln!(out, "{indent}{name:<24} {text}")?,
                    plain => writeln!(out, "{indent}{name:<24} {plain:>14}")?,
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                writeln!(out, "{indent}- {index}")?;
                print_level(item, depth + 1, out)?;
            }
        }
        plain => writeln!(out, "{indent}{plain}")?,
    }
    Ok(())
}

/// Whether a counter says nothing: zero, or a table without entries.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// What `config` would be reported as having, for `pmdns check`.
pub fn summary(config: &Config) -> String {
    format!(
        "{} port(s), {} upstream(s), {} local record(s), {} blocked name(s), cache {}",
        config.ports.len(),
        config.upstreams.len(),
        config.local.len(),
        config.block.names.len(),
        config.cache.size,
    )
}
