//! Counters: a core counts in memory of its own. From time to time it publishes the whole table, which any thread may
//! read. A packet never touches memory that another core reads.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::StageName;
use pmdns_counters::{Totals, counters};
use pmdns_stages::cookie::CookieCounts;
use pmdns_stages::{Exits, Step};

use crate::answers::{Answers, PublishedAnswers};
use crate::latency::{Latencies, Latency, PublishedLatencies};
use crate::line::Line;
use crate::station::Meter;

counters! {
    /// The counters of one worker, except those of its stations and links.
    Tally {
        /// Frames made here: the slow path's answers and queries, announcements, and those of TAPs.
        made: counter,
        /// Frames made to announce addresses, and to report multicast groups.
        announced: counter,
        /// Queries of health checks; they are among `made`.
        probes: counter,
        /// Frames of the other process in a hand-over, taken in or sent for it; they are among `made`.
        relayed: counter,
        /// Packets that went to the slow path.
        slow_path: counter,
        /// Frames for this host, but not for pmdns.
        exceptions: counter,
        /// Exceptions that went to a TAP's thread: ARP, neighbour discovery and BFD over one hop.
        kernel_link: counter,
        /// Such exceptions dropped: more than `exceptions.link_per_second`, or than a client prefix's share of it.
        kernel_link_limited: counter,
        /// Such exceptions dropped because the ring to the TAP's thread was full.
        kernel_link_full: counter,
        /// Exceptions that went to a TAP's thread: BGP except new connections, and BFD over several hops, of known routers.
        kernel_control: counter,
        /// Such exceptions dropped: more than `exceptions.control_per_second`, or than a client prefix's share of it.
        kernel_control_limited: counter,
        /// Such exceptions dropped because the ring to the TAP's thread was full.
        kernel_control_full: counter,
        /// Exceptions that went to a TAP's thread: DNS over TCP, TLS, HTTPS and QUIC.
        kernel_streams: counter,
        /// Such exceptions dropped: more than `exceptions.streams_per_second`, or than a client prefix's share of it.
        kernel_streams_limited: counter,
        /// Such exceptions dropped because the ring to the TAP's thread was full.
        kernel_streams_full: counter,
        /// Exceptions that went to a TAP's thread: all others.
        kernel_rest: counter,
        /// Such exceptions dropped: more than `exceptions.rest_per_second`, or than a client prefix's share of it.
        kernel_rest_limited: counter,
        /// Such exceptions dropped because the ring to the TAP's thread was full.
        kernel_rest_full: counter,
        /// ICMP redirects behind a TAP, dropped: its routes are the operator's.
        kernel_redirects: counter,
        /// Frames that the kernel sent by a TAP, to leave by its port.
        from_kernel: counter,
        /// Packets dropped by a stage, for any reason.
        dropped: counter,
        /// Packets dropped because the ring to the slow path was full.
        miss_full: counter,
        /// Packets dropped because most misses in the ring to the slow path came from their client prefix.
        miss_share: counter,
        /// Clients told with SERVFAIL that there was no room in the ring to the slow path.
        miss_told: counter,
        /// Packets that came for queries over a port and went to the slow path: replies, ICMP errors, advertisements.
        replies: counter,
        /// Such packets dropped: the ring to their thread was full, or there were too many advertisements.
        replies_lost: counter,
        /// Frames made by the slow path to ask upstreams over a port, and next hops for their addresses.
        queries: counter,
        /// Queries and pings over a rate limit that a dry run has let pass.
        dry_run_passed: counter,
        /// Cookies from clients that were right.
        cookies_right: counter,
        /// Cookies from clients that were wrong: forged, too old, or another address's.
        cookies_wrong: counter,
        /// Cookies from clients that had no server cookie yet.
        cookies_new: counter,
        /// Answers that were BADCOOKIE.
        cookies_refused: counter,
        /// Notes of hits lost because the slow path did not take them in time.
        notes_lost: counter,
        /// Poll-loop turns with work.
        busy_turns: counter,
        /// Poll-loop turns without work.
        idle_turns: counter,
        /// Ticks spent in turns with work.
        busy_ticks: counter,
        /// Ticks spent in turns without work.
        idle_ticks: counter,
        /// Ticks spent on the misses of its shard, if the core resolves.
        resolving_ticks: counter,
        /// Ticks spent on publishing these counters and swapping rules.
        housekeeping_ticks: counter,
        /// The clock when these counters were published.
        published_ticks: gauge,
    }
}

impl Tally {
    /// Takes over the counts of clients' cookies.
    pub fn note_cookies(&mut self, counts: CookieCounts) {
        let CookieCounts { right, wrong, new, refused } = counts;
        (self.cookies_right, self.cookies_wrong) = (right, wrong);
        (self.cookies_new, self.cookies_refused) = (new, refused);
    }
}

/// The traffic of one queue or ring, counted by the core at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Packets that went over it.
    pub passed: u64,
    /// Packets dropped because it was full.
    pub refused: u64,
}

/// Work on whole bursts outside the stations: batches with such work, and ticks spent on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handling {
    /// Batches.
    pub batches: u64,
    /// Ticks.
    pub ticks: u64,
}

impl Handling {
    /// Counts a batch that took `ticks`.
    #[inline]
    pub fn count(&mut self, ticks: u64) {
        self.batches += 1;
        self.ticks += ticks;
    }
}

/// A worker's work before and after its stretch of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Taking packets from RX queues and rings.
    pub receive: Handling,
    /// Giving frames to TX queues.
    pub transmit: Handling,
}

