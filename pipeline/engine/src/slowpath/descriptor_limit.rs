//! How many sockets a thread may have open, and how many connections clients over streams may have. Queries that would need one
//! more socket wait.
//!
//! A process without free descriptors fails in many places, and a failed query would look like a failure of the
//! upstream. So pmdns stays below the limit. Clients over streams get at most half of it, so that they leave room for misses.

use pmdns_config::{Config, SlowPathSettings};

/// Descriptors reserved for everything except the slow path's sockets.
const RESERVED: usize = 256;
/// The fewest sockets that a thread gets.
const FEWEST: usize = 64;
/// The name of the limit.
pub const OPEN_FILES: &str = "Max open files";
/// The limit that is assumed if the system does not tell it.
const USUAL_LIMIT: usize = 1024;

/// The share of one of so many shards of the slow path.
pub(super) fn share(config: &Config, shards: usize) -> usize {
    let (settings, open_files) = (&config.slowpath, limit());
    let free = open_files.saturating_sub(RESERVED);
    let share = (free - share_of_streams(config, open_files)) / shards.max(1);
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
    let share = share_of_streams(config, open_files);
    if share < wanted {
        tracing::warn!(
            "clients over streams have at most {share} connections, fewer than streams.max_connections = {wanted}. \
             This process may have {open_files} files open. Raise that limit (ulimit -n, LimitNOFILE=)"
        );
    }
    share.max(1)
}

/// Their share of so many descriptors.
fn share_of_streams(config: &Config, open_files: usize) -> usize {
    let half = open_files.saturating_sub(RESERVED) / 2;
    if config.streams.are_configured() { config.streams.max_connections.min(half) } else { 0 }
}

/// The descriptors that this process may have.
fn limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    soft_limit(&limits, OPEN_FILES).unwrap_or(USUAL_LIMIT)
}

/// How many files this process may have to open.
pub fn needed(config: &Config) -> usize {
    let (settings, shards) = (&config.slowpath, config.slow_path_shards());
    let streams = share_of_streams(config, usize::MAX);
    wanted(settings, shards).saturating_mul(shards).saturating_add(streams).saturating_add(RESERVED)
}

/// How many sockets a shard's part of the questions needs. With so many pending, many leave in one batch.
fn wanted(settings: &SlowPathSettings, shards: usize) -> usize {
    let questions = settings.max_pending.div_ceil(shards.max(1));
    questions.div_ceil(settings.queries_per_port)
}

/// The soft limit of this name in the text of `/proc/self/limits` (proc_pid_limits(5)).
pub fn soft_limit(limits: &str, name: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_as_proc_writes_it() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             63470                63470                processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(text, OPEN_FILES), Some(1024));
        let unlimited = "Max open files            unlimited   unlimited";
        assert_eq!(soft_limit(unlimited, OPEN_FILES), Some(usize::MAX));
        assert_eq!(soft_limit("", OPEN_FILES), None);
    }

    #[test]
    fn clients_over_streams_leave_half_of_the_descriptors() {
        let streams =
            |max| format!("[streams]\ntcp = [\"192.0.2.53:53\"]\nmax_connections = {max}\n");
        let share = |text: &str, limit| share_of_streams(&crate::testing::config(text), limit);
        assert_eq!(share("", 1024), 0);
        assert_eq!(share(&streams(4096), 1024), (1024 - RESERVED) / 2);
        assert_eq!(share(&streams(100), 1024), 100);
        assert_eq!(share(&streams(100), 10), 0);
    }

    #[test]
    fn flights_are_shared_and_so_are_questions() {
        let settings = |queries_per_port| SlowPathSettings {
            max_pending: 1000,
            queries_per_port,
            ..SlowPathSettings::default()
        };
        assert_eq!(wanted(&settings(1), 1), 1000);
        assert_eq!(wanted(&settings(1), 2), 500);
        assert_eq!(wanted(&settings(32), 2), 16);
    }
}
