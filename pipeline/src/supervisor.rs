//! Messages to systemd, or to a keeper: that pmdns is ready, that it stops, that its data cores work, and
//! which descriptors are to outlive a crash (sd_notify(3)).

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use pmdns_engine::clock::Clock;
use pmdns_handover::{FAILED, MAX_NOTICE, ProcessId, SUCCESSOR};

use crate::passing::{receive, send};

/// A data core that has published nothing for so long is stuck. It does so every 10 ms.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);

/// How long a message may wait for a manager that does not read.
const PATIENCE: Duration = Duration::from_secs(1);
/// A message that could not be sent is sent again after that time.
const RETRY: Duration = Duration::from_secs(1);
/// The variable of the environment by which a keeper says that it is one. It listens behind standard input.
pub const KEEPER: &str = "PMDNS_KEEPER";
/// The variable by which it says that the cache is to begin [`EMPTY`].
pub const CACHE: &str = "PMDNS_CACHE";
/// The variable by which it says that another process serves, from which this one is to take over.
pub const BESIDE: &str = "PMDNS_BESIDE";
/// What crashed again and again may have crashed because of its cache.
pub const EMPTY: &str = "empty";

/// The manager of this service, if the environment names one.
#[derive(Debug, Default)]
pub struct Supervisor {
    /// How often it wants to hear that the data cores work.
    interval: Option<Duration>,
    /// When it is to hear that next. `None`: at once.
    due: Option<Instant>,
    /// It starts the next process.
    is_keeper: bool,
}

impl Supervisor {
    /// The one that this process's environment names, or nobody.
    pub fn from_environment() -> Self {
        // Half of the time that it waits, as sd_watchdog_enabled(3) advises.
        let interval = sd_notify::watchdog_enabled().map(|wait| wait / 2);
        Self { interval, due: None, is_keeper: has_keeper() }
    }

    /// Queries are answered from now on.
    pub fn ready(&self) {
        report_state("READY=1");
    }

    /// Waiting clients get their last answers.
    pub fn stopping(&self) {
        report_state("STOPPING=1");
    }

    /// Tells that the data cores work, as often as it is wanted and only if they do. A manager that hears nothing restarts
    /// the service.
    pub fn watch(&mut self, now: Instant, work: impl FnOnce() -> bool) {
        self.watch_by(report_state, now, work);
    }

    fn watch_by(
        &mut self,
        report: impl FnOnce(&str) -> bool,
        now: Instant,
        work: impl FnOnce() -> bool,
    ) {
        let Some(interval) = self.interval else { return };
        if self.due.is_none_or(|due| due <= now) && work() {
            // That it is ready may have been lost.
            let is_told = report("READY=1\nWATCHDOG=1");
            self.due = Some(now + if is_told { interval } else { RETRY });
        }
    }

    /// Asks for the next process. `false`: nobody was told.
    pub fn ask_for_successor(&self) -> bool {
        self.is_keeper && report_state(SUCCESSOR)
    }

    /// Why the next process that was asked for does not take over, once its keeper says so.
    pub fn failure(&self) -> Option<String> {
        let said = self.is_keeper.then(|| receive(std::io::stdin(), MAX_NOTICE))?;
        let said = said.inspect_err(|error| tracing::debug!("the keeper is not heard: {error}"));
        String::from_utf8_lossy(&said.ok()??.bytes).strip_prefix(FAILED).map(str::to_owned)
    }

    /// Whether somebody starts the next process if it is asked for.
    pub fn has_successor(&self) -> bool {
        self.is_keeper
    }
}

/// Tells why this process cannot serve.
pub fn report_failure(why: impl fmt::Display) {
    let line = why.to_string().replace('\n', "; ");
    report_state(&format!("STATUS={line}"));
}

/// Whether a keeper has started this process.
pub(crate) fn has_keeper() -> bool {
    std::env::var_os(KEEPER).is_some()
}

/// Whether it was sent.
fn report_state(message: &str) -> bool {
    let sent = notify(message, &[]);
    sent.inspect_err(|error| tracing::debug!("nobody was told: {error}")).is_ok()
}

/// The keeper that has started this process, while it lives.
#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "without ports, none takes over"))]
pub(crate) fn living_keeper() -> Option<ProcessId> {
    let keeper = std::env::var(KEEPER).ok()?.parse().ok()?;
    (parent_id() == keeper).then_some(keeper)
}

/// Sends a message to the manager that the environment names, with descriptors that it is to keep. If it names nobody, nothing
/// is sent. A keeper is not waited for.
pub(crate) fn notify(message: &str, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    if has_keeper() {
        return send(std::io::stdin(), message.as_bytes(), kept);
    }
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address(&name)?)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    send(&socket, message.as_bytes(), kept)
}

/// A file, or a name in the abstract namespace behind an `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}

/// The first worker that has published nothing for [`STUCK_AFTER`]. `published`: when each worker did so last.
pub fn stuck_worker(published: impl IntoIterator<Item = u64>, clock: &Clock) -> Option<usize> {
    let oldest = clock.now().saturating_sub(clock.ticks_of(STUCK_AFTER));
    published.into_iter().position(|tick| tick < oldest)
}

#[cfg(test)]
mod tests {
    use pmdns_engine::clock::SteppedTime;

    use super::*;

    #[test]
    fn it_is_told_in_time_and_only_while_the_cores_work() {
        let start = Instant::now();
        let interval = Some(Duration::from_secs(5));
        let mut supervisor = Supervisor { interval, ..Supervisor::default() };
        let mut is_told = |after, can_send, works| {
            let mut told = None;
            let report = |message: &str| {
                told = Some(message.to_owned());
                can_send
            };
            supervisor.watch_by(report, start + Duration::from_millis(after), || works);
            told.is_some_and(|told| told == "READY=1\nWATCHDOG=1")
        };
        assert!(!is_told(0, true, false));
        assert!(is_told(0, true, true));
        assert!(!is_told(4999, true, true));
        assert!(is_told(5000, false, true));
        assert!(!is_told(5999, true, true));
        assert!(is_told(6000, true, true), "it was not sent before");
        assert!(!is_told(10_999, true, true));
        Supervisor::default().watch(start, || panic!("nobody wants to know"));
    }

    #[test]
    fn a_core_that_publishes_nothing_for_a_second_is_stuck() {
        let time = SteppedTime::since(0);
        let clock = Clock::stepped(time);
        let published = clock.now();
        time.advance(STUCK_AFTER);
        assert_eq!(stuck_worker([published, published], &clock), None);
        time.advance(Duration::from_millis(1));
        assert_eq!(stuck_worker([clock.now(), published], &clock), Some(1));
    }
}
