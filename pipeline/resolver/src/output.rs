//! What the resolver wants done by those who have sockets and threads. They do it in this order, and tell the
//! resolver what came of it.

use std::time::Duration;

use crate::validation::Work;

/// One thing to do. Slots are the resolver's numbers for what it has under way; one that has been closed is used again.
#[derive(Debug)]
pub enum Output {
    /// Open a socket for the batch in this slot, and send its queries.
    SendBatch(usize),
    /// The batch in this slot has ended: close its socket.
    CloseBatch(usize),
    /// Open the connection in this slot, and send what it has to say.
    Connect(usize),
    /// The connection in this slot has more to say.
    Write(usize),
    /// The connection in this slot has ended: close it.
    CloseConnection(usize),
    /// Ask an encrypted upstream.
    AskEncrypted(EncryptedQuery),
    /// Validate a reply, or go on with that.
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
    /// After how long it is late, and after how long it is given up.
    pub patience: (Duration, Duration),
}
