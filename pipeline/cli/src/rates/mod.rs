//! Rates between two reports, as `pmdns top` and `pmdns profile` show them.

mod answers;
mod edge;
mod rows;
mod span;

pub(crate) use answers::{AnswerRate, CacheLoad};
pub(crate) use edge::{PuntRate, StreamRate};
pub(crate) use rows::{CoreLoad, DropRate, PortRate, RingLoad, StageRate, UpstreamRate};
use span::Span;

use pmdns_control::report::{Report, Times, WorkerReport};

/// Everything that changed from one report to a later one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    /// Time between the two, in seconds.
    pub seconds: f64,
    /// Frames received in a second.
    pub received: f64,
    /// Frames transmitted in a second.
    pub transmitted: f64,
    /// Packets dropped in a second, for whatever reason.
    pub dropped: f64,
    /// Queries found in the cache in a second.
    pub hits: f64,
    /// Queries in a second that a rule answered: local data, blocked names.
    pub local: f64,
    /// Queries in a second that became misses.
    pub misses: f64,
    /// The data cores.
    pub cores: Vec<CoreLoad>,
    /// The stages, in line order, over all cores.
    pub stages: Vec<StageRate>,
    /// The rings that ever carried something.
    pub rings: Vec<RingLoad>,
    /// The ports.
    pub ports: Vec<PortRate>,
    /// Drops by reason, the most frequent first. Reasons that never occurred are left out.
    pub drops: Vec<DropRate>,
    /// The upstreams, those most asked first.
    pub upstreams: Vec<UpstreamRate>,
    /// Clients over streams, by transport.
    pub streams: Vec<StreamRate>,
    /// Rates of exceptions to the kernel behind ports, by class.
    pub punts: Vec<PuntRate>,
    /// Answers by rcode.
    pub rcodes: Vec<AnswerRate>,
    /// Answers by type.
    pub qtypes: Vec<AnswerRate>,
    /// The cache.
    pub cache: CacheLoad,
    /// Times from arrival to TX queue, by what answered.
    pub latency: Vec<(&'static str, Times)>,
}

impl Rates {
    /// The rates from `earlier` to `later`. If the instance was started anew in between, those since.
    pub(crate) fn between(earlier: &Report, later: &Report) -> Self {
        let nothing = Report::default();
        let restarted = later.uptime_ticks < earlier.uptime_ticks;
        let earlier = if restarted { &nothing } else { earlier };
        let ticks = later.uptime_ticks.saturating_sub(earlier.uptime_ticks).max(1);
        let span = Span { earlier, later, ticks, seconds: later.duration_of(ticks).as_secs_f64() };
        Self {
            seconds: span.seconds,
            received: span.rate(|core| core.passed(|link| link.contains(":rx"))),
            transmitted: span.rate(|core| core.passed(|link| link.contains(":tx"))),
            dropped: span.rate(WorkerReport::dropped),
            hits: span.rate(|core| core.exits("lookup", "encode")),
            local: span.rate(|core| core.exits("policy", "encode")),
            misses: span.rate(|core| core.exits("policy", "slow_path")),
            cores: span.cores(),
            stages: span.stages(),
            rings: span.rings(),
            ports: span.ports(),
            drops: span.drops(),
            upstreams: span.upstreams(),
            streams: span.streams(),
            punts: span.punts(),
            rcodes: span.rcodes(),
            qtypes: span.qtypes(),
            cache: span.cache(),
            latency: span.latency(),
        }
    }

    /// Answers in a second that are SERVFAIL, and their share of all answers.
    pub(crate) fn servfail(&self) -> (f64, f64) {
        let found = self.rcodes.iter().find(|one| one.kind == "servfail");
        found.map_or((0.0, 0.0), |one| (one.rate, one.share))
    }

