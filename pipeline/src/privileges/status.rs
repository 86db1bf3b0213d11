//! The rights of a process's threads, as the kernel reports them (proc_pid_status(5)).

/// The rights of one thread, or of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Capabilities that it has or could regain.
    pub(super) capabilities: u64,
    pub(super) no_new_privileges: bool,
    pub(super) seccomp: bool,
}

/// The status of this process: capabilities that any thread has, and restrictions that all threads have.
pub(super) fn of_process() -> Status {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let all = texts.map(|text| parse(&text)).reduce(|one, other| Status {
        capabilities: one.capabilities | other.capabilities,
        no_new_privileges: one.no_new_privileges && other.no_new_privileges,
        seccomp: one.seccomp && other.seccomp,
    });
    all.unwrap_or_default()
}

fn parse(text: &str) -> Status {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map_or("", str::trim)
    };
    let set = |name: &str| u64::from_str_radix(field(name), 16).unwrap_or(u64::MAX);
    Status {
        capabilities: set("CapEff") | set("CapPrm") | set("CapInh"),
        no_new_privileges: field("NoNewPrivs") == "1",
        // 2: a filter.
        seccomp: field("Seccomp") == "2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = "Name:\tpmdns\nCapInh:\t0000000000000000\nCapPrm:\t0000000000001000\n\
                    CapEff:\t0000000000000001\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t1\n\
                    Seccomp:\t2\nSeccomp_filters:\t1\n";
        let status = Status { capabilities: 0x1001, no_new_privileges: true, seccomp: true };
        assert_eq!(parse(text), status);
        let nothing = Status { capabilities: u64::MAX, ..Status::default() };
        assert_eq!(parse(""), nothing, "what is not known is feared");
    }
}
