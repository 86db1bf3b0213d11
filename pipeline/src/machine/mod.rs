//! Checks whether the machine meets the needs of a configuration. Nothing is started or allocated for the check.

mod devices;
mod files;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use pmdns_config::{ByteSize, Config};
use pmdns_control::client::is_running;
use pmdns_nics::machine::{Lack, Machine, UnmetCondition};
use pmdns_streams::listeners::Listeners;

/// Bytes of memory that a frame takes at least: its room, and DPDK's head of it.
const FRAME_BYTES: u64 = 2304;

/// What a machine must have for a configuration. `pmdns check` reports what is missing, `pmdns run` refuses to start without it.
pub struct Condition {
    /// In a word or two.
    pub name: &'static str,
    /// The exit code of `pmdns run` where it is not met (docs/operations.md).
    exit_code: u8,
    find: fn(&Machine, &Config) -> Vec<Lack>,
}

/// The condition of files that the configuration names.
pub const FILES_TO_READ: &str = "files that are read";

/// Every condition, in the order of the tables. There is no other list: `check`, `run` and `doctor` ask this one.
pub const CONDITIONS: [Condition; 20] = [
    Condition { name: "arguments of DPDK", exit_code: 3, find: devices::arguments },
    Condition { name: "devices of DPDK", exit_code: 3, find: devices::named },
    Condition { name: "huge pages", exit_code: 3, find: devices::huge_pages },
    Condition { name: "device", exit_code: 4, find: devices::present },
    Condition { name: "driver", exit_code: 4, find: devices::driver },
    Condition { name: "interface as device", exit_code: 4, find: devices::interface_for_device },
    Condition { name: "TUN", exit_code: 4, find: devices::tun },
    Condition { name: "names of TAPs", exit_code: 4, find: devices::tap_names },
    Condition { name: "XDP queues", exit_code: 4, find: devices::xdp_queues },
    Condition { name: "XDP program", exit_code: 4, find: devices::xdp_program },
    Condition { name: "socket of a device", exit_code: 4, find: devices::sockets },
    Condition { name: "cores", exit_code: 2, find: cores },
    Condition { name: "memory", exit_code: 2, find: cache },
    Condition { name: "query sources", exit_code: 4, find: query_sources },
    Condition { name: "addresses", exit_code: 5, find: addresses },
    Condition { name: FILES_TO_READ, exit_code: 2, find: files::readable },
    Condition { name: "trusted certificates", exit_code: 2, find: files::certificates },
    Condition { name: "files that are written", exit_code: 2, find: files::writable },
    Condition { name: "sockets", exit_code: 5, find: files::sockets },
    Condition { name: "group", exit_code: 5, find: files::group },
];

/// The conditions of `config` that `machine` does not meet.
pub fn unmet(machine: &Machine, config: &Config) -> Vec<UnmetCondition> {
    let of = |condition: &Condition| {
        let Condition { name: condition, exit_code, find } = *condition;
        let lacks = find(machine, config).into_iter();
        lacks.map(move |lack| UnmetCondition { lack, condition, exit_code })
    };
    CONDITIONS.iter().flat_map(of).collect()
}

fn cores(machine: &Machine, config: &Config) -> Vec<Lack> {
    let mut found = Vec::new();
    let mut polled = Vec::new();
    for (index, placement) in config.placements.iter().enumerate() {
        for (place, core) in placement.cores.iter().enumerate() {
            polled.push((*core, index));
            found.extend(missing_core(
                machine,
                format!("placement[{index}].cores[{place}]"),
                *core,
            ));
        }
    }
    for (place, core) in config.slowpath.cores.iter().enumerate() {
        let key = format!("slowpath.cores[{place}]");
        found.extend(missing_core(machine, key.clone(), *core));
        if let Some((_, index)) = polled.iter().find(|(other, _)| other == core) {
            let problem = format!(
                "is {core}, which placement[{index}] polls: misses wait for that; write another CPU"
            );
            found.push(Lack::other(key, problem));
        }
    }
    found
}

