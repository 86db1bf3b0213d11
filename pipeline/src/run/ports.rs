//! The ports: DPDK's environment, the devices with their queues, and the frames.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_config::Config;
use pmdns_config::narrow::to_u8;
use pmdns_engine::engine::{Engine, EngineParts, EngineStreams, FromBefore};
use pmdns_engine::exceptions::interface;
use pmdns_engine::topology::Topology;
use pmdns_handover::PassedDevice;
use pmdns_nics::dpdk::{self, DpdkNic, Eal, Mempool};
use pmdns_nics::{FramePool, Nic, PortFacts, Queues, Tap, XdpSteering};

use super::error::RunError;
use super::passing_ports::PassingPorts;
use super::relay::Relay;
use super::reopened_ports::ReopenedPorts;
use crate::handover::{HandOver, RelayToBefore, planned};
use crate::streams::{OpenStreams, StreamEntry};

/// The ports that were started, and what the engine gets of them.
pub(super) struct StartedPorts {
    pub(super) eal: Eal,
    pub(super) topology: Topology,
    pub(super) nics: Vec<Box<dyn Nic>>,
    facts: Vec<PortFacts>,
    queues: Vec<Queues>,
    mempool: Mempool,
    streams: Option<EngineStreams>,
    /// What the process before has passed.
    pub(super) passed: PassedParts,
    /// Ports over AF_XDP: what steers them, and those whose interfaces the process before has yet.
    pub(super) steerings: Vec<XdpSteering>,
    passing: PassingPorts,
    reopened: ReopenedPorts,
}

/// What another process has passed to this one, of ports and for the engine.
#[derive(Default)]
pub(super) struct PassedParts {
    pub(super) engine: FromBefore,
    /// The kernel's ends of ports, with the names of their interfaces.
    pub(super) taps: Vec<(String, OwnedFd)>,
    /// The way for frames to that process.
    pub(super) relay: Option<RelayToBefore>,
}

/// The process before, which has its ports yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'b> {
    /// Whether there is one.
    pub(super) is_there: bool,
    /// Whether its DPDK has the first name for its files.
    pub(super) is_first: bool,
    /// What it has to close before this process opens it.
    pub(super) devices: &'b [PassedDevice],
}

impl StartedPorts {
    /// Starts every port of `config` for the plan that fits these cores, but for those whose devices the process before has.
    pub(super) fn start(
        config: &Config,
        has_streams: bool,
        cores: &[usize],
        beside: Beside<'_>,
    ) -> Result<Self, RunError> {
        let plan = |port| planned(port, beside.devices);
        let later = config.ports.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let devices = config.ports.iter().zip(&later).filter(|(_, later)| later.is_some());
        let devices: Vec<_> = devices.map(|(port, _)| port.device.as_str()).collect();
        let arguments = dpdk::arguments(&config.eal, &config.ports);
        let arguments = dpdk::without_devices(arguments, &devices);
        let arguments = if beside.is_first { dpdk::beside_another(arguments) } else { arguments };
        let eal = Eal::init("pmdns", &arguments)?;
        for message in eal.messages() {
            tracing::debug!("EAL: {message}");
        }
        let (mut closed, mut facts) = (Vec::new(), Vec::new());
        for ((number, port), later) in config.ports.iter().enumerate().zip(later) {
            let opened = match later {
                Some(known) => {
                    facts.push(known);
                    None
                }
                None => Some(eal.open(port, to_u8(number))?),
            };
            facts.extend(opened.as_ref().map(|port| port.facts().clone()));
            closed.push(opened);
        }
        facts.extend(has_streams.then(pmdns_streams::driver::facts));
        let topology = Topology::plan(config, &facts, cores)?;
        let frames = u32::try_from(topology.frames).unwrap_or(u32::MAX);
        let mempool = Mempool::new("frames", frames, facts[0].numa_node)?;
        let (mut nics, mut queues): (Vec<Box<dyn Nic>>, Vec<_>) = (Vec::new(), Vec::new());
        let (mut steerings, mut passing) = (Vec::new(), PassingPorts::default());
        let reopened = ReopenedPorts::of(config);
        for ((port, plan), facts) in closed.into_iter().zip(&topology.ports).zip(&facts) {
            let Some(port) = port else {
                nics.push(Box::new(DpdkNic::closed(facts.clone())));
                queues.push(Queues::none(plan.rx_queues, plan.tx_queues));
                continue;
            };
            if beside.is_there && port.is_over_af_xdp() {
                let (nic, own, port) = port.start_by_packets(&eal, plan, &mempool)?;
                nics.push(Box::new(nic));
                queues.push(own);
                passing.add(port);
                continue;
            }
            let (mut nic, own) = port.start(plan, &mempool)?;
            report_start(&nic);
            steerings.extend(nic.take_steering());
            nics.push(Box::new(nic));
            queues.push(own);
        }
        Ok(Self {
            eal,
            topology,
            nics,
            facts,
            queues,
            mempool,
            streams: None,
            passed: PassedParts::default(),
            steerings,
            passing,
            reopened,
        })
    }

