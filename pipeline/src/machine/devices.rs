//! Conditions of ports: devices, interfaces, huge pages.

use std::path::{Path, PathBuf};

use pmdns_config::{Config, EalSettings, PciAddress, PortSettings, device_name};
use pmdns_control::client::is_running;
use pmdns_nics::TUN;
use pmdns_nics::device::{self, Doubt};
use pmdns_nics::machine::{Lack, Machine, USUAL_PAGE, huge_bytes};
#[cfg(feature = "dpdk")]
use pmdns_nics::{dpdk, program_of_others};

/// Folders of `sys` with the huge pages of one size each.
const HUGE_PAGES: &str = "sys/kernel/mm/hugepages";

/// Findings of ports, one each at most.
fn of_ports(config: &Config, find: impl Fn(String, &PortSettings) -> Option<Lack>) -> Vec<Lack> {
    let ports = config.ports.iter().enumerate();
    ports.filter_map(|(index, port)| find(format!("port[{index}].device"), port)).collect()
}

/// The value of an option of a device, as in `net_tap0,iface=pm0`.
fn option<'d>(device: &'d str, name: &str) -> Option<&'d str> {
    device.split(',').skip(1).find_map(|option| option.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Devices that are not there, or that a driver of the kernel keeps.
pub(super) fn present(machine: &Machine, config: &Config) -> Vec<Lack> {
    of_ports(config, |key, port| {
        let doubt = device::doubt(&machine.root, &port.device)?;
        let problem = format!("cannot serve as port {}: {doubt}", port.name);
        let is_missing = matches!(doubt, Doubt::Missing(_));
        Some(if is_missing { Lack::fatal(key, problem) } else { Lack::other(key, problem) })
    })
}

/// Drivers of virtual devices that are not installed, and what they are to read or make.
pub(super) fn driver(machine: &Machine, config: &Config) -> Vec<Lack> {
    of_ports(config, |key, port| {
        if let Some(problem) = unknown_driver(machine, &port.device) {
            return Some(Lack::fatal(key, problem));
        }
        let name = device_name(&port.device);
        let driver = without_number(&name);
        let file = option(&port.device, "rx_pcap").map(Path::new);
        if let Some(file) = file.filter(|file| driver == "net_pcap" && !file.exists()) {
            let problem = format!("reads {}, which is not there; name a capture", file.display());
            return Some(Lack::fatal(key, problem));
        }
        let interface = option(&port.device, "iface").filter(|_| driver == "net_tap")?;
        taken(machine, key, port, interface)
    })
}

/// TAPs beside ports that would have the name of another interface.
pub(super) fn tap_names(machine: &Machine, config: &Config) -> Vec<Lack> {
    let ports = config.ports.iter().enumerate();
    let taps = ports.filter_map(|(index, port)| Some((index, port, port.tap.as_deref()?)));
    taps.filter_map(|(index, port, tap)| taken(machine, format!("port[{index}].tap"), port, tap))
        .collect()
}

/// The name of an interface that the kernel has, and that is no TAP.
fn taken(machine: &Machine, key: String, port: &PortSettings, interface: &str) -> Option<Lack> {
    // sysfs may be that of another network namespace.
    let facts = machine.root.join("sys/class/net").join(interface);
    let is_other = device::has_interface(&machine.root, interface)?
        && facts.exists()
        && !facts.join("tun_flags").exists();
    let problem = format!(
        "makes the interface `{interface}` of port {}, but the kernel has one of that name, which is no TAP; write \
         another name",
        port.name
    );
    is_other.then(|| Lack::fatal(key, problem))
}

/// Devices and libraries of `eal.args` that are not there.
pub(super) fn named(machine: &Machine, config: &Config) -> Vec<Lack> {
    let eal = &config.eal;
    let devices = eal.options("--vdev").chain(eal.options("-a"));
    let devices = devices.filter_map(|(index, device)| {
        let is_on_a_bus = device.contains(':') || PciAddress::of(device).is_some();
        let problem = unknown_driver(machine, device).or_else(|| {
            let is_virtual = device_name(device).contains('_');
            let problem = format!(
                "has `{device}`, which is no device; write a PCI address or a driver (net_null0)"
            );
            (!is_on_a_bus && !is_virtual).then_some(problem)
        });
        problem.map(|problem| (index, problem))
    });
    let libraries = eal.options("-d").filter_map(|(index, library)| {
        let problem =
            format!("loads {library}, which is not there; write the path of a library of DPDK");
        let is_there = machine.root.join(library.trim_start_matches('/')).exists();
        // Others are found from where `run` is started, or as libraries are.
        (library.starts_with('/') && !is_there).then_some((index, problem))
    });
    let lacks = devices.chain(libraries);
    lacks.map(|(index, problem)| Lack::fatal(format!("eal.args[{index}]"), problem)).collect()
}

/// What is wrong with the driver of a virtual device, if it is known that there is none.
fn unknown_driver(machine: &Machine, device: &str) -> Option<String> {
    let name = device_name(device);
    let driver = without_number(&name);
    let is_unknown = driver.starts_with("net_") && !has_driver(machine, driver);
    let folder = driver_folder().filter(|_| is_unknown)?;
    Some(format!(
        "has the driver {driver}, which is not among those in {}; check its spelling (net_tap0, net_af_xdp0, \
         net_memif0, ...), or install it (`apt-get install dpdk`)",
        folder.display()
    ))
}

/// The name of a driver from that of a device.
fn without_number(device: &str) -> &str {
    device.trim_end_matches(|letter: char| letter.is_ascii_digit())
}

/// The argument from which on DPDK refuses them. It is asked itself, because each of its versions takes others.
pub(super) fn arguments(machine: &Machine, config: &Config) -> Vec<Lack> {
    let is_here = machine.root == Path::new(device::ROOT);
    if !is_here || config.ports.iter().all(|port| port.device.starts_with("replay")) {
        return Vec::new();
    }
    let args = &config.eal.args;
    let refusal =
        |count: usize| refusal(&EalSettings { args: args[..count].to_vec() }, &config.ports);
    let lack = |said: String| {
        // An option and its value may be two.
        let first = (0..args.len()).rev().find(|count| refusal(*count).is_none()).unwrap_or(0);
        let refused = args[first..].first().map_or("", String::as_str);
        let problem = format!(
            "has `{refused}`, which DPDK refuses ({said}); correct it (its Linux guide, \"EAL parameters\"), or leave it out"
        );
        Lack::fatal(format!("eal.args[{first}]"), problem)
    };
    refusal(args.len()).map(lack).into_iter().collect()
}

#[cfg(feature = "dpdk")]
fn refusal(eal: &EalSettings, ports: &[PortSettings]) -> Option<String> {
    dpdk::refusal(&dpdk::arguments(eal, ports))
}

/// Without DPDK there are no arguments of it.
#[cfg(not(feature = "dpdk"))]
fn refusal(_: &EalSettings, _: &[PortSettings]) -> Option<String> {
    None
}

/// Whether the library of a driver is installed; also if that cannot be told.
fn has_driver(machine: &Machine, driver: &str) -> bool {
    // The library of some is called otherwise.
    let library = match driver {
        "net_virtio_user" => "net_virtio",
        "net_bonding" => "net_bond",
        other => other,
    };
    let folder = driver_folder()
        .map(|folder| machine.root.join(folder.strip_prefix("/").unwrap_or(&folder)));
    let Some(Ok(files)) = folder.map(|folder| folder.read_dir()) else { return true };
    let start = format!("librte_{library}.so");
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with(&start))
}

