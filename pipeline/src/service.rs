//! A TCP listener, and the thread that serves the connections of one listener. [`admission`](crate::admission) gives them places.

use std::future::Future;
use std::hash::Hash;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_engine::threads::{join_within, pin};
use socket2::{Domain, Socket, Type};
use tokio::sync::oneshot;

use crate::admission::{Bounds, ConnectionCounters, ConnectionSnapshot, Gate};

/// How long the thread may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The running thread. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Service {
    counters: Arc<ConnectionCounters>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Runs `serve` on a thread of this name, pinned to the CPU `core` if one is given, until it ends or is told to stop.
    pub(crate) fn start<P, S, F>(
        name: &str,
        core: Option<usize>,
        bounds: Bounds,
        serve: S,
    ) -> io::Result<Self>
    where
        P: Copy + Eq + Hash + Send + 'static,
        S: FnOnce(Gate<P>) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counters = Arc::<ConnectionCounters>::default();
        let gate = Gate::new(bounds, Arc::clone(&counters));
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            pin(core);
            runtime.block_on(async {
                tokio::select! {
                    () = serve(gate) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Self { counters, stop: Some(stop), thread: Some(thread) })
    }

    /// The counters of its connections.
    pub(crate) fn counters(&self) -> ConnectionSnapshot {
        self.counters.snapshot()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let Some(thread) = self.thread.take() else { return };
        let name = thread.thread().name().unwrap_or_default().to_owned();
        if !join_within(thread, STOP_PATIENCE) {
            tracing::warn!("the {name} thread does not end: it is given up");
        }
    }
}

/// Listens at an address. The kernel holds `backlog` connections that nobody has accepted yet.
pub(crate) fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As in the standard library: a restart need not wait for connections of the previous process.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_serves_on_a_thread_of_its_name_until_it_is_dropped() {
        let bounds = Bounds { places: 1, per_peer: 1, grace: Duration::ZERO };
        let (tell, told) = std::sync::mpsc::channel();
        let serve = |gate: Gate<u8>| async move {
            gate.refuse();
            tell.send(std::thread::current().name().map(str::to_owned)).unwrap();
            std::future::pending::<()>().await;
        };
        let service = Service::start("served", None, bounds, serve).unwrap();
        assert_eq!(told.recv().unwrap().as_deref(), Some("served"));
        assert_eq!(service.counters().refused, 1);
        drop(service);
        assert!(told.recv().is_err(), "the thread has gone, and its end of the channel with it");
    }
}
