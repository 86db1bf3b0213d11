//! Policy zones that are transferred from a primary (RFC 5936, RFC 1995), which notifies us of new versions (RFC 1996).
//!
//! ```text
//!  primary ◄──SOA, IXFR, AXFR──► secondary, one for each zone ──► file ──► reload
//!          ───NOTIFY──► serve ──wakes──┘
//! ```
//!
//! Transfers run on a thread of their own with a tokio runtime. A new version is checked and put into the zone's file.
//! Then the rules are made anew, as by any reload, which reads that file like any other. So a zone is always in the
//! same place, even when the primary is down or pmdns was restarted. docs/adr/0021-zones-are-kept-in-files.md gives the
//! reasons.
//!
//! Of two processes of which one takes over from the other, only one transfers and receives notifications: the other one is held.

mod client;
mod counters;
mod limits;
mod notify;
mod secondary;
mod share;
mod sockets;
mod version;

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::base::Name;
use domain::tsig::{Algorithm, Key};
use pmdns_changes::FollowConfig;
use pmdns_changes::overlay::Overlay;
use pmdns_config::{BrokenRule, Config, Rpz, Tsig, TsigAlgorithm, wire_name};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, LocalSet, spawn_blocking};
use tokio::time::timeout;

pub use counters::{ZoneCounters, ZoneSnapshot};
pub use limits::TransferLimits;
use notify::{NotifyMessage, receive};
use pmdns_counters::count;
use pmdns_engine::threads::{join_within, pin};
use secondary::{Secondary, Settings, Tools};
use share::Pool;
pub use sockets::NotifySockets;

use crate::admission::{Bounds, ConnectionCounters, ConnectionSnapshot, Gate, peer_of};

/// Bytes of the longest notification that is read.
const MAX_NOTIFY: usize = 4096;
/// Connections with notifications at a time, in all and of one primary.
const BOUNDS: Bounds = Bounds { places: 64, per_peer: 8, grace: Duration::from_secs(1) };
/// How long a connection with a notification may last.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(5);

/// How long the thread may take to end. Only a hanging disk makes it so slow.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why zones cannot be transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The address for notifications cannot be used.
    #[error(
        "cannot listen at transfer.listen = \"{address}\": {source}; write an address of the kernel's interfaces and a free port"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A key has changed in its file since it was checked.
    #[error("tsig.secret_file {0}")]
    Key(BrokenRule),
    /// A name is no domain name.
    #[error("rpz.zone or tsig.name: `{0}` is no domain name")]
    Name(String),
    /// The thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The transferred zones. Dropping it ends the thread.
