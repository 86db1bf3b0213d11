//! Clients over streams: their sockets, their port, and the threads that serve them.

use std::io;

use pmdns_config::Config;
use pmdns_config::narrow::to_u8;
use pmdns_control::report::StreamReport;
use pmdns_counters::by_name;
use pmdns_engine::engine::EngineStreams;
use pmdns_engine::slowpath::descriptor_limit;
use pmdns_engine::threads::pin;
use pmdns_engine::topology::Topology;
use pmdns_nics::stream::IdleTime;
use pmdns_nics::{Nic, Queues};
use pmdns_streams::access::AccessList;
use pmdns_streams::counters::AllCounters;
use pmdns_streams::driver::{self, StreamPortParts};
use pmdns_streams::encrypted::Encryption;
use pmdns_streams::listeners::{ListenError, Listeners};
use pmdns_streams::quic_steering::QuicGeneration;
use pmdns_streams::server::{ServerParts, Servers};
use pmdns_streams::tls::{Certificate, CertificateError};

use crate::connecting::may_ask;
use crate::sockets::OpenSockets;

/// Clients over streams cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StreamsError {
    /// An address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The system gives no threads, no files, or no random numbers.
    #[error("cannot serve clients over streams: {0}")]
    System(#[from] io::Error),
}

/// Bound sockets, and what encryption needs if one of them is for encrypted clients.
pub type StreamEntry = (Listeners, Option<Encryption>);

/// The port of clients over streams: for reports, for the data cores, and for the engine.
pub type StreamPort = (Box<dyn Nic>, Queues, EngineStreams);

/// Clients over streams, whose port is open. They are not served yet.
pub struct OpenStreams {
    parts: ServerParts,
    counters: AllCounters,
}

/// Clients over streams that are served. Dropping it closes their connections.
pub struct StreamClients {
    servers: Servers,
    counters: AllCounters,
}

/// The sockets that clients come to, if there are any, and what encryption needs. `generation`: of this process.
pub fn bind(
    config: &Config,
    sockets: &mut OpenSockets,
    generation: QuicGeneration,
) -> Result<Option<StreamEntry>, StreamsError> {
    let settings = &config.streams;
    if !settings.are_configured() {
        return Ok(None);
    }
    let mut inherited =
        |transport: &str, address| sockets.take(&format!("streams.{transport}"), address);
    let listeners = Listeners::bind(settings, &mut inherited, generation)?;
    Ok(Some((listeners, Encryption::load(settings)?)))
}

/// Adds copies of the sockets for connections.
pub(crate) fn copy(
    config: &Config,
    (listeners, _): &StreamEntry,
    copies: &mut OpenSockets,
) -> io::Result<()> {
    for (transport, address, socket) in listeners.copies(&config.streams)? {
        copies.add(&format!("streams.{transport}"), address, socket);
    }
    Ok(())
}

/// The certificate that clients get, if any transport is encrypted.
pub fn certificate(entry: Option<&StreamEntry>) -> Option<Certificate> {
    entry?.1.as_ref().map(|encryption| encryption.certificate().clone())
}

impl OpenStreams {
    /// Opens the port, which is the last one of the topology.
    pub fn new(
        config: &Config,
        topology: &Topology,
        (listeners, encryption): StreamEntry,
    ) -> Result<(StreamPort, Self), StreamsError> {
        let number = config.ports.len();
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let port = driver::open(config, &topology.ports[number], to_u8(number), seed)?;
        let StreamPortParts { nic, queues, threads: ends, pool, counters } = port;
        let idle_time = IdleTime::default();
        let engine = EngineStreams { pool, idle_time: idle_time.clone() };
        let counted = counters.clone();
        let access = AccessList::new(may_ask(config));
        let parts =
            ServerParts { listeners, ends, counters: counted, idle_time, encryption, access };
        Ok(((Box::new(nic), queues, engine), Self { parts, counters }))
    }

    /// Who may connect, for reloads.
    pub fn access(&self) -> AccessList {
        self.parts.access.clone()
    }

    /// Starts to serve. Threads are pinned to the CPUs that the config names, else to `spare` ones.
    pub fn start(self, config: &Config, spare: Vec<usize>) -> Result<StreamClients, StreamsError> {
        let cores = Servers::cores(&config.streams, spare.into_iter());
        let begin = move |thread: usize| pin(cores.get(thread % cores.len().max(1)).copied());
        let mut config = config.clone();
        config.streams.max_connections = descriptor_limit::max_connections(&config);
        let servers = Servers::start(&config, self.parts, begin)?;
        Ok(StreamClients { servers, counters: self.counters })
    }
}

impl StreamClients {
    /// Takes in connections, or no more. Those that are there are served either way.
    pub fn set_accepting(&self, accepts: bool) {
        self.servers.set_accepting(accepts);
    }

    /// Connections that are there.
    pub fn connections(&self) -> u64 {
        self.counters.read().iter().map(|(_, of)| of.open).sum()
    }

    /// Closes the connections, and returns the last counters.
    pub fn end(self) -> Vec<StreamReport> {
        drop(self.servers);
        report(&self.counters)
    }

    /// The counters of each transport.
    pub fn report(&self) -> Vec<StreamReport> {
        report(&self.counters)
    }
}

fn report(counters: &AllCounters) -> Vec<StreamReport> {
    let all = counters.read().into_iter();
    all.map(|(transport, of)| StreamReport::of(transport.name(), by_name(of.named()))).collect()
}
