//! The process as the system sees it: the metrics that client libraries of Prometheus export too.

use pmdns_control::report::ProcessReport;
use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo as _};

/// Reads them now; all zero if `/proc` cannot be read.
pub(super) fn read() -> ProcessReport {
    try_read().unwrap_or_default()
}

fn try_read() -> ProcResult<ProcessReport> {
    let process = Process::myself()?;
    let (stat, limits) = (process.stat()?, process.limits()?);
    let hz = procfs::ticks_per_second() as f64;
    let bounded = |limit| match limit {
        LimitValue::Value(value) => Some(value),
        LimitValue::Unlimited => None,
    };
    Ok(ProcessReport {
        cpu_seconds: (stat.utime + stat.stime) as f64 / hz,
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        max_virtual_bytes: bounded(limits.max_address_space.soft_limit),
        open_fds: process.fd_count()? as u64,
        max_fds: bounded(limits.max_open_files.soft_limit).unwrap_or(u64::MAX),
        threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        start_seconds: procfs::boot_time_secs()? as f64 + stat.starttime as f64 / hz,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let before = read();
        let files: Vec<_> = (0..3).map(|_| std::fs::File::open("/dev/null")).collect();
        let seen = read();
        assert!(files.iter().all(Result::is_ok));
        assert!(seen.resident_bytes > 1 << 20 && seen.virtual_bytes >= seen.resident_bytes);
        assert!(seen.open_fds >= 3 && seen.open_fds < seen.max_fds && seen.threads > 0);
        assert!(seen.cpu_seconds >= before.cpu_seconds);
        assert!(seen.start_seconds > 1.7e9 && before.start_seconds == seen.start_seconds);
    }
}
