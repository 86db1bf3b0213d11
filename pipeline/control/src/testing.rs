//! Two reports of an instance that never ran, for tests: one second after its start, and two seconds later.

use pmdns_counters::{Histogram, Named, Occupancy};

use crate::health::{NodeState, NodeVerdict};
use crate::report::{
    AnswerReport, ConnectionReport, FetchReport, FrameReport, HitterReport, LatencyReport,
    LinkReport, ListReport, LogReport, NextHopReport, PortReport, PrivilegeReport, ProcessReport,
    Report, RingReport, SinkReport, StageReport, StreamReport, TapReport, Times, Totals,
    UpstreamReport, WorkerReport, ZoneReport,
};

/// Ticks of its clock in a second.
const HZ: u64 = 2_000_000_000;

/// Both reports: a million packets each in between and before.
pub fn reports() -> (Report, Report) {
    (report(1, 1, 100), report(3, 2, 300))
}

/// The report after so many seconds, million packets and drops.
fn report(seconds: u64, millions: u64, drops: u64) -> Report {
    let ticks = seconds * HZ;
    let packets = millions * 1_000_000;
    let (hits, misses) = (packets / 100 * 98, packets / 100 * 2);
    let link = |link: &str, passed, refused| LinkReport { link: link.to_owned(), passed, refused };
    let stage = |name: &str, packets, cost, exits: &[(&str, u64)]| {
        let exits = exits.iter().map(|(exit, count)| ((*exit).to_owned(), *count)).collect();
        (
            name.to_owned(),
            StageReport { batches: packets / 25, packets, ticks: packets * cost, exits },
        )
    };
    let counters = |busy: u64| {
        let turns = [("busy_turns", packets / 25), ("idle_turns", 5), ("miss_full", 3)];
        let ticks = [
            ("busy_ticks", ticks / 100 * busy),
            ("idle_ticks", ticks / 100 * 20),
            ("housekeeping_ticks", ticks / 100),
        ];
        let all = turns.into_iter().chain(ticks).chain([("dropped", drops / 2)]);
        let punts = [("control", 5), ("streams", 25), ("streams_limited", 5)];
        let punts = punts.map(|(class, rate)| (format!("kernel_{class}"), seconds * rate));
        all.map(|(name, value)| (name.to_owned(), value)).chain(punts).collect()
    };
    let front = WorkerReport {
        core: 1,
        counters: counters(60),
        links: vec![link("edge:rx0", packets, 0), link("ring to core 2", packets, 7)],
        stages: [
            stage("receive", packets, 25, &[]),
            stage("parse", packets, 40, &[("acl", packets - 9), ("drop.runt", 9)]),
            stage("acl", packets, 8, &[("lookup", packets - drops), ("drop.acl_drop", drops)]),
        ]
        .into(),
    };
    let back = WorkerReport {
        core: 2,
        counters: counters(85),
        links: vec![link("ring from core 1", packets, 0), link("edge:tx0", hits, 2)],
        stages: [
            stage("lookup", packets, 70, &[("encode", hits), ("policy", misses)]),
            stage("policy", misses, 60, &[("slow_path", misses)]),
            stage("encode", hits, 55, &[("transmit", hits)]),
            stage("transmit", hits, 35, &[]),
        ]
        .into(),
    };
    let tcp = [
        ("open", 7),
        ("accepted", seconds * 100),
        ("queries", seconds * 1000),
        ("refused_full", 0),
        ("refused_prefix", seconds),
        ("displaced", 0),
        ("no_room", seconds),
        ("shed", 0),
    ];
    Report {
        state: NodeState::Serving,
        verdict: NodeVerdict::Serving,
        standby: false,
        problems: Vec::new(),
        version: "1.2.3".to_owned(),
        uptime_seconds: seconds,
        uptime_ticks: ticks,
        ticks_per_second: HZ,
        totals: Totals {
            received: packets,
            transmitted: hits,
            dropped: drops,
            ..Totals::default()
        },
        latency: LatencyReport {
            hit: times(&[(3_000, hits - 1000), (30_000, 1000)]),
            miss: times(&[(2_000_000, misses)]),
            local: Times::default(),
            other: Times::default(),
        },
        answers: AnswerReport {
            rcodes: named(&[
                ("noerror", packets / 100 * 90),
                ("nxdomain", packets / 10),
                ("servfail", 0),
            ]),
            qtypes: named(&[("a", packets / 2), ("aaaa", packets / 4), ("https", packets / 4)]),
            transports: named(&[("udp", packets), ("tcp", seconds * 1000)]),
            views: named(&[("none", packets)]),
        },
        lists: [("/etc/ads".to_owned(), ListReport { hits: drops, modified: Some(1_700_000_000) })]
            .into(),
        process: ProcessReport {
            open_fds: 40,
            max_fds: 1024,
            max_virtual_bytes: Some(1 << 40),
            ..ProcessReport::default()
        },
        certificates: named(&[("streams", 1_800_000_000)]),
        ports: vec![port(packets, hits)],
        taps: vec![TapReport::of("edge", named(&[("to_kernel", 30), ("from_kernel", 20)]))],
        workers: vec![front, back],
        rings: vec![ring(packets)],
        frames: FrameReport { capacity: 8191, in_use: 1100 },
        cache: vec![named(&[
            ("entries", 10_000),
            ("bytes_total", 1 << 26),
            ("bytes_used", 1 << 24),
            ("inserted", 0),
            ("evicted", 0),
            ("index_evicted", 0),
        ])],
        slow_path: vec![named(&[("misses", misses), ("shed_client", 4), ("stale", 0)])],
        upstreams: vec![upstream("192.0.2.53:53", 10), upstream("192.0.2.54:53", misses)],
        next_hops: vec![NextHopReport {
            port: "edge".to_owned(),
            address: "192.0.2.254".to_owned(),
            state: "reachable".to_owned(),
            mac: Some("02:00:00:00:00:fe".to_owned()),
            age_seconds: Some(seconds),
            counters: named(&[("probes", 4), ("failures", 2)]),
        }],
        clients: Some(named(&[("entries", 1000)])),
        query_log: vec![LogReport::of("json", Named::new())],
        sinks: vec![SinkReport::of("log", Named::new())],
        fetched_lists: vec![FetchReport::of("/etc/ads", Named::new())],
        hitters: vec![HitterReport::of("all", Named::new())],
        policy_zones: vec![ZoneReport::of("rpz.example", Named::new())],
        privileges: PrivilegeReport::default(),
        connections: vec![ConnectionReport::of("metrics", Named::new())],
        streams: vec![StreamReport::of("tcp", named(&tcp)), StreamReport::of("tls", Named::new())],
    }
}

