//! How many sockets a thread may have open, and how many connections clients over streams may have. Queries that would need one
//! more socket wait.
//!
//! A process without free descriptors fails in many places, and a failed query would look like a failure of the
//! upstream. So pmdns stays below the limit. Clients over streams get at most half of it, so that they leave room for misses.

use pmdns_config::Config;
use pmdns_config::descriptors::{OPEN_FILES, RESERVED, of_streams, soft_limit, wanted};

/// The fewest sockets that a thread gets.
const FEWEST: usize = 64;
/// The limit that is assumed if the system does not tell it.
const USUAL_LIMIT: usize = 1024;

/// The share of one of so many shards of the slow path.
pub(super) fn share(config: &Config, shards: usize) -> usize {
    let (settings, open_files) = (&config.slowpath, limit());
    let free = open_files.saturating_sub(RESERVED);
    let share = (free - of_streams(config, open_files)) / shards.max(1);
    let wanted = wanted(settings, shards);
    if share < wanted {
        tracing::warn!(
            "each slow path thread opens at most {share} sockets, and slowpath.max_pending = {} asks for \
             {wanted}. This process may have {open_files} files open. Raise that limit \
             (ulimit -n, LimitNOFILE=)",
            settings.max_pending
        );
    }
    share.max(FEWEST)
}

/// The most connections that clients over streams may have at a time.
#[cfg(feature = "dpdk")]
pub fn max_connections(config: &Config) -> usize {
    let (open_files, wanted) = (limit(), config.streams.max_connections);
    let share = of_streams(config, open_files);
    if share < wanted {
        tracing::warn!(
            "clients over streams have at most {share} connections, fewer than streams.max_connections = {wanted}. \
             This process may have {open_files} files open. Raise that limit (ulimit -n, LimitNOFILE=)"
        );
    }
    share.max(1)
}

/// The descriptors that this process may have.
fn limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    soft_limit(&limits, OPEN_FILES).unwrap_or(USUAL_LIMIT)
}
