//! `pmdns health --watch`: checks again and again, and has routing daemons announce the addresses of this node or not.
//!
//! It is a process of its own, so that it notices an instance that is stuck or dead. While the instance is healthy, there is an
//! interface with the addresses. The kernel removes it when this process ends, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_config::{Anycast, Config};
use pmdns_control::ask;
use pmdns_control::client::{ApiClient, ClientError};
use pmdns_engine::exceptions::interface::{self, TapError};
use pmdns_engine::threads::nap;
use pmdns_nics::Tap;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::hysteresis::Hysteresis;
use super::{NodeHealth, NodeState};
use crate::supervisor::Supervisor;

/// How long the instance may take to answer beyond its own patience with data cores.
const EXTRA_PATIENCE: Duration = Duration::from_millis(100);

/// Why nobody can watch.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There is no interface.
    #[error(transparent)]
    Interface(#[from] TapError),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signal(std::io::Error),
}

/// Watches the instance of `config` until SIGINT or SIGTERM. The interface goes with this process.
pub fn run(config: &Config) -> Result<(), WatchError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(WatchError::Signal)?;
    }
    let settings = &config.anycast;
    // Tells at once if it may not be made.
    drop(announce(settings)?);
    let mut announced = None;
    let patience = Duration::from_millis(settings.timeout_ms) + EXTRA_PATIENCE;
    let interval = Duration::from_millis(settings.interval_ms);
    let mut hysteresis = Hysteresis::new(settings);
    let instance = ApiClient::at_socket(&config.control.socket);
    let mut supervisor = Supervisor::from_environment();
    supervisor.ready();
    tracing::info!("watching; nothing is announced until {} checks were good", settings.successes);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let checked = instance.get_within(ask::Health, patience);
        let is_good = checked.as_ref().is_ok_and(|health: &NodeHealth| health.healthy);
        match hysteresis.note(is_good) {
            Some(true) => {
                announced = announce(settings)?;
                tracing::info!("announced");
            }
            Some(false) => {
                drop(announced.take());
                tracing::warn!("withdrawn: {}", reason(checked));
            }
            None => {}
        }
        supervisor.watch(began, || true);
        nap(interval.saturating_sub(began.elapsed()));
    }
    supervisor.stopping();
    tracing::info!("the watch ends, and nothing is announced");
    Ok(())
}

/// The interface with the addresses, if one is wanted. It lasts as long as the result. The news of an interface that goes
/// reaches routing daemons at once; the kernel may hold back the news of a carrier for a second.
fn announce(settings: &Anycast) -> Result<Option<Tap>, TapError> {
    let open = |name: &String| interface::open_anycast(name, &settings.addresses);
    settings.interface.as_ref().map(open).transpose()
}

/// Why clients shall not come.
fn reason(checked: Result<NodeHealth, ClientError>) -> String {
    match checked {
        Err(error) => error.to_string(),
        Ok(health) if health.state == NodeState::Drained => "the node is drained".to_owned(),
        Ok(health) => health.problems.join("; "),
    }
}
