//! The limits of all transfers together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds of all transfers together. A clone is another handle.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    places: Arc<Semaphore>,
    left: Arc<AtomicUsize>,
}

/// The share of one zone. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Share {
    pool: Pool,
    taken: usize,
    /// `None` only if the semaphore is closed, which never happens.
    _place: Option<OwnedSemaphorePermit>,
}

impl Pool {
    /// At most `at_once` transfers at a time, with at most `bytes` together.
    pub(super) fn new(at_once: usize, bytes: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once)), left: Arc::new(AtomicUsize::new(bytes)) }
    }

    /// Waits for its turn; first come, first served.
    pub(super) async fn share(&self) -> Share {
        let place = Arc::clone(&self.places).acquire_owned().await;
        Share { pool: self.clone(), taken: 0, _place: place.ok() }
    }
}

impl Share {
    /// Takes `bytes` more. Returns whether they were free.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        let is_there =
            self.pool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if is_there {
            self.taken += bytes;
        }
        is_there
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.left.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn audit_low_cve_2026_33259_transfers_have_bounds_together() {
        let pool = Pool::new(2, 100);
        let (mut one, mut two) = (poll(pool.share()).unwrap(), poll(pool.share()).unwrap());
        assert!(poll(pool.share()).is_none(), "the third waits");
        assert!(one.take(60) && two.take(40));
        assert!(!two.take(1), "there is no more");
        drop(one);
        assert!(two.take(60) && !two.take(1), "what one had is there again");
        let _third = poll(pool.share()).expect("and its place");
        drop(two);
        assert_eq!(pool.left.load(Ordering::Relaxed), 100);
    }
}
