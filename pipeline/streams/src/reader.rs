//! The client of a connection as the reader of its answers: whether it loses them.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The reader of one connection. Whoever displaces its answers tells it, and the connection ends.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    has_lost: AtomicBool,
    news: Notify,
}

impl Reader {
    /// Its answers are displaced.
    pub(crate) fn lose(&self) {
        self.has_lost.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether its answers were displaced.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Has the connection look at its state.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }

    /// Waits for [`Self::wake`] or [`Self::lose`].
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Waits until its answers are displaced.
    pub(crate) async fn lost(&self) {
        while !self.has_lost() {
            self.news().await;
        }
    }
}
