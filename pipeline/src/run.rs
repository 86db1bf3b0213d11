//! `pmdns run`: serve until told to stop.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_config::narrow::to_u8;
use pmdns_config::{ByteSize, Config};
use pmdns_control::Call;
use pmdns_nics::device::Doubt;
use pmdns_nics::dpdk::{self, Eal, Mempool};
use pmdns_nics::hugepage::ArenaReport;
use pmdns_nics::{FramePool, Nic};
use pmdns_streams::tls::Certificate;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::admission::{ConnectionReport, ConnectionSnapshot};
use crate::capture::Captures;
use crate::clients::{Clients, ClientsError, OpenClients};
use crate::control::api::{ApiError, ApiListener, ApiServer};
use crate::control::cache_jobs::CacheJobs;
use crate::control::calls::{self, Traffic};
use crate::control::metrics::server::{MetricsError, MetricsListener, MetricsServer};
use crate::control::reload::{Reloader, Written, describe};
use crate::control::report::{Named, Report};
use crate::control::request::Request;
use crate::control::socket::{Client, ControlSocket, SocketError};
use crate::engine::{Engine, EngineError};
use crate::exceptions::interface::{self, TapError};
use crate::health::{Health, HealthChecks};
use crate::hitters::{self, HeavyHitters, HittersError};
use crate::journal::JournalError;
use crate::lists::Lists;
use crate::lookup::Lookups;
use crate::machine::{Machine, missing_device};
use crate::overlay::Change;
use crate::ports::{PortWatch, mac_text};
use crate::privileges::{self, Places};
use crate::query_log::find::LogSearches;
use crate::query_log::{OpenLog, QueryLog, QueryLogError};
use crate::runtime::Runtime;
use crate::snapshot::Keeper;
use crate::streams::{self, OpenStreams, StreamClients, StreamsError};
use crate::supervisor::{Supervisor, stuck_worker};
use crate::threads::nap;
use crate::topology::{Topology, TopologyError};
use crate::transfer::{Limits, TransferError, Transfers};
use crate::zone_limits::ZoneLimiter;

/// How often the main thread checks for signals and control clients.
const LOOK: Duration = Duration::from_millis(20);
/// The same while a client waits for a change.
const SHORT_LOOK: Duration = Duration::from_millis(1);

