//! An instance: the main thread of a process that serves, and the servers of operators, which it answers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_engine::engine::{EngineError, Running};
use pmdns_engine::snapshot::CacheJobs;
use pmdns_engine::threads::nap;
use pmdns_nics::dpdk;

use super::announce::announce;
use super::error::RunError;
use super::opened::{Opened, OperatorSockets};
use super::ports::StartedPorts;
use super::services::{ServiceParts, Services};
use crate::control::api::ApiServer;
use crate::control::metrics::server::{KEY, MetricsServer};
use crate::control::reload::{NO_KEEPER, Obstacle, Reloader, Written};
use crate::handover::{HandOver, HandoverError, Step, TakeOver, TakeOverStep, obstacle_between};
use crate::log;
use crate::snapshot::SnapshotKeeper;
use crate::sockets::OpenSockets;
use crate::streams::OpenStreams;
use crate::supervisor::{Supervisor, stuck_worker};
use pmdns_control::report::Report;

/// How often the main thread checks for signals and control clients.
const LOOK: Duration = Duration::from_millis(20);
/// The same while a client waits for a change.
const SHORT_LOOK: Duration = Duration::from_millis(1);

/// Why no process comes that was asked for.
const UNHEARD: &str =
    "the keeper is not there, or does not read; start `pmdns run --keeper` again, which takes over";

/// Everything that runs.
pub(super) struct Instance<'c> {
    services: Services<'c>,
    /// `None`: another process has the sockets of operators.
    servers: Option<Servers>,
    running: Running,
    hand_over: HandOver,
    /// As long as the process before is there.
    take_over: Option<TakeOver>,
    /// Why the process before goes on, and not this one.
    has_failed: Option<String>,
    has_handed_over: bool,
    /// The CPU of threads that are not the engine's.
    core: Option<usize>,
    /// Writes snapshots of the cache.
    keeper: Option<SnapshotKeeper>,
    supervisor: Supervisor,
}

/// What an instance is made of.
pub(super) struct InstanceParts<'p> {
    /// The configuration as it was written, and its file.
    pub(super) written: Written,
    pub(super) path: &'p Path,
    pub(super) opened: Opened,
    pub(super) ports: StartedPorts,
    /// To the process after this one.
    pub(super) hand_over: HandOver,
    /// From the process before, if there is one.
    pub(super) take_over: Option<TakeOver>,
}

impl<'c> Instance<'c> {
    /// Starts every thread on `cores`, and says to the supervisor that it is ready.
    pub(super) fn start(
        config: &'c Config,
        parts: InstanceParts<'_>,
        cores: &[usize],
    ) -> Result<Self, RunError> {
        let InstanceParts { written, path, opened, mut ports, mut hand_over, mut take_over } =
            parts;
        let (certificate, certificates) = (opened.certificate(), opened.certificates());
        let Opened { operators, runtime, clients, streams, notifications, kept } = opened;
        let streams = streams.map(|entry| ports.add_streams(config, entry)).transpose()?;
        let (engine, ports) = ports.build(config, &mut hand_over)?;
        announce(config, &ports.topology, &engine, &ports.nics);
        // Slow path threads take the first ones.
        let core = ports.topology.spare_cores(cores).next_back();
        let spare = ports.topology.spare_cores(cores).rev().collect();
        let parts = ServiceParts {
            written,
            path,
            engine,
            ports,
            runtime,
            clients,
            notifications,
            kept,
            certificate,
            certificates,
            core,
        };
        let (mut services, mut engine) = Services::start(config, parts)?;
        services.reloader.set_access(streams.as_ref().map(OpenStreams::access));
        if let Some(take_over) = &mut take_over {
            take_over.prepared(services.ports.wanted(config))?;
            services.set_role(take_over.role());
        }
        let mut has_come_with_cache = engine.take_cache(config)?;
        hand_over.set_cache(services.cache_jobs.clone(), config, take_over.is_none());
        let running = engine.start(config, true)?;
        if let Some(take_over) = take_over.as_mut().filter(|_| !has_come_with_cache) {
            has_come_with_cache = take_over.take_answers(config, &services.cache_jobs, core);
        }
        services.streams = streams.map(|open| open.start(config, spare)).transpose()?;
        let keeper = keeper(config, &services.cache_jobs, !has_come_with_cache, core)?;
        services.snapshot = keeper.as_ref().map(SnapshotKeeper::counters);
        let servers = Some(Servers::start(operators, core)?);
        let supervisor = Supervisor::from_environment();
        set_successor(&mut services, &supervisor, &hand_over);
        match &mut take_over {
            Some(take_over) => {
                hand_over.take_ports()?;
                take_over.taken();
            }
            None => hand_over.own(),
        }
        services.set_accepting(true);
        services.hold_files(false);
        tracing::info!("ready");
        supervisor.ready();
        Ok(Self {
            services,
            servers,
            running,
            hand_over,
            take_over,
            has_failed: None,
            has_handed_over: false,
            core,
            keeper,
            supervisor,
        })
    }

