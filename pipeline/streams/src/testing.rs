//! Shared parts of tests: a config, and a thread that answers instead of the line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pmdns_config::{ClientPrefix, Config, PrefixLengths, RateLimitSettings, Streams};
use pmdns_nics::stream::{IdleTime, STREAM_MESSAGE};
use pmdns_nics::{Burst, MAX_BURST, PortPlan, Rss};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpStream;

use crate::access::AccessList;
use crate::counters::{AllCounters, StreamSnapshot};
use crate::driver::{self, StreamPortParts};
use crate::listeners::Listeners;
use crate::places::ConnectionPlace;
use crate::query_sender::Transport;
use crate::quic_steering::QuicGeneration;
use crate::server::{ServerParts, Servers};
use crate::service::Service;
use crate::tcp::connection;

/// A config whose table `[streams]` has these keys, and an address over TCP.
pub(crate) fn config(streams: &str) -> Config {
    let text = format!(
        r#"
        [[port]]
        name = "p0"
        device = "memory"
        addresses = ["10.77.0.2/24"]
        [[upstream]]
        address = "127.0.0.1:5353"
        [acl]
        default = "allow"
        [slowpath]
        deadline_ms = 1500
        [streams]
        {streams}
        "#
    );
    Config::from_toml(&text).expect("the test's config is lawful")
}

/// The prefix of a client of this host number.
pub(crate) fn prefix(host: u8) -> ClientPrefix {
    let lengths =
        PrefixLengths::of(&RateLimitSettings { ipv4_prefix: 32, ..RateLimitSettings::default() });
    lengths.of_peer(([10, 0, 0, host], 1).into())
}

/// An access list that lets everybody ask.
pub(crate) fn everybody() -> AccessList {
    AccessList::new(Arc::new(|_| true))
}

/// Bytes of the task of a connection that `serve` serves.
pub(crate) fn size_of_task<F: Future<Output = ()>>(
    serve: impl FnOnce(TcpStream, SocketAddr, ConnectionPlace, Service) -> F,
) -> usize {
    fn size<A, B, C, D, E, F>(_: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }
    size(|stream, client, place, lost, service| {
        connection(stream, client, place, lost, service, serve)
    })
}

/// Turns a query's message into its answer's. `None`: nothing comes back.
pub(crate) type Handler = fn(&[u8]) -> Option<Vec<u8>>;

/// Servers on a loopback address, and a thread in place of the line.
pub(crate) struct Rig {
    /// Where TCP clients come to.
    pub(crate) tcp: SocketAddr,
    counters: AllCounters,
    _servers: Servers,
    stop: Arc<AtomicBool>,
    line: Option<JoinHandle<()>>,
}

impl Rig {
    /// Servers with these settings, whose queries `handler` answers.
    pub(crate) fn start(streams: &str, handler: Handler) -> Self {
        Self::start_for(streams, everybody(), handler)
    }

    /// The same, for those who may ask.
    pub(crate) fn start_for(streams: &str, access: AccessList, handler: Handler) -> Self {
        let config = config(streams);
        let plan = PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };
        let StreamPortParts { queues, threads, counters, .. } =
            driver::open(&config, &plan, 0, [7; 16]).expect("the port can be opened");
        let tcp = vec!["127.0.0.1:0".parse().expect("an address")];
        let settings = Streams { tcp, ..config.streams.clone() };
        let listeners = Listeners::bind(&settings, &mut |_, _| None, QuicGeneration::default())
            .expect("a free port");
        let tcp = listeners.tcp[0].local_addr().expect("it is bound");
        let (idle_time, encryption) = (IdleTime::default(), None);
        let parts = ServerParts {
            listeners,
            ends: threads,
            counters: counters.clone(),
            idle_time,
            encryption,
            access,
        };
        let servers = Servers::start(&config, parts, |_| {}).expect("threads can be started");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let line = std::thread::spawn(move || answer_all(queues, handler, &stopped));
        Self { tcp, counters, _servers: servers, stop, line: Some(line) }
    }

    /// A connection over TCP from the loopback network 127.0.`network`.0/24.
    pub(crate) fn connect_from(&self, network: u8) -> std::net::TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let from = SocketAddr::from(([127, 0, network, 1], 0));
        // So the kernel holds few bytes for who does not read.
        socket.set_recv_buffer_size(4096).expect("a size");
        socket.bind(&from.into()).expect("loopback has all of 127.0.0.0/8");
        socket.connect(&self.tcp.into()).expect("the server listens");
        socket.into()
    }

    /// The counters over TCP.
    pub(crate) fn counted(&self) -> StreamSnapshot {
        self.counters.of(Transport::Tcp).snapshot()
    }

    /// Waits until the counters are as `is` wants them.
    pub(crate) fn wait_until(&self, is: impl Fn(&StreamSnapshot) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is(&self.counted()) {
            assert!(Instant::now() < end, "a minute in vain: {:?}", self.counted());
            std::thread::yield_now();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.line.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking());
    }
}

fn answer_all(mut queues: pmdns_nics::Queues, handler: Handler, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let (mut burst, mut answers) = (Burst::new(), Burst::new());
        if queues.rx[0].receive(&mut burst, MAX_BURST) == 0 {
            std::thread::yield_now();
        }
        for mut frame in burst.drain(..) {
            if let Some(answer) = handler(&frame.bytes()[STREAM_MESSAGE..]) {
                frame.resize(STREAM_MESSAGE + answer.len()).expect("a short answer");
                frame.bytes_mut()[STREAM_MESSAGE..].copy_from_slice(&answer);
                answers.push(frame);
            }
        }
        queues.tx[0].transmit(&mut answers);
    }
}
