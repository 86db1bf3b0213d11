//! The life of a batch's socket, from the first call to the last. It is opened on a random port, sends its queries,
//! receives the answers, and is closed. All batches of a lap are under way at once.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use io_uring::{opcode, types};
use pmdns_config::narrow::{low_u16, to_usize};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::paths::{ANSWER, Path};
use crate::ways::{Hands, MAX_BATCH, Way, cpu_time, send_entry};

/// Datagrams between two readings of the clock. A socket's default buffer holds them all.
pub(crate) const LAP: usize = 128;
/// The first of the ports that batches take at random.
const FIRST_PORT: u16 = 1024;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Batches of one size, by one way.
pub(crate) struct Life<'a> {
    path: &'a Path,
    batch: usize,
    way: Way,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    sockets: Vec<Option<UdpSocket>>,
    seed: u32,
}

impl<'a> Life<'a> {
    pub(crate) fn new(path: &'a Path, batch: usize, way: Way) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (events, sockets) = (Vec::with_capacity(MAX_BATCH), Vec::with_capacity(LAP));
        Ok(Self { path, batch, way, epoll, events, sockets, seed: 1 })
    }

    /// Nanoseconds of the thread for the batches of one lap, without those of the far end.
    pub(crate) fn lap(&mut self, hands: &mut Hands) -> io::Result<u64> {
        let start = cpu_time();
        if self.way == Way::Ring {
            self.begin_by_ring(hands)?
        } else {
            self.begin(hands)?
        }
        let mut took = cpu_time() - start;
        for _ in 0..LAP {
            let (_, from) = self.path.far.recv_from(&mut [0; 512])?;
            self.path.far.send_to(&ANSWER, from)?;
        }
        let start = cpu_time();
        if self.way == Way::Ring {
            self.end_by_ring(hands)?
        } else {
            self.end(hands)?
        }
        took += cpu_time() - start;
        self.sockets.clear();
        Ok(took)
    }

    fn begin(&mut self, hands: &mut Hands) -> io::Result<()> {
        for index in 0..LAP / self.batch {
            let socket = self.open()?;
            let (data, flags) = (index as u64, epoll::EventFlags::IN | epoll::EventFlags::ET);
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(data), flags)?;
            hands.send(self.way, &socket, self.batch, None)?;
            self.sockets.push(Some(socket));
        }
        Ok(())
    }

    fn end(&mut self, hands: &mut Hands) -> io::Result<()> {
        let mut left = LAP / self.batch;
        while left > 0 {
            epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&NOW))?;
            for event in self.events.drain(..) {
                let slot = to_usize(event.data.u64());
                if let Some(socket) = self.sockets[slot].take() {
                    hands.receive(self.way, &socket, self.batch, false)?;
                    left -= 1;
                }
            }
        }
        Ok(())
    }

    /// A turn's worth of queries enters the kernel at once, and with each batch a request that tells when an answer is there.
    fn begin_by_ring(&mut self, hands: &mut Hands) -> io::Result<()> {
        let mut queued = 0;
        for index in 0..LAP / self.batch {
            let socket = self.open()?;
            let poll = opcode::PollAdd::new(
                types::Fd(socket.as_raw_fd()),
                libc::POLLIN.cast_unsigned().into(),
            );
            hands.push(poll.build().user_data(index as u64 + 1));
            for _ in 0..self.batch {
                hands.push(send_entry(&socket, None));
            }
            self.sockets.push(Some(socket));
            queued += self.batch;
            if queued == MAX_BATCH || index + 1 == LAP / self.batch {
                // Nothing can be readable yet, so all that is done are sends.
                hands.complete(std::mem::take(&mut queued))?;
            }
        }
        Ok(())
    }

    /// The answers of several batches are received at once, and their sockets closed.
    fn end_by_ring(&mut self, hands: &mut Hands) -> io::Result<()> {
        let mut left = LAP / self.batch;
        let mut ready = Vec::with_capacity(left);
        while left > 0 {
            hands.take_ready(&mut ready)?;
            left -= ready.len();
            let (mut queued, mut buffers) = (0, 0);
            for index in ready.drain(..) {
                let slot = to_usize(index) - 1;
                let Some(socket) = self.sockets[slot].take() else { continue };
                for _ in 0..self.batch {
                    let entry = hands.receive_entry(&socket, buffers);
                    hands.push(entry);
                    buffers += 1;
                }
                let close = opcode::Close::new(types::Fd(socket.into_raw_fd()));
                hands.push(close.build());
                queued += self.batch + 1;
                if buffers + self.batch > MAX_BATCH {
                    hands.complete(std::mem::take(&mut queued))?;
                    buffers = 0;
                }
            }
            hands.complete(queued)?;
        }
        Ok(())
    }

    /// A connected socket on a random port.
    fn open(&mut self) -> io::Result<UdpSocket> {
        let socket = loop {
            self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let port = FIRST_PORT.saturating_add(low_u16(u64::from(self.seed >> 16)));
            match UdpSocket::bind((self.path.near, port)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                result => break result?,
            }
        };
        socket.set_nonblocking(true)?;
        socket.connect(self.path.far_address)?;
        Ok(socket)
    }
}
