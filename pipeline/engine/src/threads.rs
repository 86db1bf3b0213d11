//! Threads: pinning, starting and ending.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

/// Pins the calling thread to the CPU `core`, if one is given.
pub fn pin(core: Option<usize>) {
    if let Some(id) = core
        && !core_affinity::set_for_current(CoreId { id })
    {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        tracing::warn!("cannot pin the {name} thread to core {id}; it runs on any core");
    }
}

/// Sleeps so long, or less. A signal interrupts `thread::sleep`, which then starts again with the rest of its time. net_tap sends
/// the process a signal for each frame. With timer slack the rest never ends. Parking has a fixed deadline.
pub fn nap(most: Duration) {
    std::thread::park_timeout(most);
}

/// Starts a thread that works for the calling one. Its name is the caller's with a suffix.
pub fn beside(suffix: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let name = format!("{}-{suffix}", std::thread::current().name().unwrap_or("slowpath"));
    std::thread::Builder::new().name(name).spawn(body)
}

/// Waits for the end of such a thread, which has no work left.
pub fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let ended = thread.join();
        debug_assert!(ended.is_ok() || std::thread::panicking(), "its panic is reported above");
    }
}

/// How often a thread that should end is checked.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until a thread has ended, at most for `patience`. Returns whether it has. A thread that hangs on a disk or a
/// file system ends with the process.
pub fn join_within<T>(thread: JoinHandle<T>, patience: Duration) -> bool {
    let start = Instant::now();
    while !thread.is_finished() {
        let Some(left) = patience.checked_sub(start.elapsed()) else { return false };
        // Parking has a fixed deadline. A sleep would start again with each signal.
        std::thread::park_timeout(left.min(LOOK));
    }
    let _ = thread.join();
    true
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn audit_12_a_thread_that_does_not_end_is_not_waited_for() {
        let (release, held) = mpsc::channel::<()>();
        let stuck = std::thread::spawn(move || held.recv());
        assert!(!join_within(stuck, Duration::from_millis(1)));
        drop(release);
        assert!(join_within(std::thread::spawn(|| ()), Duration::from_secs(60)));
    }
}
