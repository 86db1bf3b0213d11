//! The process that serves: who connects, and what it is given.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pmdns_config::Config;
use pmdns_handover::{FromIncoming, FromOutgoing, HandoverLimits, Offer, Outgoing, OutgoingOutput};

use super::channel::{Channel, HandoverSocket, MAX_PACKETS, Received};
use super::process::{HandoverError, SOCKET, at, obstacle, path};
use super::sockets::OpenSockets;
use super::taps::{Taps, TapsBefore};
use crate::control::socket::SocketFile;

/// What the instance has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Take in no more connections, of clients and of operators.
    Drain,
    /// Take them in again.
    Resume,
    /// End, and leave everything as it is.
    End,
}

/// The way out of this process.
pub(crate) struct HandOver {
    /// `None`: it could not be opened.
    socket: Option<HandoverSocket>,
    path: PathBuf,
    machine: Outgoing,
    channel: Option<Channel>,
    /// Copies of what passes.
    sockets: OpenSockets,
    /// The files of local sockets, which stay.
    files: Vec<Arc<SocketFile>>,
    taps: Taps,
    obstacle: Option<String>,
    is_draining: bool,
}

impl HandOver {
    /// The socket of the process before, or a new one. It is opened before rights go. Without it this process serves, and hands
    /// over to none.
    pub(crate) fn open(
        config: &Config,
        inherited: &mut OpenSockets,
        (mut sockets, files): (OpenSockets, Vec<Arc<SocketFile>>),
        taps: TapsBefore,
    ) -> Result<Self, HandoverError> {
        let path = path(config);
        let is_possible = obstacle(config).is_none();
        let taps = if is_possible { taps.opened().map_err(at(&path))? } else { Taps::default() };
        let socket = match inherited.take_local(SOCKET) {
            Some(socket) => Ok(HandoverSocket::inherited(socket)),
            None => HandoverSocket::open(&path),
        };
        let told = |why| tracing::warn!("no other process can take over: {why}");
        let socket = socket.map_err(at(&path)).map_err(told).ok();
        if let Some(socket) = &socket {
            sockets.add_local(SOCKET, socket.copy().map_err(at(&path))?);
        }
        Ok(Self {
            socket,
            path,
            machine: Outgoing::new(HandoverLimits::default()),
            channel: None,
            sockets,
            files,
            taps,
            obstacle: obstacle(config),
            is_draining: false,
        })
    }

    /// Whether changes of operators have to wait.
    pub(crate) fn is_under_way(&self) -> bool {
        self.machine.is_under_way()
    }

    /// Copies of the sockets, to take in connections again.
    pub(crate) fn sockets(&self) -> std::io::Result<OpenSockets> {
        self.sockets.copy()
    }

    /// This is the only process: its TAPs spread what comes, and its files go with it.
    pub(crate) fn own(&self) {
        if let Some(Err(error)) = self.socket.as_ref().map(HandoverSocket::own) {
            tracing::error!("no other process can take over from this one: {error}");
        }
        self.leave_files(false);
        self.taps.end();
    }

    /// This process has everything that comes to its TAPs.
    pub(crate) fn take_ports(&self) {
        self.steer(Taps::take);
    }

    /// Goes on. `is_idle`: nothing is left to read or to answer, and no connection is open. It is asked while this process drains.
    pub(crate) fn turn(&mut self, now: Instant, is_idle: impl FnOnce() -> bool) -> Option<Step> {
        self.steer(Taps::turn);
        self.accept(now);
        self.receive(now);
        self.machine.turn(now);
        if self.is_draining && is_idle() {
            self.machine.drained();
        }
        let mut step = None;
        while let Some(output) = self.machine.next_output() {
            step = self.carry_out(output, now).or(step);
        }
        step
    }

    fn accept(&mut self, now: Instant) {
        let channel = match self.socket.as_ref().map(HandoverSocket::accept) {
            Some(Ok(Some(channel))) => channel,
            Some(Err(error)) => return tracing::warn!("a process cannot take over: {error}"),
            None | Some(Ok(None)) => return,
        };
        let refusal = match &self.obstacle {
            Some(obstacle) => Some(obstacle.clone()),
            None if self.machine.connected(now) => None,
            None => Some("another process takes over already".to_owned()),
        };
        match refusal {
            None => self.channel = Some(channel),
            Some(why) => {
                tracing::warn!("a process that wants to take over is refused: {why}");
                send(&channel, &FromOutgoing::Refused(why), &[]);
            }
        }
    }

    fn receive(&mut self, now: Instant) {
        for _ in 0..MAX_PACKETS {
            let Some(channel) = &self.channel else { return };
            match channel.receive() {
                Ok(None) => return,
                Ok(Some(Received::Packet(packet, _))) => match FromIncoming::read(&packet) {
                    Ok(message) => {
                        let passed = self.sockets.passed().0;
                        let version = crate::VERSION.to_owned();
                        let offer = || Offer { version, passed, cache: None };
                        self.machine.receive(message, offer, now);
                    }
                    Err(error) => self.machine.misunderstood(error.to_string()),
                },
                Ok(Some(Received::Closed)) => {
                    self.channel = None;
                    self.machine.closed();
                }
                Err(error) => return self.machine.misunderstood(error.to_string()),
            }
        }
    }

    fn carry_out(&mut self, output: OutgoingOutput, now: Instant) -> Option<Step> {
        match output {
            OutgoingOutput::Send(message) => {
                let is_offer = matches!(message, FromOutgoing::Offer(_));
                if is_offer {
                    tracing::info!("another process takes over");
                    self.leave_files(true);
                    self.steer(Taps::hold);
                }
                let (_, sockets) = self.sockets.passed();
                if let Some(channel) = &self.channel {
                    send(channel, &message, if is_offer { &sockets } else { &[] });
                }
            }
            // The cache stays here: the next process begins with its own.
            OutgoingOutput::Freeze => self.machine.frozen(Vec::new(), now),
            OutgoingOutput::Thaw => {
                tracing::warn!("the process that wanted to take over has ended; this one goes on");
                self.own();
                self.machine.thawed(true);
            }
            OutgoingOutput::Drain => {
                self.is_draining = true;
                return Some(Step::Drain);
            }
            OutgoingOutput::Resume => {
                self.is_draining = false;
                return Some(Step::Resume);
            }
            OutgoingOutput::Kill => {
                if let Some(Err(error)) = self.channel.as_ref().map(Channel::kill) {
                    tracing::error!("the process that takes over cannot be ended: {error}");
                }
            }
            OutgoingOutput::Close(why) => {
                tracing::info!("no other process takes over: {why}");
                self.channel = None;
                self.own();
            }
            OutgoingOutput::End => return Some(Step::End),
        }
        None
    }

    /// This process ends, and no other one has its socket.
    pub(crate) fn remove_file(&self) {
        if self.socket.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn leave_files(&self, are_left: bool) {
        self.files.iter().for_each(|file| file.leave(are_left));
    }

    fn steer(&self, steer: impl Fn(&Taps) -> std::io::Result<()>) {
        if let Err(error) = steer(&self.taps) {
            tracing::error!("what comes to a TAP cannot be led to one process: {error}");
        }
    }
}

fn send(channel: &Channel, message: &FromOutgoing, sockets: &[BorrowedFd<'_>]) {
    let sent = message.written().map_err(std::io::Error::other);
    if let Err(error) = sent.and_then(|packet| channel.send(&packet, sockets)) {
        tracing::warn!("the process that takes over hears nothing: {error}");
    }
}
