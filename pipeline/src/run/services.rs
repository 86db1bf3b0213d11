//! What the main thread does while data cores and slow path serve: reports, requests of operators, reloads, and what follows them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmdns_changes::overlay::Overlay;
use pmdns_changes::{FollowConfig, OperatorChange};
use pmdns_config::Config;
use pmdns_control::report::{
    ConnectionReport, FetchReport, HitterReport, LogReport, Named, PrivilegeReport, Report,
    SinkReport, ZoneReport,
};
use pmdns_counters::by_name;
use pmdns_engine::engine::{Engine, EngineError, Gauges};
use pmdns_engine::news::AllPortNews;
use pmdns_engine::observe::ObserverLender;
use pmdns_engine::ports::PortWatch;
use pmdns_engine::snapshot::CacheJobs;
use pmdns_engine::topology::Topology;
use pmdns_handover::NodeRole;
use pmdns_insight::capture::PacketWatch;
use pmdns_insight::hitters::HeavyHitters;
use pmdns_insight::query_log::{OpenLog, QueryLogger};
use pmdns_stages::ports::Claim;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::wire::name::Seed;
use pmdns_streams::tls::Certificate;

use super::error::RunError;
use super::opened::KeptOver;
use super::passing::Passing;
use super::ports::RunningPorts;
use crate::admission::ConnectionSnapshot;
use crate::capture::Captures;
use crate::clients::{ClientTableThread, OpenClients};
use crate::control::cache_jobs::ClientJobs;
use crate::control::reload::{Reloader, Written, describe};
use crate::control::report;
use crate::crashes::Crashes;
use crate::handover::HandOver;
use crate::health::{HealthChecks, NodeState, Transitions};
use crate::hitters;
use crate::lists::{Additions, FetchedLists};
use crate::log;
use crate::lookup::Lookups;
use crate::privileges::{self, GrantedPaths};
use crate::query_log::find::LogSearches;
use crate::runtime::{NameOverrides, unix_time};
use crate::sinks::SinkCounters;
use crate::streams::StreamClients;
use crate::transfer::{NotifySockets, Transfers};
use crate::zone_limits::ZoneLimiter;

/// A core that has published after so long has polled all of its queues. It does so every 10 ms.
const QUIET: Duration = Duration::from_millis(20);
/// A client that knows no other port on its link yet, as its neighbour table is old, has asked again by then.
const QUIET_BESIDE: Duration = Duration::from_secs(1);

/// The parts of an instance that requests and reloads concern.
pub(super) struct Services<'c> {
    pub(super) config: &'c Config,
    pub(super) ports: RunningPorts,
    pub(super) watch: PortWatch,
    pub(super) gauges: Gauges,
    pub(super) news: AllPortNews,
    pub(super) claim: Claim,
    /// Its role before the next process served.
    pub(super) before_step: Option<NodeRole>,
    /// When an operator had the addresses announced last.
    pub(super) announced: Option<Instant>,
    pub(super) cache_jobs: CacheJobs,
    pub(super) reloader: Reloader,
    pub(super) runtime: NameOverrides,
    pub(super) clients: Option<ClientTableThread>,
    pub(super) transfers: Transfers,
    pub(super) lists: FetchedLists,
    /// Clients that wait for the first fetch of a list.
    pub(super) additions: Additions,
    pub(super) health: HealthChecks,
    pub(super) transitions: Transitions,
    pub(super) limiter: ZoneLimiter,
    pub(super) hitters: Option<HeavyHitters>,
    pub(super) query_log: Option<QueryLogger>,
    pub(super) client_jobs: ClientJobs,
    pub(super) lookups: Lookups,
    pub(super) log_searches: LogSearches,
    pub(super) captures: Captures,
    pub(super) crashes: Crashes,
    pub(super) privileges: PrivilegeReport,
    /// Where this process reads and writes, if it has not given up its rights yet.
    places: Option<GrantedPaths>,
    pub(super) certificates: Vec<Certificate>,
    /// The counters of snapshots, if they are written.
    pub(super) snapshot: Option<Arc<SinkCounters>>,
    /// What a hand-over to another process needs to know.
    pub(super) passing: Passing,
    /// Clients over streams, once they are served.
    pub(super) streams: Option<StreamClients>,
    /// The counters of connections, by server; `None`: it is not there.
    pub(super) connections: [(&'static str, Option<ConnectionSnapshot>); 3],
}

/// What services are made of.
pub(super) struct ServiceParts<'p> {
    /// The configuration as it was written, and its file.
    pub(super) written: Written,
    pub(super) path: &'p Path,
    pub(super) engine: Engine,
    pub(super) ports: RunningPorts,
    pub(super) runtime: NameOverrides,
    pub(super) clients: Option<OpenClients>,
    pub(super) notifications: Option<NotifySockets>,
    pub(super) kept: KeptOver,
    /// The certificate of clients over streams, and all.
    pub(super) certificate: Option<Certificate>,
    pub(super) certificates: Vec<Certificate>,
    /// The CPU of their threads.
    pub(super) core: Option<usize>,
}

