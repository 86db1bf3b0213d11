//! Why the environment did not start, and remedies for the operator.

use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;

use super::error_text;

/// Why DPDK's environment could not be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// It can be started once in the life of a process, even if it has been closed.
    #[error("DPDK can be started once per process and it was: restart the program instead")]
    AlreadyInitialised,

    /// An argument cannot be passed to C.
    #[error("the EAL argument {0:?} contains a zero byte: remove it from eal.args")]
    ZeroByte(String),

    /// Not allowed to use hugepages, devices or the runtime directory.
    #[error(
        "DPDK lacks a permission ({detail}). Run as root, or with CAP_SYS_ADMIN, CAP_IPC_LOCK and \
         CAP_NET_ADMIN. Give the user write access to the hugepage mount (mount -o uid=...). \
         A test that needs neither hugepages nor devices runs with \
         eal.args = [\"--no-huge\", \"--no-shconf\", \"--no-pci\", \"-m\", \"64\"]"
    )]
    Permission {
        /// The EAL's own words.
        detail: String,
    },

    /// No hugepages, or none left.
    #[error(
        "DPDK found no free hugepages ({detail}). Reserve 512 pages of 2 MB with \
         `sysctl -w vm.nr_hugepages=512`. Mount them with \
         `mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages`, unless eal.args \
         has --in-memory. Without hugepages DPDK runs slower, with \
         eal.args = [\"--no-huge\", \"-m\", \"256\", ...]"
    )]
    NoHugepages {
        /// The EAL's own words.
        detail: String,
    },

    /// Another process runs with the same `--file-prefix`.
    #[error(
        "another DPDK process is running with the same file prefix ({detail}). Stop it, or give \
         this one its own with --file-prefix=NAME in eal.args (or --in-memory, which shares nothing)"
    )]
    PrefixInUse {
        /// The EAL's own words.
        detail: String,
    },

    /// The arguments were refused.
    #[error("DPDK refused its arguments {arguments:?} ({detail}): correct eal.args")]
    Arguments {
        /// All of them.
        arguments: Vec<String>,
        /// The EAL's own words.
        detail: String,
    },

    /// Anything else.
    #[error("DPDK did not start: {reason} ({detail}): check eal.args and what the EAL says here")]
    Failed {
        /// The meaning of `rte_errno`.
        reason: String,
        /// The EAL's own words.
        detail: String,
    },

    /// Something made by the environment is still there, so it was not cleaned up.
    #[error(
        "DPDK cannot be closed while a port, queue, pool or adopted thread exists, or while a frame \
         is held: close them first"
    )]
    InUse,

    /// The clean-up itself failed.
    #[error("DPDK did not clean up after itself: {0}")]
    Cleanup(String),
}

/// Reads the reason of a failed start from the error number and the log, whichever says more.
pub(super) fn diagnose(code: c_int, arguments: Vec<String>, lines: &[String]) -> EalError {
    let says = |word: &str| lines.iter().any(|line| line.contains(word));
    let detail = detail(lines);
    if code == libc::EALREADY {
        EalError::AlreadyInitialised
    } else if says("Is another primary process running") {
        EalError::PrefixInUse { detail }
    } else if says("Permission denied") || says("not permitted") || code == libc::EPERM {
        EalError::Permission { detail }
    } else if says("hugepage") || code == libc::ENOMEM {
        EalError::NoHugepages { detail }
    } else if code == libc::EACCES {
        EalError::Permission { detail }
    } else if code == libc::EINVAL {
        EalError::Arguments { arguments, detail }
    } else {
        // Some ends of the start set no error number.
        let reason = if code == 0 { "it gives no reason".to_owned() } else { error_text(code) };
        EalError::Failed { reason, detail }
    }
}

/// The remedy for a device that vfio did not give, if the log tells why.
pub(super) fn device<'l>(lines: impl Iterator<Item = &'l String> + Clone) -> Option<&'static str> {
    let says = |word: &str| lines.clone().any(|line| line.contains(word));
    if says("Device or resource busy") {
        Some("another process has the device: stop it (`fuser -v /dev/vfio/*` names it)")
    } else if says("Permission denied") || says("Operation not permitted") {
        Some(
            "this user may not open it: run as root, or `chown USER /dev/vfio/N` with the N above \
             (docs/tasks/hardening.md, Without root)",
        )
    } else if says("Cannot allocate memory") {
        Some(
            "the device may not reach the frames, because too little memory may be locked: \
             `ulimit -l unlimited`, or LimitMEMLOCK=infinity in a systemd unit",
        )
    } else {
        None
    }
}

/// Steps of a port that is shared with the kernel.
pub(super) const ISOLATE: &str = "leave other frames to the kernel (rte_flow_isolate)";
pub(super) const ADD_RULES: &str = "take queries from the kernel (rte_flow_create)";

