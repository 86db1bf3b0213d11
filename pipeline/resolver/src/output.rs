//! Outputs: the resolver's requests to its driver about sockets and threads. The driver does it in this order, and
//! reports the results to the resolver.

use std::time::Duration;

use crate::upstreams::medium::Route;
use crate::validation::Work;

/// One output. A slot is the resolver's number for a batch, a connection or a query. The number of a closed slot is
/// used again.
#[derive(Debug)]
pub enum Output {
    /// Open a socket for the batch in this slot, and send its queries ([`crate::Resolver::send_messages`]).
    SendBatch {
        /// The slot.
        slot: usize,
        /// Where they go to.
        route: Route,
    },
    /// The batch in this slot has ended: close its socket.
    CloseBatch(usize),
    /// Open the connection in this slot.
    Connect {
        /// The slot.
        slot: usize,
        /// Where it goes to.
        route: Route,
    },
    /// The connection in this slot has more bytes to send ([`crate::Resolver::outgoing`]).
    Write(usize),
    /// The connection in this slot has ended: close it.
    CloseConnection(usize),
    /// Ask an encrypted upstream.
    AskEncrypted(EncryptedQuery),
    /// Validate a reply, or continue a validation.
    Validate(Work),
}

/// A query to an encrypted upstream.
#[derive(Debug)]
pub struct EncryptedQuery {
    /// The resolver's number for it.
    pub slot: usize,
    /// Index of the upstream.
    pub upstream: usize,
    /// The message, with id 0.
    pub query: Vec<u8>,
    /// The times after which it is late, and after which it is given up.
    pub patience: (Duration, Duration),
}
