//! `pmdns run --keeper`: the parent of processes that serve. It starts the next one when one crashes, or when a new one is to take
//! over, and keeps their descriptors. [`Keeper`] decides.
//!
//! It understands what services say to systemd (sd_notify(3)), and says the same to systemd in its turn. It reads no
//! configuration, and serves nobody.

mod kept;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use pmdns_handover::{
    ChildEnd, ChildStart, FAILED, Keeper, KeeperEvent, KeeperOutput, KeeperSignal, MAX_NOTICE,
    MAX_PASSED, Notice, ProcessId, SILENCE,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};

use self::kept::KeptGroups;
use crate::handover::{FIRST, inherited};
use crate::passing::{Packet, receive, send};
use crate::supervisor::{BESIDE, CACHE, EMPTY, KEEPER, notify};

/// Messages that are read of a process at a time. The kernel holds fewer, unless it is told otherwise (`net.unix.max_dgram_qlen`).
const MAX_NOTICES: usize = 64;

/// The keeper cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// A socket or a signal.
    #[error("cannot look after the processes that serve: {0}")]
    Io(#[from] io::Error),
    /// What systemd has kept.
    #[error("what was kept of a process before cannot be used: {0}")]
    Inherited(String),
}

/// The keeper's processes, and what it keeps for them.
struct Processes {
    keeper: Keeper,
    /// The program, by the path that it was started by: a newer one takes its place there.
    program: PathBuf,
    config: PathBuf,
    arguments: Vec<&'static str>,
    running: Vec<Running>,
    kept: KeptGroups<fn(&str, &[BorrowedFd<'_>])>,
}

/// A process.
struct Running {
    child: Child,
    pidfd: OwnedFd,
    /// Where it says things. The other end is its standard input.
    socket: UnixDatagram,
}

/// Signals for the keeper, and what wakes it.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    woken: UnixStream,
}

/// Keeps a process of `config` running, with these arguments beside, until SIGINT or SIGTERM. Returns the exit code of the last
/// one.
pub fn run(config: &Path, arguments: Vec<&'static str>) -> Result<u8, KeeperError> {
    let kept = inherited().map_err(KeeperError::Inherited)?;
    let signals = Signals::register()?;
    let mut processes = Processes::new(config, arguments, kept)?;
    loop {
        if let Some(code) = processes.turn(&signals) {
            return Ok(code);
        }
        processes.wait(&signals)?;
    }
}

impl Signals {
    fn register() -> io::Result<Self> {
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (stop, reload) = (Arc::default(), Arc::default());
        for (signal, flag) in [(SIGINT, &stop), (SIGTERM, &stop), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            // After the flag is set.
            signal_hook::low_level::pipe::register(signal, wakes.try_clone()?)?;
        }
        Ok(Self { stop, reload, woken })
    }
}

impl Processes {
    fn new(
        config: &Path,
        arguments: Vec<&'static str>,
        inherited: Vec<(String, OwnedFd)>,
    ) -> io::Result<Self> {
        let kept = KeptGroups::new(inherited, notify_systemd as fn(&str, &[BorrowedFd<'_>]));
        Ok(Self {
            keeper: Keeper::new(!kept.is_empty()),
            program: program(std::env::args_os().next())?,
            config: config.to_owned(),
            arguments,
            running: Vec::new(),
            kept,
        })
    }

    /// Does what has come up. Returns the exit code at the end.
    fn turn(&mut self, signals: &Signals) -> Option<u8> {
        // Who ends because of a signal to all of a terminal does not crash.
        if signals.stop.swap(false, Ordering::Relaxed) {
            self.keeper.stop();
        }
        let end = |one: &mut Running| match one.child.try_wait() {
            Ok(status) => Some((one.child.id(), end_of(one.child.id(), status?))),
            // Nobody knows how.
            Err(_) => Some((one.child.id(), ChildEnd::Fault)),
        };
        let ended: Vec<_> = self.running.iter_mut().filter_map(end).collect();
        // What a process has said before its end comes first.
        self.receive();
        for (id, end) in ended {
            self.running.retain(|one| one.child.id() != id);
            self.drop_left();
            self.keeper.ended(id, end, Instant::now());
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            self.keeper.reload();
        }
        self.keeper.turn(Instant::now());
        while let Some(output) = self.keeper.next_output() {
            if let KeeperOutput::End(code) = output {
                self.kept.clear();
                return Some(code);
            }
            self.carry_out(output);
        }
        None
    }

    fn wait(&self, signals: &Signals) -> io::Result<()> {
        let due = self.keeper.next_due();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        // A millisecond more, so that it is due then.
        let wait = due.map(|due| due + Duration::from_millis(1));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let running = self.running.iter().flat_map(|one| [one.pidfd.as_fd(), one.socket.as_fd()]);
        let all = [signals.woken.as_fd()].into_iter().chain(running);
        let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut all, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while io::Read::read(&mut &signals.woken, &mut [0; 64]).is_ok_and(|count| count > 0) {}
        Ok(())
    }

    fn receive(&mut self) {
        let said = |one: &Running| (one.child.id(), one.receive());
        let said: Vec<_> = self.running.iter().map(said).collect();
        for (sender, packets) in said {
            for Packet { bytes, descriptors } in packets {
                let notice = Notice::read(&bytes);
                if let Some(name) = &notice.kept {
                    self.kept.keep(sender, name.clone(), descriptors);
                    self.drop_left();
                }
                if let Some(name) = &notice.removed {
                    self.kept.remove(name);
                }
                self.keeper.receive(sender, &notice, Instant::now());
            }
        }
    }

    fn drop_left(&mut self) {
        let running = &self.running;
        self.kept.drop_left(|id| running.iter().any(|one| one.child.id() == id));
    }

    fn carry_out(&mut self, output: KeeperOutput) {
        match output {
            KeeperOutput::Start(start) => {
                let started = self.start(start).map_err(|error| {
                    let why = format!("{} cannot be started: {error}", self.program.display());
                    tracing::error!("{why}");
                    why
                });
                self.keeper.started(started, Instant::now());
            }
            KeeperOutput::Report(event) => {
                let message = match event {
                    KeeperEvent::Ready => "READY=1",
                    KeeperEvent::Stopping => "STOPPING=1",
                    KeeperEvent::Alive => "WATCHDOG=1",
                };
                notify_systemd(message, &[]);
            }
            KeeperOutput::Signal(id, signal) => {
                let Some(one) = self.find(id) else { return };
                let signal = match signal {
                    KeeperSignal::Terminate => Signal::TERM,
                    KeeperSignal::Reload => Signal::HUP,
                    KeeperSignal::Abort => {
                        tracing::error!("process {id} does not work any more: it is ended");
                        Signal::ABORT
                    }
                    KeeperSignal::Kill => Signal::KILL,
                };
                let sent = pidfd_send_signal(&one.pidfd, signal);
                // One that is stopped ends by nothing else.
                let goes_on = || pidfd_send_signal(&one.pidfd, Signal::CONT);
                if let Err(error) = sent.and_then(|()| goes_on()) {
                    tracing::debug!("process {id} gets no signal: {error}");
                }
            }
            KeeperOutput::Tell(id, why) => {
                if let Some(one) = self.find(id) {
                    one.report(&why);
                }
            }
            KeeperOutput::End(_) => {}
        }
    }

    fn find(&self, id: ProcessId) -> Option<&Running> {
        self.running.iter().find(|one| one.child.id() == id)
    }

    fn start(&mut self, start: ChildStart) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--config").arg(&self.config).args(&self.arguments);
        let (socket, input) = UnixDatagram::pair()?;
        // Neither waits for the other one.
        socket.set_nonblocking(true)?;
        input.set_nonblocking(true)?;
        command.stdin(OwnedFd::from(input)).env_remove("NOTIFY_SOCKET");
        command.env(KEEPER, id().to_string());
        command.env("WATCHDOG_USEC", SILENCE.as_micros().to_string()).env_remove("WATCHDOG_PID");
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", CACHE, BESIDE] {
            command.env_remove(variable);
        }
        if let Some(serving) = self.running.last() {
            command.env(BESIDE, serving.child.id().to_string());
        }
        match start {
            ChildStart::Plain => {}
            ChildStart::WithKept => self.give_kept(&mut command)?,
            ChildStart::WithoutCache => {
                self.give_kept(&mut command)?;
                command.env(CACHE, EMPTY);
            }
            ChildStart::WithoutKept => self.kept.clear(),
        }
        let mut child = command.spawn()?;
        let id = child.id();
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => self.running.push(Running { child, pidfd, socket }),
            Err(error) => {
                // Nobody would notice its end.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
        }
        Ok(id)
    }

    /// Copies of what is kept, from descriptor 3 on (sd_listen_fds(3)).
    fn give_kept(&self, command: &mut Command) -> io::Result<()> {
        let each = self.kept.newest_first();
        let (mut names, mut mappings) = (Vec::new(), Vec::new());
        for (child_fd, (name, descriptor)) in (FIRST..).zip(each.take(2 * MAX_PASSED)) {
            names.push(name);
            mappings.push(FdMapping { parent_fd: descriptor.try_clone()?, child_fd });
        }
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        Ok(())
    }
}

impl Running {
    /// Tells it why the next process does not take over.
    fn report(&self, why: &str) {
        if let Err(error) = send(&self.socket, format!("{FAILED}{why}").as_bytes(), &[]) {
            tracing::debug!("process {} is not told: {error}", self.child.id());
        }
    }

