//! How a rig goes on with the real driver: a thread, the kernel's sockets, and the time of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pmdns_config::narrow::low_u32;
use pmdns_engine::clock::{Clock, FIRST_SECOND};
use pmdns_engine::slowpath::{self, SlowPathParts};

/// How long a test sleeps before it looks again whether something has happened.
const NAP: Duration = Duration::from_micros(200);

/// A thread of the slow path.
#[derive(Default)]
pub(crate) struct Driver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    start: Option<Instant>,
}

impl Driver {
    /// The clock that the slow path shall have.
    pub(crate) fn clock(&self) -> Clock {
        Clock::start().with_first_second(FIRST_SECOND)
    }

    /// The date at which a rig starts, in seconds since 1970.
    pub(crate) fn date() -> u32 {
        low_u32(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    /// Starts it.
    pub(crate) fn start(&mut self, mut parts: SlowPathParts) {
        parts.stop = Arc::clone(&self.stop);
        self.thread = Some(thread::spawn(move || slowpath::run(parts)));
        self.start = Some(Instant::now());
    }

    /// How long it has run.
    pub(crate) fn now(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.elapsed())
    }

    /// Lets it work.
    pub(crate) fn turn(&mut self) {
        thread::sleep(NAP);
    }

    /// Lets it work, and time pass.
    pub(crate) fn go_on(&mut self) {
        self.turn();
    }

    /// Tells it to stop.
    pub(crate) fn say_stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) {
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(!matches!(ended, Some(Err(_))), "the slow path does not panic");
    }
}