#[cfg(feature = "dpdk")]
fn driver_folder() -> Option<PathBuf> {
    Some(dpdk::driver_folder())
}

/// Without DPDK there are no drivers.
#[cfg(not(feature = "dpdk"))]
fn driver_folder() -> Option<PathBuf> {
    None
}

/// Interfaces that are written where DPDK wants a driver or an address.
pub(super) fn interface_for_device(machine: &Machine, config: &Config) -> Vec<Lack> {
    of_ports(config, |key, port| {
        let name = device_name(&port.device);
        if !device::has_interface(&machine.root, &name)? {
            return None;
        }
        // The link of an interface leads to its device.
        let link = machine.root.join("sys/class/net").join(&name).join("device");
        let address = link.read_link().ok();
        let address = address.as_deref().and_then(Path::file_name).map(|it| it.to_string_lossy());
        let address = address.filter(|text| PciAddress::of(text).is_some());
        let whole = match address {
            Some(address) => format!(", or its PCI address \"{address}\" to have it whole"),
            None => String::new(),
        };
        let problem = format!(
            "is `{name}`, which is an interface of the kernel and no device of DPDK; write \"net_af_xdp0,iface={name}\"{whole}"
        );
        Some(Lack::fatal(key, problem))
    })
}

/// What TAPs are made of: the first port that wants one tells.
pub(super) fn tun(machine: &Machine, config: &Config) -> Vec<Lack> {
    let wants = |port: &PortSettings| match () {
        () if port.tap.is_some() => Some("tap"),
        () if port.device.starts_with("net_tap") => Some("device"),
        () => None,
    };
    let mut ports = config.ports.iter().enumerate();
    let Some((index, key)) = ports.find_map(|(index, port)| Some((index, wants(port)?))) else {
        return Vec::new();
    };
    let problem = if !machine.root.join(TUN.trim_start_matches('/')).exists() {
        format!("needs {TUN}, but this machine has none; load the module (`modprobe tun`)")
    } else if may_administer(&machine.text("proc/self/status")) == Some(false) {
        "needs the capability CAP_NET_ADMIN, but this process lacks it; start it as root, or add the capability".to_owned()
    } else {
        return Vec::new();
    };
    vec![Lack::fatal(format!("port[{index}].{key}"), problem)]
}