/// A worker's links, in the order in which it publishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// From the RX queue of this port.
    Rx(usize),
    /// From the ring that this worker fills.
    RingFrom(usize),
    /// Into the TX queue of this port.
    Tx(usize),
    /// Into the ring that this worker empties.
    RingTo(usize),
}

/// Values of one station in a published table.
const METER_VALUES: usize = 2 + Step::COUNT;
/// Values of [`Ends`].
const END_VALUES: usize = 4;
/// Values of a published table without the links.
const VALUES: usize = Tally::COUNT + END_VALUES + StageName::COUNT * METER_VALUES;

/// A worker's counters as last published.
#[derive(Debug)]
pub struct Published {
    values: [AtomicU64; VALUES],
    flows: Box<[[AtomicU64; 2]]>,
    latencies: PublishedLatencies,
    answers: PublishedAnswers,
    links: Box<[Link]>,
}

/// A worker's counters, read at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All counters that have no field below.
    pub tally: Tally,
    /// The driver's work.
    pub ends: Ends,
    /// The stations, in line order.
    pub meters: [Meter; StageName::COUNT],
    /// The queues and rings.
    pub links: Vec<(Link, Flow)>,
    /// From arrival to TX queue.
    pub latencies: Latencies,
    /// Answers by rcode, type, transport, view and list.
    pub answers: Answers,
}

impl Published {
    /// A table of zeros for a worker with these links.
    pub fn new(links: impl IntoIterator<Item = Link>) -> Self {
        let links: Box<[Link]> = links.into_iter().collect();
        Self {
            values: [const { AtomicU64::new(0) }; VALUES],
            flows: links.iter().map(|_| Default::default()).collect(),
            latencies: PublishedLatencies::default(),
            answers: PublishedAnswers::default(),
            links,
        }
    }

    /// Publishes the counters of one core. Only that core may call it.
    pub fn publish(
        &self,
        tally: &Tally,
        ends: &Ends,
        line: &Line,
        flows: impl Iterator<Item = Flow>,
        (latency, answers): (&Latency, &Answers),
    ) {
        self.latencies.publish(latency);
        self.answers.publish(answers);
        let meters = line.meters();
        let meters = meters.iter().flat_map(|meter| {
            [meter.batches, meter.ticks].into_iter().chain(*meter.exits.counts())
        });
        let Ends { receive, transmit } = ends;
        let ends = [receive.batches, receive.ticks, transmit.batches, transmit.ticks];
        let values = tally.values().into_iter().chain(ends).chain(meters);
        for (slot, value) in self.values.iter().zip(values) {
            slot.store(value, Ordering::Relaxed);
        }
        for ([passed, refused], flow) in self.flows.iter().zip(flows) {
            passed.store(flow.passed, Ordering::Relaxed);
            refused.store(flow.refused, Ordering::Relaxed);
        }
    }

    /// The counters as last published.
    pub fn read(&self) -> Counters {
        let mut values = self.values.iter().map(|value| value.load(Ordering::Relaxed));
        let tally = Tally::from_values(values.by_ref().take(Tally::COUNT));
        let mut handling = || {
            let mut next = || values.next().unwrap_or(0);
            Handling { batches: next(), ticks: next() }
        };
        let ends = Ends { receive: handling(), transmit: handling() };
        let meters = std::array::from_fn(|_| {
            let mut next = || values.next().unwrap_or(0);
            let (batches, ticks) = (next(), next());
            Meter { batches, ticks, exits: Exits::from_counts(std::array::from_fn(|_| next())) }
        });
        let flows = self.flows.iter().map(|[passed, refused]| Flow {
            passed: passed.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
        });
        let links = self.links.iter().copied().zip(flows).collect();
        let (latencies, answers) = (self.latencies.read(), self.answers.read());
        Counters { tally, ends, meters, links, latencies, answers }
    }
}

impl Counters {
    /// The sum of the traffic over the links of a kind.
    pub fn flow(&self, kind: fn(Link) -> bool) -> Flow {
        let flows = self.links.iter().filter(|(link, _)| kind(*link)).map(|(_, flow)| flow);
        flows.fold(Flow::default(), |sum, flow| Flow {
            passed: sum.passed + flow.passed,
            refused: sum.refused + flow.refused,
        })
    }
}

impl Flow {
    /// Counts a burst: `passed` packets went over the link, `refused` did not fit.
    #[inline]
    pub fn count(&mut self, passed: usize, refused: usize) {
        self.passed += passed as u64;
        self.refused += refused as u64;
    }
}

/// The sums over all data cores.
pub fn totals(workers: &[Counters]) -> Totals {
    let mut totals = Totals::default();
    let (mut taken, mut put) = (0, 0);
    for worker in workers {
        let sent = worker.flow(|link| matches!(link, Link::Tx(_)));
        let ring = worker.flow(|link| matches!(link, Link::RingTo(_)));
        totals.received += worker.flow(|link| matches!(link, Link::Rx(_))).passed;
        totals.made += worker.tally.made;
        totals.transmitted += sent.passed;
        totals.slow_path += worker.tally.slow_path + worker.tally.replies;
        totals.exceptions += worker.tally.exceptions;
        let Tally { miss_full, miss_share, replies_lost, .. } = worker.tally;
        let shed = miss_full + miss_share + replies_lost;
        totals.dropped += worker.tally.dropped + shed + sent.refused + ring.refused;
        taken += worker.flow(|link| matches!(link, Link::RingFrom(_))).passed;
        put += ring.passed;
    }
    // Cores publish at different times, so the counters of a running instance may show a pop before its push.
    totals.held = u64::saturating_sub(put, taken);
    totals
}
