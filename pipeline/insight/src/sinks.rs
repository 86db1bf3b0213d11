//! Where the process writes for others: the log, journals, snapshots. A full disk or a reader that is gone ends nothing, and is
//! waited for within bounds. What was lost is counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pmdns_counters::counters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that a pipe takes without waiting, once it says that it takes some (pipe(7), `PIPE_BUF`). Sockets and terminals take
/// as many.
const PIPE_BUF: usize = 4096;

counters! {
    /// The counters of a sink.
    SinkCounters,
    /// The counters of a sink, read at one time.
    SinkSnapshot {
        /// Lines of the log, changes, snapshots that were written.
        written: counter,
        /// Those that were lost: the disk refused them, or nobody read.
        lost: counter,
        /// 1: the last one was lost.
        failing: gauge,
    }
}

impl SinkCounters {
    /// Counters of nothing, for a static.
    pub const fn new() -> Self {
        use std::sync::atomic::AtomicU64;
        Self { written: AtomicU64::new(0), lost: AtomicU64::new(0), failing: AtomicU64::new(0) }
    }

    /// Counts `items` that were written together, or lost together.
    pub fn count(&self, items: u64, are_written: bool) {
        let counter = if are_written { &self.written } else { &self.lost };
        counter.fetch_add(items, Ordering::Relaxed);
        self.failing.store(u64::from(!are_written), Ordering::Relaxed);
    }
}

/// Writes some of `bytes` to a file, pipe, socket or terminal, which may take none until `deadline`.
pub fn write_until(sink: BorrowedFd<'_>, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
    wait_until(sink, PollFlags::OUT, deadline)?;
    let bytes = &bytes[..bytes.len().min(PIPE_BUF)];
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(sink, bytes))?)
}

/// Waits until a descriptor is ready, or has an error to tell, but not beyond `deadline`. Signals do not prolong that.
pub fn wait_until(file: impl AsFd, ready: PollFlags, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&file, ready)], Some(&patience)) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it is not ready in time"));
            }
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) if left > Duration::ZERO => {}
            Err(error) => return Err(error.into()),
        }
    }
}
