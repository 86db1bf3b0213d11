//! Packets between processes over local sockets, with descriptors beside them (unix(7), cmsg(3)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors beside a packet: what the kernel takes (`SCM_MAX_FD`).
const MAX_DESCRIPTORS: usize = 253;
/// Bytes of what is beside a packet.
const ANCILLARY: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// A packet that has come.
#[derive(Debug)]
pub(crate) struct Packet {
    /// Its bytes; none: the other end is closed.
    pub(crate) bytes: Vec<u8>,
    /// The descriptors beside it.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Sends a packet, and copies of descriptors.
pub(crate) fn send(
    socket: impl AsFd,
    packet: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next packet, with at most so many bytes; `None`: there is none yet.
pub(crate) fn receive(socket: impl AsFd, most: usize) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); ANCILLARY];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    bytes.truncate(received.bytes);
    let mut packet = Packet { bytes, descriptors: Vec::new() };
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            packet.descriptors.extend(descriptors);
        }
    }
    match received.flags.contains(ReturnFlags::CTRUNC) {
        true => Err(io::Error::other("more descriptors than a packet may bring")),
        false => Ok(Some(packet)),
    }
}