    /// Adds the port of clients over streams.
    pub(super) fn add_streams(
        &mut self,
        config: &Config,
        entry: StreamEntry,
    ) -> Result<OpenStreams, RunError> {
        let ((nic, queues, parts), open) = OpenStreams::new(config, &self.topology, entry)?;
        self.nics.push(nic);
        self.queues.push(queues);
        self.streams = Some(parts);
        Ok(open)
    }

    /// The engine over these ports, with the kernel's ends of those that have one. The frames are its own from now on, and these
    /// ends pass to the next process.
    pub(super) fn build(
        self,
        config: &Config,
        hand_over: &mut HandOver,
    ) -> Result<(Engine, RunningPorts), RunError> {
        let Self { eal, topology, nics, facts, queues, mempool, streams, passed, .. } = self;
        let (passing, reopened) = (self.passing, self.reopened);
        let PassedParts { engine: passed, taps: mut before, relay } = passed;
        let mut engine = Engine::build(EngineParts {
            config,
            topology: topology.clone(),
            facts: &facts,
            queues,
            pool: FramePool::Dpdk(mempool.clone()),
            streams,
            load_encrypted: pmdns_encrypted::load,
            passed,
        })?;
        let (reads_taps, mut taps) = (Arc::<AtomicBool>::default(), Vec::new());
        for tap in &mut engine.taps {
            let port = tap.port();
            let settings = &config.ports[port];
            let Some(name) = &settings.tap else { continue };
            let place = before.iter().position(|(of, _)| of == name);
            let passed = place.map(|place| before.swap_remove(place).1);
            let passed = passed.and_then(|passed| Tap::passed(passed, name));
            let make = |name: &str| interface::make(&eal, &mempool, &settings.name, name);
            if let Some(kernel) = interface::open(settings, &facts[port], passed, make)? {
                let copy = kernel.descriptor().map(|tap| tap.try_clone_to_owned()).transpose();
                taps.push((name.clone(), copy.map_err(RunError::Copy)?));
                tap.attach(kernel, Arc::clone(&reads_taps));
            }
        }
        hand_over.set_taps(taps);
        let relay = Relay::new(engine.relay.take().expect("nobody took it"), relay);
        let ports =
            RunningPorts { eal, topology, nics, passing, reopened, relay, mempool, reads_taps };
        Ok((engine, ports))
    }
}

/// What an operator wants to know of a port that has started.
pub(super) fn report_start(nic: &DpdkNic) {
    tracing::info!("port {} {}", nic.facts().name, nic.choice());
    for warning in nic.warnings() {
        tracing::warn!("port {}: {warning}", nic.facts().name);
    }
}

/// The ports of a running engine.
pub(super) struct RunningPorts {
    pub(super) eal: Eal,
    pub(super) topology: Topology,
    pub(super) nics: Vec<Box<dyn Nic>>,
    /// Those whose interfaces the process before has yet.
    pub(super) passing: PassingPorts,
    /// Those that this process closes before the next one opens them.
    pub(super) reopened: ReopenedPorts,
    /// Frames of the other process.
    pub(super) relay: Relay,
    pub(super) mempool: Mempool,
    /// Whether what the kernel sends is read.
    reads_taps: Arc<AtomicBool>,
}

impl RunningPorts {
    /// Reads what the kernel sends by the ports that have an interface, or leaves that to the other process.
    pub(super) fn read_taps(&self, reads: bool) {
        self.reads_taps.store(reads, Ordering::Relaxed);
    }

    /// Closes the ports and cleans up DPDK. Every thread has ended. So a missing frame is held by a driver that never returns
    /// it: net_af_xdp of DPDK 22.11 keeps those of its fill ring. Then the memory stays mapped until the process ends, which is
    /// now.
    pub(super) fn close(self) -> Result<(), RunError> {
        let Self { eal, nics, mempool, passing, relay, .. } = self;
        drop((passing, relay));
        nics.into_iter().for_each(Nic::close);
        let missing = mempool.in_use();
        drop(mempool);
        match eal.close() {
            Err(dpdk::EalError::InUse) if missing > 0 => {
                tracing::warn!("{missing} frames were not given back by a port's driver");
                Ok(())
            }
            closed => Ok(closed?),
        }
    }
}
