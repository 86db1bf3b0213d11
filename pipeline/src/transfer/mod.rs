//! Policy zones that come from a primary (RFC 5936, RFC 1995), which says when there is a new version (RFC 1996).
//!
//! ```text
//!  primary ◄──SOA, IXFR, AXFR──► secondary, one for each zone ──► file ──► reload
//!          ───NOTIFY──► serve ──wakes──┘
//! ```
//!
//! All of it happens on a thread of its own with a runtime. A new version is checked, and put into the zone's file;
//! then the rules are made anew, as by any reload, and read that file as any other. So a zone is in the same place
//! whether the primary is there or not, and whatever was running when it came. docs/adr/0021-zones-are-kept-in-files.md
//! says why.

mod client;
mod counters;
mod limits;
mod notify;
mod secondary;
mod share;
mod version;

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::base::Name;
use domain::tsig::{Algorithm, Key};
use pmdns_config::{Config, Problem, Rpz, Tsig, TsigAlgorithm, wire_name};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::admission::{Bounds, ConnectionCounters, ConnectionSnapshot, Gate, peer_of};
use crate::threads::{join_within, pin};
pub use counters::{ZoneCounters, ZoneSnapshot};
pub use limits::Limits;
use notify::{Heard, hear};
use pmdns_nics::counters::count;
use secondary::{Secondary, Settings, Tools};
use share::Pool;

/// Orders that may wait for the thread.
const MAX_ORDERS: usize = 16;
/// Bytes of the longest notification that is looked at.
const MAX_NOTIFY: usize = 4096;
/// Connections with notifications at a time, in all and of one primary.
const BOUNDS: Bounds = Bounds { places: 64, per_peer: 8, grace: Duration::from_secs(1) };
/// How long a connection with a notification may last.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);

/// How long the thread may take to end. It waits for no file, but for a disk that hangs it may.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why zones cannot be transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Nobody can be heard.
    #[error(
        "cannot listen at transfer.listen = \"{address}\": {source}; it has to be an address of the kernel's, and free"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A key has changed in its file since it was checked.
    #[error("tsig.secret_file {0}")]
    Key(Problem),
    /// A name was not checked.
    #[error("rpz.zone or tsig.name: `{0}` is no domain name")]
    Name(String),
    /// The thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What is reported of a transferred zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ZoneReport {
    /// Its name.
    pub zone: String,
    /// What was counted.
    #[serde(flatten)]
    pub counters: ZoneSnapshot,
}

/// The zones that are transferred. Dropping it ends the thread.
pub struct Transfers {
    zones: Followed,
    connections: Arc<ConnectionCounters>,
    news: Arc<AtomicBool>,
    followed: Option<mpsc::Sender<Followed>>,
    thread: Option<JoinHandle<()>>,
}

/// The zones that the thread is told to keep up with, and no others.
type Followed = Vec<(Settings, Arc<ZoneCounters>)>;

impl Transfers {
    /// Begins to transfer the zones of `config`, on a thread pinned to the CPU `core` if one is given.
    pub fn start(
        config: &Config,
        limits: Limits,
        core: Option<usize>,
    ) -> Result<Self, TransferError> {
        let sockets = config.transfer.listen.map(Sockets::bind).transpose()?;
        let (follow, followed) = mpsc::channel(MAX_ORDERS);
        let news = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TransferError::Thread)?;
        let told = Arc::clone(&news);
        let connections = Arc::<ConnectionCounters>::default();
        let gate = Gate::new(BOUNDS, Arc::clone(&connections));
        let body = move || {
            pin(core);
            LocalSet::new().block_on(&runtime, serve(sockets, gate, followed, limits, told));
            // What is being read or written may end on its own.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("transfer".to_owned()).spawn(body);
        let thread = Some(thread.map_err(TransferError::Thread)?);
        let mut this =
            Self { zones: Vec::new(), connections, news, followed: Some(follow), thread };
        this.follow(config)?;
        Ok(this)
    }