    /// Whether there is nothing left that serves.
    pub(super) fn has_ended(&self) -> bool {
        let is_left = self.has_failed.is_some() || self.has_handed_over;
        is_left || self.running.has_failed() || self.services.watch.all_are_gone()
    }

    /// Whether the process before has left everything to this one, but has not ended yet. Then this one does not end either: it
    /// would leave the files of both.
    pub(super) fn is_inheriting(&self) -> bool {
        self.take_over.as_ref().is_some_and(TakeOver::is_left)
    }

    /// Does what has come up since the last turn. The rules are read anew if `reload` says so.
    pub(super) fn turn(&mut self, reload: bool) {
        let services = &mut self.services;
        services.poll(Instant::now());
        let gauges = &services.gauges;
        let is_well = || stuck_worker(gauges.published(), &gauges.clock).is_none();
        self.supervisor.watch(Instant::now(), is_well);
        if let Some(servers) = &mut self.servers {
            servers.answer(services);
        }
        if reload {
            match services.passing.check_alone() {
                Ok(()) => services.reloader.ask(),
                Err(why) => tracing::warn!("no reload: {why}"),
            }
        }
        if !services.passing.is_under_way && services.apply_changes() {
            self.hand_over.follow(services.reloader.config());
            if let Some(servers) = &mut self.servers {
                servers.apply_reload(&mut services.reloader, &mut self.hand_over);
            }
        }
        if services.reloader.take_successor_request() {
            let asked = services.passing.request_successor();
            asked.unwrap_or_else(|why| tracing::warn!("no other process is started: {why}"));
        }
        services.limit_floods(Instant::now());
        log::report_losses();
        self.pass_on(Instant::now());
    }

    /// Takes over from the process before, and hands over to the next one.
    fn pass_on(&mut self, now: Instant) {
        let Services { ports, watch, .. } = &mut self.services;
        ports.relay.turn(self.take_over.is_none() || ports.can_all_send(watch));
        if let Some(take_over) = &mut self.take_over {
            match self.services.open_devices(now) {
                None => {}
                // Nobody else could open them either.
                Some(Err(why)) if take_over.is_last() => {
                    tracing::error!("{why}");
                    self.services.ports.reopen_later(now);
                    take_over.opened(Ok(()));
                }
                Some(outcome) => take_over.opened(outcome),
            }
            let reopened = &mut self.services.ports.reopened;
            match take_over.turn(now) {
                Some(TakeOverStep::OpenDevices) => return reopened.take(now),
                Some(TakeOverStep::End(why)) => {
                    self.has_failed = Some(why);
                    return;
                }
                Some(TakeOverStep::Own) if !reopened.are_awaited() => {}
                None | Some(TakeOverStep::Own) => return,
            }
            self.take_over = None;
            self.hand_over.own();
        }
        let services = &mut self.services;
        if !services.take_ports(&mut self.hand_over, now) {
            return;
        }
        let is_busy = services.is_busy() || !services.offer_changes(&mut self.hand_over, now);
        self.hand_over.set_role(services.role());
        let (ports, watch) = (&services.ports, &services.watch);
        let are_closed = ports.are_closed(services.config, self.hand_over.wanted(), watch);
        // Once the offer is made, nobody asks for them.
        if self.hand_over.is_asked() && !self.hand_over.is_under_way() {
            services.offer_ports(&mut self.hand_over);
        }
        match self.hand_over.turn(now, is_busy, are_closed, || services.is_idle()) {
            None => {}
            Some(Step::Drain) => {
                tracing::info!("the next process serves; this one answers who still waits");
                self.servers = None;
                services.set_accepting(false);
                let relay = self.hand_over.take_relay();
                services.step_back(self.hand_over.wanted(), relay);
            }
            Some(Step::Resume) => {
                services.set_accepting(true);
                services.step_forward(now);
                let config = services.reloader.config();
                self.servers = serve_again(config, &mut self.hand_over, self.core);
            }
            Some(Step::End) => self.has_handed_over = true,
        }
        // The next turn makes the offer, if that is done then.
        services.hold_files(self.hand_over.is_asked());
        let mut said = self.supervisor.failure();
        // Those who wait for a reload get its outcome from this process.
        if services.reloader.is_idle()
            && services.passing.take_request()
            && !self.supervisor.ask_for_successor()
        {
            said = Some(UNHEARD.to_owned());
        }
        services.passing.note(&mut self.hand_over, said);
    }

    /// Waits for what comes up.
    pub(super) fn nap(&self) {
        let is_busy = self.services.is_busy() || self.services.passing.is_under_way;
        nap(if is_busy || self.take_over.is_some() { SHORT_LOOK } else { LOOK });
    }

