//! An upstream that costs as little as one can: it answers every query with one A record.
//!
//! A bench of misses turns it by hand; as a program (`bin/upstream.rs`) it serves any forwarder, so that
//! all are measured against the same.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use pmdns_stages::wire::dns::{HEADER_LEN, QUESTION_FIXED_LEN, flag, header};
use pmdns_stages::wire::{be16, name, put16};

/// The longest query it takes in.
const MAX_QUERY: usize = 512;
/// The answer behind the question: a pointer to the name, A, IN, a day, 192.0.2.1.
const RECORD: [u8; 16] = [0xc0, 12, 0, 1, 0, 1, 0, 1, 0x51, 0x80, 0, 4, 192, 0, 2, 1];

/// The upstream.
#[derive(Debug)]
pub struct Upstream {
    socket: UdpSocket,
}

impl Upstream {
    /// Binds it to `address`.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind(address)? })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// From now on [`Upstream::answer_one`] does not wait for a query.
    pub fn do_not_wait(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// Answers one query. What is no query is not answered.
    pub fn answer_one(&self) -> io::Result<()> {
        let mut message = [0; MAX_QUERY + RECORD.len()];
        let (len, from) = self.socket.recv_from(&mut message[..MAX_QUERY])?;
        if let Some(end) = answer(&mut message, len) {
            self.socket.send_to(&message[..end], from)?;
        }
        Ok(())
    }
}

/// Turns the query in the first `len` bytes into its answer, and says where that ends.
pub(crate) fn answer(message: &mut [u8], len: usize) -> Option<usize> {
    let question = message.get(HEADER_LEN..len)?;
    let end = HEADER_LEN + name::length(question)? + QUESTION_FIXED_LEN;
    let flags = be16(message, header::FLAGS)?;
    if end > len || flags & flag::QR != 0 || message.len() < end + RECORD.len() {
        return None;
    }
    put16(message, header::FLAGS, flag::QR | flag::RA | flags & flag::RD);
    put16(message, header::ANCOUNT, 1);
    put16(message, header::NSCOUNT, 0);
    put16(message, header::ARCOUNT, 0);
    message[end..end + RECORD.len()].copy_from_slice(&RECORD);
    Some(end + RECORD.len())
}
