//! How many sockets a thread may have open. Queries that would need one more wait.
//!
//! A process without free descriptors fails in many places, and a failed query would look like a failure of the
//! upstream. So pmdns stays below the limit.

use pmdns_config::SlowPath;

/// Descriptors reserved for everything except the slow path's sockets.
const RESERVED: usize = 256;
/// The fewest sockets that a thread gets.
const FEWEST: usize = 64;
/// The limit that is assumed if the system does not tell it.
const USUAL_LIMIT: usize = 1024;

/// The share of one thread.
pub(super) fn share(settings: &SlowPath) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open_files = open_files(&limits).unwrap_or(USUAL_LIMIT);
    let share = open_files.saturating_sub(RESERVED) / settings.threads.max(1);
    let wanted = wanted(settings);
    if share < wanted {
        tracing::warn!(
            "each slow path thread opens at most {share} sockets, and slowpath.max_pending = {} asks for \
             {wanted}, because this process may have {open_files} files open; raise that limit \
             (ulimit -n, LimitNOFILE=)",
            settings.max_pending
        );
    }
    share.max(FEWEST)
}

/// How many files this process may have to open.
pub(crate) fn needed(settings: &SlowPath) -> usize {
    wanted(settings).saturating_mul(settings.threads.max(1)).saturating_add(RESERVED)
}

/// How many sockets a thread's share of the questions needs. With so many pending, many leave in one batch.
fn wanted(settings: &SlowPath) -> usize {
    let questions = settings.max_pending.div_ceil(settings.threads.max(1));
    questions.div_ceil(settings.queries_per_port)
}

/// The soft limit of open files in the text of `/proc/self/limits`.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
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
        assert_eq!(open_files(text), Some(1024));
        assert_eq!(open_files("Max open files            unlimited   unlimited"), Some(usize::MAX));
        assert_eq!(open_files(""), None);
    }

    #[test]
    fn flights_are_shared_and_so_are_questions() {
        let settings = |threads, queries_per_port| SlowPath {
            max_pending: 1000,
            threads,
            queries_per_port,
            ..SlowPath::default()
        };
        assert_eq!(wanted(&settings(1, 1)), 1000);
        assert_eq!(wanted(&settings(2, 1)), 500);
        assert_eq!(wanted(&settings(2, 32)), 16);
    }
}