fn named(counts: &[(&str, u64)]) -> Named {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn times(values: &[(u64, u64)]) -> Times {
    let mut histogram = Histogram::default();
    values.iter().for_each(|(ticks, count)| histogram.record(*ticks, *count));
    Times::of(&histogram, HZ)
}

fn port(received: u64, sent: u64) -> PortReport {
    let stats = [
        ("rx_frames", received),
        ("rx_bytes", received * 80),
        ("rx_missed", 5),
        ("tx_frames", sent),
        ("tx_bytes", sent * 96),
    ];
    PortReport {
        name: "edge".to_owned(),
        driver: "net_null".to_owned(),
        link_up: true,
        removed: false,
        stats: stats.map(|(name, value)| (name.to_owned(), value)).into(),
        xstats: [("rx_q0packets".to_owned(), received)].into(),
    }
}

fn ring(packets: u64) -> RingReport {
    let mut occupancy = Occupancy::default();
    (0..packets / 1000).for_each(|_| occupancy.sample(100, 32));
    occupancy.sample(600, 32);
    RingReport {
        from: "core 1".to_owned(),
        to: "core 2".to_owned(),
        carries: "packets".to_owned(),
        capacity: 1024,
        refused: 7,
        mean: occupancy.mean(),
        occupancy,
    }
}

fn upstream(address: &str, queries: u64) -> UpstreamReport {
    let counters = [
        ("queries", queries),
        ("tcp", 0),
        ("replies", queries),
        ("timeouts", 0),
        ("errors", 0),
        ("srtt_us", 1500),
        ("state", 0),
    ];
    UpstreamReport::of(address, named(&counters))
}