    /// What it has said since the last call.
    fn receive(&self) -> Vec<Packet> {
        let next = || match receive(&self.socket, MAX_NOTICE) {
            Ok(packet) => packet,
            Err(error) => {
                tracing::warn!("what process {} says is left out: {error}", self.child.id());
                None
            }
        };
        std::iter::from_fn(next).take(MAX_NOTICES).collect()
    }
}

/// Where the program is looked for each time: as it was called, so that a link leads to a newer one. A name without a folder says
/// nothing of where the shell has found it.
fn program(called: Option<OsString>) -> io::Result<PathBuf> {
    let is_path = |called: &OsString| called.as_bytes().contains(&b'/');
    called.filter(is_path).map_or_else(std::env::current_exe, |path| Ok(path.into()))
}

/// Says it to systemd, if that has started this process. It keeps the same, should this process end.
fn notify_systemd(message: &str, descriptors: &[BorrowedFd<'_>]) {
    if let Err(error) = notify(message, descriptors) {
        tracing::debug!("systemd was not told: {error}");
    }
}

fn end_of(id: u32, status: ExitStatus) -> ChildEnd {
    match status.success() {
        true => tracing::info!("process {id} has ended"),
        false => tracing::error!("process {id} has ended: {status}"),
    }
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildEnd::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(SIGKILL)) => ChildEnd::Killed,
        (None, Some(SIGTERM | SIGINT)) => ChildEnd::Terminated,
        (None, _) => ChildEnd::Fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_program_is_where_this_one_was_called() {
        let of = |called: &str| program(Some(called.into())).unwrap();
        assert_eq!(of("/opt/pmdns/current/pmdns"), Path::new("/opt/pmdns/current/pmdns"));
        assert_eq!(of("./pmdns"), Path::new("./pmdns"));
        assert_eq!(of("pmdns"), std::env::current_exe().unwrap());
    }

    #[test]
    fn the_end_of_a_process_says_whether_it_comes_from_outside() {
        let end = |signal: i32| end_of(1, ExitStatus::from_raw(signal));
        assert_eq!(end(SIGKILL), ChildEnd::Killed);
        assert_eq!(end(SIGTERM), ChildEnd::Terminated);
        assert_eq!(end(SIGINT), ChildEnd::Terminated);
        assert_eq!(end(libc::SIGABRT), ChildEnd::Fault);
        assert_eq!(end(78 << 8), ChildEnd::Code(78));
    }
}
