//! Machines of tests, and what is found there.

mod broken;

use std::fs;

use pmdns_engine::testing::config;

use super::*;
use pmdns_nics::machine::total_memory;

/// A machine of two CPUs and 1 GiB, with no interface but `lo`.
fn machine(name: &str) -> Machine {
    let root = std::env::temp_dir().join(format!("pmdns-{name}-{}", std::process::id()));
    fs::create_dir_all(root.join("proc/self/net")).unwrap();
    fs::create_dir_all(root.join("sys/bus/pci/devices")).unwrap();
    fs::write(root.join("proc/self/net/dev"), "    lo: 0 0\n").unwrap();
    Machine { cores: vec![0, 1], memory: total_memory("MemTotal:  1048576 kB\n"), root }
}

fn found(machine: &Machine, config: &Config) -> Vec<(String, bool)> {
    let findings = unmet(machine, config).into_iter();
    findings
        .map(|one| (format!("{} {}", one.lack.key, one.lack.problem), one.lack.is_fatal))
        .collect()
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

#[test]
fn trap_23_the_cpu_set_of_the_process_is_what_counts() {
    let all = Machine::this().cores;
    let last = *all.last().expect("we run on some CPU");
    // A thread of its own: CPU sets are a thread's.
    let narrowed = std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: last }));
        Machine::this().cores
    });
    assert_eq!(narrowed.join().expect("no panic"), [last], "whatever /sys says of the machine");
}
