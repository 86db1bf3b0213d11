//! The state that the servers of all transports share.

use std::sync::Arc;
use std::time::Duration;

use pmdns_config::{Config, Prefix};

use crate::access::AccessList;
use crate::counters::AllCounters;
use crate::load::Load;
use crate::places::ConnectionPlaces;
use crate::query_sender::QuerySender;

/// A connection with queries under way lasts at least this much longer than any of them.
const MARGIN: Duration = Duration::from_secs(5);

/// The service of one thread for the servers of all transports. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    /// Where queries go in.
    pub sender: QuerySender,
    /// The places of connections.
    pub places: ConnectionPlaces,
    /// Where they are counted.
    pub counters: AllCounters,
    /// The limits of one connection.
    pub limits: ConnectionLimits,
    /// Who may connect.
    pub access: AccessList,
    /// The proxies that tell who their clients are.
    pub(crate) proxies: Arc<[Prefix]>,
}

/// The limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Queries under way.
    pub max_queries_in_flight: usize,
    /// Queries in all.
    pub max_queries_per_connection: u64,
    /// Bytes of answers that wait for the client to read.
    pub max_buffered_bytes: usize,
    /// The time without a query, under a low load.
    pub idle_timeout: Duration,
    /// The time for the rest of a query, for a handshake, and to read what was sent.
    pub io_timeout: Duration,
    /// A time after which no query is under way any more.
    pub longest_wait: Duration,
}

impl ConnectionLimits {
    /// How long a connection without a query under way lasts at this load. One that has not asked yet has a little more.
    pub(crate) fn idle_time(&self, load: Load, has_asked: bool) -> Duration {
        let calm = self.idle_timeout;
        if has_asked { load.idle_time(calm) } else { load.first_time(calm) }
    }

    /// The limits of the config.
    pub fn of(config: &Config) -> Self {
        let settings = &config.streams;
        Self {
            max_queries_in_flight: settings.max_queries_in_flight,
            max_queries_per_connection: settings.max_queries_per_connection,
            max_buffered_bytes: settings.max_buffered_bytes.bytes(),
            idle_timeout: Duration::from_millis(settings.idle_timeout_ms),
            io_timeout: Duration::from_millis(settings.io_timeout_ms),
            longest_wait: Duration::from_millis(config.slowpath.deadline_ms) + MARGIN,
        }
    }
}