pub struct Transfers {
    zones: Followed,
    connections: Arc<ConnectionCounters>,
    news: Arc<AtomicBool>,
    /// The zones that the thread is told to keep up to date, and to receive notifications of. `None`: it is held, so it transfers,
    /// writes and receives nothing.
    told: watch::Sender<Option<Followed>>,
    /// Whether it does nothing.
    holds: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The zones that the thread keeps up to date.
type Followed = Vec<(Settings, Arc<ZoneCounters>)>;

impl Transfers {
    /// Begins the thread that transfers the zones of `config`, pinned to the CPU `core` if one is given. It is held.
    pub fn start(
        config: &Config,
        sockets: Option<NotifySockets>,
        limits: TransferLimits,
        core: Option<usize>,
    ) -> Result<Self, TransferError> {
        let (told, followed) = watch::channel(None);
        let (news, holds) = (Arc::<AtomicBool>::default(), Arc::new(AtomicBool::new(true)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TransferError::Thread)?;
        let connections = Arc::<ConnectionCounters>::default();
        let serving = Serving {
            sockets,
            gate: Gate::new(BOUNDS, Arc::clone(&connections)),
            limits,
            news: Arc::clone(&news),
            holds: Arc::clone(&holds),
        };
        let body = move || {
            pin(core);
            LocalSet::new().block_on(&runtime, serving.run(followed));
            // A file that is being read or written may end by itself.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("transfer".to_owned()).spawn(body);
        let thread = Some(thread.map_err(TransferError::Thread)?);
        let mut this = Self { zones: Vec::new(), connections, news, told, holds, thread };
        this.change_zones(config)?;
        Ok(this)
    }

    /// Whether the thread is to do nothing, because another process does. When it goes on, all primaries are asked at once.
    pub fn set_held(&self, is_held: bool) {
        if self.is_held() != is_held {
            self.told.send_replace((!is_held).then(|| self.zones.clone()));
        }
    }

    fn is_held(&self) -> bool {
        self.told.borrow().is_none()
    }

    /// Whether the thread does what it was told, or has ended.
    pub fn is_settled(&self) -> bool {
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || self.holds.load(Ordering::Acquire) == self.is_held()
    }

    /// Changes the zones to those of `config`. All primaries are asked at once, and a transfer under way starts again.
    fn change_zones(&mut self, config: &Config) -> Result<(), TransferError> {
        let zones = config.rpz.iter().filter(|rpz| rpz.zone.is_some());
        let zones = zones.map(|rpz| settings(rpz, &config.tsig));
        let zones = zones.collect::<Result<Vec<_>, _>>()?;
        let counters = |name: &Name<Vec<u8>>| {
            let known = self.zones.iter().find(|(settings, _)| settings.name == *name);
            known.map_or_else(Arc::default, |(_, counters)| Arc::clone(counters))
        };
        let zones: Vec<_> = zones.into_iter().map(|one| (counters(&one.name), one)).collect();
        self.zones = zones.into_iter().map(|(counters, one)| (one, counters)).collect();
        if !self.is_held() {
            self.told.send_replace(Some(self.zones.clone()));
        }
        Ok(())
    }

    /// Whether there are new versions since the last call.
    pub fn has_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    /// The counters of connections with notifications.
    pub fn connections(&self) -> ConnectionSnapshot {
        self.connections.snapshot()
    }

    /// The counters of each zone.
    pub fn report(&self) -> Vec<(String, ZoneSnapshot)> {
        let zones = self.zones.iter();
        zones.map(|(zone, counters)| (zone.name.to_string(), counters.snapshot())).collect()
    }
}

impl FollowConfig for Transfers {
    fn apply_config(&mut self, config: &Config, _: &Overlay) {
        if let Err(error) = self.change_zones(config) {
            tracing::error!("{error}; the same zones as before are transferred");
        }
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        // The thread ends when nobody can tell it anything.
        self.told = watch::Sender::new(None);
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

/// A zone that is kept up to date.
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

/// What the thread has.
struct Serving {
    sockets: Option<NotifySockets>,
    gate: Gate<IpAddr>,
    limits: TransferLimits,
    news: Arc<AtomicBool>,
    /// Whether nothing is transferred, written or received.
    holds: Arc<AtomicBool>,
}

impl Serving {
    /// Keeps zones up to date and receives notifications as it is told, until nobody can tell it anything.
    async fn run(self, mut told: watch::Receiver<Option<Followed>>) {
        let zones = FollowedZones::default();
        let writing = Arc::default();
        let pool = Pool::new(self.limits.at_once, self.limits.bytes_together);
        // No message is lost by an end of these. A packet is taken in where a task does not wait, and whoever has a connection
        // sends its message anew when that is closed.
        let mut receiving = JoinSet::new();
        while told.changed().await.is_ok() {
            let followed = told.borrow_and_update().clone();
            zones.borrow_mut().clear();
            let Some(followed) = followed else {
                receiving.shutdown().await;
                set_writing(&writing, false).await;
                self.holds.store(true, Ordering::Release);
                continue;
            };
            if self.holds.swap(false, Ordering::AcqRel) {
                set_writing(&writing, true).await;
                self.receive(&zones, &mut receiving);
            }
            zones.borrow_mut().extend(followed.into_iter().map(|(settings, counters)| {
                let wake = Arc::new(Notify::new());
                let tools = Tools {
                    limits: self.limits,
                    counters: Arc::clone(&counters),
                    news: Arc::clone(&self.news),
                    writing: Arc::clone(&writing),
                    pool: pool.clone(),
                };
                let secondary = Secondary::new(settings.clone(), tools);
                let task = tokio::task::spawn_local(secondary.run(Arc::clone(&wake)));
                FollowedZone { settings, counters, wake, task }
            }));
        }
    }

    /// Begins to receive notifications.
    fn receive(&self, zones: &FollowedZones, receiving: &mut JoinSet<()>) {
        match self.sockets.as_ref().map(NotifySockets::try_clone) {
            None => {}
            Some(Ok(NotifySockets { udp, tcp })) => {
                receiving.spawn_local(receive_udp(udp, Rc::clone(zones)));
                receiving.spawn_local(receive_tcp(tcp, self.gate.clone(), Rc::clone(zones)));
            }
            Some(Err(error)) => tracing::error!("cannot receive notifications: {error}"),
        }
    }
}

/// Whether versions may be written from now on. Waits for the one that is being written.
async fn set_writing(writing: &Arc<Mutex<bool>>, may_write: bool) {
    let writing = Arc::clone(writing);
    let set = move || *writing.lock().unwrap_or_else(PoisonError::into_inner) = may_write;
    let _ = spawn_blocking(set).await;
}

/// Handles a message, and returns the answer to it.
fn notice(zones: &FollowedZones, source: IpAddr, message: &[u8]) -> Option<Vec<u8>> {
    let zones = zones.borrow();
    match receive(zones.iter().map(|zone| &zone.settings), source, message) {
        NotifyMessage::News(number, answer) => {
            count(&zones[number].counters.notified);
            zones[number].wake.notify_one();
            Some(answer)
        }
        NotifyMessage::Disbelieved(number) => {
            count(&zones[number].counters.disbelieved);
            let name = &zones[number].settings.name;
            tracing::debug!("policy zone {name}: a notification from {source} is not believed");
            None
        }
        NotifyMessage::Nothing => None,
    }
}

async fn receive_udp(socket: UdpSocket, zones: FollowedZones) {
    let socket = match tokio::net::UdpSocket::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("cannot receive notifications over UDP: {error}"),
    };
    let mut buffer = [0; MAX_NOTIFY];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((len, source)) => {
                if let Some(answer) = notice(&zones, source.ip(), &buffer[..len]) {
                    // A primary that does not get the answer notifies again (RFC 1996 section 3.6).
                    let _ = socket.try_send_to(&answer, source);
                }
            }
            // The kernel reports an answer that could not be delivered at the next receive.
            Err(error) => tracing::debug!("a notification was lost: {error}"),
        }
    }
}

async fn receive_tcp(listener: TcpListener, gate: Gate<IpAddr>, zones: FollowedZones) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("cannot receive notifications over TCP: {error}"),
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, source)) => take_in(stream, source.ip(), (&gate, &zones), &mut connections),
            Err(error) => {
                tracing::debug!("a connection was lost: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Reads a connection of a primary. Connections of others are closed.
fn take_in(
    stream: TcpStream,
    source: IpAddr,
    (gate, zones): (&Gate<IpAddr>, &FollowedZones),
    connections: &mut JoinSet<()>,
) {
    if !zones.borrow().iter().any(|zone| zone.settings.has_primary(source)) {
        return gate.refuse();
    }
    let Some((pass, told_to_go)) = gate.enter(peer_of(source)) else { return };
    let received = timeout(CONNECTION_PATIENCE, receive_stream(stream, source, Rc::clone(zones)));
    connections.spawn_local(async move {
        let _place = pass;
        tokio::select! {
            received = received => if !matches!(received, Ok(Ok(()))) {
                tracing::debug!("a connection from {source} ended early");
            },
            _ = told_to_go => tracing::debug!("a connection from {source} lost its place to another"),
        }
    });
}

/// Reads the messages of a connection, until it ends or one does not concern us.
async fn receive_stream(
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
