//! The threads of an engine: started, pinned, watched and stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use pmdns_config::Config;
use pmdns_nics::{DataThread, adopt_data_thread};

use super::{Engine, EngineError};
use crate::data_core::{self, Patience};
use crate::exceptions::{self, TapThread};
use crate::slowpath::{self, SlowPath, SlowPathParts};
use crate::threads::pin;
use crate::topology::Topology;
use crate::worker::Worker;

/// An engine whose threads run.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Engine {
    /// Starts every thread. Data cores are pinned if `pin` says so.
    pub fn start(self, config: &Config, pin: bool) -> Result<Running, EngineError> {
        let mut running = Running { threads: Vec::new(), stop: Arc::clone(&self.stop) };
        let available = core_affinity::get_core_ids().unwrap_or_default();
        let available: Vec<usize> = available.into_iter().map(|core| core.id).collect();
        let slow_path_cores = slow_path_cores(config, &self.topology, &available);
        let (on_cores, on_threads) = match self.topology.cores_resolve {
            true => (self.slow_path, Vec::new()),
            false => (Vec::new(), self.slow_path),
        };
        for (index, parts) in on_threads.into_iter().enumerate() {
            let core = slow_path_cores.get(index % slow_path_cores.len().max(1)).copied();
            let core = core.filter(|_| pin);
            running.spawn(format!("slowpath-{index}"), move || {
                let _adopted = settle(core);
                slowpath::run(parts);
            })?;
        }
        let has_taps = self.taps.iter().any(TapThread::has_interface);
        // A TAP without an interface has no thread: its rings end with it.
        for tap in self.taps.into_iter().filter(TapThread::has_interface) {
            let name = format!("tap-{}", self.topology.port_names[tap.port()]);
            let core = slow_path_cores.last().copied().filter(|_| pin);
            running.spawn(name, move || {
                let _adopted = settle(core);
                exceptions::run(tap);
            })?;
        }
        let others = other_cores(config, &self.topology, &available, has_taps);
        let mut shards = on_cores.into_iter();
        for (worker, plan) in self.workers.into_iter().zip(&self.topology.workers) {
            let (shard, stop) = (shards.next(), Arc::clone(&self.stop));
            let has_company =
                others.iter().any(|cores| cores.is_empty() || cores.contains(&plan.core));
            let patience = Patience { idle: plan.idle, has_company };
            let core = Some(plan.core).filter(|_| pin);
            running.spawn(format!("worker-{}", plan.core), move || match shard {
                None => {
                    let _adopted = settle(core);
                    data_core::run(worker, patience, &stop);
                }
                Some(parts) => resolve(worker, parts, core, patience),
            })?;
        }
        Ok(running)
    }
}

impl Running {
    fn spawn(
        &mut self,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), EngineError> {
        let thread = std::thread::Builder::new().name(name).spawn(body);
        self.threads.push(thread.map_err(EngineError::Thread)?);
        Ok(())
    }

    /// Whether a thread has ended on its own, which none should.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops taking frames in, lets everything under way leave, and waits for the threads. `true`: no thread panicked.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = self.threads.drain(..).filter_map(|thread| thread.join().err()).count();
        panicked == 0
    }
}

impl Drop for Running {
    /// No thread outlives the engine, also when starting the next one fails.
    fn drop(&mut self) {
        self.end();
    }
}

/// Pins the calling thread, and makes it known to DPDK, which keeps a share of the frame pool for it until the result is
/// dropped.
fn settle(core: Option<usize>) -> Option<DataThread> {
    pin(core);
    let adopted = adopt_data_thread();
    let adopted = adopted.inspect_err(|error| {
        tracing::warn!("{error}; this thread takes frames more slowly");
    });
    adopted.ok()
}

/// Runs a worker and a shard of the slow path on the calling thread.
fn resolve(worker: Worker, parts: SlowPathParts, core: Option<usize>, patience: Patience) {
    let (clock, stop) = (parts.clock, Arc::clone(&parts.stop));
    // The threads that it starts beside it stay on the CPUs of the process.
    let Some(shard) = SlowPath::start(parts) else { return };
    let _adopted = settle(core);
    data_core::run_resolving(worker, shard, patience, clock, &stop);
}

/// CPUs for the slow path: those the config names, else those of `available` that no data core uses; none: any CPU.
fn slow_path_cores(config: &Config, topology: &Topology, available: &[usize]) -> Vec<usize> {
    if !config.slowpath.cores.is_empty() {
        return config.slowpath.cores.clone();
    }
    topology.spare_cores(available).collect()
}

/// The CPUs of each kind of thread that data cores wait for; none: any CPU.
fn other_cores(
    config: &Config,
    topology: &Topology,
    available: &[usize],
    has_taps: bool,
) -> Vec<Vec<usize>> {
    let of_slow_path = !topology.cores_resolve || has_taps;
    let slow_path = of_slow_path.then(|| slow_path_cores(config, topology, available));
    let streams = config.streams.are_configured().then(|| match &config.streams.cores[..] {
        [] => topology.spare_cores(available).collect(),
        named => named.to_vec(),
    });
    slow_path.into_iter().chain(streams).collect()
}

#[cfg(test)]
mod tests {
    use pmdns_nics::{Nic as _, memory};

    use super::*;
    use crate::testing::config;

    #[test]
    fn trap_23_the_slow_path_keeps_to_the_cpu_set_and_off_the_data_cores() {
        let (nic, _, _) = memory::link("p0", 0, 1, 64);
        let on = |more: &str, available: &[usize]| {
            let config = config(more);
            let topology =
                Topology::plan(&config, &[nic.facts().clone()], available).expect("a plan");
            slow_path_cores(&config, &topology, available)
        };
        assert_eq!(on("", &[0, 1]), [0], "the data core is the last one");
        assert_eq!(on("", &[2, 5, 7]), [2, 5]);
        assert_eq!(on("", &[0]), [0; 0], "one CPU for everything: the scheduler decides");
        assert_eq!(on("[slowpath]\ncores = [1]\n", &[0, 1]), [1], "as the operator says");
    }

    #[test]
    fn a_data_core_knows_whose_cpu_it_shares() {
        let (nic, _, _) = memory::link("p0", 0, 1, 64);
        let others = |more: &str, has_taps: bool| {
            let config = config(more);
            let topology =
                Topology::plan(&config, &[nic.facts().clone()], &[0, 1]).expect("a plan");
            other_cores(&config, &topology, &[0, 1], has_taps)
        };
        let resolves = "[[placement]]\ncores = [1]\nresolver = true\n";
        assert_eq!(others("", false), [[0]]);
        assert_eq!(others(resolves, false), [[0; 0]; 0]);
        assert_eq!(others(resolves, true), [[0]]);
        let streams = "[streams]\ntcp = [\"192.0.2.1:53\"]\n";
        assert_eq!(others(&format!("{resolves}{streams}"), false), [[0]]);
        assert_eq!(others(&format!("{streams}cores = [1]\n"), false), [[0], [1]]);
    }
}