/// The remedy if a step of a port's start fails, after which the driver logged `lines`.
pub(super) fn step(step: &str, lines: &[String]) -> &'static str {
    let says = |word: &str| lines.iter().any(|line| line.contains(word));
    if step == ISOLATE || step == ADD_RULES {
        ": this needs a device that the kernel and DPDK share, as those of mlx5. Remove share_with_kernel, and \
         give the kernel a `tap` instead"
    } else if says("custom XDP program") {
        ": the kernel does not load the XDP program of share_with_kernel. It needs Linux 5.3, CAP_BPF and \
         CAP_PERFMON, or root"
    } else if says("xsk") {
        ": the kernel gives no AF_XDP socket. Another XDP program may be on the interface (`ip link set dev IFACE xdp off`), \
         or another program may have this queue. Otherwise try fewer descriptors (rx_descriptors, tx_descriptors)"
    } else if says("No such file") || says("VHOST_CONFIG") || says("memif") {
        ": its socket cannot be made or reached. Make its folder, and start the program at its other end first if this end \
         connects"
    } else if step.ends_with("queue") {
        ": try fewer descriptors (rx_descriptors, tx_descriptors), fewer queues, or more frames"
    } else {
        ": the driver does not take this configuration. Try checksum_offload = false or one core"
    }
}

/// The log in one line: what it says of failure, or else its end.
pub(super) fn detail(lines: &[String]) -> String {
    const TELLING: [&str; 9] =
        ["annot", "ailed", "denied", "No free", "no free", "nvalid", "unable", "FATAL", "ARGPARSE"];
    let mut told: Vec<&str> = Vec::new();
    for line in lines.iter().map(String::as_str) {
        if TELLING.iter().any(|word| line.contains(word)) && !told.contains(&line) {
            told.push(line);
        }
    }
    if told.is_empty() {
        return lines.last().cloned().unwrap_or_else(|| "it did not say why".to_owned());
    }
    told.join("; ")
}

/// Where hugepages are mounted.
pub(super) fn hugepage_mounts() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let folder = |line: &str| {
        let mut words = line.split_whitespace();
        let (_, folder, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| PathBuf::from(folder))
    };
    mounts.lines().filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn bound_medium_a_device_that_vfio_does_not_give_is_told_with_its_fix() {
        for (line, fix) in [
            ("EAL: Cannot open /dev/vfio/12: Device or resource busy", "fuser"),
            ("EAL: Cannot open /dev/vfio/12: Permission denied", "chown USER /dev/vfio/N"),
            ("EAL: Cannot set up DMA remapping, error 12 (Cannot allocate memory)", "ulimit -l"),
        ] {
            assert!(
                device(lines(&[line]).iter()).is_some_and(|advice| advice.contains(fix)),
                "{line}"
            );
        }
        assert_eq!(device(lines(&["EAL: Bus (pci) probe failed."]).iter()), None);
    }

    #[test]
    fn a_step_that_fails_is_told_with_its_likely_cause() {
        for (name, line, cause) in [
            (
                "set up a receive queue",
                "xsk_configure(): Failed to create xsk socket.",
                "Another XDP program",
            ),
            (
                "start the port",
                "VHOST_CONFIG: failed to bind to /x/y: No such file or directory",
                "Make its folder",
            ),
            ("start the port", "memif_connect(): Failed to connect", "its socket cannot be"),
            ("set up a receive queue", "no memory", "fewer descriptors"),
            ("start the port", "", "Try checksum_offload"),
        ] {
            let told = step(name, &lines(&[line]));
            assert!(told.contains(cause), "{line}: {told}");
        }
    }

    #[test]
    fn each_reason_is_told_with_its_fix() {
        let none = Vec::new;
        let prefix = lines(&[
            "EAL: Cannot create lock on '/var/run/dpdk/rte/config'. Is another primary process running?",
        ]);
        let error = diagnose(libc::EAGAIN, none(), &prefix).to_string();
        assert!(error.contains("--file-prefix=NAME") && error.contains("/var/run/dpdk/rte/config"));

        let pages = lines(&["EAL: No free 2048 kB hugepages reported on node 0"]);
        let error = diagnose(libc::ENOMEM, none(), &pages).to_string();
        assert!(error.contains("sysctl -w vm.nr_hugepages=512"), "{error}");

        let denied = lines(&["EAL: Cannot open '/dev/hugepages/rtemap_0': Permission denied"]);
        assert!(diagnose(1, none(), &denied).to_string().contains("Run as root"));

        let error = diagnose(0, none(), &lines(&["EAL: Cannot init multi-process"])).to_string();
        assert!(error.contains("it gives no reason (EAL: Cannot init"), "{error}");

        let error = diagnose(libc::EINVAL, lines(&["--nope"]), &[]).to_string();
        assert!(error.contains("--nope") && error.contains("correct eal.args"), "{error}");
    }
}