    /// Keeps up with the zones of `config`, and no others. All primaries are asked at once; a transfer under way begins
    /// anew.
    pub fn follow(&mut self, config: &Config) -> Result<(), TransferError> {
        let zones = config.rpz.iter().filter(|rpz| rpz.zone.is_some());
        let zones = zones.map(|rpz| settings(rpz, &config.tsig));
        let zones = zones.collect::<Result<Vec<_>, _>>()?;
        let counters = |name: &Name<Vec<u8>>| {
            let known = self.zones.iter().find(|(settings, _)| settings.name == *name);
            known.map_or_else(Arc::default, |(_, counters)| Arc::clone(counters))
        };
        let zones: Vec<_> = zones.into_iter().map(|one| (counters(&one.name), one)).collect();
        self.zones = zones.into_iter().map(|(counters, one)| (one, counters)).collect();
        let told = self.followed.as_ref().map(|follow| follow.try_send(self.zones.clone()));
        if let Some(Err(_)) = told {
            tracing::warn!("the transfer thread does not take orders; reload once more");
        }
        Ok(())
    }

    /// Whether there are new versions since this was last asked.
    pub fn has_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    /// What was counted of connections with notifications.
    pub fn connections(&self) -> ConnectionSnapshot {
        self.connections.snapshot()
    }

    /// What was counted of each zone.
    pub fn report(&self) -> Vec<ZoneReport> {
        let zones = self.zones.iter();
        zones
            .map(|(settings, counters)| ZoneReport {
                zone: settings.name.to_string(),
                counters: counters.snapshot(),
            })
            .collect()
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        // The thread ends when nobody can tell it anything any more.
        self.followed = None;
        if let Some(thread) = self.thread.take()
            && !join_within(thread, STOP_PATIENCE)
        {
            tracing::warn!("the transfer thread does not end: it is given up");
        }
    }
}

fn settings(rpz: &Rpz, keys: &[Tsig]) -> Result<Settings, TransferError> {
    let name = rpz.zone.as_deref().unwrap_or_default();
    let wire = wire_name(name).map_err(|_| TransferError::Name(name.to_owned()))?;
    let wire = Name::from_octets(wire.into_vec());
    Ok(Settings {
        name: wire.map_err(|_| TransferError::Name(name.to_owned()))?,
        file: rpz.file.clone(),
        primaries: rpz.primaries.clone(),
        key: rpz.key(keys).map(key).transpose()?,
        strict: rpz.strict,
    })
}

fn key(tsig: &Tsig) -> Result<Arc<Key>, TransferError> {
    let algorithm = match tsig.algorithm {
        TsigAlgorithm::HmacSha1 => Algorithm::Sha1,
        TsigAlgorithm::HmacSha256 => Algorithm::Sha256,
        TsigAlgorithm::HmacSha384 => Algorithm::Sha384,
        TsigAlgorithm::HmacSha512 => Algorithm::Sha512,
    };
    let secret = tsig.secret().map_err(TransferError::Key)?;
    let no_name = || TransferError::Name(tsig.name.clone());
    let name = tsig.name.parse().map_err(|_| no_name())?;
    let key = Key::new(algorithm, &secret.0, name, None, None);
    Ok(Arc::new(key.map_err(|_| no_name())?))
}

/// Where notifications come to.
struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Sockets {
    fn bind(address: SocketAddr) -> Result<Self, TransferError> {
        let bind = || {
            let (udp, tcp) = (UdpSocket::bind(address)?, TcpListener::bind(address)?);
            udp.set_nonblocking(true)?;
            tcp.set_nonblocking(true)?;
            Ok(Self { udp, tcp })
        };
        bind().map_err(|source| TransferError::Listen { address, source })
    }
}

