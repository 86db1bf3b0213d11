//! Checks whether the machine meets the needs of a configuration. Nothing is started or allocated for the check.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use pmdns_config::{ByteSize, Config};
use pmdns_nics::TUN;
use pmdns_nics::device::{self, Doubt};

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

/// Something that the machine does not have, or that does not suit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path of the key that asks for it, as in `placement[0].cores[1]`.
    pub key: String,
    /// The text after the key: what is wrong, and what to do.
    pub problem: String,
    /// Whether `pmdns run` would fail.
    pub is_fatal: bool,
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

    /// The findings for `config`, in the order of its tables.
    pub fn findings(&self, config: &Config) -> Vec<Finding> {
        let mut findings = self.devices(config);
        findings.extend(self.taps(config));
        findings.extend(self.cores(config));
        findings.extend(self.cache(config));
        findings.extend(self.query_sources(config));
        findings.extend(addresses(config));
        findings
    }

    fn devices(&self, config: &Config) -> Vec<Finding> {
        let ports = config.ports.iter().enumerate();
        let doubts = ports.filter_map(|(index, port)| {
            let doubt = device::doubt(&self.root, &port.device)?;
            let is_fatal = matches!(doubt, Doubt::Missing(_));
            let (key, problem) =
                (format!("port[{index}].device"), format!("cannot serve: {doubt}"));
            Some(Finding { key, problem, is_fatal })
        });
        doubts.collect()
    }

    /// The first TAP that cannot be made, and why.
    fn taps(&self, config: &Config) -> Option<Finding> {
        let index = config.ports.iter().position(|port| port.tap.is_some())?;
        let status = fs::read_to_string(self.root.join("proc/self/status")).unwrap_or_default();
        let problem = if !self.root.join(TUN.trim_start_matches('/')).exists() {
            format!("needs {TUN}, but this machine has none; load the module (`modprobe tun`)")
        } else if may_administer(&status) == Some(false) {
            "needs the capability CAP_NET_ADMIN, but this process lacks it; start it as root, or add the capability".to_owned()
        } else {
            return None;
        };
        Some(Finding { key: format!("port[{index}].tap"), problem, is_fatal: true })
    }

    fn cores(&self, config: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut polled = Vec::new();
        for (index, placement) in config.placements.iter().enumerate() {
            for (place, core) in placement.cores.iter().enumerate() {
                polled.push((*core, index));
                findings.extend(self.core(format!("placement[{index}].cores[{place}]"), *core));
            }
        }
        for (place, core) in config.slowpath.cores.iter().enumerate() {
            let key = format!("slowpath.cores[{place}]");
            findings.extend(self.core(key.clone(), *core));
            if let Some((_, index)) = polled.iter().find(|(other, _)| other == core) {
                let problem = format!(
                    "is {core}, which placement[{index}] polls: misses wait for that; write another CPU"
                );
                findings.push(Finding { key, problem, is_fatal: false });
            }
        }
        findings
    }

    /// The finding for a CPU that does not exist.
    fn core(&self, key: String, core: usize) -> Option<Finding> {
        let there = &self.cores;
        let problem =
            || format!("is {core}; this process may run on the CPUs {there:?}, write one of them");
        let is_missing = !there.is_empty() && !there.contains(&core);
        is_missing.then(|| Finding { key, problem: problem(), is_fatal: true })
    }

    fn cache(&self, config: &Config) -> Option<Finding> {
        let (size, memory) = (config.cache.size, self.memory?);
        let (key, there) = ("cache.size".to_owned(), ByteSize(memory >> 20 << 20));
        let problem = || format!("is {size}, but this machine has {there} of memory; write less");
        (size.0 > memory).then(|| Finding { key, problem: problem(), is_fatal: true })
    }

    /// Query sources that the kernel answers for as well: it would refuse our replies in its own name.
    fn query_sources(&self, config: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (index, port) in config.ports.iter().enumerate() {
            for (place, source) in port.query_sources.iter().enumerate() {
                if !self.kernel_has(*source) {
                    continue;
                }
                let key = format!("port[{index}].query_sources[{place}]");
                let problem = format!(
                    "is {source}, which an interface of this machine has as well; remove it there, or write another one"
                );
                findings.push(Finding { key, problem, is_fatal: false });
            }
        }
        findings
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

/// Addresses that another process uses. If an instance with this configuration is running, the addresses may be its
/// own, so nothing is reported.
fn addresses(config: &Config) -> Vec<Finding> {
    if is_running(config) {
        return Vec::new();
    }
    let listens =
        [("metrics.listen", config.metrics.listen), ("transfer.listen", config.transfer.listen)];
    let taken = listens.into_iter().filter_map(|(key, listen)| {
        let problem = taken(listen?)?;
        Some(Finding { key: key.to_owned(), problem, is_fatal: true })
    });
    taken.collect()
}

/// Whether an instance with this configuration is running.
pub(crate) fn is_running(config: &Config) -> bool {
    match UnixStream::connect(&config.control.socket) {
        Ok(_) => true,
        // Without permission to ask, the error still shows that an instance is there.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// Why `address` cannot be listened at. Without the rights to try, that is not known.
fn taken(address: SocketAddr) -> Option<String> {
    match TcpListener::bind(address).err()?.kind() {
        ErrorKind::AddrInUse => {
            Some(format!("is {address}, where another program listens; write another port"))
        }
        ErrorKind::AddrNotAvailable => Some(format!(
            "is {address}, which no interface of this machine has; write one that does"
        )),
        _ => None,
    }
}

/// Whether the process with this text of `/proc/self/status` has `CAP_NET_ADMIN` (proc(5)); `None`: it does not say.
fn may_administer(status: &str) -> Option<bool> {
    const CAP_NET_ADMIN: u32 = 12;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(capabilities & 1 << CAP_NET_ADMIN != 0)
}

/// The machine's memory in bytes, from the text of `/proc/meminfo` (proc(5)).
fn total_memory(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The first port whose device does not exist, with advice.
pub fn missing_device(root: &Path, config: &Config) -> Option<(String, Doubt)> {
    config.ports.iter().find_map(|port| {
        let doubt = device::doubt(root, &port.device)?;
        matches!(doubt, Doubt::Missing(_)).then(|| (port.name.clone(), doubt))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    /// A machine of two CPUs and 1 GiB, with no interface but `lo`.
    fn machine(name: &str) -> Machine {
        let root = std::env::temp_dir().join(format!("pmdns-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/self/net")).unwrap();
        fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
        fs::write(root.join("proc/self/net/dev"), "    lo: 0 0\n").unwrap();
        Machine { cores: vec![0, 1], memory: total_memory("MemTotal:  1048576 kB\n"), root }
    }

    fn found(machine: &Machine, config: &Config) -> Vec<(String, bool)> {
        let findings = machine.findings(config).into_iter();
        findings.map(|one| (format!("{} {}", one.key, one.problem), one.is_fatal)).collect()
    }

    #[test]
    fn d05_what_the_machine_has_not_is_found() {
        let machine = machine("d05");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(
            "[[placement]]\ncores = [1, 99]\n[slowpath]\ncores = [1, 7]\n[cache]\nsize = \"500GiB\"\n",
        );
        config.metrics.listen = listener.local_addr().ok();
        config.ports[0].device = "0000:99:00.0".to_owned();
        let starts = [
            ("port[0].device cannot serve: this machine has no PCI device 0000:99:00.0", true),
            ("placement[0].cores[1] is 99; this process may run on the CPUs [0, 1]", true),
            ("slowpath.cores[0] is 1, which placement[0] polls", false),
            ("slowpath.cores[1] is 7;", true),
            ("cache.size is 500GiB, but this machine has 1GiB of memory", true),
            ("metrics.listen is 127.0.0.1:", true),
        ];
        let found = found(&machine, &config);
        assert_eq!(found.len(), starts.len(), "{found:?}");
        for ((told, is_fatal), (start, fatal)) in found.iter().zip(starts) {
            assert!(told.starts_with(start), "{start:?} in {told:?}");
            assert_eq!(*is_fatal, fatal, "{told}");
        }
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn a_tap_that_cannot_be_made_is_found() {
        let machine = machine("taps");
        let mut config = config("");
        assert_eq!(found(&machine, &config), [], "nobody wants one");
        config.ports[0].tap = Some("pm-edge".to_owned());
        let expect = |start: &str| {
            let found = found(&machine, &config);
            assert!(found.len() == 1 && found[0].1, "{found:?}");
            assert!(found[0].0.starts_with(&format!("port[0].tap needs {start}")), "{found:?}");
        };
        expect("/dev/net/tun, but");
        fs::create_dir_all(machine.root.join("dev/net")).unwrap();
        fs::write(machine.root.join("dev/net/tun"), "").unwrap();
        let status = machine.root.join("proc/self/status");
        fs::write(&status, "Name:\tpmdns\nCapEff:\t000001ffffffefff\n").unwrap();
        expect("the capability CAP_NET_ADMIN");
        fs::write(&status, "CapEff:\t0000000000001000\n").unwrap();
        assert_eq!(found(&machine, &config), []);
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn a_query_source_that_the_kernel_has_too_is_found() {
        let machine = machine("sources");
        let mut config = config("");
        config.ports[0].query_sources = vec!["192.0.2.60".parse().unwrap(), [127, 0, 0, 1].into()];
        let found_now = found(&machine, &config);
        let start = "port[0].query_sources[1] is 127.0.0.1, which an interface of this machine has";
        assert_eq!(found_now.len(), 1, "{found_now:?}");
        assert!(found_now[0].0.starts_with(start) && !found_now[0].1, "{found_now:?}");
        let settings = machine.root.join("proc/sys/net/ipv4");
        fs::create_dir_all(&settings).unwrap();
        fs::write(settings.join("ip_nonlocal_bind"), "1\n").unwrap();
        assert_eq!(found(&machine, &config), [], "any address can be bound");
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn d05_the_address_of_an_instance_that_runs_is_its_own() {
        let machine = machine("d05-own");
        let socket = machine.root.join("pmdns.sock");
        let _instance = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config("");
        config.metrics.listen = listener.local_addr().ok();
        config.control.socket = socket;
        assert_eq!(found(&machine, &config), []);
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn d10_an_interface_that_is_not_there_is_found() {
        let machine = machine("d10");
        let mut config = config("");
        for (device, is_missing) in [
            ("net_af_xdp0,iface=nope", true),
            ("net_af_xdp0,iface=lo", false),
            ("net_tap0,iface=nope", false),
        ] {
            config.ports[0].device = device.to_owned();
            let missing = missing_device(&machine.root, &config);
            assert_eq!(missing.is_some(), is_missing, "{device}");
            if let Some((_, doubt)) = missing {
                assert_eq!(
                    doubt.to_string(),
                    "there is no interface `nope` here (`ip link` lists them)"
                );
            }
        }
        fs::remove_dir_all(machine.root).unwrap();
    }
}
