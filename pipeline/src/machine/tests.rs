//! Machines of tests, and what is found there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::facts::total_memory;
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
        (
            "port[0].device cannot serve as port p0: this machine has no PCI device 0000:99:00.0",
            true,
        ),
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
        ("net_af_packet0,iface=lo", false),
    ] {
        config.ports[0].device = device.to_owned();
        let found = found(&machine, &config);
        assert_eq!(!found.is_empty(), is_missing, "{device}: {found:?}");
        let told = "there is no interface `nope` here (`ip link` lists them)";
        assert!(found.iter().all(|(text, fatal)| text.ends_with(told) && *fatal), "{found:?}");
    }
    fs::remove_dir_all(machine.root).unwrap();
}

/// A change of a good configuration, or of a good machine, that one condition finds.
type Break = fn(&mut Config, &Machine);

/// For each condition, by name, what breaks it and what is said.
const BROKEN: [(&str, Break, &str); 37] = [
    (
        "huge pages",
        |config, _| config.eal.args.clear(),
        "eal.args asks for hugepages, but this machine has none",
    ),
    (
        "huge pages",
        |config, machine| {
            config.eal.args.clear();
            write(machine, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8\n");
        },
        "eal.args asks for hugepages, which are mounted nowhere",
    ),
    (
        "devices of DPDK",
        |config, _| argument(config, "-azz"),
        "eal.args[1] has `zz`, which is no device",
    ),
    (
        "devices of DPDK",
        |config, _| argument(config, "-d/nowhere/library.so"),
        "eal.args[1] loads /nowhere/library.so, which is not there",
    ),
    (
        "device",
        |config, _| device(config, "0000:99:00.0"),
        "port[0].device cannot serve as port p0: this machine has no PCI",
    ),
    (
        "device",
        |config, _| device(config, "net_af_xdp0,iface=nope"),
        "port[0].device cannot serve as port p0: there is no interface",
    ),
    (
        "driver",
        |config, _| device(config, "net_pcap0,rx_pcap=/nowhere/at.pcap,tx_pcap=/tmp/out.pcap"),
        "port[0].device reads /nowhere/at.pcap, which is not there",
    ),
    (
        "driver",
        |config, machine| {
            write(machine, "dev/net/tun", "");
            device(config, "net_tap0,iface=eth0");
        },
        "port[0].device makes the interface `eth0` of port",
    ),
    (
        "interface as device",
        |config, _| device(config, "eth0"),
        "port[0].device is `eth0`, which is an interface of the kernel and no device of DPDK; write \"net_af_xdp0,iface=eth0\", or \
         its PCI address \"0000:01:00.0\"",
    ),
    (
        "TUN",
        |config, _| config.ports[0].tap = Some("pm-edge".to_owned()),
        "port[0].tap needs /dev/net/tun",
    ),
    ("TUN", |config, _| device(config, "net_tap0,iface=pm0"), "port[0].device needs /dev/net/tun"),
    (
        "names of TAPs",
        |config, machine| {
            write(machine, "dev/net/tun", "");
            config.ports[0].tap = Some("eth0".to_owned());
        },
        "port[0].tap makes the interface `eth0` of port",
    ),
    (
        "XDP queues",
        |config, _| device(config, "net_af_xdp0,iface=eth0,start_queue=1,queue_count=2"),
        "port[0].device asks for the queues 1 to 2 of `eth0`, which has 2;",
    ),
    (
        "socket of a device",
        |config, _| device(config, "net_vhost0,iface=/nowhere/at/all.sock"),
        "port[0].device has its socket in /nowhere/at, which is no folder here",
    ),
    (
        "socket of a device",
        |config, _| {
            device(
                config,
                "net_memif0,role=client,socket=/nowhere/at/memif.sock,socket-abstract=no",
            )
        },
        "port[0].device has its socket in /nowhere/at,",
    ),
    (
        "socket of a device",
        |config, machine| {
            write(
                machine,
                "proc/net/unix",
                "0: 00000002 00000000 00010000 0001 01 1 @/run/a.sock\n",
            );
            device(config, "net_memif0,role=client,socket=/run/b.sock");
        },
        "port[0].device connects to the abstract socket /run/b.sock, at which nobody listens",
    ),
    (
        "socket of a device",
        |config, _| device(config, "net_virtio_user0,path=/nosuch.sock"),
        "port[0].device connects to /nosuch.sock, which is not there",
    ),
    (
        "cores",
        |config, _| config.slowpath.cores = vec![7],
        "slowpath.cores[0] is 7; this process may run on",
    ),
    (
        "memory",
        |config, _| config.cache.size = ByteSize(2 << 30),
        "cache.size is 2GiB, but this machine has 1GiB",
    ),
    (
        "memory",
        |config, _| config.eal.args.extend(["-m".to_owned(), "2048".to_owned()]),
        "eal.args asks for 2048 MiB (-m), but this machine has 1GiB",
    ),
    (
        "memory",
        |config, _| {
            config.eal.args.push("-m256".to_owned());
            config.frames.count = 200_000;
        },
        "frames.count needs 439 MiB, but eal.args has `-m 256`",
    ),
    (
        "query sources",
        |config, _| config.ports[0].query_sources = vec![[127, 0, 0, 1].into()],
        "port[0].query_sources[0] is 127.0.0.1, which an interface",
    ),
    // An address for documentation (RFC 5737).
    (
        "addresses",
        |config, _| config.metrics.listen = "192.0.2.1:9153".parse().ok(),
        "metrics.listen is 192.0.2.1:9153, which no interface",
    ),
    (
        "files that are read",
        |config, machine| config.cookies.secret_file = Some(machine.root.join("none")),
        "cookies.secret_file cannot be used:",
    ),
    (
        "files that are read",
        |config, machine| config.streams.key = Some(pipe(machine)),
        "streams.key cannot be used:",
    ),
    (
        "files that are written",
        |config, _| config.control.entries = Some("/nowhere/at/all".into()),
        "control.entries cannot be written: /nowhere/at is not there; make the folder",
    ),
    (
        "files that are written",
        |config, _| config.clients.journal = Some("/nowhere/at/all".into()),
        "clients.journal cannot be written: /nowhere/at is not there",
    ),
    (
        "files that are written",
        |config, _| config.query_log.json = Some("/nowhere/at/all".into()),
        "query_log.json cannot be written: /nowhere/at is not there",
    ),
    (
        "files that are written",
        |config, machine| {
            let link = machine.root.join("link");
            symlink("made", &link).unwrap();
            config.query_log.json = Some(link);
        },
        "query_log.json cannot be written:",
    ),
    (
        "files that are written",
        |config, machine| config.query_log.sqlite = Some(pipe(machine)),
        "query_log.sqlite cannot be written:",
    ),
    (
        "files that are written",
        |config, machine| config.control.entries = Some(pipe(machine)),
        "control.entries cannot be written:",
    ),
    (
        "files that are written",
        |config, _| config.cache.snapshot = Some("/nowhere/at/all".into()),
        "cache.snapshot cannot be written: /nowhere/at is not there",
    ),
    (
        "addresses",
        |config, _| config.api.listen = "192.0.2.1:8053".parse().ok(),
        "api.listen is 192.0.2.1:8053, which no interface",
    ),
    (
        "sockets",
        |config, machine| config.control.socket = machine.root.join("proc"),
        "control.socket is ",
    ),
    ("sockets", |config, machine| config.api.socket = Some(pipe(machine)), "api.socket is "),
    (
        "sockets",
        |config, _| config.control.socket = "/nowhere/at/all.sock".into(),
        "control.socket is in /nowhere/at, which is no folder",
    ),
    (
        "group",
        |config, _| config.control.group = Some("pmdns-none".to_owned()),
        "control.group is `pmdns-none`, and this machine has no such group",
    ),
];
/// Conditions that only a real kernel or DPDK can break: a lab (`shared_port.rs`) and `tests/command_line/conditions.rs` do.
const ELSEWHERE: [&str; 2] = ["XDP program", "arguments of DPDK"];

fn device(config: &mut Config, device: &str) {
    config.ports[0].device = device.to_owned();
}

fn argument(config: &mut Config, argument: &str) {
    config.eal.args.push(argument.to_owned());
}

fn write(machine: &Machine, file: &str, text: &str) {
    let file = machine.root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn pipe(machine: &Machine) -> PathBuf {
    let pipe = machine.root.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

#[test]
fn each_condition_is_found_where_it_is_broken_and_nothing_else_is() {
    for (number, (condition, make_broken, start)) in BROKEN.into_iter().enumerate() {
        let machine = machine(&format!("broken-{number}"));
        write(&machine, "proc/self/net/dev", "    lo: 0 0\n  eth0: 0 0\n");
        fs::create_dir_all(machine.root.join("sys/kernel/mm/hugepages/hugepages-2048kB")).unwrap();
        for queue in ["rx-0", "rx-1", "tx-0"] {
            fs::create_dir_all(machine.root.join("sys/class/net/eth0/queues").join(queue)).unwrap();
        }
        symlink(
            "../../bus/pci/devices/0000:01:00.0",
            machine.root.join("sys/class/net/eth0/device"),
        )
        .unwrap();
        let mut config = config("");
        config.eal.args = vec!["--no-huge".to_owned()];
        config.control.socket = machine.root.join("pmdns.sock");
        device(&mut config, "net_null0");
        assert_eq!(machine.findings(&config), [], "a good machine");
        make_broken(&mut config, &machine);
        let found = machine.findings(&config);
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.condition, format!("{} {}", one.key, one.problem)))
            .collect();
        assert_eq!(told.len(), 1, "{condition}: {told:?}");
        assert!(told[0].0 == condition && told[0].1.starts_with(start), "{start:?} in {told:?}");
        fs::remove_dir_all(machine.root).unwrap();
    }
}

#[test]
fn every_condition_has_a_case_that_breaks_it() {
    for Condition { name, .. } in &CONDITIONS {
        let has_case = BROKEN.iter().any(|(condition, ..)| condition == name);
        assert_ne!(has_case, ELSEWHERE.contains(name), "{name}: add what breaks it to BROKEN");
    }
}
