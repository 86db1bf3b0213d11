//! Good machines and configurations, each broken in one way: one condition finds it, and no other says anything.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

/// A change of a good configuration, or of a good machine, that one condition finds.
type Break = fn(&mut Config, &Machine);

/// For each condition, by name, what breaks it and what is said.
const BROKEN: [(&str, Break, &str); 43] = [
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
        "addresses",
        |config, _| config.streams.tcp = vec![taken(false)],
        "streams.tcp[0] is 127.0.0.1:",
    ),
    (
        "addresses",
        |config, _| config.streams.quic = vec![taken(true)],
        "streams.quic[0] is 127.0.0.1:",
    ),
    (
        "addresses",
        |config, _| config.transfer.listen = Some(taken(true)),
        "transfer.listen is 127.0.0.1:",
    ),
    (
        "trusted certificates",
        |config, machine| {
            write(machine, "ca.pem", "no certificate\n");
            config.upstreams[0].address = "tls://192.0.2.9".parse().unwrap();
            config.upstreams[0].ca_file = Some(machine.root.join("ca.pem"));
        },
        "upstream[0].ca_file cannot be used:",
    ),
    (
        "trusted certificates",
        |config, machine| {
            write(machine, "ca.pem", "");
            let list = machine.root.join("ads");
            let text = format!(
                "[[blocklist]]\nurl = \"https://lists.example/ads\"\nfile = {list:?}\nca_file = {:?}\n",
                machine.root.join("ca.pem")
            );
            config.blocklists = pmdns_engine::testing::config(&text).blocklists;
        },
        "blocklist[0].ca_file cannot be used:",
    ),
    (
        "files that are written",
        |config, machine| {
            write(machine, "q.db", "what somebody wrote\n");
            config.query_log.sqlite = Some(machine.root.join("q.db"));
        },
        "query_log.sqlite is ",
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

/// An address that somebody else has for ever.
fn taken(by_udp: bool) -> SocketAddr {
    match by_udp {
        true => Box::leak(Box::new(UdpSocket::bind("127.0.0.1:0").unwrap())).local_addr().unwrap(),
        false => {
            Box::leak(Box::new(TcpListener::bind("127.0.0.1:0").unwrap())).local_addr().unwrap()
        }
    }
}

#[test]
fn an_address_that_nobody_can_listen_at_is_told_with_the_reason_whatever_it_is() {
    let address = "192.0.2.1:53".parse().unwrap();
    for (kind, words) in [
        (ErrorKind::AddrInUse, "where another program listens; write another port"),
        (ErrorKind::PermissionDenied, "where this user may not listen; add the capability"),
        (ErrorKind::Unsupported, "where nobody can listen (unsupported); write another one"),
    ] {
        let told = refusal(address, &io::Error::from(kind));
        assert!(told.starts_with(&format!("is {address}, {words}")), "{told}");
    }
}

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
        assert_eq!(unmet(&machine, &config), [], "a good machine");
        make_broken(&mut config, &machine);
        let found = unmet(&machine, &config);
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.condition, format!("{} {}", one.lack.key, one.lack.problem)))
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
