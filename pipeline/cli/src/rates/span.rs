//! Two reports, the time between them, and the rates that follow.

use std::cmp::Reverse;

use super::rows::{CoreLoad, DropRate, PortRate, RingLoad, StageRate, UpstreamRate};
use pmdns_control::report::{
    Named, PortReport, Report, RingReport, StageReport, Times, UpstreamReport, WorkerReport, count,
};

/// A stage and what it has done.
type NamedStage = (&'static str, StageReport);

/// The report of a core that was not there.
static NOBODY: &WorkerReport = &WorkerReport::none();

/// Two reports and the time between them.
pub(super) struct Span<'r> {
    pub(super) earlier: &'r Report,
    pub(super) later: &'r Report,
    pub(super) ticks: u64,
    pub(super) seconds: f64,
}

impl Span<'_> {
    /// How much a counter grew in a second, over all data cores. Each core publishes at times of its own. So its growth
    /// is divided by the time between two publishings, not by the time between the reports.
    pub(super) fn rate(&self, counter: impl Fn(&WorkerReport) -> u64) -> f64 {
        let grown = self.workers().map(|(earlier, later)| {
            let grown = counter(later).saturating_sub(counter(earlier));
            let ticks = self.ticks_between(earlier, later);
            if ticks == 0 { 0.0 } else { grown as f64 / self.later.seconds_of(ticks) }
        });
        grown.sum()
    }

    /// The data cores, as they were and as they are.
    fn workers(&self) -> impl Iterator<Item = (&WorkerReport, &WorkerReport)> {
        let later = self.later.workers.iter().enumerate();
        later.map(|(index, later)| (self.earlier.workers.get(index).unwrap_or(NOBODY), later))
    }

    /// Ticks between two publishings of a core. An instance that does not report them published when it was asked.
    fn ticks_between(&self, earlier: &WorkerReport, later: &WorkerReport) -> u64 {
        match later.counter("published_ticks") {
            0 => self.ticks,
            ticks => ticks.saturating_sub(earlier.counter("published_ticks")),
        }
    }

    pub(super) fn per_second(&self, earlier: u64, later: u64) -> f64 {
        later.saturating_sub(earlier) as f64 / self.seconds
    }

    pub(super) fn cores(&self) -> Vec<CoreLoad> {
        let load = |(earlier, later): (&WorkerReport, &WorkerReport)| {
            let between = self.ticks_between(earlier, later).max(1);
            let share = |name| {
                let ticks = later.counter(name).saturating_sub(earlier.counter(name));
                ticks as f64 / between as f64
            };
            // The turn in which a core publishes is counted at the next publishing.
            let busy = share("busy_ticks").min(1.0);
            let resolving = share("resolving_ticks").min(1.0 - busy);
            let housekeeping = share("housekeeping_ticks").min(1.0 - busy - resolving);
            let taken = taken_by(later).saturating_sub(taken_by(earlier));
            let packets = taken as f64 / self.later.seconds_of(between);
            CoreLoad {
                core: later.core,
                busy,
                resolving,
                housekeeping,
                idle: 1.0 - busy - resolving - housekeeping,
                packets,
            }
        };
        self.workers().map(load).collect()
    }

    pub(super) fn stages(&self) -> Vec<StageRate> {
        let pairs = self.earlier.stages().into_iter().zip(self.later.stages());
        let rate = |((_, earlier), (stage, later)): (NamedStage, NamedStage)| {
            let packets = later.packets.saturating_sub(earlier.packets) as f64;
            let ticks = later.ticks.saturating_sub(earlier.ticks) as f64;
            let batches = later.batches.saturating_sub(earlier.batches) as f64;
            StageRate {
                stage,
                packets: self.rate(|core| core.stages.get(stage).map_or(0, |stage| stage.packets)),
                ticks_per_packet: if packets > 0.0 { ticks / packets } else { 0.0 },
                packets_per_batch: if batches > 0.0 { packets / batches } else { 0.0 },
            }
        };
        pairs.map(rate).collect()
    }

    pub(super) fn rings(&self) -> Vec<RingLoad> {
        let load = |(index, later): (usize, &RingReport)| {
            let earlier = self.earlier.rings.get(index).cloned().unwrap_or_default();
            let occupancy = later.occupancy.since(&earlier.occupancy);
            RingLoad {
                ends: format!("{} → {}", later.from, later.to),
                carries: later.carries.clone(),
                capacity: later.capacity,
                taken: occupancy.taken as f64 / self.seconds,
                refused: self.per_second(earlier.refused, later.refused),
                occupancy,
            }
        };
        let used = |ring: &RingReport| ring.occupancy.pops > 0 || ring.refused > 0;
        let rings = self.later.rings.iter().enumerate().filter(|(_, ring)| used(ring));
        rings.map(load).collect()
    }

    pub(super) fn ports(&self) -> Vec<PortRate> {
        let rate = |(index, port): (usize, &PortReport)| {
            let before = self.earlier.ports.get(index);
            let before = |name| before.map_or(0, |port| count(&port.stats, name));
            let grown = |name| self.per_second(before(name), count(&port.stats, name));
            let lost = ["rx_missed", "rx_errors", "rx_no_buffer", "tx_errors"];
            PortRate {
                port: port.name.clone(),
                link_up: port.link_up,
                rx_frames: grown("rx_frames"),
                rx_bits: grown("rx_bytes") * 8.0,
                tx_frames: grown("tx_frames"),
                tx_bits: grown("tx_bytes") * 8.0,
                imbalance: self.imbalance(&port.name),
                lost: lost.into_iter().map(grown).sum(),
            }
        };
        self.later.ports.iter().enumerate().map(rate).collect()
    }

    /// The packets of a port's busiest RX queue, beside the mean of its queues.
    fn imbalance(&self, port: &str) -> Option<f64> {
        let rates = self.workers().flat_map(|(earlier, later)| {
            let ticks = self.ticks_between(earlier, later).max(1);
            later.rx_queues(port).map(move |(_, link)| {
                let grown = link.passed.saturating_sub(earlier.passed(|name| name == link.link));
                grown as f64 / ticks as f64
            })
        });
        let (queues, sum, most) = rates.fold((0_u32, 0.0, 0.0), |(queues, sum, most), rate| {
            (queues + 1, sum + rate, f64::max(most, rate))
        });
        (queues > 1 && sum > 0.0).then(|| most * f64::from(queues) / sum)
    }

    pub(super) fn drops(&self) -> Vec<DropRate> {
        let (before, now) = (all_drops(self.earlier), all_drops(self.later));
        let rate = |(reason, total): (String, u64)| DropRate {
            rate: self.per_second(count(&before, &reason), total),
            reason,
            total,
        };
        let mut drops: Vec<DropRate> =
            now.into_iter().filter(|(_, total)| *total > 0).map(rate).collect();
        drops.sort_by(|one, other| {
            other.rate.total_cmp(&one.rate).then_with(|| other.total.cmp(&one.total))
        });
        drops
    }

    pub(super) fn upstreams(&self) -> Vec<UpstreamRate> {
        let mut upstreams: Vec<(u64, UpstreamRate)> = Vec::new();
        for (index, one) in self.later.upstreams.iter().enumerate() {
            let before = self.earlier.upstreams.get(index);
            let sum = |of: Option<&UpstreamReport>, names: &[&str]| -> u64 {
                of.map_or(0, |of| names.iter().map(|name| of.counter(name)).sum())
            };
            let grown = |names: &[&str]| self.per_second(sum(before, names), sum(Some(one), names));
            let rate = UpstreamRate {
                address: one.address.clone(),
                queries: grown(&["queries", "tcp"]),
                replies: grown(&["replies"]),
                failures: grown(&["timeouts", "errors"]),
                srtt_ms: one.counter("srtt_us") as f64 / 1000.0,
                rests: one.counter("state") > 0,
            };
            let asked = sum(Some(one), &["queries", "tcp"])
                - sum(before, &["queries"]).min(one.counter("queries"));
            upstreams.push((asked, rate));
        }
        upstreams.sort_by_key(|(queries, _)| Reverse(*queries));
        upstreams.into_iter().map(|(_, rate)| rate).collect()
    }

    pub(super) fn latency(&self) -> Vec<(&'static str, Times)> {
        let pairs = self.earlier.latency.classes().into_iter().zip(self.later.latency.classes());
        pairs
            .map(|((_, earlier), (class, later))| {
                (class, later.since(earlier, self.later.ticks_per_second))
            })
            .collect()
    }
}

/// Packets that a core has taken from queues and rings.
fn taken_by(worker: &WorkerReport) -> u64 {
    worker.passed(|link| link.contains(":rx") || link.starts_with("ring from"))
}

/// Everything that was dropped, by reason: by the stages, and by what was full.
fn all_drops(report: &Report) -> Named {
    let mut drops = report.drops();
    for worker in &report.workers {
        for link in &worker.links {
            let full = if link.link.starts_with("ring") { "ring full" } else { "TX queue full" };
            *drops.entry(full.to_owned()).or_default() += link.refused;
        }
        *drops.entry("miss ring full".to_owned()).or_default() += worker.counter("miss_full");
        *drops.entry("share of miss ring".to_owned()).or_default() += worker.counter("miss_share");
    }
    for thread in &report.slow_path {
        for (name, value) in thread {
            if let Some(reason) = name.strip_prefix("shed_") {
                *drops.entry(format!("slow path: {}", reason.replace('_', " "))).or_default() +=
                    value;
            }
        }
    }
    drops
}