impl<'c> Services<'c> {
    /// Starts what runs beside the engine, which it gives back. Rights are given up on the way.
    pub(super) fn start(
        config: &'c Config,
        parts: ServiceParts<'_>,
    ) -> Result<(Self, Engine), RunError> {
        let ServiceParts { written, path, mut engine, ports, runtime, core, kept, .. } = parts;
        let (news, gauges) = (Arc::clone(&engine.news), engine.gauges.clone());
        let claim = engine.claim.clone();
        let (cache_jobs, observers) = (engine.cache_jobs.clone(), engine.observers.clone());
        let prober = engine.prober.take().expect("nobody took it");
        let publisher = engine.rules.take().expect("nobody took it");
        let rule_names = publisher.names();
        let limiter = zone_limiter(config, &mut engine, publisher.seed(), &kept.limits);
        let writer = engine.clients.take();
        let start =
            |(open, writer): (OpenClients, _)| open.start(writer, runtime.journal().cloned(), core);
        let mut clients = parts.clients.zip(writer).map(start).transpose()?;
        let files = clients.as_mut().and_then(ClientTableThread::files);
        let lists =
            FetchedLists::start(config, &kept.overlay, core).map_err(EngineError::Thread)?;
        let reloader = Reloader::new(path, (config, written), publisher, describe(&engine.digest))
            .with_changes((&kept.base, kept.overlay), runtime.journal().cloned());
        // Before our threads start, so that they are restricted from the beginning.
        let transfers = Transfers::start(config, parts.notifications, Default::default(), core)?;
        let query_log = OpenLog::open(config, (rule_names.clone(), gauges.upstreams.clone()))?;
        let places = GrantedPaths::of(config, path, (&ports.eal.folders(), &ports.written()));
        let (privileges, places) = give_up_rights(config, places, &ports);
        let start = |log: OpenLog| log.start(config, &observers, gauges.clock, core);
        let query_log = query_log.map(start).transpose()?;
        let hitters = HeavyHitters::start(config, &observers, rule_names, gauges.clock, core)?;
        let watch = packet_watch(config, observers, &gauges, &cache_jobs, &ports.topology);
        let said = runtime.in_use();
        let (lookups, upstreams) = (engine.lookups.clone(), gauges.upstreams.clone());
        kept.crashes.watch(engine.in_hand());
        let services = Self {
            config,
            watch: PortWatch::new(&ports.nics, &news, Instant::now()),
            reloader: reloader.with_certificate(parts.certificate).with_clients(files),
            runtime,
            clients,
            transfers,
            lists,
            additions: Additions::default(),
            health: HealthChecks::new(prober, &gauges, &ports.topology, config),
            transitions: Transitions::default(),
            limiter,
            hitters,
            query_log,
            client_jobs: ClientJobs::new(cache_jobs.clone()),
            lookups: Lookups::new(lookups, cache_jobs.clone(), config, upstreams),
            log_searches: LogSearches::new(config),
            captures: Captures::new(watch, gauges.names.clone(), said),
            crashes: kept.crashes,
            privileges,
            places,
            certificates: parts.certificates,
            passing: Passing::default(),
            streams: None,
            snapshot: None,
            connections: [("control", None), ("metrics", None), ("api", None)],
            ports,
            gauges,
            news,
            claim,
            before_step: None,
            announced: None,
            cache_jobs,
        };
        Ok((services, engine))
    }

    /// Looks after the ports, the date and the state of health.
    pub(super) fn poll(&mut self, now: Instant) {
        self.watch.turn(&mut self.ports.nics, &self.news, now);
        if !self.passing.is_under_way {
            self.ports.reopen(self.config, &mut self.watch, &self.news, now);
        }
        self.gauges.set_calendar();
        // Its questions would be among those that the end of this process waits for.
        if self.before_step.is_none() {
            self.health.turn(now, &self.news);
        }
        let Self { transitions, gauges, health, .. } = self;
        transitions.poll(now, gauges, || health.groups());
    }

    /// Opens the ports that the process before has closed. `None`: nothing is to be opened now.
    pub(super) fn open_devices(&mut self, now: Instant) -> Option<Result<(), String>> {
        let opened = self.ports.open_taken(self.config, &mut self.watch, &self.news, now)?;
        Some(opened.map_err(|error| error.to_string()))
    }

