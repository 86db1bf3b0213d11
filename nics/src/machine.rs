//! The facts of a machine: its CPUs, its memory, its addresses, its files.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

use pmdns_config::{Config, Pages};

use crate::device;

/// The size of huge pages that most machines have.
pub const USUAL_PAGE: usize = 2 << 20;
/// Huge pages that frames and DPDK's own tables take, roughly.
const FOR_DPDK: usize = 256 << 20;

/// Bytes that frames and cache take on huge pages.
pub fn huge_bytes(config: Option<&Config>) -> usize {
    let of_cache = config.filter(|config| config.cache.pages != Pages::Normal);
    FOR_DPDK + of_cache.map_or(0, |config| config.cache.size.0)
}

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

/// What a machine does not have, or what does not suit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Path of the key that asks for it, as in `placement[0].cores[1]`.
    pub key: String,
    /// The text after the key: what is wrong, and what to do.
    pub problem: String,
    /// Whether `pmdns run` would fail. It refuses to start then.
    pub is_fatal: bool,
}

/// A condition of a configuration that a machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCondition {
    /// What is lacking.
    pub lack: Lack,
    /// The condition.
    pub condition: &'static str,
    /// The exit code of `pmdns run`.
    pub exit_code: u8,
}

impl Lack {
    /// `run` would fail.
    pub fn fatal(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into(), is_fatal: true }
    }

    /// `run` would start, and something would not work.
    pub fn other(key: impl Into<String>, problem: impl Into<String>) -> Self {
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

    /// A file of `proc`, `sys` or `dev`; empty: it cannot be read.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Whether an interface of the kernel has this address, as far as a socket can tell.
    pub fn kernel_has(&self, address: IpAddr) -> bool {
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

/// The machine's memory in bytes, from the text of `/proc/meminfo` (proc(5)).
pub fn total_memory(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
