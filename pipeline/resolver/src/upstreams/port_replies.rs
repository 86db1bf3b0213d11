//! Replies and errors that a port of ours receives for a query. There is no socket, so the sender's address is checked here.

use std::io;
use std::net::SocketAddr;

use super::{Replied, Upstreams};
use crate::counters::shared::count;
use crate::questions::plan::TryFailure;

/// An arrival for the batch in a slot.
#[derive(Clone, Copy, Debug)]
pub enum Arrived<'d> {
    /// A datagram.
    Datagram {
        /// Where it came from.
        from: SocketAddr,
        /// The message.
        message: &'d [u8],
    },
    /// The first fragment of a datagram. The others are not waited for: the question goes over TCP.
    Fragment {
        /// Where it came from.
        from: SocketAddr,
        /// The beginning of the message.
        message: &'d [u8],
    },
    /// An ICMP error about a query (RFC 792, RFC 4443).
    Undelivered {
        /// Where the query went, by the quote.
        to: SocketAddr,
        /// The id of the query, if the quote is long enough.
        id: Option<u16>,
        /// The query was too long for the path.
        is_too_long: bool,
    },
}

impl Upstreams {
    /// Takes in what came over a port for the batch in this slot.
    pub(crate) fn receive_port(&mut self, slot: usize, arrived: Arrived<'_>) -> Option<Replied> {
        let Some(batch) = self.network.batches.get(slot) else {
            self.note_unclaimed();
            return None;
        };
        let upstream = batch.upstream;
        let (Arrived::Datagram { from: peer, .. }
        | Arrived::Fragment { from: peer, .. }
        | Arrived::Undelivered { to: peer, .. }) = arrived;
        if self.peers.route(upstream).is_none_or(|route| route.to != peer) {
            count(&self.peers.counters(upstream).mismatched);
            return None;
        }
        match arrived {
            Arrived::Datagram { message, .. } => return self.receive_batch(slot, message),
            Arrived::Fragment { message, .. } => self.receive_fragment(slot, message),
            Arrived::Undelivered { id, is_too_long, .. } => {
                self.receive_undelivered(slot, id, is_too_long);
            }
        }
        None
    }

    /// Has a question asked over TCP whose reply comes in fragments. They could be mixed with forged ones.
    fn receive_fragment(&mut self, slot: usize, message: &[u8]) {
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        let (upstream, begun) = (batch.upstream, batch.take_begun(message));
        let counters = self.peers.counters(upstream);
        match begun {
            Some(query) => {
                count(&counters.oversized);
                self.fail(query.ticket, query.attempt, TryFailure::NeedsTcp);
                self.close_if_done(slot);
            }
            None => self.receive_mismatch(slot),
        }
    }

    /// Counts what came over a port and no query takes.
    pub(crate) fn note_unclaimed(&self) {
        crate::counters::count(&self.counters.unclaimed);
    }

    /// Ends a try at once that the network reports as undelivered. A forger has to know the query's port and id, and has as many
    /// guesses as with replies.
    fn receive_undelivered(&mut self, slot: usize, id: Option<u16>, is_too_long: bool) {
        let now = self.peers.now;
        if self.believed_errors.are_enough(now) {
            return self.note_unclaimed();
        }
        let Some(batch) = self.network.batches.get_mut(slot) else { return };
        let (upstream, sent) = (batch.upstream, batch.sent);
        let Some(query) = id.and_then(|id| batch.take_quoted(id)) else {
            return self.receive_mismatch(slot);
        };
        self.believed_errors.note(now);
        if is_too_long {
            self.fail(query.ticket, query.attempt, TryFailure::NeedsTcp);
        } else {
            let error = io::ErrorKind::HostUnreachable.into();
            self.peers.note_error(upstream, sent, &error, 1);
            self.fail(query.ticket, query.attempt, TryFailure::Unreachable);
        }
        self.close_if_done(slot);
    }

    fn close_if_done(&mut self, slot: usize) {
        if self.network.batches.get(slot).is_some_and(|batch| batch.left().is_empty()) {
            self.close_done(slot);
        }
    }
}
