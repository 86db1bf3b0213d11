//! `pmdns run --keeper`: the parent of processes that serve. It starts the next one when one crashes, or when a new one is to take
//! over, and keeps their descriptors. [`Keeper`] decides.
//!
//! It understands what services say to systemd (sd_notify(3)), and says the same to systemd in its turn. It reads no
//! configuration, and serves nobody.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use pmdns_handover::{
    ChildEnd, ChildStart, Keeper, KeeperEvent, KeeperOutput, KeeperSignal, MAX_NOTICE, MAX_PASSED,
    Notice, SILENCE,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketAddrUnix;
use rustix::net::sockopt::set_socket_passcred;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGTERM};

use crate::handover::{FIRST, inherited};
use crate::passing::{Packet, receive};
use crate::supervisor::{CACHE, EMPTY, KEEPER, notify};

/// Names under which descriptors are kept. A process has one, and for a moment two.
const MAX_NAMES: usize = 6;

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
    socket: UnixDatagram,
    /// The name of the socket, for the environment of processes.
    name: String,
    running: Vec<Running>,
    /// Descriptors, by name.
    kept: Vec<(String, Vec<OwnedFd>)>,
}

/// A process.
struct Running {
    child: Child,
    pidfd: OwnedFd,
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
        let socket = UnixDatagram::unbound()?;
        // The kernel chooses a name (unix(7), autobind).
        rustix::net::bind(&socket, &SocketAddrUnix::new_unnamed())?;
        set_socket_passcred(&socket, true)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let name = address.as_abstract_name().unwrap_or_default().escape_ascii();
        let mut kept = Vec::<(String, Vec<OwnedFd>)>::new();
        for (name, descriptor) in inherited {
            match kept.iter_mut().find(|(of, _)| *of == name) {
                Some((_, group)) => group.push(descriptor),
                None => kept.push((name, vec![descriptor])),
            }
        }
        Ok(Self {
            keeper: Keeper::new(!kept.is_empty()),
            program: std::env::current_exe()?,
            config: config.to_owned(),
            arguments,
            name: format!("@{name}"),
            socket,
            running: Vec::new(),
            kept,
        })
    }

    /// Does what has come up. Returns the exit code at the end.
    fn turn(&mut self, signals: &Signals) -> Option<u8> {
        // What a process has said before its end comes first.
        self.receive();
        let mut ended = Vec::new();
        self.running.retain_mut(|one| match one.child.try_wait() {
            Ok(Some(status)) => {
                ended.push((one.child.id(), status));
                false
            }
            _ => true,
        });
        for (id, status) in ended {
            self.keeper.ended(id, end_of(id, status), Instant::now());
        }
        if signals.stop.swap(false, Ordering::Relaxed) {
            self.keeper.stop();
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            self.keeper.reload();
        }
        self.keeper.turn(Instant::now());
        while let Some(output) = self.keeper.next_output() {
            if let KeeperOutput::End(code) = output {
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
        let pidfds = self.running.iter().map(|one| one.pidfd.as_fd());
        let all = [self.socket.as_fd(), signals.woken.as_fd()].into_iter().chain(pidfds);
        let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut all, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while io::Read::read(&mut &signals.woken, &mut [0; 64]).is_ok_and(|count| count > 0) {}
        Ok(())
    }

    fn receive(&mut self) {
        loop {
            let packet = match receive(&self.socket, MAX_NOTICE) {
                Ok(Some(packet)) => packet,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!("what a process says is left out: {error}");
                    return;
                }
            };
            let Packet { bytes, descriptors, sender } = packet;
            let sender = sender.and_then(|pid| pid.as_raw_nonzero().get().try_into().ok());
            let Some(sender) = sender.filter(|sender| self.keeper.knows(*sender)) else { continue };
            let notice = Notice::read(&bytes);
            if let Some(name) = &notice.kept {
                self.keep(name.clone(), descriptors);
            }
            if let Some(name) = &notice.removed {
                self.kept.retain(|(of, _)| of != name);
                self.report_kept(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
            }
            self.keeper.receive(sender, &notice, Instant::now());
        }
    }

    fn keep(&mut self, name: String, descriptors: Vec<OwnedFd>) {
        self.report_kept(&format!("FDSTORE=1\nFDNAME={name}"), &descriptors);
        self.kept.retain(|(of, _)| *of != name);
        // The oldest one gives way.
        if self.kept.len() == MAX_NAMES {
            self.kept.remove(0);
        }
        self.kept.push((name, descriptors));
    }

    /// Has systemd keep the same, should this process end.
    fn report_kept(&self, message: &str, descriptors: &[OwnedFd]) {
        let descriptors: Vec<_> = descriptors.iter().map(|one| one.as_fd()).collect();
        if let Err(error) = notify(message, &descriptors) {
            tracing::debug!("systemd was not told: {error}");
        }
    }

    fn carry_out(&mut self, output: KeeperOutput) {
        match output {
            KeeperOutput::Start(start) => {
                let started = self.start(start).map_err(|error| {
                    tracing::error!("{} cannot be started: {error}", self.program.display());
                    error.to_string()
                });
                self.keeper.started(started, Instant::now());
            }
            KeeperOutput::Report(event) => {
                let message = match event {
                    KeeperEvent::Ready => "READY=1",
                    KeeperEvent::Stopping => "STOPPING=1",
                    KeeperEvent::Alive => "WATCHDOG=1",
                };
                self.report_kept(message, &[]);
            }
            KeeperOutput::Signal(id, signal) => {
                let Some(one) = self.running.iter().find(|one| one.child.id() == id) else {
                    return;
                };
                let signal = match signal {
                    KeeperSignal::Terminate => Signal::TERM,
                    KeeperSignal::Reload => Signal::HUP,
                    KeeperSignal::Abort => {
                        tracing::error!("process {id} does not work any more: it is ended");
                        Signal::ABORT
                    }
                };
                if let Err(error) = pidfd_send_signal(&one.pidfd, signal) {
                    tracing::debug!("process {id} gets no signal: {error}");
                }
            }
            KeeperOutput::End(_) => {}
        }
    }

    fn start(&mut self, start: ChildStart) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg("--config").arg(&self.config).args(&self.arguments);
        command.env("NOTIFY_SOCKET", &self.name).env(KEEPER, id().to_string());
        command.env("WATCHDOG_USEC", SILENCE.as_micros().to_string()).env_remove("WATCHDOG_PID");
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", CACHE] {
            command.env_remove(variable);
        }
        if start != ChildStart::Plain {
            self.give_kept(&mut command)?;
        }
        if start == ChildStart::WithoutCache {
            command.env(CACHE, EMPTY);
        }
        let child = command.spawn()?;
        let id = child.id();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        self.running.push(Running { child, pidfd });
        Ok(id)
    }

    /// Copies of what is kept, from descriptor 3 on (sd_listen_fds(3)).
    fn give_kept(&self, command: &mut Command) -> io::Result<()> {
        let each =
            self.kept.iter().flat_map(|(name, group)| group.iter().map(move |one| (name, one)));
        let (mut names, mut mappings) = (Vec::new(), Vec::new());
        for (child_fd, (name, descriptor)) in (FIRST..).zip(each.take(2 * MAX_PASSED)) {
            names.push(name.as_str());
            mappings.push(FdMapping { parent_fd: descriptor.try_clone()?, child_fd });
        }
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        Ok(())
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
        (None, _) => ChildEnd::Fault,
    }
}
