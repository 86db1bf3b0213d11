//! CPU time of a process, as the kernel accounts it (proc(5)).

use std::fs;

use serde::Serialize;

/// The unit of `utime` and `stime` in `/proc/PID/stat`: the kernel tells user space 100 a second on every
/// architecture that DPDK supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Fields of `/proc/PID/stat` behind the command's closing parenthesis before `utime`.
const BEFORE_UTIME: usize = 11;

/// CPU seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTime {
    /// In user space.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
}

impl CpuTime {
    /// What process `pid` has used so far; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// What was used since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
        }
    }

    fn parse(stat: &str) -> Option<Self> {
        // The command's name may hold blanks and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(BEFORE_UTIME);
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
        Some(Self { user_seconds: seconds()?, system_seconds: seconds()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_fields_are_found_whatever_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 1300 0 0 20 0 1 0 5 1 1";
        let expected = CpuTime { user_seconds: 2.5, system_seconds: 13.0 };
        assert_eq!(CpuTime::parse(stat), Some(expected));
        assert_eq!(CpuTime::parse("7 (a"), None);
        assert!(CpuTime::of(std::process::id()).is_some());
    }
}