/// Why serving could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address for metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The HTTP API.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The client table.
    #[error(transparent)]
    Clients(#[from] ClientsError),
    /// A file of what is said at run time.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// DPDK's environment.
    #[error(transparent)]
    Eal(#[from] dpdk::EalError),
    /// The frame pool.
    #[error(transparent)]
    Pool(#[from] dpdk::PoolError),
    /// A port.
    #[error(transparent)]
    Port(#[from] dpdk::PortError),
    /// A port's device is not there.
    #[error("port {0}: {1}")]
    Device(String, Doubt),
    /// The plan.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The devices of all ports were taken out of the machine.
    #[error("every port's device was removed, so there is nothing left to serve on")]
    NoPortLeft,
    /// The kernel's end of a port.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// Everything else that is built.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The transfers of policy zones.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Clients over streams.
    #[error(transparent)]
    Streams(#[from] StreamsError),
    /// The query log.
    #[error(transparent)]
    QueryLog(#[from] QueryLogError),
    /// Heavy hitters.
    #[error(transparent)]
    Hitters(#[from] HittersError),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    /// A thread died.
    #[error("a worker thread ended unexpectedly; the log above says why")]
    ThreadEnded,
}

/// Serves with `config`, which was `written` so at `path`, until SIGINT or SIGTERM. Returns the final
/// counters. SIGHUP has the rules read anew.
pub fn run(config: &Config, written: Written, path: &Path) -> Result<Report, RunError> {
    // Asked first, because the EAL pins this thread to its main core.
    let Machine { cores: available, root, .. } = Machine::this();
    let stop = flag_of(&[SIGINT, SIGTERM]).map_err(RunError::Signal)?;
    let hangup = flag_of(&[SIGHUP]).map_err(RunError::Signal)?;
    let control = ControlSocket::open(&config.control)?;
    let metrics = config.metrics.listen.map(MetricsListener::bind).transpose()?;
    let api = ApiListener::open(config)?;
    let mut runtime = Runtime::open(config.control.entries.as_deref())?;
    let open_clients = OpenClients::read(config)?;
    let listeners = streams::bind(config)?;
    let certificate = streams::certificate(listeners.as_ref());
    let of_api = api.as_ref().and_then(ApiListener::certificate);
    let certificates: Vec<Certificate> = certificate.iter().chain(of_api).cloned().collect();
    // DPDK's own error for a missing device misleads: it speaks of permissions.
    if let Some((port, doubt)) = missing_device(&root, config) {
        return Err(RunError::Device(port, doubt));
    }
    let eal = Eal::init("pmdns", &dpdk::arguments(&config.eal, &config.ports))?;
    for message in eal.messages() {
        tracing::debug!("EAL: {message}");
    }
    let ports = config.ports.iter().enumerate().map(|(number, port)| eal.open(port, to_u8(number)));
    let closed = ports.collect::<Result<Vec<_>, _>>()?;
    let mut facts: Vec<_> = closed.iter().map(|port| port.facts().clone()).collect();
    facts.extend(listeners.is_some().then(pmdns_streams::driver::facts));
    let topology = Topology::plan(config, &facts, &available)?;
    let frames = u32::try_from(topology.frames).unwrap_or(u32::MAX);
    let mempool = Mempool::new("frames", frames, facts[0].numa_node)?;
    let (mut nics, mut queues): (Vec<Box<dyn Nic>>, Vec<_>) = (Vec::new(), Vec::new());
    for (port, plan) in closed.into_iter().zip(&topology.ports) {
        let (nic, own) = port.start(plan, &mempool)?;
        tracing::info!("port {} {}", nic.facts().name, nic.choice());
        for warning in nic.warnings() {
            tracing::warn!("port {}: {warning}", nic.facts().name);
        }
        nics.push(Box::new(nic));
        queues.push(own);
    }
    let pool = FramePool::Dpdk(mempool.clone());
    let (mut open_streams, mut engine_streams) = (None, None);
    if let Some(entry) = listeners {
        let ((nic, own, parts), open) = OpenStreams::new(config, &topology, entry)?;
        nics.push(nic);
        queues.push(own);
        (open_streams, engine_streams) = (Some(open), Some(parts));
    }
    let mut engine =
        Engine::build(config, topology.clone(), &facts, queues, pool.clone(), engine_streams)?;
    for tap in &mut engine.taps {
        let port = tap.port();
        let settings = &config.ports[port];
        let make = |name: &str| interface::make(&eal, &mempool, &settings.name, name);
        if let Some(kernel) = interface::open(settings, &facts[port], make)? {
            tap.attach(kernel);
        }
    }
    drop(mempool);
    announce(config, &topology, &engine, &nics);
    let news = Arc::clone(&engine.news);
    let (gauges, orders) = (engine.gauges.clone(), engine.orders.clone());
    let observers = engine.observers.clone();
    let prober = engine.prober.take().expect("nobody took it");
    let mut health = HealthChecks::new(prober, &gauges, &topology, config);
    let publisher = engine.rules.take().expect("nobody took it");
    let rule_names = publisher.names();
    let lender = engine.zone_limits.take().expect("nobody took it");
    let ticks_per_second = gauges.clock.ticks_per_second();
    let mut limiter = ZoneLimiter::new(lender, config.hitters.limit_answer, ticks_per_second);
    // Slow path threads take the first ones.
    let metrics_core = topology.spare_cores(&available).next_back();
    let writer = engine.clients.take();
    let table = writer.as_ref().map(|writer| Arc::clone(writer.table()));
    let start = |(open, writer): (OpenClients, _)| open.start(writer, metrics_core);
    let mut clients = open_clients.zip(writer).map(start).transpose()?;
    let files = clients.as_mut().and_then(Clients::files);
    let reloader = Reloader::new(path, (config, written), publisher, describe(&engine.digest));
    let mut reloader = reloader.with_certificate(certificate).with_clients(files);
    // Before our threads start, so that they are restricted from the beginning.
    let mut transfers = Transfers::start(config, Limits::default(), metrics_core)?;
    let mut lists = Lists::start(config, metrics_core).map_err(EngineError::Thread)?;
    let log_names = (rule_names.clone(), gauges.upstreams.clone());
    let query_log = OpenLog::open(config, log_names)?;
    let places = Places::of(config, path, &eal.folders());
    let privileges = privileges::restrict(config, &places);
    let start = |log: OpenLog| log.start(config, &engine.observers, gauges.clock, metrics_core);
    let query_log = query_log.map(start).transpose()?;
    let hitters =
        HeavyHitters::start(config, &engine.observers, rule_names, gauges.clock, metrics_core)?;
    let running = engine.start(config, true)?;
    let spare = || topology.spare_cores(&available).rev().collect();
    let streams = open_streams.map(|open| open.start(config, spare())).transpose()?;
    let mut metrics = metrics.map(|listener| listener.serve(metrics_core)).transpose()?;
    let mut api = api.map(|listener| listener.serve(metrics_core)).transpose()?;
    let keep = |path: &PathBuf| {
        let interval = Duration::from_secs(config.cache.snapshot_interval_seconds);
        Keeper::start(orders.clone(), path.clone(), interval, metrics_core)
    };
    let keeper =
        config.cache.snapshot.as_ref().map(keep).transpose().map_err(EngineError::Thread)?;
    let cache_jobs = CacheJobs::new(orders.clone());
    let lookups = Lookups::new(orders.clone(), config, gauges.upstreams.clone(), table);
    let log_searches = LogSearches::new(config);
    let captures =
        Captures::new(observers, &gauges, orders.clone(), &topology.port_names, config.ports.len());
    let mut control = control.serve(metrics_core)?;
    let mut watch = PortWatch::new(&nics, &news, Instant::now());
    let mut supervisor = Supervisor::from_environment();
    tracing::info!("ready");
    supervisor.ready();

    while !stop.load(Ordering::Relaxed) && !running.has_failed() && !watch.all_are_gone() {
        watch.turn(&mut nics, &news, Instant::now());
        gauges.set_calendar();
        supervisor
            .watch(Instant::now(), || stuck_worker(gauges.published(), &gauges.clock).is_none());
        let counted = [
            ("control", Some(control.counters())),
            ("metrics", metrics.as_ref().map(MetricsServer::counters)),
            ("api", api.as_ref().map(ApiServer::counters)),
            ("notify", config.transfer.listen.map(|_| transfers.connections())),
        ];
        health.turn(Instant::now(), &news);
        let state = health.state();
        let traffic = hitters::report(hitters.as_ref(), &limiter);
        let report = || Report {
            policy_zones: transfers.report(),
            fetched_lists: lists.report(),
            connections: connections(&counted),
            streams: streams.as_ref().map(StreamClients::report).unwrap_or_default(),
            privileges: privileges.clone(),
            state,
            certificates: expiries(&certificates),
            clients: clients.as_ref().map(Clients::counters),
            query_log: query_log.as_ref().map(QueryLog::report).unwrap_or_default(),
            hitters: vec![traffic.clone()],
            ..Report::read(&gauges, &topology, &nics).watched(&watch)
        };
        let mut answer = |request, client: Client| match request {
            Request::Stats => client.answer(&to_json(&report())),
            Request::Health => {
                let tell = move |health: &Health| client.answer(&to_json(health));
                health.ask(Instant::now(), reloader.config(), Box::new(tell));
            }
            Request::SetState(state) => {
                health.set(state);
                client.answer(&format!("ok {state}\n"));
            }
            Request::Reload => reloader.ask_for(client),
            Request::CacheJob(cache_job) => cache_jobs.run(cache_job, client),
            Request::Lookup(lookup) => match gauges.names.in_use() {
                Some(rules) => lookups.run(lookup, rules, client),
                None => client.answer("error: there are no rules yet\n"),
            },
            Request::Log(search) => log_searches.run(search, client),
            Request::Capture(selection) => captures.capture(selection, client),
            Request::Trace(selection) => captures.trace(selection, client),
            Request::Call(Call::RefreshList(name)) => lists.refresh(name, client),
            Request::Call(Call::ChangeList(change)) => {
                reloader.change(Change::List(change), client);
            }
            Request::Call(Call::ChangeUpstream(change)) => {
                reloader.change(Change::Upstream(change), client);
            }
            Request::Call(call) => {
                let traffic = Traffic { hitters: hitters.as_ref(), limiter: &mut limiter };
                let clients = clients.as_ref();
                calls::answer(&call, client, &reloader, &gauges, &mut runtime, clients, traffic);
            }
        };
        control.take(&mut answer);
        if let Some(api) = &mut api {
            api.take(&mut answer);
        }
        if let Some(metrics) = &mut metrics {
            metrics.answer(report);
        }
        if hangup.swap(false, Ordering::Relaxed) {
            reloader.ask();
        }
        if transfers.has_news() | lists.has_news() {
            reloader.note_news();
        }
        reloader.follow(&runtime);
        if reloader.turn(Instant::now()) {
            lists.follow(reloader.config());
            if let Err(error) = transfers.follow(reloader.config()) {
                tracing::error!("{error}; the same zones as before are transferred");
            }
            if let Some(api) = &api {
                api.follow(reloader.config());
            }
            health.follow(reloader.config());
            orders.set_scopes(reloader.config().scope_map());
            if let Some(listener) = reloader.take_metrics() {
                let served = listener.map(|listener| listener.serve(metrics_core)).transpose();
                metrics = served.unwrap_or_else(|error| {
                    tracing::error!("{error}; metrics are not served any more");
                    None
                });
            }
        }
        if let Some(hitters) = &hitters {
            hitters.limit_floods(config, &mut limiter, Instant::now());
        }
        limiter.turn(Instant::now());
        runtime.turn(reloader.version());
        nap(if runtime.is_busy() { SHORT_LOOK } else { LOOK });
    }
    let failed = running.has_failed();
    tracing::info!("stopping");
    supervisor.stopping();
    // The slow path must still run, because its threads provide the entries that are written.
    drop(keeper);
    let in_good_order = running.stop();
    drop((query_log, hitters));
    // Their last answers have come by now.
    let streams = streams.map(StreamClients::end).unwrap_or_default();
    let state = health.state();
    let report =
        Report { streams, state, ..Report::read(&gauges, &topology, &nics).watched(&watch) };
    if !report.totals.balance() || report.totals.held > 0 {
        tracing::error!("the counters do not balance: {:?}; please report this", report.totals);
    }
    drop((
        control, api, runtime, clients, reloader, metrics, cache_jobs, lookups, captures,
        transfers, lists, gauges, health,
    ));
    nics.into_iter().for_each(Nic::close);
    close(eal, pool)?;
    if failed || !in_good_order {
        return Err(RunError::ThreadEnded);
    }
    if watch.all_are_gone() { Err(RunError::NoPortLeft) } else { Ok(report) }
}

/// Frees the frames and cleans up DPDK. Every thread has ended and every port is closed. So a missing frame is held by
/// a driver that never returns it: net_af_xdp of DPDK 22.11 keeps those of its fill ring. Then the memory stays mapped
/// until the process ends, which is now.
fn close(eal: Eal, pool: FramePool) -> Result<(), RunError> {
    let missing = pool.in_use();
    drop(pool);
    match eal.close() {
        Err(dpdk::EalError::InUse) if missing > 0 => {
            tracing::warn!("{missing} frames were not given back by a port's driver");
            Ok(())
        }
        closed => Ok(closed?),
    }
}

/// A report as `pmdns stats --json` prints it, or the result of a check.
pub fn to_json(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("a report holds only strings and numbers")
}

/// When each certificate expires, by the table that names it.
fn expiries(certificates: &[Certificate]) -> Named {
    let expiries = certificates.iter().filter_map(Certificate::expiry);
    expiries.map(|(table, expires)| (table.to_owned(), expires)).collect()
}

/// The counters of connections, for the services that exist.
fn connections(counted: &[(&str, Option<ConnectionSnapshot>)]) -> Vec<ConnectionReport> {
    let report = |(service, counters): &(&str, Option<ConnectionSnapshot>)| {
        Some(ConnectionReport { service: (*service).to_owned(), counters: (*counters)? })
    };
    counted.iter().filter_map(report).collect()
}

/// A flag that these signals set.
fn flag_of(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// Logs the plan, and what the machine gave.
fn announce(config: &Config, topology: &Topology, engine: &Engine, nics: &[Box<dyn Nic>]) {
    for (nic, port) in nics.iter().zip(&config.ports) {
        let facts = nic.facts();
        let mac = mac_text(facts.mac);
        let addresses: Vec<IpAddr> = port.addresses.iter().map(|address| address.address).collect();
        let link = if nic.link_up() { "up" } else { "down" };
        tracing::info!(
            "port {} {} {mac} link {link}, answers at {} port {}",
            facts.name,
            facts.driver,
            listed(&addresses),
            port.dns_port,
        );
        if !port.query_sources.is_empty() {
            let gateways = match &*port.gateways {
                [] => "no gateway".to_owned(),
                gateways => format!("gateways {}", listed(gateways)),
            };
            let sources = listed(&port.query_sources);
            tracing::info!("port {}: upstreams are asked from {sources}, {gateways}", facts.name);
        }
    }
    for line in topology.to_string().lines() {
        tracing::info!("{line}");
    }
    let warnings = config.warnings();
    for warning in warnings.iter().chain(&engine.arena.warning).chain(&engine.digest.warnings) {
        tracing::warn!("{warning}");
    }
    tracing::info!("rules: {}", describe(&engine.digest));
    let ArenaReport { bytes, page, numa_node, .. } = &engine.arena;
    let node = numa_node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
    let (size, page) = (ByteSize(*bytes), ByteSize(page.bytes()));
    tracing::info!("cache {size} on pages of {page}{node}");
}
