//! Sends the queries of a batch with few calls of the kernel.

use std::io::{self, IoSlice};

use arrayvec::ArrayVec;
use mio::net::UdpSocket;
use pmdns_config::limits::MAX_QUERIES_PER_PORT;
use pmdns_resolver::Query;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

/// Queries that leave by a connected socket, many in one call.
pub(super) struct Batch<'s> {
    socket: &'s UdpSocket,
    queries: ArrayVec<Query, MAX_QUERIES_PER_PORT>,
}

impl<'s> Batch<'s> {
    pub(super) fn new(socket: &'s UdpSocket) -> Self {
        Self { socket, queries: ArrayVec::new() }
    }

    /// Adds a query. If there is no room for it, those before it are sent first, or an error says why not.
    pub(super) fn push(&mut self, query: &Query) -> io::Result<()> {
        if self.queries.is_full() {
            self.send()?;
        }
        self.queries.push(query.clone());
        Ok(())
    }

    /// Sends all queries, or stops with the first error.
    pub(super) fn send(&mut self) -> io::Result<()> {
        let queries = std::mem::take(&mut self.queries);
        match &*queries {
            [] => Ok(()),
            // A call for many costs more than this one.
            [query] => self.socket.send(query.bytes()).map(drop),
            many => send_many(self.socket, many),
        }
    }
}

fn send_many(socket: &UdpSocket, queries: &[Query]) -> io::Result<()> {
    let slices: ArrayVec<[IoSlice<'_>; 1], MAX_QUERIES_PER_PORT> =
        queries.iter().map(|query| [IoSlice::new(query.bytes())]).collect();
    let mut controls: [_; MAX_QUERIES_PER_PORT] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let headers = slices.iter().zip(&mut controls);
    let mut headers: ArrayVec<MMsgHdr<'_>, MAX_QUERIES_PER_PORT> =
        headers.map(|(slices, control)| MMsgHdr::new(slices, control)).collect();
    let mut left = &mut headers[..];
    while !left.is_empty() {
        // The kernel stops at an error, and only says how many datagrams left before it. The next call begins with the
        // one that failed, and says why if it fails again. It does not if the error was of an earlier datagram; then
        // reading the socket reports what the last one meets (docs/adr/0060-a-batch-is-sent-by-one-call.md).
        let sent = sendmmsg(socket, left, SendFlags::empty())?;
        left = left.get_mut(sent..).filter(|_| sent > 0).ok_or(io::ErrorKind::WriteZero)?;
    }
    Ok(())
}
