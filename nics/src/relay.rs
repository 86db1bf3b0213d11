//! Frames on their way between two processes: one has the ports, and the other one has had them and still answers who waits.
//!
//! A pair of local sockets carries them (unix(7), `SOCK_SEQPACKET`). A packet is a header of four bytes, and then the frame. The
//! header has the number of the port, as the process that had the ports before counts them. Behind it is the checksum work that is
//! left to the port: whether there is any, and the lengths of the headers.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use crate::frame::Offload;
use crate::{Burst, Frame, FramePool, NoQueue, Queues, TxQueue};

/// Bytes of a header.
const HEADER: usize = 4;
/// The kernel keeps so many bytes on the way, or as many as `net.core.wmem_max` allows.
const BUFFER: usize = 4 << 20;
/// What the header says of checksums.
const COMPLETE: u8 = 0;
const OFFLOAD_V4: u8 = 4;
const OFFLOAD_V6: u8 = 6;

/// One end of the way. Threads may share it.
#[derive(Debug)]
pub struct RelayEnd(OwnedFd);

/// What has come.
pub enum Relayed {
    /// A frame, with the number of its port.
    Frame(Frame),
    /// Nothing at present.
    Nothing,
    /// Nothing any more: the other end is closed.
    End,
}

impl RelayEnd {
    /// Both ends. The second one passes to another process.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let ends = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        for end in [&ends.0, &ends.1] {
            // A smaller one loses frames earlier, and that is counted.
            let _ = sockopt::set_socket_send_buffer_size(end, BUFFER);
        }
        Ok((Self(ends.0), ends.1))
    }

    /// The end that another process has passed.
    ///
    /// # Errors
    ///
    /// It is none, or the kernel's.
    pub fn passed(end: OwnedFd) -> io::Result<Self> {
        match sockopt::socket_type(&end)? {
            SocketType::SEQPACKET => Ok(Self(end)),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Sends a copy of a frame of this port. `false`: there is no room, or no other end.
    pub fn send(&self, port: u8, frame: &Frame) -> bool {
        let header = match frame.offload() {
            None => [port, COMPLETE, 0, 0],
            Some(Offload { l2_len, l3_len, ipv6 }) => {
                [port, if ipv6 { OFFLOAD_V6 } else { OFFLOAD_V4 }, l2_len, l3_len]
            }
        };
        let parts = [IoSlice::new(&header), IoSlice::new(frame.bytes())];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &parts, &mut SendAncillaryBuffer::default(), flags).is_ok()
    }

    /// The next frame. One that is too long for a frame of `pool` is left out. Without a frame of `pool` it comes later.
    pub fn receive(&self, pool: &FramePool) -> Relayed {
        let Some(mut frame) = pool.take() else { return Relayed::Nothing };
        let mut header = [0; HEADER];
        let received = match self.receive_once(&mut header, &mut frame) {
            // The other end was closed before it had taken everything. What it had sent before comes behind this.
            Err(Errno::CONNRESET) => self.receive_once(&mut header, &mut frame),
            received => received,
        };
        let (len, is_cut) = match received {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Relayed::Nothing,
            Err(_) => return Relayed::End,
        };
        let Some(len) = len.checked_sub(HEADER) else { return Relayed::End };
        if is_cut || frame.resize(len).is_err() {
            return Relayed::Nothing;
        }
        let [port, checksums, l2_len, l3_len] = header;
        frame.set_port(port);
        if checksums != COMPLETE {
            frame.offload_checksums(l2_len, l3_len, checksums == OFFLOAD_V6);
        }
        Relayed::Frame(frame)
    }

    /// Returns the length of a packet, and whether it is cut.
    fn receive_once(
        &self,
        header: &mut [u8; HEADER],
        frame: &mut Frame,
    ) -> Result<(usize, bool), Errno> {
        let mut parts = [IoSliceMut::new(header), IoSliceMut::new(frame.buffer_mut())];
        let mut none = RecvAncillaryBuffer::default();
        let message = recvmsg(&self.0, &mut parts, &mut none, RecvFlags::DONTWAIT)?;
        Ok((message.bytes, message.flags.contains(ReturnFlags::TRUNC)))
    }

    /// Queues of a port that this process has no more: what is sent by them goes to the other process, and nothing comes.
    pub fn queues(self: &Arc<Self>, port: u8, rx_queues: u16, tx_queues: u16) -> Queues {
        let transmitter = |_| Box::new(RelayTx { end: Arc::clone(self), port }) as Box<dyn TxQueue>;
        Queues {
            rx: (0..rx_queues).map(|_| Box::new(NoQueue) as Box<_>).collect(),
            tx: (0..tx_queues).map(transmitter).collect(),
        }
    }
}

