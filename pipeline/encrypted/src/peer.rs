//! One encrypted upstream of one thread. It has one connection, which is opened for the first query and shared by all.
//! After its end it is opened again for the next query.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pmdns_config::Host;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::bootstrap;
use crate::connection::EncryptedConnection;
use crate::query::QueryFailure;
use crate::trust::Settings;
use pmdns_counters::count;
use pmdns_resolver::UpstreamCounters;

/// The longest time to open a connection to one address.
const OPEN_PATIENCE: Duration = Duration::from_secs(3);
/// The pause after a connection that could not be opened, or brought no reply. It doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such pause. A returning upstream is noticed within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that is idle for so long is closed (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// One encrypted upstream.
pub(crate) struct Peer {
    settings: Settings,
    state: watch::Sender<ConnectionState>,
    pause: Cell<Duration>,
    /// The addresses of its name; empty: to be looked up.
    found: RefCell<Vec<IpAddr>>,
}

/// The state of its connection.
enum ConnectionState {
    /// There is none, and one may be opened.
    Closed,
    /// One is being opened.
    Opening,
    /// There is one.
    Open(Rc<EncryptedConnection>),
    /// There is none, and none is opened before this time.
    Failed(String, Instant),
}

impl Peer {
    /// An upstream without a connection.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: watch::Sender::new(ConnectionState::Closed),
            pause: Cell::new(FIRST_PAUSE),
            found: RefCell::default(),
        }
    }

    /// Whether these settings are of the same upstream, whose name is looked up at the same servers.
    pub(crate) fn is_same(&self, settings: &Settings) -> bool {
        Arc::ptr_eq(&self.settings.counters, &settings.counters)
            && self.settings.bootstrap == settings.bootstrap
    }

    /// Asks the upstream. Returns the reply, and the time it took on the connection.
    ///
    /// Servers may close connections at any time (RFC 7766 section 6.2.4). Queries under way are then asked again on
    /// the next one, unless the connection ended without a single reply. So every round has brought at least one reply,
    /// and there are no more rounds than queries under way.
    pub(crate) async fn ask(self: &Rc<Self>, query: &[u8]) -> io::Result<(Vec<u8>, Duration)> {
        loop {
            let connection = self.connection().await?;
            let asked = Instant::now();
            match connection.ask(query).await {
                Ok(reply) => {
                    self.pause.set(FIRST_PAUSE);
                    return Ok((reply, asked.elapsed()));
                }
                Err(QueryFailure::Refused(error)) => return Err(error),
                Err(QueryFailure::Ended(_)) if connection.has_replied.get() => {
                    self.retire(&connection)
                }
                Err(QueryFailure::Ended(error)) => {
                    if self.is_in_use(&connection) {
                        self.fail(&error);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// A query that left at `since` has timed out. If the connection has brought nothing since then, it may be dead.
    /// Later queries use another connection.
    pub(crate) fn note_silence(&self, since: Instant) {
        let silent = match &*self.state.borrow() {
            ConnectionState::Open(connection) if connection.heard.get() < since => {
                Some(Rc::clone(connection))
            }
            _ => None,
        };
        if let Some(connection) = silent {
            self.retire(&connection);
        }
    }

    /// Closes the connection if it is idle.
    pub(crate) fn close_if_idle(&self) {
        let idle = match &*self.state.borrow() {
            ConnectionState::Open(connection) => {
                Rc::strong_count(connection) == 1 && connection.used.get().elapsed() >= IDLE
            }
            _ => false,
        };
        if idle {
            self.state.send_replace(ConnectionState::Closed);
        }
    }

    /// The connection, opened if need be.
    async fn connection(self: &Rc<Self>) -> io::Result<Rc<EncryptedConnection>> {
        let mut state = self.state.subscribe();
        loop {
            let opening = match &*state.borrow_and_update() {
                ConnectionState::Open(connection) if connection.is_open() => {
                    return Ok(Rc::clone(connection));
                }
                ConnectionState::Failed(why, until) if Instant::now() < *until => {
                    return Err(io::Error::other(why.clone()));
                }
                ConnectionState::Opening => true,
                _ => false,
            };
            if !opening {
                self.state.send_replace(ConnectionState::Opening);
                // A task of its own, because the first query may time out before the connection is open.
                tokio::task::spawn_local(Rc::clone(self).open());
            }
            if state.changed().await.is_err() {
                return Err(io::ErrorKind::NotConnected.into());
            }
        }
    }

    /// Opens a connection and reports the result.
    async fn open(self: Rc<Self>) {
        match self.connect().await {
            Ok(connection) => {
                self.state.send_replace(ConnectionState::Open(Rc::new(connection)));
            }
            Err(error) => {
                count(&self.counters().connect_failures);
                self.fail(&error);
            }
        }
    }

    /// Connects to the first of its addresses that works.
    async fn connect(&self) -> io::Result<EncryptedConnection> {
        let mut last = None;
        for address in self.addresses().await? {
            let verified = self.settings.verified.load(Ordering::Relaxed);
            let address = SocketAddr::new(address, self.settings.server.port);
            let opened =
                timeout(OPEN_PATIENCE, EncryptedConnection::open(&self.settings, address)).await;
            match opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(connection) => {
                    count(&self.counters().connections);
                    if self.settings.verified.load(Ordering::Relaxed) == verified {
                        count(&self.counters().resumed);
                    }
                    self.prefer(address.ip());
                    return Ok(connection);
                }
                Err(error) => last = Some(error),
            }
        }
        self.found.borrow_mut().clear();
        Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
    }

    /// Where to connect to.
    async fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let name = match &self.settings.server.host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let found = self.found.borrow().clone();
        if !found.is_empty() {
            return Ok(found);
        }
        let found =
            bootstrap::look_up(name, &self.settings.bootstrap, self.settings.source).await?;
        self.found.borrow_mut().clone_from(&found);
        Ok(found)
    }

    /// Moves this address to the front for the next time.
    fn prefer(&self, address: IpAddr) {
        let mut found = self.found.borrow_mut();
        if let Some(place) = found.iter().position(|one| *one == address) {
            found[..=place].rotate_right(1);
        }
    }

    /// Makes later queries use another connection. Queries on this one may still get their replies.
    fn retire(&self, connection: &Rc<EncryptedConnection>) {
        if self.is_in_use(connection) {
            self.state.send_replace(ConnectionState::Closed);
        }
    }

    /// Opens no connection for a while.
    fn fail(&self, error: &io::Error) {
        let pause = self.pause.get();
        self.pause.set((pause * 2).min(LONGEST_PAUSE));
        self.state.send_replace(ConnectionState::Failed(error.to_string(), Instant::now() + pause));
    }

    /// Whether new queries get this connection.
    fn is_in_use(&self, connection: &Rc<EncryptedConnection>) -> bool {
        matches!(&*self.state.borrow(), ConnectionState::Open(current) if Rc::ptr_eq(current, connection))
    }

    fn counters(&self) -> &UpstreamCounters {
        &self.settings.counters
    }
}
