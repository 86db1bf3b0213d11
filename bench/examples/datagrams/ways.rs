//! The ways to send and receive a batch of datagrams by one socket.

use std::io::{self, IoSlice};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use arrayvec::ArrayVec;
use io_uring::{IoUring, opcode, squeue, types};
use pmdns_config::narrow::to_u32;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use crate::paths::QUERY;

/// Datagrams of one call at most, as `slowpath.queries_per_port` has them.
pub(crate) const MAX_BATCH: usize = 32;
/// Room for a datagram, as the slow path has it.
const ROOM: usize = 4096;

/// How a batch is sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `send` and `recv`.
    Each,
    /// `sendmmsg` and `recv`.
    Sends,
    /// `sendmmsg` and `recvmmsg`.
    Both,
    /// io_uring.
    Ring,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Each, Self::Sends, Self::Both, Self::Ring];
}

/// The memory that the ways need, made once.
pub(crate) struct Hands {
    ring: IoUring,
    /// Sockets that requests to poll have told of, by the number in the request.
    ready: Vec<u64>,
    buffers: Vec<[u8; ROOM]>,
    names: Vec<libc::sockaddr_in>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Hands {
    /// An error if the kernel has no io_uring, or does not allow it.
    pub(crate) fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
        let ring = builder.build(8 * to_u32(MAX_BATCH)).map_err(|error| {
            io::Error::new(error.kind(), format!("io_uring cannot be used here: {error}"))
        })?;
        // SAFETY: an address is numbers, for which zeroes are values.
        let name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        let slice = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: a header is numbers and nullable pointers.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Ok(Self {
            ring,
            ready: Vec::new(),
            buffers: vec![[0; ROOM]; MAX_BATCH],
            names: vec![name; MAX_BATCH],
            slices: vec![slice; MAX_BATCH],
            headers: vec![header; MAX_BATCH],
        })
    }

    /// Sends so many queries, to where the socket is connected or to `to`.
    pub(crate) fn send(
        &mut self,
        way: Way,
        socket: &UdpSocket,
        count: usize,
        to: Option<SocketAddrV4>,
    ) -> io::Result<()> {
        match (way, to) {
            (Way::Each, None) => (0..count).try_for_each(|_| socket.send(&QUERY).map(drop)),
            (Way::Each, Some(to)) => {
                (0..count).try_for_each(|_| socket.send_to(&QUERY, to).map(drop))
            }
            (Way::Sends | Way::Both, to) => send_many(socket, count, to),
            (Way::Ring, to) => {
                let to = to.map(SocketAddrAny::from);
                (0..count).for_each(|_| self.push(send_entry(socket, to.as_ref())));
                self.complete(count)
            }
        }
    }

    /// Receives so many datagrams, all of which have come, and their senders if they are wanted.
    pub(crate) fn receive(
        &mut self,
        way: Way,
        socket: &UdpSocket,
        count: usize,
        wants_names: bool,
    ) -> io::Result<()> {
        match way {
            Way::Each | Way::Sends if wants_names => {
                (0..count).try_for_each(|_| socket.recv_from(&mut self.buffers[0]).map(drop))
            }
            Way::Each | Way::Sends => {
                (0..count).try_for_each(|_| socket.recv(&mut self.buffers[0]).map(drop))
            }
            Way::Both => self.receive_many(socket, count, wants_names),
            Way::Ring => {
                if wants_names {
                    self.prepare(count, true);
                }
                (0..count).for_each(|index| {
                    let entry = match wants_names {
                        true => self.message_entry(socket, index),
                        false => self.receive_entry(socket, index),
                    };
                    self.push(entry);
                });
                self.complete(count)
            }
        }
    }

    /// A request for one datagram, into the buffer of this index.
    pub(crate) fn receive_entry(&mut self, socket: &UdpSocket, index: usize) -> squeue::Entry {
        let buffer = &mut self.buffers[index];
        let fd = types::Fd(socket.as_raw_fd());
        opcode::Recv::new(fd, buffer.as_mut_ptr(), to_u32(ROOM)).flags(libc::MSG_DONTWAIT).build()
    }

