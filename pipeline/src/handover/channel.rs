//! The local socket between the two processes: packets, and descriptors beside them (unix(7), cmsg(3)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use pmdns_handover::{FromOutgoing, MAX_MESSAGE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::control::socket::{listen, remove_left};
use crate::passing::{self, Packet};

/// Only its owner may connect.
const MODE: u32 = 0o600;
/// Processes that wait to be taken in: one takes over, and others are told so.
const BACKLOG: i32 = 8;
/// Packets that are read at a time: no side says more in the whole of a hand-over.
pub(super) const MAX_PACKETS: usize = 8;

/// Where the next process connects. Its file stays, because the next process has the same socket.
#[derive(Debug)]
pub(crate) struct HandoverSocket(Socket);

/// The connection, seen from either end.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    /// The process at the other end, and its number.
    peer: OwnedFd,
    number: u32,
}

/// A packet, or that nothing comes any more.
#[derive(Debug)]
pub(crate) enum Received {
    /// A packet, and the descriptors beside it.
    Packet(Vec<u8>, Vec<OwnedFd>),
    /// The other end is closed.
    Closed,
}

impl HandoverSocket {
    /// Listens at `path`. Nobody else does: the socket of operators was opened before. A file that is left is replaced.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        remove_left(path)?;
        Ok(Self(listen(path, (Type::SEQPACKET, MODE), None)?.into()))
    }

    /// The same socket, of another process.
    pub(crate) fn inherited(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// A copy of its descriptor.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// From now on who connects sees that this process listens. The kernel remembers who said so last (`SO_PEERCRED`, unix(7)).
    pub(crate) fn own(&self) -> io::Result<()> {
        self.0.listen(BACKLOG)
    }

    /// A process that has connected, and has not ended since.
    pub(crate) fn accept(&self) -> io::Result<Option<Channel>> {
        match self.0.accept().and_then(|(socket, _)| Channel::new(socket)) {
            Ok(channel) => Ok(Some(channel)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                tracing::debug!("a process that wanted to take over has ended");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Channel {
    /// Says this to the process that takes over. Returns whether it was sent.
    pub(crate) fn say(&self, message: &FromOutgoing, sockets: &[BorrowedFd<'_>]) -> bool {
        let sent = message.written().map_err(io::Error::other);
        let sent = sent.and_then(|packet| self.send(&packet, sockets));
        sent.map_err(|error| tracing::warn!("the process that takes over hears nothing: {error}"))
            .is_ok()
    }

    /// Connects to the process that listens at `path`. `None`: nobody does.
    pub(crate) fn connect(path: &Path) -> io::Result<Option<Self>> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        match socket.connect(&SockAddr::unix(path)?) {
            Ok(()) => Self::new(socket).map(Some),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A process of root or of this one's user is at the other end.
    fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let peer = socket_peercred(&socket)?;
        let number = peer.pid.as_raw_nonzero().get().unsigned_abs();
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "process {number} at its other end is of user {}, and no process of another user but root's is trusted",
                    peer.uid.as_raw()
                ),
            ));
        }
        Ok(Self { socket, peer: pidfd_open(peer.pid, PidfdFlags::empty())?, number })
    }

    /// The number of the process at the other end.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Sends a packet, and copies of descriptors.
    pub(crate) fn send(&self, packet: &[u8], passed: &[BorrowedFd<'_>]) -> io::Result<()> {
        passing::send(&self.socket, packet, passed)
    }

    /// The next packet; `None`: there is none yet.
    pub(crate) fn receive(&self) -> io::Result<Option<Received>> {
        match self.receive_once() {
            // The other end was closed before it had read everything. What it had said before comes behind this.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Ok(self.receive_once()?.or(Some(Received::Closed)))
            }
            received => received,
        }
    }

    fn receive_once(&self) -> io::Result<Option<Received>> {
        let packet = passing::receive(&self.socket, MAX_MESSAGE + 1)?;
        Ok(packet.map(|Packet { bytes, descriptors }| match bytes.is_empty() {
            true => Received::Closed,
            false => Received::Packet(bytes, descriptors),
        }))
    }

    /// Whether something is to be received.
    pub(crate) fn has_packet(&self) -> bool {
        is_readable(&self.socket)
    }

    /// Whether the process at the other end has ended.
    pub(crate) fn has_ended(&self) -> bool {
        is_readable(&self.peer)
    }

    /// Ends the process at the other end, unless it has ended.
    pub(crate) fn end(&self) {
        if !self.has_ended()
            && let Err(error) = pidfd_send_signal(&self.peer, Signal::KILL)
        {
            tracing::error!("the other process cannot be ended: {error}");
        }
    }
}

fn is_readable(descriptor: &impl AsFd) -> bool {
    let mut readable = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut readable, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