    /// What operators have said of this node.
    pub(super) fn role(&self) -> NodeRole {
        let is_drained = self.health.state() == NodeState::Drained;
        NodeRole { is_drained, is_standby: self.claim.is_standby() }
    }

    /// The same was said to the process before this one.
    pub(super) fn set_role(&mut self, role: NodeRole) {
        if role.is_drained {
            self.health.set(NodeState::Drained);
        }
        self.claim.set_standby(role.is_standby);
    }

    /// The process before has ended: opens what it had of ports over AF_XDP, then gives up the rights for that. Says whether
    /// nothing is left to do.
    pub(super) fn take_ports(&mut self, hand_over: &mut HandOver, now: Instant) -> bool {
        let Some(places) = &self.places else { return true };
        if !self.ports.passing.is_empty() {
            let Some(steerings) = self.ports.passing.turn(now) else { return false };
            hand_over.add_steerings(steerings);
        }
        // Until then it may need them.
        if self.ports.are_all_open(&self.watch) {
            self.privileges = privileges::restrict(self.config, places);
            self.places = None;
        }
        true
    }

    /// Every counter, and what is known of the rest.
    pub(super) fn report(&self) -> Report {
        let notify = self.config.transfer.listen.map(|_| self.transfers.connections());
        let counted = self.connections.into_iter().chain([("notify", notify)]);
        let connections = counted.filter_map(|(service, counters)| {
            Some(ConnectionReport::of(service, by_name(counters?.named())))
        });
        let (verdict, problems) = self.health.verdict();
        let zones = self.transfers.report().into_iter();
        let lists = self.lists.report().into_iter();
        let parts = self.query_log.iter().flat_map(QueryLogger::report);
        let hitters = hitters::counters_of(self.hitters.as_ref(), &self.limiter);
        let clients = self.clients.as_ref().map(ClientTableThread::counters);
        Report {
            verdict,
            standby: self.claim.is_standby(),
            problems: problems.to_vec(),
            policy_zones: zones
                .map(|(zone, of)| ZoneReport::of(zone, by_name(of.named())))
                .collect(),
            fetched_lists: lists
                .map(|(file, of)| FetchReport::of(file.display().to_string(), by_name(of.named())))
                .collect(),
            connections: connections.collect(),
            streams: self.streams.as_ref().map(StreamClients::report).unwrap_or_default(),
            privileges: self.privileges.clone(),
            state: self.health.state(),
            certificates: expiries(&self.certificates),
            clients: clients.map(|of| by_name(of.named())),
            query_log: parts.map(|(part, of)| LogReport::of(part, by_name(of.named()))).collect(),
            sinks: self.sinks(),
            hitters: vec![HitterReport::of("all", by_name(hitters.named()))],
            ..self.counters()
        }
    }

    /// The log, and what is written to files for the next start.
    fn sinks(&self) -> Vec<SinkReport> {
        let sinks = [
            ("log", Some(log::counters())),
            ("entries", self.runtime.counters()),
            ("snapshot", self.snapshot.as_deref()),
        ];
        let report = |(sink, counters): (&str, Option<&SinkCounters>)| {
            Some(SinkReport::of(sink, by_name(counters?.snapshot().named())))
        };
        sinks.into_iter().filter_map(report).collect()
    }

    fn counters(&self) -> Report {
        let RunningPorts { topology, nics, .. } = &self.ports;
        report::watched(report::read(&self.gauges, topology, nics), &self.watch)
    }

    /// Has new settings and rules taken over where they are needed. Says whether a reload has ended.
    pub(super) fn apply_changes(&mut self) -> bool {
        if self.transfers.has_news() | self.lists.has_news() {
            self.reloader.note_news();
        }
        self.reloader.lend_overrides(&self.runtime);
        let is_other = self.reloader.turn(Instant::now());
        for waiting in self.reloader.take_done() {
            self.runtime.askers().push(waiting);
        }
        if !is_other {
            self.additions.turn(&self.lists);
            return false;
        }
        let Self { reloader, lists, transfers, health, cache_jobs, .. } = self;
        let (config, overlay) = (reloader.config(), reloader.overlay());
        let followers: [&mut dyn FollowConfig; 4] =
            [lists, transfers, health, &mut Scopes(cache_jobs)];
        followers.into_iter().for_each(|one| one.apply_config(config, overlay));
        true
    }

    /// Limits the zones of floods, and ends what was said for a time.
    pub(super) fn limit_floods(&mut self, now: Instant) {
        if let Some(hitters) = &self.hitters {
            let (begun, settings) = (hitters.begun(), &self.config.hitters);
            hitters::limit_floods(begun, settings, &mut self.limiter, now);
        }
        let over = self.limiter.turn((now, unix_time()));
        // The next process ends them by itself, and has the file.
        if !over.is_empty()
            && !self.passing.is_under_way
            && let Some(Err((_, why))) = self.runtime.journal().map(|journal| journal.keep(over))
        {
            tracing::warn!("limits whose time is over stay in the file: {why}");
        }
        self.runtime.turn(self.reloader.version());
    }

