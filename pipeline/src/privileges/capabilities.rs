//! Capabilities (capabilities(7)): which are needed after start, and their names.

use pmdns_config::Config;

/// Bits of the capabilities that matter here.
pub(super) const NET_ADMIN: u32 = 12;
/// The driver that removes its XDP program from the interface at the end.
const AF_XDP: &str = "net_af_xdp";

/// By number.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// The needs of the configured ports after start. Most drivers need nothing: the kernel checks rights when a device is
/// opened, and the devices are open already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Capabilities, as a set of bits.
    pub(super) capabilities: u64,
    /// The system call bpf.
    pub(super) bpf: bool,
}

impl Needs {
    pub(super) fn of(config: &Config) -> Self {
        // AF_XDP removes its program from the interface, and its socket from a map.
        let af_xdp = config.ports.iter().any(|port| port.device.starts_with(AF_XDP));
        Self { capabilities: if af_xdp { 1 << NET_ADMIN } else { 0 }, bpf: af_xdp }
    }
}

/// The names of a set.
pub(super) fn names(set: u64) -> Vec<String> {
    let numbers = (0..u64::BITS).filter(|number| set & 1 << number != 0);
    let name = |number: u32| match NAMES.get(number as usize) {
        Some(name) => (*name).to_owned(),
        None => number.to_string(),
    };
    numbers.map(name).collect()
}

#[cfg(test)]
mod tests {
    use pmdns_engine::testing::config;

    use super::*;

    #[test]
    fn sets_have_names() {
        assert_eq!(
            names(1 << NET_ADMIN | 1 | 1 << 39 | 1 << 50),
            ["chown", "net_admin", "bpf", "50"]
        );
        assert!(names(0).is_empty());
    }

    #[test]
    fn only_af_xdp_needs_something_after_start() {
        let mut config = config("");
        assert_eq!(Needs::of(&config), Needs { capabilities: 0, bpf: false });
        config.ports[0].device = "net_af_xdp0,iface=eth0".to_owned();
        assert_eq!(Needs::of(&config), Needs { capabilities: 1 << 12, bpf: true });
    }
}
