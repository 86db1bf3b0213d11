//! The threads that serve clients.

use std::io;
use std::thread::JoinHandle;

use pmdns_config::{Config, Streams};
use pmdns_nics::stream::IdleTime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::AccessList;
use crate::counters::AllCounters;
use crate::driver::ThreadEnds;
use crate::encrypted::Encryption;
use crate::listeners::{Listeners, copy};
use crate::places::ConnectionPlaces;
use crate::service::{ConnectionLimits, Service};
use crate::tcp;

/// The running threads. Dropping it ends them.
#[derive(Debug)]
pub struct Servers {
    stop: watch::Sender<()>,
    /// Whether connections are taken in.
    accepts: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// The parts of the servers.
pub struct ServerParts {
    /// The sockets that clients come to.
    pub listeners: Listeners,
    /// The ends of the port, one for each thread.
    pub ends: Vec<ThreadEnds>,
    /// Where clients are counted.
    pub counters: AllCounters,
    /// The idle time of connections that clients are told.
    pub idle_time: IdleTime,
    /// The needs of the encrypted transports; `None`: there are none.
    pub encryption: Option<Encryption>,
    /// Who may connect.
    pub access: AccessList,
}

impl Servers {
    /// Starts a thread for each pair of ends. `begin` is called on each first, with its number: to pin it, for example.
    pub fn start(
        config: &Config,
        parts: ServerParts,
        begin: impl Fn(usize) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let ServerParts { listeners, ends, counters, idle_time, encryption, access } = parts;
        let places = ConnectionPlaces::new(config, counters.clone(), idle_time);
        let mut servers = Self {
            stop: watch::Sender::new(()),
            accepts: watch::Sender::new(true),
            threads: Vec::new(),
        };
        for (number, ThreadEnds { sender, collector }) in ends.into_iter().enumerate() {
            let (places, counters) = (places.clone(), counters.clone());
            let proxies = config.streams.proxy_protocol.clone().into();
            let limits = ConnectionLimits::of(config);
            let access = access.clone();
            let service = Service { sender, places, counters, limits, access, proxies };
            let listeners = listeners.of_thread(number)?;
            let encryption = encryption.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (mut stop, accepts) = (servers.stop.subscribe(), servers.accepts.subscribe());
            let begin = begin.clone();
            let body = move || {
                begin(number);
                runtime.block_on(async {
                    let quic = encryption.as_ref().map(|of| of.begin_quic(&listeners, &service));
                    if let Some(encryption) = encryption.clone().filter(|_| number == 0) {
                        tokio::spawn(encryption.keep_fresh());
                    }
                    tokio::select! {
                        ended = collector.run() => if let Err(error) = ended {
                            tracing::error!("clients over streams get no answers: {error}");
                        },
                        () = serve(&listeners, encryption, &service, accepts) => {}
                        _ = stop.changed() => {}
                    }
                    if let Some(quic) = quic {
                        quic.close().await;
                    }
                });
            };
            let name = format!("streams-{number}");
            servers.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        }
        Ok(servers)
    }

    /// Takes in connections from now on, or no more. Those that are there are served either way, and packets of QUIC that come.
    pub fn set_accepting(&self, accepts: bool) {
        let _ = self.accepts.send(accepts);
    }

    /// The CPUs for the threads: those the settings name, else the `spare` ones.
    pub fn cores(settings: &Streams, spare: impl Iterator<Item = usize>) -> Vec<usize> {
        match &settings.cores[..] {
            [] => spare.collect(),
            named => named.to_vec(),
        }
    }
}

/// Accepts clients of all transports but QUIC for ever, on the runtime that this is called in. Connections have tasks of their own.
async fn serve(
    listeners: &Listeners,
    encryption: Option<Encryption>,
    service: &Service,
    mut accepts: watch::Receiver<bool>,
) {
    let mut accepting = JoinSet::new();
    loop {
        // Between a connection's accept and its task nothing waits, so none is lost by the abort.
        match *accepts.borrow_and_update() {
            true => accept(listeners, encryption.as_ref(), service, &mut accepting),
            false => accepting.abort_all(),
        }
        if accepts.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Begins to accept connections.
fn accept(
    listeners: &Listeners,
    encryption: Option<&Encryption>,
    service: &Service,
    accepting: &mut JoinSet<()>,
) {
    for listener in listeners.tcp.iter().filter_map(copy) {
        accepting.spawn(tcp::serve(listener, service.clone()));
    }
    if let Some(encryption) = encryption {
        encryption.accept(listeners, service, accepting);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            debug_assert!(ended.is_ok() || std::thread::panicking(), "its panic is reported above");
        }
    }
}