/// Such a queue.
struct RelayTx {
    end: Arc<RelayEnd>,
    port: u8,
}

impl TxQueue for RelayTx {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let sent = burst.iter().take_while(|frame| self.end.send(self.port, frame)).count();
        burst.drain(..sent);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapPool;

    fn ends() -> (Arc<RelayEnd>, RelayEnd) {
        let (near, far) = RelayEnd::pair().unwrap();
        (Arc::new(near), RelayEnd::passed(far).unwrap())
    }

    #[test]
    fn a_frame_comes_with_its_port_and_the_checksum_work_that_is_left() {
        let pool = FramePool::Heap(HeapPool::new(4));
        let (near, far) = ends();
        let mut queues = near.queues(7, 2, 1);
        let mut burst: Burst = (0..3).filter_map(|_| pool.take()).collect();
        for (number, frame) in burst.iter_mut().enumerate() {
            frame.resize(60 + number).unwrap();
            frame.bytes_mut().fill(pmdns_config::narrow::to_u8(number));
        }
        burst[1].offload_checksums(14, 20, false);
        burst[2].offload_checksums(18, 40, true);
        assert_eq!((queues.tx[0].transmit(&mut burst), queues.rx.len()), (3, 2));
        assert!(burst.is_empty());
        for number in 0..3 {
            let Relayed::Frame(frame) = far.receive(&pool) else { panic!("frame {number}") };
            assert_eq!((frame.port(), frame.bytes().len()), (7, 60 + number));
            assert!(frame.bytes().iter().all(|byte| usize::from(*byte) == number));
            let work = frame.offload().map(|work| (work.l2_len, work.l3_len, work.ipv6));
            assert_eq!(work, [None, Some((14, 20, false)), Some((18, 40, true))][number]);
        }
        assert!(matches!(far.receive(&pool), Relayed::Nothing));
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn what_finds_no_room_is_refused_and_an_end_that_is_closed_is_seen() {
        let pool = FramePool::Heap(HeapPool::new(4));
        let (near, far) = ends();
        let mut frame = pool.take().unwrap();
        frame.resize(1000).unwrap();
        let sent = (0..1_000_000).take_while(|_| near.send(0, &frame)).count();
        assert!((100..1_000_000).contains(&sent), "{sent}");
        while let Relayed::Frame(_) = far.receive(&pool) {}
        assert!(near.send(1, &frame));
        drop(near);
        assert!(matches!(far.receive(&pool), Relayed::Frame(_)), "what was sent before comes");
        assert!(matches!(far.receive(&pool), Relayed::End) && !far.send(0, &frame));
    }

    #[test]
    fn what_was_sent_before_the_end_comes_though_the_other_end_has_taken_nothing() {
        let pool = FramePool::Heap(HeapPool::new(4));
        let (near, far) = ends();
        let mut frame = pool.take().unwrap();
        frame.resize(60).unwrap();
        assert!(near.send(0, &frame) && near.send(0, &frame) && far.send(0, &frame));
        drop(near);
        assert!(matches!(far.receive(&pool), Relayed::Frame(_)));
        assert!(matches!(far.receive(&pool), Relayed::Frame(_)));
        assert!(matches!(far.receive(&pool), Relayed::End));
    }

    #[test]
    fn a_frame_that_is_too_long_is_left_out() {
        let (long, short): (FramePool, FramePool) =
            [3000, 1000].map(|room| FramePool::Heap(HeapPool::with_room(2, room))).into();
        let (near, far) = ends();
        let mut frame = long.take().unwrap();
        for len in [1001, 1000] {
            frame.resize(len).unwrap();
            assert!(near.send(0, &frame));
        }
        assert!(matches!(far.receive(&short), Relayed::Nothing));
        assert!(
            matches!(far.receive(&short), Relayed::Frame(frame) if frame.bytes().len() == 1000)
        );
    }

    #[test]
    fn only_such_a_socket_is_an_end() {
        let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(RelayEnd::passed(stream.into()).is_err());
    }
}