/// Whether the process with this text of `/proc/self/status` has `CAP_NET_ADMIN` (proc(5)); `None`: it does not say.
fn may_administer(status: &str) -> Option<bool> {
    const CAP_NET_ADMIN: u32 = 12;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(capabilities & 1 << CAP_NET_ADMIN != 0)
}

/// Huge pages for DPDK, unless its arguments do without.
pub(super) fn huge_pages(machine: &Machine, config: &Config) -> Vec<Lack> {
    let has = |name: &str| config.eal.args.iter().any(|argument| argument == name);
    let folder = machine.root.join(HUGE_PAGES);
    let Ok(sizes) = folder.read_dir() else { return Vec::new() };
    if has("--no-huge") || config.ports.iter().all(|port| port.device.starts_with("replay")) {
        return Vec::new();
    }
    let (mut there, mut free) = (0, 0);
    for size in sizes.flatten() {
        let count = |file: &str| -> u64 {
            let text = std::fs::read_to_string(size.path().join(file)).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        there += count("nr_hugepages") + count("nr_overcommit_hugepages");
        free += count("free_hugepages") + count("nr_overcommit_hugepages");
    }
    let without = "or do without: eal.args = [\"--no-huge\", \"-m\", \"256\"], which is slower";
    let is_mounted = machine.text("proc/self/mounts").contains(" hugetlbfs ");
    let lack = if there == 0 {
        let pages = huge_bytes(Some(config)).div_ceil(USUAL_PAGE);
        let reserve = format!("reserve some (`sysctl -w vm.nr_hugepages={pages}`)");
        Lack::fatal(
            "eal.args",
            format!("asks for hugepages, but this machine has none; {reserve}, {without}"),
        )
    } else if !is_mounted && !has("--in-memory") {
        let mount = "`mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages`";
        Lack::fatal(
            "eal.args",
            format!("asks for hugepages, which are mounted nowhere; {mount}, {without}"),
        )
    } else if free == 0 && !is_running(&config.control.socket) {
        // The EAL takes those of a process that was killed.
        Lack::other("eal.args", "asks for hugepages, and none of this machine is free".to_owned())
    } else {
        return Vec::new();
    };
    vec![lack]
}

/// More queues of AF_XDP than the interface has.
pub(super) fn xdp_queues(machine: &Machine, config: &Config) -> Vec<Lack> {
    of_ports(config, |key, port| {
        let interface = af_xdp(&port.device)?;
        let number =
            |name, default| option(&port.device, name).map_or(Some(default), |it| it.parse().ok());
        let (start, count): (usize, usize) = (number("start_queue", 0)?, number("queue_count", 1)?);
        let queues = machine.root.join("sys/class/net").join(interface).join("queues");
        let names = queues.read_dir().ok()?.flatten().map(|entry| entry.file_name());
        let there = names.filter(|name| name.to_string_lossy().starts_with("rx-")).count();
        let problem = format!(
            "asks for the queues {start} to {} of `{interface}`, which has {there}; write a smaller queue_count, or give the \
             interface more (`ethtool -L {interface} combined {}`)",
            start + count.max(1) - 1,
            start + count
        );
        (there > 0 && start + count > there).then(|| Lack::fatal(key, problem))
    })
}

/// The interface of a device over AF_XDP.
fn af_xdp(device: &str) -> Option<&str> {
    option(device, "iface").filter(|name| device.starts_with("net_af_xdp") && !name.contains('/'))
}

/// Another's XDP program, which an interface has one of.
pub(super) fn xdp_program(machine: &Machine, config: &Config) -> Vec<Lack> {
    // The kernel is asked, not a tree of files.
    if machine.root != Path::new(device::ROOT) {
        return Vec::new();
    }
    of_ports(config, |key, port| {
        let interface = af_xdp(&port.device)?;
        let program = program_of_others(interface)?;
        let problem = format!(
            "is over `{interface}`, which has the XDP program `{program}` of somebody else; take it off (`ip link set dev \
             {interface} xdp off`)"
        );
        Some(Lack::fatal(key, problem))
    })
}

/// Without DPDK no port is over AF_XDP.
#[cfg(not(feature = "dpdk"))]
fn program_of_others(_: &str) -> Option<String> {
    None
}

/// Sockets of devices: the folder in which one is made, or the socket to which one connects.
pub(super) fn sockets(machine: &Machine, config: &Config) -> Vec<Lack> {
    of_ports(config, |key, port| {
        let device = port.device.as_str();
        let is = |name: &str, value: &str| option(device, name) == Some(value);
        let (path, connects) = match () {
            () if device.starts_with("net_vhost") => (option(device, "iface"), is("client", "1")),
            () if device.starts_with("net_virtio_user") => {
                (option(device, "path"), !is("server", "1"))
            }
            () if device.starts_with("net_memif") => {
                (option(device, "socket"), !is("role", "server"))
            }
            () => return None,
        };
        // Unless it is told otherwise, the socket of a memif is abstract (unix(7)) and in no folder.
        if device.starts_with("net_memif") && !is("socket-abstract", "no") {
            let path = path.filter(|_| connects)?;
            let listens = format!("@{path}");
            let sockets = machine.text("proc/net/unix");
            let is_there = sockets.lines().any(|line| line.ends_with(&listens));
            let problem = format!(
                "connects to the abstract socket {path}, at which nobody listens; start the server of the memif first"
            );
            return (!sockets.is_empty() && !is_there).then(|| Lack::fatal(key, problem));
        }
        let path = Path::new(path.filter(|path| path.starts_with('/'))?);
        let folder = path.parent().unwrap_or(path);
        let problem = if !folder.is_dir() {
            format!("has its socket in {}, which is no folder here; make it", folder.display())
        } else if connects && !path.exists() {
            format!("connects to {}, which is not there; start what makes it first", path.display())
        } else {
            return None;
        };
        Some(Lack::fatal(key, problem))
    })
}
