//! The counters of stream clients, for each transport.

use std::sync::Arc;

use pmdns_counters::counters;
use pmdns_nics::stream::Transport;

counters! {
    /// The counters of one transport.
    StreamCounters,
    /// The counters of one transport, read at one time.
    StreamSnapshot {
        /// Connections that are open.
        open: gauge,
        /// Connections that were accepted.
        accepted: counter,
        /// Connections that were closed at once, because all places were taken.
        refused_full: counter,
        /// Connections that were closed at once, because the places of the client's prefix were taken.
        refused_prefix: counter,
        /// Connections that were closed at once, because the access list does not let their client ask.
        denied: counter,
        /// Connections that lost their place to one of a prefix with fewer, because all places were taken.
        displaced: counter,
        /// Connections that the kernel could not hand over, for want of file descriptors for example.
        accept_errors: counter,
        /// Queries given to the line.
        queries: counter,
        /// Answers given to clients' connections.
        answers: counter,
        /// Queries that the line dropped: by the access list, a limit or a rule.
        dropped: counter,
        /// Queries without an answer in time. Their client has to ask again.
        unanswered: counter,
        /// Queries not given to the line, because too many were under way and no prefix had more than the client's. Their
        /// answer is SERVFAIL.
        no_room: counter,
        /// Queries under way that were given up for one of a prefix with fewer. Their answer is SERVFAIL.
        shed: counter,
        /// Answers dropped, because too many bytes waited for clients to read, most of them for the client's prefix.
        no_memory: counter,
        /// Connections closed for a message that is no query.
        malformed: counter,
        /// Connections closed after a time without a query.
        idle: counter,
        /// Connections closed because the rest of a query, or a handshake, did not come in time.
        slow_queries: counter,
        /// Connections closed because the client did not read its answers in time, or others needed their memory.
        slow_readers: counter,
        /// Connections closed after as many queries as one may have.
        exhausted: counter,
    }
}

/// The counters of all transports.
#[derive(Clone, Debug, Default)]
pub struct AllCounters(Arc<[StreamCounters; 4]>);

impl AllCounters {
    /// Those of one transport.
    pub fn of(&self, transport: Transport) -> &StreamCounters {
        &self.0[transport as usize]
    }

    /// Reads those of all transports.
    pub fn read(&self) -> [(Transport, StreamSnapshot); 4] {
        Transport::ALL.map(|transport| (transport, self.of(transport).snapshot()))
    }
}