    fn message_entry(&mut self, socket: &UdpSocket, index: usize) -> squeue::Entry {
        let header = &raw mut self.headers[index].msg_hdr;
        let fd = types::Fd(socket.as_raw_fd());
        opcode::RecvMsg::new(fd, header).flags(libc::MSG_DONTWAIT.cast_unsigned()).build()
    }

    /// Queues a request. There is room for those of a turn.
    pub(crate) fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: a request points to a constant, to a local of a function that completes it, or to memory of `self`.
        // That memory stays where it is.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring is longer than a turn's requests");
    }

    /// Has the kernel serve all requests, and waits until so many are done. Requests to poll do not count.
    pub(crate) fn complete(&mut self, count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            self.ring.submit_and_wait(left)?;
            for done in self.ring.completion() {
                match (done.result(), done.user_data()) {
                    (error @ ..0, _) => return Err(io::Error::from_raw_os_error(-error)),
                    (_, 0) => left -= 1,
                    (_, number) => self.ready.push(number),
                }
            }
        }
        Ok(())
    }

    /// Numbers of requests to poll that have told of a datagram, into `ready`. It waits for one.
    pub(crate) fn take_ready(&mut self, ready: &mut Vec<u64>) -> io::Result<()> {
        if self.ready.is_empty() {
            self.ring.submit_and_wait(1)?;
            self.ready.extend(self.ring.completion().map(|done| done.user_data()));
        }
        ready.append(&mut self.ready);
        Ok(())
    }

    fn receive_many(
        &mut self,
        socket: &UdpSocket,
        count: usize,
        wants_names: bool,
    ) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            self.prepare(left, wants_names);
            // SAFETY: `left` headers are prepared, and all that they point to is memory of `self`.
            let received = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    to_u32(left),
                    libc::MSG_DONTWAIT,
                    ptr::null_mut(),
                )
            };
            left -= usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(())
    }

    /// Makes the first `count` headers point to their buffers and names.
    fn prepare(&mut self, count: usize, wants_names: bool) {
        for index in 0..count {
            let base = self.buffers[index].as_mut_ptr().cast();
            self.slices[index] = libc::iovec { iov_base: base, iov_len: ROOM };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.slices[index];
            header.msg_iovlen = 1;
            if wants_names {
                header.msg_name = (&raw mut self.names[index]).cast();
                header.msg_namelen = to_u32(size_of::<libc::sockaddr_in>());
            } else {
                header.msg_name = ptr::null_mut();
                header.msg_namelen = 0;
            }
        }
    }
}

/// A request to send one query. It is done before `to` goes.
pub(crate) fn send_entry(socket: &UdpSocket, to: Option<&SocketAddrAny>) -> squeue::Entry {
    let fd = types::Fd(socket.as_raw_fd());
    let send = opcode::Send::new(fd, QUERY.as_ptr(), to_u32(QUERY.len())).flags(libc::MSG_DONTWAIT);
    match to {
        Some(to) => send.dest_addr(to.as_ptr().cast()).dest_addr_len(to.addr_len()).build(),
        None => send.build(),
    }
}

fn send_many(socket: &UdpSocket, count: usize, to: Option<SocketAddrV4>) -> io::Result<()> {
    let to = to.map(SocketAddrAny::from);
    let slices = [IoSlice::new(&QUERY)];
    let mut controls = [(); MAX_BATCH].map(|()| SendAncillaryBuffer::default());
    let headers = controls.iter_mut().take(count).map(|control| match &to {
        Some(to) => MMsgHdr::new_with_addr(to, &slices, control),
        None => MMsgHdr::new(&slices, control),
    });
    let mut headers: ArrayVec<MMsgHdr<'_>, MAX_BATCH> = headers.collect();
    let mut sent = 0;
    while sent < count {
        sent += sendmmsg(socket, &mut headers[sent..], SendFlags::DONTWAIT)?;
    }
    Ok(())
}

/// Nanoseconds for which the calling thread has run.
pub(crate) fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the value can be written.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0, "every Linux has this clock");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
