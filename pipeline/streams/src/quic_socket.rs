//! The socket of QUIC. It keeps to the limit on what goes to an address that may be forged: three times what came from it
//! (RFC 9000 section 8.1).
//!
//! The library lets a whole datagram go as long as one byte of the limit is left, and again when it repeats its first flight.
//! That was 3,822 bytes for 1,200. So the socket counts for itself while a handshake lasts.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::lock::lock;

/// Bytes for each byte that came.
const FACTOR: usize = 3;
/// The least that a handshake begins with; the library drops less (section 14.1).
const FIRST: usize = 1200;

/// The addresses with handshakes under way. Cloning it gives another handle to the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshakes(Arc<HandshakeTable>);

#[derive(Debug, Default)]
struct HandshakeTable {
    /// How many addresses there are. Without any, the socket need not look.
    count: AtomicUsize,
    by_address: Mutex<HashMap<SocketAddr, Bytes>>,
}

#[derive(Debug, Default)]
struct Bytes {
    handshakes: usize,
    received: usize,
    sent: usize,
}

/// A handshake. While it lasts, its address is not believed.
#[derive(Debug)]
pub(crate) struct Handshake {
    all: Handshakes,
    address: SocketAddr,
}

impl Handshakes {
    /// A handshake begins, whose first datagram has come.
    pub(crate) fn begin(&self, address: SocketAddr) -> Handshake {
        let mut by_address = lock(&self.0.by_address);
        let bytes = by_address.entry(address).or_default();
        bytes.handshakes += 1;
        bytes.received += FIRST;
        self.0.count.store(by_address.len(), Ordering::Relaxed);
        Handshake { all: self.clone(), address }
    }

    fn note_received(&self, meta: &RecvMeta) {
        if self.0.count.load(Ordering::Relaxed) > 0
            && let Some(bytes) = lock(&self.0.by_address).get_mut(&meta.addr)
        {
            bytes.received += meta.len;
        }
    }

    /// How many of so many bytes may go to an address, in whole datagrams of `segment` bytes. They count as sent.
    fn may_send(&self, to: SocketAddr, bytes: usize, segment: Option<usize>) -> usize {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return bytes;
        }
        let mut by_address = lock(&self.0.by_address);
        let Some(counted) = by_address.get_mut(&to) else { return bytes };
        let left = (FACTOR * counted.received).saturating_sub(counted.sent);
        let may = match segment {
            _ if bytes <= left => bytes,
            Some(segment) => left / segment.max(1) * segment,
            None => 0,
        };
        counted.sent += may;
        may
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let shared = &self.all.0;
        let mut by_address = lock(&shared.by_address);
        if let Some(bytes) = by_address.get_mut(&self.address) {
            bytes.handshakes -= 1;
            if bytes.handshakes == 0 {
                by_address.remove(&self.address);
            }
        }
        shared.count.store(by_address.len(), Ordering::Relaxed);
    }
}

/// A socket that counts.
pub(crate) struct CountingSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    handshakes: Handshakes,
}

impl CountingSocket {
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>, handshakes: Handshakes) -> Arc<Self> {
        Arc::new(Self { socket, handshakes })
    }
}

impl fmt::Debug for CountingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

impl AsyncUdpSocket for CountingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let (bytes, segment) = (transmit.contents.len(), transmit.segment_size);
        let may = self.handshakes.may_send(transmit.destination, bytes, segment);
        if may == bytes {
            return self.socket.try_send(transmit);
        }
        // To the library the rest is lost on its way; it repeats it when the client has answered.
        match &transmit.contents[..may] {
            [] => Ok(()),
            contents => self.socket.try_send(&Transmit { contents, ..transmit.clone() }),
        }
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let polled = self.socket.poll_recv(context, buffers, meta);
        if let Poll::Ready(Ok(count)) = polled {
            meta[..count].iter().for_each(|meta| self.handshakes.note_received(meta));
        }
        polled
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_q_no_more_than_three_times_goes_to_an_address_until_its_handshake_is_over() {
        let handshakes = Handshakes::default();
        let (client, other) = (([192, 0, 2, 1], 9).into(), ([192, 0, 2, 2], 9).into());
        assert_eq!(handshakes.may_send(client, 9000, None), 9000, "it has shown its address");
        let handshake = handshakes.begin(client);
        assert_eq!(handshakes.may_send(client, 1274, None), 1274);
        assert_eq!(handshakes.may_send(client, 1274, None), 1274);
        assert_eq!(handshakes.may_send(client, 1274, None), 0, "3,822 of 3,600");
        assert_eq!(handshakes.may_send(other, 9000, None), 9000);
        let meta = RecvMeta { addr: client, len: 1200, stride: 1200, ..RecvMeta::default() };
        handshakes.note_received(&meta);
        assert_eq!(handshakes.may_send(client, 6000, Some(1200)), 3600, "whole datagrams");
        let second = handshakes.begin(client);
        drop(handshake);
        assert_eq!(handshakes.may_send(client, 9000, None), 0, "one is under way");
        drop(second);
        assert_eq!(handshakes.may_send(client, 9000, None), 9000);
        assert!(lock(&handshakes.0.by_address).is_empty());
    }
}