/// The finding for a CPU that does not exist.
fn missing_core(machine: &Machine, key: String, core: usize) -> Option<Lack> {
    let there = &machine.cores;
    let problem =
        || format!("is {core}; this process may run on the CPUs {there:?}, write one of them");
    let is_missing = !there.is_empty() && !there.contains(&core);
    is_missing.then(|| Lack::fatal(key, problem()))
}

fn cache(machine: &Machine, config: &Config) -> Vec<Lack> {
    let Some(memory) = machine.memory else { return Vec::new() };
    let there = ByteSize(memory >> 20 << 20);
    let mut found = Vec::new();
    let size = config.cache.size;
    if size.0 > memory {
        let problem = format!("is {size}, but this machine has {there} of memory; write less");
        found.push(Lack::fatal("cache.size", problem));
    }
    let asked = config.eal.mebibytes();
    if let Some(asked) = asked.filter(|asked| asked.saturating_mul(1 << 20) > memory as u64) {
        let problem = format!(
            "asks for {asked} MiB (-m), but this machine has {there} of memory; write less"
        );
        found.push(Lack::fatal("eal.args", problem));
    }
    // What a frame takes at least, as DPDK is told.
    let frames = (u64::from(config.frames.count) * FRAME_BYTES) >> 20;
    if let Some(asked) = asked.filter(|asked| frames > *asked) {
        let problem =
            format!("needs {frames} MiB, but eal.args has `-m {asked}`; raise that, or write less");
        found.push(Lack::fatal("frames.count", problem));
    }
    found
}

/// Query sources that the kernel answers for as well: it would refuse our replies in its own name.
fn query_sources(machine: &Machine, config: &Config) -> Vec<Lack> {
    let mut found = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        for (place, source) in port.query_sources.iter().enumerate() {
            if !machine.kernel_has(*source) {
                continue;
            }
            let key = format!("port[{index}].query_sources[{place}]");
            let problem = format!(
                "is {source}, which an interface of this machine has as well; remove it there, or write another one"
            );
            found.push(Lack::other(key, problem));
        }
    }
    found
}

/// Addresses at which nobody can listen, as another process does. If an instance with this configuration is running, the
/// addresses may be its own, so nothing is reported.
fn addresses(_: &Machine, config: &Config) -> Vec<Lack> {
    if is_running(&config.control.socket) {
        return Vec::new();
    }
    let listens = [
        ("metrics.listen", config.metrics.listen),
        ("api.listen", config.api.listen),
        ("transfer.listen", config.transfer.listen),
    ];
    // Notifications come by UDP as well.
    let notified = config.transfer.listen.map(|listen| ("transfer.listen", listen));
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    for (key, address) in listens.into_iter().filter_map(|(key, listen)| Some((key, listen?))) {
        match TcpListener::bind(address) {
            Ok(listener) => held.push(listener),
            Err(why) => refused.push((key.to_owned(), address, why)),
        }
    }
    let udp = |(key, address): (&str, SocketAddr)| {
        Some((key.to_owned(), address, UdpSocket::bind(address).err()?))
    };
    refused
        .extend(notified.filter(|(key, _)| refused.iter().all(|one| one.0 != *key)).and_then(udp));
    refused.extend(Listeners::refused(&config.streams));
    let lack = |(key, address, why): (String, SocketAddr, io::Error)| {
        Lack::fatal(key, refusal(address, &why))
    };
    refused.into_iter().map(lack).collect()
}

/// Why nobody can listen at `address`, and what to do.
fn refusal(address: SocketAddr, why: &io::Error) -> String {
    let (why, fix) = match why.kind() {
        ErrorKind::AddrInUse => ("where another program listens".to_owned(), "write another port"),
        ErrorKind::AddrNotAvailable => {
            ("which no interface of this machine has".to_owned(), "write one that does")
        }
        ErrorKind::PermissionDenied => (
            "where this user may not listen".to_owned(),
            "add the capability CAP_NET_BIND_SERVICE, or write a port from 1024",
        ),
        _ => (format!("where nobody can listen ({why})"), "write another one"),
    };
    format!("is {address}, {why}; {fix}")
}
