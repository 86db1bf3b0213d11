//! How many file descriptors a configuration needs, and how those there are shared between misses and clients over streams.

use crate::{Config, SlowPathSettings};

/// Descriptors reserved for everything except sockets to upstreams and of clients.
pub const RESERVED: usize = 256;
/// The name of the limit in `/proc/self/limits`.
pub const OPEN_FILES: &str = "Max open files";

/// How many descriptors a process with this configuration needs.
pub fn needed(config: &Config) -> usize {
    let (settings, shards) = (&config.slowpath, config.slow_path_shards());
    let streams = of_streams(config, usize::MAX);
    let misses = wanted(settings, shards).saturating_mul(shards);
    misses.saturating_add(streams).saturating_add(RESERVED)
}

/// The share of clients over streams in so many descriptors: at most half of them, so that they leave room for misses.
pub fn of_streams(config: &Config, open_files: usize) -> usize {
    let half = open_files.saturating_sub(RESERVED) / 2;
    if config.streams.are_configured() { config.streams.max_connections.min(half) } else { 0 }
}

/// How many sockets the part of the questions of one of so many shards needs. With so many pending, many leave in one batch.
pub fn wanted(settings: &SlowPathSettings, shards: usize) -> usize {
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
        let share = |max_connections, tcp: &[&str], limit| {
            let mut config = Config::default();
            config.streams.max_connections = max_connections;
            config.streams.tcp = tcp.iter().map(|one| one.parse().unwrap()).collect();
            of_streams(&config, limit)
        };
        let tcp = ["192.0.2.53:53"];
        assert_eq!(share(4096, &[], 1024), 0);
        assert_eq!(share(4096, &tcp, 1024), (1024 - RESERVED) / 2);
        assert_eq!(share(100, &tcp, 1024), 100);
        assert_eq!(share(100, &tcp, 10), 0);
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