    /// Takes in connections of clients, and what the kernel sends by ports with a `tap`, or no more.
    pub(super) fn set_accepting(&self, accepts: bool) {
        self.ports.read_taps(accepts);
        if let Some(streams) = &self.streams {
            streams.set_accepting(accepts);
        }
    }

    /// Whether no connection of a client is open, nobody waits for an answer, and each core has found its queues empty since the
    /// last frame.
    pub(super) fn is_idle(&mut self) -> bool {
        let (totals, now) = (self.counters().totals, self.gauges.clock.now());
        let Passing { received, since, .. } = &mut self.passing;
        if *received != totals.received {
            (*received, *since) = (totals.received, now);
        }
        let is_beside = self.ports.is_any_beside(&self.watch);
        let least = if is_beside { QUIET_BESIDE } else { QUIET };
        let quiet = *since + self.gauges.clock.ticks_of(least);
        let connections = self.streams.as_ref().map_or(0, StreamClients::connections);
        let has_ended = connections == 0 && totals.held == 0;
        let waits = self.gauges.slow_path.iter().any(|thread| thread.snapshot().waiting > 0);
        has_ended && !waits && self.gauges.published().all(|tick| tick > quiet)
    }

    /// Whether zones and lists are fetched by another process, and so not by this one.
    pub(super) fn hold_files(&mut self, are_held: bool) {
        self.transfers.set_held(are_held);
        self.lists.set_held(are_held);
    }

    /// Whether a caller waits for a change, or fetches of zones and lists are about to go on or to end.
    pub(super) fn is_busy(&self) -> bool {
        let are_settled = self.transfers.is_settled() && self.lists.is_settled();
        let are_closing = self.ports.are_closing(&self.watch);
        self.runtime.is_busy() || self.additions.is_busy() || !are_settled || are_closing
    }

    /// The final counters, after every thread of the engine has ended.
    pub(super) fn end(&mut self) -> Report {
        drop((self.query_log.take(), self.hitters.take()));
        // Their last answers have come by now.
        let streams = self.streams.take().map(StreamClients::end).unwrap_or_default();
        Report { streams, state: self.health.state(), ..self.counters() }
    }

    /// The ports, which can be closed: nothing has frames any more.
    pub(super) fn into_ports(self) -> RunningPorts {
        self.ports
    }
}

/// Jobs on the cache, which know views by their scopes.
struct Scopes<'c>(&'c CacheJobs);

impl FollowConfig for Scopes<'_> {
    fn apply_config(&mut self, config: &Config, _: &Overlay) {
        self.0.set_scopes(config.scope_map());
    }
}

/// Gives up rights, or says where it will read and write: who opens sockets of AF_XDP needs rights, and the process before has the
/// queues of the interface yet.
fn give_up_rights(
    config: &Config,
    places: GrantedPaths,
    ports: &RunningPorts,
) -> (PrivilegeReport, Option<GrantedPaths>) {
    match ports.passing.is_empty() && ports.has_all() {
        true => (privileges::restrict(config, &places), None),
        false => (privileges::of_this_process(), Some(places)),
    }
}

/// What limits zones: the engine lends its limits to the cores. Those that were kept are in force.
fn zone_limiter(
    config: &Config,
    engine: &mut Engine,
    seed: Seed,
    kept: &[OperatorChange],
) -> ZoneLimiter {
    let lender = engine.zone_limits.take().expect("nobody took it");
    let prefixes = ClientPrefixes::new(&config.ratelimit, seed);
    let ticks_per_second = engine.gauges.clock.ticks_per_second();
    let answer = config.hitters.limit_answer;
    let mut limiter = ZoneLimiter::new(lender, answer, prefixes, ticks_per_second);
    limiter.take_kept(kept, (Instant::now(), unix_time()));
    limiter
}

/// What watches packets for captures.
fn packet_watch(
    config: &Config,
    lender: ObserverLender,
    gauges: &Gauges,
    cache_jobs: &CacheJobs,
    topology: &Topology,
) -> PacketWatch {
    let ports = topology.port_names.as_slice().into();
    let (clock, cache_jobs) = (gauges.clock, cache_jobs.clone());
    PacketWatch { lender, clock, cache_jobs, ports, wires: config.ports.len() }
}

/// When each certificate expires, by the table that names it.
fn expiries(certificates: &[Certificate]) -> Named {
    let expiries = certificates.iter().filter_map(Certificate::expiry);
    expiries.map(|(table, expires)| (table.to_owned(), expires)).collect()
}
