//! How many sockets a thread may have open: whoever would need one more waits.
//!
//! A process that runs out of descriptors fails in odd places, and to an exchange it would look as if
//! the upstream had failed. So the limit is respected, not run into.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Descriptors left for everything but the slow path's sockets.
const RESERVED: usize = 256;
/// Sockets a thread can always have.
const FEWEST: usize = 64;
/// The limit where the system does not tell it.
const USUAL_LIMIT: usize = 1024;
/// TCP connections a thread has open at once; each may hold a reply of 64 kB.
const MAX_TCP: usize = 256;

/// The sockets of one thread.
#[derive(Debug)]
pub(super) struct Sockets {
    any: Semaphore,
    tcp: Semaphore,
}

/// The right to have a socket; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit<'s> {
    _any: SemaphorePermit<'s>,
    _tcp: Option<SemaphorePermit<'s>>,
}

impl Sockets {
    /// The share of one of `threads` threads, no more than `wanted`.
    pub(super) fn share(threads: usize, wanted: usize) -> Self {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let open_files = open_files(&limits).unwrap_or(USUAL_LIMIT);
        let share = open_files.saturating_sub(RESERVED) / threads.max(1);
        if share < wanted {
            tracing::warn!(
                "each slow path thread opens at most {share} sockets, fewer than \
                 slowpath.max_pending = {wanted}, because this process may have {open_files} files \
                 open; raise that limit (ulimit -n, LimitNOFILE=)"
            );
        }
        let count = share.clamp(FEWEST, Semaphore::MAX_PERMITS).min(wanted.max(1));
        Self { any: Semaphore::new(count), tcp: Semaphore::new(MAX_TCP) }
    }

    /// Waits until a UDP socket may be opened.
    pub(super) async fn permit_udp(&self) -> Permit<'_> {
        Permit { _any: acquire(&self.any).await, _tcp: None }
    }

    /// Waits until a TCP connection may be opened.
    pub(super) async fn permit_tcp(&self) -> Permit<'_> {
        let tcp = acquire(&self.tcp).await;
        Permit { _any: acquire(&self.any).await, _tcp: Some(tcp) }
    }
}

async fn acquire(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    semaphore.acquire().await.expect("the semaphores are never closed")
}

/// The soft limit of open files in the text of `/proc/self/limits`.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_as_proc_writes_it() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             63470                63470                processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(open_files(text), Some(1024));
        assert_eq!(open_files("Max open files            unlimited   unlimited"), Some(usize::MAX));
        assert_eq!(open_files(""), None);
    }

    #[test]
    fn nobody_gets_more_than_wanted() {
        assert_eq!(Sockets::share(1, 7).any.available_permits(), 7);
    }
}