    /// Ends every thread. Returns the final counters.
    pub(super) fn stop(self) -> Result<Report, RunError> {
        let Self { mut services, servers, running, mut hand_over, has_handed_over, .. } = self;
        let (keeper, supervisor) = (self.keeper, self.supervisor);
        if self.take_over.is_some() {
            hand_over.give_back_ports();
        }
        hand_over.remove_file();
        let failed = running.has_failed();
        let refused = self.has_failed.map(HandoverError::Refused);
        tracing::info!("stopping");
        supervisor.stopping();
        // Nothing that an operator sends keeps the last snapshot waiting.
        drop(servers);
        // The slow path must still run, because its threads provide the entries that are written. The next process writes its own.
        match has_handed_over {
            true => std::mem::forget(keeper),
            false => drop(keeper),
        }
        let in_good_order = running.stop();
        let report = services.end();
        if !report.totals.balance() || report.totals.held > 0 {
            tracing::error!("the counters do not balance: {:?}; please report this", report.totals);
        }
        if dpdk::are_devices_shared() {
            // What is kept is dropped once the next process has something kept.
            std::mem::forget(services);
            return refused.map_or(Ok(report), |refused| Err(refused.into()));
        }
        let all_are_gone = services.watch.all_are_gone();
        services.into_ports().close()?;
        match () {
            () if failed || !in_good_order => Err(RunError::ThreadEnded),
            () if all_are_gone => Err(RunError::NoPortLeft),
            () => {
                hand_over.forget_kept();
                Ok(report)
            }
        }
    }
}

/// Whether a reload may hand over, and else why not.
fn set_successor(services: &mut Services<'_>, supervisor: &Supervisor, hand_over: &HandOver) {
    let obstacle = if supervisor.has_successor() { hand_over.obstacle() } else { Some(NO_KEEPER) };
    let obstacle = obstacle.map(str::to_owned);
    let between: Obstacle = obstacle_between;
    services.reloader.set_successor(obstacle.clone().map_or(Ok(between), Err));
    services.passing.obstacle = obstacle;
}

fn keeper(
    config: &Config,
    cache_jobs: &CacheJobs,
    loads: bool,
    core: Option<usize>,
) -> Result<Option<SnapshotKeeper>, EngineError> {
    let interval = Duration::from_secs(config.cache.snapshot_interval_seconds);
    let keep = |path: &PathBuf| {
        SnapshotKeeper::start(cache_jobs.clone(), path.clone(), interval, loads, core)
    };
    config.cache.snapshot.as_ref().map(keep).transpose().map_err(EngineError::Thread)
}

/// The sockets of operators are served again, by this process.
fn serve_again(config: &Config, hand_over: &mut HandOver, core: Option<usize>) -> Option<Servers> {
    let mut serve = || {
        let mut sockets = hand_over.sockets().map_err(RunError::Copy)?;
        let operators = OperatorSockets::open(config, &mut sockets)?;
        let files = operators.copy(config, &mut OpenSockets::default()).map_err(RunError::Copy)?;
        hand_over.set_files(files);
        Servers::start(operators, core)
    };
    let served = serve();
    served.map_err(|error| tracing::error!("operators are not served any more: {error}")).ok()
}

/// The servers of operators. Their threads take requests, the main thread answers them.
struct Servers {
    control: ApiServer,
    metrics: Option<MetricsServer>,
    api: Option<ApiServer>,
    /// The CPU of their threads.
    core: Option<usize>,
}

impl Servers {
    fn start(sockets: OperatorSockets, core: Option<usize>) -> Result<Self, RunError> {
        let OperatorSockets { control, metrics, api } = sockets;
        let metrics = metrics.map(|listener| listener.serve(core)).transpose()?;
        let api = api.map(|listener| listener.serve(core)).transpose()?;
        Ok(Self { control: control.serve(core)?, metrics, api, core })
    }

    /// Answers the requests that have come.
    fn answer(&mut self, services: &mut Services<'_>) {
        services.connections = [
            ("control", Some(self.control.counters())),
            ("metrics", self.metrics.as_ref().map(MetricsServer::counters)),
            ("api", self.api.as_ref().map(ApiServer::counters)),
        ];
        self.control.take(|call, caller| services.answer(call, caller));
        if let Some(api) = &mut self.api {
            api.take(|call, caller| services.answer(call, caller));
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.answer(|| services.report());
        }
    }

    /// Takes over the settings of a reload.
    fn apply_reload(&mut self, reloader: &mut Reloader, hand_over: &mut HandOver) {
        if let Some(api) = &self.api {
            api.apply_config(reloader.config());
        }
        if let Some(listener) = reloader.take_metrics() {
            let mut copies = OpenSockets::default();
            if let (Some(listener), Some(address)) = (&listener, reloader.config().metrics.listen) {
                let copied = listener.copy(address, &mut copies);
                copied.unwrap_or_else(|error| tracing::error!("metrics do not pass on: {error}"));
            }
            hand_over.replace(KEY, copies);
            let served = listener.map(|listener| listener.serve(self.core)).transpose();
            self.metrics = served.unwrap_or_else(|error| {
                tracing::error!("{error}; metrics are not served any more");
                None
            });
        }
    }
}
