//! The news of the ports: what the main thread tells the data cores of links, and of queues that come and go.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmdns_nics::{Queues, RxQueue, TxQueue};

/// The news of a port for the data cores, which read it from time to time.
#[derive(Default)]
pub struct PortNews {
    /// How often the link came up.
    ups: AtomicU32,
    /// Whether it is up.
    is_up: AtomicBool,
    /// Whether the queues that the data cores have are to be given up.
    leaves: AtomicBool,
    /// How often other queues were brought.
    brought: AtomicU32,
    /// Of them, those that no data core has taken yet.
    queues: Mutex<Queues>,
}

/// The news of every port, by number. A data core asks for [changes](Self::changes) each turn, and reads the rest from time to
/// time.
#[derive(Default)]
pub struct NewsBoard {
    ports: Box<[PortNews]>,
    /// How often queues were to be given up, or brought.
    changes: AtomicU32,
}

/// The same, as everybody has it.
pub type AllPortNews = Arc<NewsBoard>;

impl NewsBoard {
    /// So many ports, without news.
    pub fn new(ports: usize) -> Self {
        let ports = (0..ports).map(|_| PortNews::default()).collect();
        Self { ports, ..Self::default() }
    }

    /// How often queues were to be given up or brought so far.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// The data cores are to give up the queues of a port.
    pub fn leave(&self, port: usize) {
        let news = &self.ports[port];
        news.leaves.store(true, Ordering::Relaxed);
        *news.brought() = Queues::default();
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The data cores get other queues of a port: each takes one of those that it polls or fills.
    pub fn bring(&self, port: usize, queues: Queues) {
        let news = &self.ports[port];
        *news.brought() = queues;
        news.brought.fetch_add(1, Ordering::Relaxed);
        news.leaves.store(false, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Deref for NewsBoard {
    type Target = [PortNews];

    fn deref(&self) -> &[PortNews] {
        &self.ports
    }
}

impl PortNews {
    /// How often the link came up so far.
    pub fn ups(&self) -> u32 {
        self.ups.load(Ordering::Relaxed)
    }

    /// Whether the data cores must give up its queues.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Relaxed)
    }

    /// How often other queues were brought.
    pub fn times_brought(&self) -> u32 {
        self.brought.load(Ordering::Relaxed)
    }

    /// One of the queues to receive that were brought.
    pub fn take_rx(&self) -> Option<Box<dyn RxQueue>> {
        self.brought().rx.pop()
    }

    /// One of the queues to transmit that were brought.
    pub fn take_tx(&self) -> Option<Box<dyn TxQueue>> {
        self.brought().tx.pop()
    }

    fn brought(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the link is up, as far as is known.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Notes that the link came up, so that addresses are announced.
    pub fn link_came_up(&self) {
        self.is_up.store(true, Ordering::Relaxed);
        self.ups.fetch_add(1, Ordering::Relaxed);
    }

    /// The link is as good as up: another process has the port, or has had it just now.
    pub fn link_counts_as_up(&self) {
        self.is_up.store(true, Ordering::Relaxed);
    }

    /// Has addresses announced if the link is up; else they are as soon as it comes up.
    pub fn announce_again(&self) {
        if self.is_up() {
            self.link_came_up();
        }
    }

    /// Notes that the link went down.
    pub fn link_went_down(&self) {
        self.is_up.store(false, Ordering::Relaxed);
    }
}