    /// The share of hits in what the cache was asked for. Answers of rules are neither hits nor misses.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0.0).then(|| self.hits / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmdns_control::report::LinkReport;
    use pmdns_control::testing as fixture;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9 * other.abs().max(1.0)
    }

    #[test]
    fn rates_are_differences_by_the_second() {
        let (earlier, later) = fixture::reports();
        let rates = Rates::between(&earlier, &later);
        assert!(close(rates.seconds, 2.0));
        assert!(close(rates.received, 500_000.0), "{}", rates.received);
        assert!(close(rates.hit_ratio().unwrap(), 0.98));
        let parse = &rates.stages[1];
        assert!(
            close(parse.ticks_per_packet, 40.0) && close(parse.packets_per_batch, 25.0),
            "{parse:?}"
        );
        let core = &rates.cores[0];
        assert!(close(core.busy, 0.6) && close(core.housekeeping, 0.01) && close(core.idle, 0.39));
        assert_eq!(rates.drops[0].reason, "acl_drop", "what grows comes first");
        assert_eq!(rates.upstreams[0].address, "192.0.2.54:53", "whom we ask most comes first");
        assert_eq!(rates.latency[0].1.count, 980_000);
    }

    #[test]
    fn time_spent_on_misses_is_shown_apart() {
        let (earlier, mut later) = fixture::reports();
        let span = later.uptime_ticks - earlier.uptime_ticks;
        later.workers[0].counters.insert("resolving_ticks".to_owned(), span / 20);
        let core = &Rates::between(&earlier, &later).cores[0];
        assert!(close(core.resolving, 0.05) && close(core.idle, 0.34), "{core:?}");
    }

    #[test]
    fn d04_the_drivers_work_is_charged_to_no_stage() {
        let (earlier, later) = fixture::reports();
        let stages = Rates::between(&earlier, &later).stages;
        let costs: Vec<_> =
            stages.iter().map(|one| (one.stage, one.ticks_per_packet.round())).collect();
        assert_eq!(costs[..2], [("receive", 25.0), ("parse", 40.0)]);
        assert_eq!(costs[costs.len() - 2..], [("encode", 55.0), ("transmit", 35.0)]);
    }

    /// Counters that grow at a constant rate are shown as a constant rate. They are published every 10 ms and read
    /// every 200 ms.
    #[test]
    fn d14_what_is_constant_has_no_spikes() {
        let (earlier, later) = fixture::reports();
        let per_tick = 1_000_000.0 / later.ticks_per_second as f64;
        let at = |look: u64, published: u64| {
            let mut report = earlier.clone();
            report.uptime_ticks = look;
            for worker in &mut report.workers {
                worker.counters.insert("published_ticks".to_owned(), published);
                let packets = (published as f64 * per_tick) as u64;
                worker.counters.insert("busy_ticks".to_owned(), published / 2);
                for link in &mut worker.links {
                    link.passed = packets;
                }
            }
            report
        };
        let ms = later.ticks_per_second / 1000;
        // The second report comes just before a publishing, the third just after one.
        let looks = [at(1000 * ms, 999 * ms), at(1200 * ms, 1190 * ms), at(1400 * ms, 1399 * ms)];
        for pair in looks.windows(2) {
            let rates = Rates::between(&pair[0], &pair[1]);
            assert!((rates.received - 1e6).abs() < 100.0, "{}", rates.received);
            assert!((rates.cores[0].busy - 0.5).abs() < 1e-3, "{}", rates.cores[0].busy);
        }
    }

    #[test]
    fn d17_answers_of_rules_are_hits_of_their_own_kind() {
        let (_, mut later) = fixture::reports();
        for worker in &mut later.workers {
            worker.stages.retain(|stage, _| stage == "policy");
            for stage in worker.stages.values_mut() {
                stage.exits = [("encode".to_owned(), 500)].into();
            }
        }
        later.latency = Default::default();
        later.latency.local.count = 500;
        let rates = Rates::between(&Report::default(), &later);
        assert!(rates.local > 0.0 && rates.hit_ratio().is_none(), "the cache was not asked");
        let rates = Rates { misses: rates.local, ..rates };
        assert!(close(rates.hit_ratio().unwrap(), 0.0), "0 hits a second are 0 %");
        let kinds: Vec<&str> = rates.latency.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["hit", "miss", "local", "other"]);
    }

    #[test]
    fn the_busiest_queue_of_a_port_is_compared_with_the_mean() {
        let (earlier, later) = fixture::reports();
        assert_eq!(Rates::between(&earlier, &later).ports[0].imbalance, None, "one queue");
        let with = |report: &Report, link: &str, passed| {
            let mut report = report.clone();
            report.workers[1].links.push(LinkReport { link: link.to_owned(), passed, refused: 0 });
            report
        };
        let imbalance = |link: &str, grown: u64| {
            let [earlier, later] = [with(&earlier, link, 7), with(&later, link, 7 + grown)];
            Rates::between(&earlier, &later).ports[0].imbalance
        };
        assert!(close(imbalance("edge:rx1", 1_000_000).unwrap(), 1.0));
        assert!(close(imbalance("edge:rx1", 3_000_000).unwrap(), 1.5));
        assert!(close(imbalance("edge:rx1", 0).unwrap(), 2.0), "one of two gets all");
        assert_eq!(imbalance("edge2:rx1", 1_000_000), None, "of another port");
        let idle = with(&later, "edge:rx1", 7);
        assert_eq!(Rates::between(&idle, &idle).ports[0].imbalance, None, "nothing came");
    }

    #[test]
    fn an_instance_started_anew_begins_at_zero() {
        let (earlier, later) = fixture::reports();
        let rates = Rates::between(&later, &earlier);
        assert!(close(rates.seconds, 1.0), "its uptime");
        assert!(close(rates.received, 1_000_000.0), "{}", rates.received);
        assert!(Rates::between(&earlier, &earlier).hit_ratio().is_none(), "nobody asked");
    }
}