/// A zone that is kept up with.
struct FollowedZone {
    settings: Settings,
    counters: Arc<ZoneCounters>,
    wake: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FollowedZone {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type FollowedZones = Rc<RefCell<Vec<FollowedZone>>>;

/// Keeps up with zones and hears notifications, until nobody can say with which zones any more.
async fn serve(
    sockets: Option<Sockets>,
    gate: Gate<IpAddr>,
    mut follow: mpsc::Receiver<Followed>,
    limits: Limits,
    news: Arc<AtomicBool>,
) {
    let zones = FollowedZones::default();
    if let Some(Sockets { udp, tcp }) = sockets {
        tokio::task::spawn_local(hear_udp(udp, Rc::clone(&zones)));
        tokio::task::spawn_local(hear_tcp(tcp, gate, Rc::clone(&zones)));
    }
    let writing = Arc::default();
    let pool = Pool::new(limits.at_once, limits.bytes_together);
    while let Some(followed) = follow.recv().await {
        let mut zones = zones.borrow_mut();
        zones.clear();
        zones.extend(followed.into_iter().map(|(settings, counters)| {
            let wake = Arc::new(Notify::new());
            let tools = Tools {
                limits,
                counters: Arc::clone(&counters),
                news: Arc::clone(&news),
                writing: Arc::clone(&writing),
                pool: pool.clone(),
            };
            let secondary = Secondary::new(settings.clone(), tools);
            let task = tokio::task::spawn_local(secondary.run(Arc::clone(&wake)));
            FollowedZone { settings, counters, wake, task }
        }));
    }
}

/// Takes notice of a message, and says what to answer.
fn notice(zones: &FollowedZones, source: IpAddr, message: &[u8]) -> Option<Vec<u8>> {
    let zones = zones.borrow();
    match hear(zones.iter().map(|zone| &zone.settings), source, message) {
        Heard::News(number, answer) => {
            count(&zones[number].counters.notified);
            zones[number].wake.notify_one();
            Some(answer)
        }
        Heard::Disbelieved(number) => {
            count(&zones[number].counters.disbelieved);
            let name = &zones[number].settings.name;
            tracing::debug!("policy zone {name}: a notification from {source} is not believed");
            None
        }
        Heard::Nothing => None,
    }
}

async fn hear_udp(socket: UdpSocket, zones: FollowedZones) {
    let socket = match tokio::net::UdpSocket::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("notifications over UDP cannot be heard: {error}"),
    };
    let mut buffer = [0; MAX_NOTIFY];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, source)) => {
                if let Some(answer) = notice(&zones, source.ip(), &buffer[..len]) {
                    // Who does not get it notifies again (RFC 1996 section 3.6).
                    let _ = socket.try_send_to(&answer, source);
                }
            }
            // An answer that could not be delivered is told to the next who listens.
            Err(error) => tracing::debug!("a notification was lost: {error}"),
        }
    }
}

async fn hear_tcp(listener: TcpListener, gate: Gate<IpAddr>, zones: FollowedZones) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("notifications over TCP cannot be heard: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, source)) => take_in(stream, source.ip(), &gate, &zones),
            Err(error) => {
                tracing::debug!("a connection was lost: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Hears a connection of a primary. Others are closed: nothing that they say is believed.
fn take_in(stream: TcpStream, source: IpAddr, gate: &Gate<IpAddr>, zones: &FollowedZones) {
    if !zones.borrow().iter().any(|zone| zone.settings.has_primary(source)) {
        return gate.refuse();
    }
    let Some((pass, told_to_go)) = gate.enter(peer_of(source)) else { return };
    let heard = timeout(CONNECTION_PATIENCE, hear_stream(stream, source, Rc::clone(zones)));
    tokio::task::spawn_local(async move {
        let _place = pass;
        tokio::select! {
            heard = heard => if !matches!(heard, Ok(Ok(()))) {
                tracing::debug!("a connection from {source} ended early");
            },
            _ = told_to_go => tracing::debug!("a connection from {source} had to make place"),
        }
    });
}

/// Hears messages of a connection until it ends, or one of them is none for us.
async fn hear_stream(
    mut stream: TcpStream,
    source: IpAddr,
    zones: FollowedZones,
) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        if stream.read(&mut len[..1]).await? == 0 {
            return Ok(());
        }
        stream.read_exact(&mut len[1..]).await?;
        let len = usize::from(u16::from_be_bytes(len));
        if len > MAX_NOTIFY {
            return Ok(());
        }
        let mut message = vec![0; len];
        stream.read_exact(&mut message).await?;
        let Some(answer) = notice(&zones, source, &message) else { return Ok(()) };
        let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_all(&[&len.to_be_bytes(), &*answer].concat()).await?;
    }
}
