//! The facts of a machine, and what it lacks.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use pmdns_config::Config;
use pmdns_nics::device;

/// The facts of a machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// CPUs this process may run on.
    pub cores: Vec<usize>,
    /// Its memory in bytes, if it tells.
    pub memory: Option<usize>,
    /// The folder that contains `proc` and `sys`.
    pub root: PathBuf,
}

/// A finding of a condition.
pub(super) struct Lack {
    pub(super) key: String,
    pub(super) problem: String,
    pub(super) is_fatal: bool,
}

impl Lack {
    /// `run` would fail.
    pub(super) fn fatal(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into(), is_fatal: true }
    }

    /// `run` would start, and something would not work.
    pub(super) fn other(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into(), is_fatal: false }
    }
}

impl Machine {
    /// The machine this process runs on.
    pub fn this() -> Self {
        let root = PathBuf::from(device::ROOT);
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let memory = fs::read_to_string(root.join("proc/meminfo")).ok();
        Self {
            cores: cores.into_iter().map(|core| core.id).collect(),
            memory: memory.and_then(|text| total_memory(&text)),
            root,
        }
    }

    /// The finding for a CPU that does not exist.
    pub(super) fn core(&self, key: String, core: usize) -> Option<Lack> {
        let there = &self.cores;
        let problem =
            || format!("is {core}; this process may run on the CPUs {there:?}, write one of them");
        let is_missing = !there.is_empty() && !there.contains(&core);
        is_missing.then(|| Lack::fatal(key, problem()))
    }

    /// A file of `proc`, `sys` or `dev`; empty: it cannot be read.
    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Whether an interface of the kernel has this address, as far as a socket can tell.
    pub(crate) fn kernel_has(&self, address: IpAddr) -> bool {
        // Where any address may be bound, a socket tells nothing.
        !self.binds_any(address) && UdpSocket::bind((address, 0)).is_ok()
    }

    /// Whether sockets may be bound to addresses that no interface has (ip-sysctl, `ip_nonlocal_bind`).
    fn binds_any(&self, address: IpAddr) -> bool {
        let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
        let setting = self.root.join(format!("proc/sys/net/{family}/ip_nonlocal_bind"));
        fs::read_to_string(setting).is_ok_and(|text| text.trim() != "0")
    }
}

/// Whether an instance runs at the control socket of this configuration.
pub(crate) fn is_running(config: &Config) -> bool {
    match UnixStream::connect(&config.control.socket) {
        Ok(_) => true,
        // Without permission to ask, the error still shows that an instance is there.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// The machine's memory in bytes, from the text of `/proc/meminfo` (proc(5)).
pub(super) fn total_memory(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
