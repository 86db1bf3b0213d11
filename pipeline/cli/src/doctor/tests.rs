//! Machines that are folders, and what the checks find there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use pmdns_config::InterfaceAddress;

use super::*;

const DRIVERS: &str = "usr/lib/dpdk/pmds";
const NIC: &str = "sys/bus/pci/devices/0000:01:00.0";
const ICE: &str = "\u{7f}ELF PMD_INFO_STRING= {\"name\": \"net_ice\", \"params\": \"\", \"kmod\": \"* vfio-pci\", \
                   \"pci_ids\": [[32902, 5522, 65535, 65535], [1, 2, 3, 4]]}\0 PMD_INFO_STRING= {broken\0";

/// A machine to which nothing has to be changed: two nodes of two CPUs, and an E810 port.
const GOOD: [(&str, &str); 32] = [
    ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
    ("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu constant_tsc nonstop_tsc\n"),
    (
        "proc/self/limits",
        "Max open files            65536    524288   files\nMax locked memory         unlimited unlimited bytes\n",
    ),
    ("proc/self/status", "CapEff:\t0000000000000000\n"),
    ("proc/self/mounts", "proc /proc proc rw 0 0\nnodev /dev/hugepages hugetlbfs rw 0 0\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
    ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
    ("sys/devices/system/node/node1/cpulist", "2,3\n"),
    ("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
    ("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "512\n"),
    ("sys/devices/system/cpu/isolated", "2-3\n"),
    ("sys/devices/system/cpu/cpu1/node0/x", ""),
    ("sys/devices/system/cpu/cpu3/node1/x", ""),
    ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "3\n"),
    ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state0/latency", "2\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state1/latency", "200\n"),
    ("sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "1\n"),
    ("sys/kernel/iommu_groups/0/type", "DMA\n"),
    ("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N\n"),
    ("sys/bus/pci/drivers/vfio-pci/bind", ""),
    ("sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n"),
    ("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n"),
    ("sys/bus/pci/devices/0000:01:00.0/device", "0x1592\n"),
    ("sys/bus/pci/devices/0000:01:00.0/subsystem_vendor", "0x8086\n"),
    ("sys/bus/pci/devices/0000:01:00.0/subsystem_device", "0x0002\n"),
    ("lib/firmware/intel/ice/ddp/ice.pkg", "package"),
    ("usr/lib/dpdk/pmds/librte_net_ice.so", ICE),
    ("usr/lib/dpdk/pmds/librte_net_ice.so.23", ICE),
    ("usr/lib/dpdk/pmds/librte_mempool_ring.so", ""),
];

/// A config of one port.
const CONFIG: &str = "[[port]]\nname = \"p0\"\ndevice = \"memory\"\naddresses = [\"10.77.0.2/24\", \"fd77::2/64\"]\n\
                      [[upstream]]\naddress = \"127.0.0.1:5353\"\n[control]\nsocket = \"unused\"\n\
                      [[placement]]\ncores = [3]\n[acl]\ndefault = \"allow\"\n";

struct Fake {
    machine: Machine,
    config: Config,
}

impl Fake {
    /// The good machine and a config that suits it.
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("pmdns-doctor-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let mut config = Config::from_toml(CONFIG).unwrap();
        config.ports[0].device = "0000:01:00.0".to_owned();
        config.control.socket = root.join("pmdns.sock");
        let fake =
            Self { machine: Machine { cores: vec![0, 1, 2, 3], memory: None, root }, config };
        for (path, text) in GOOD {
            fake.write(path, text);
        }
        fake.bind("vfio-pci");
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.machine.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.machine.root.join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    fn bind(&self, driver: &str) {
        symlink(format!("../drivers/{driver}"), self.machine.root.join(NIC).join("driver"))
            .unwrap();
    }

    fn findings(&self, config: Option<&Config>) -> Vec<Finding> {
        let dpdk = Dpdk { version: "DPDK 22.11".to_owned(), drivers: PathBuf::from(DRIVERS) };
        findings_of(&self.machine, config, None, Vec::new(), Some(dpdk))
    }

    /// What is not ok, as one text.
    fn wrong(&self) -> Vec<String> {
        let findings =
            self.findings(Some(&self.config)).into_iter().filter(|one| one.level > Level::Ok);
        let told = |one: Finding| {
            format!(
                "{:?} {}: {} | {}",
                one.level,
                one.check,
                one.found,
                one.fix.unwrap_or_default()
            )
        };
        findings.map(told).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.machine.root);
    }
}

#[test]
fn nothing_has_to_be_changed_on_a_good_machine() {
    let fake = Fake::new("good");
    assert_eq!(fake.wrong(), [""; 0]);
    let findings = fake.findings(Some(&fake.config));
    assert!(findings.iter().all(|one| one.fix.is_none()), "{findings:?}");
    let driver = findings.iter().find(|one| one.check == "driver").unwrap();
    assert_eq!(driver.found, "port p0: net_ice");
    let dpdk = findings.iter().find(|one| one.check == "dpdk").unwrap();
    assert!(dpdk.found.starts_with("DPDK 22.11, 1 network drivers in "), "{dpdk:?}");
}

#[test]
fn each_lack_is_found_with_its_remedy() {
    let node1 = "sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    let cpu3 = |rest: &str| format!("sys/devices/system/cpu/cpu3/{rest}");
    let nic = |rest: &str| format!("{NIC}/{rest}");
    // A file, its text or `None` to remove it, and the finding then. The finding has level and check, a part of
    // it, a part of the remedy.
    let rows: [(&str, Option<&str>, &str, &str, &str); 24] = [
        (
            "proc/sys/kernel/osrelease",
            Some("4.9.0"),
            "Fail kernel",
            "older than 4.14",
            "newer kernel",
        ),
        (
            "proc/sys/kernel/osrelease",
            Some("5.10.0-26"),
            "Warn kernel",
            "no Landlock",
            "newer kernel",
        ),
        (
            "proc/cpuinfo",
            Some("flags : fpu constant_tsc"),
            "Warn clock",
            "may change its rate",
            "+invtsc",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            Some("hpet"),
            "Warn clock",
            "hpet",
            "dmesg",
        ),
        (
            "proc/self/limits",
            Some("Max open files 100 100 files"),
            "Warn files",
            "100 may be open",
            "ulimit -n",
        ),
        (
            "proc/self/limits",
            Some("Max locked memory 65536 65536 bytes"),
            "Fail memlock",
            "64KiB",
            "ulimit -l unlimited",
        ),
        (
            "sys/devices/system/node",
            None,
            "Fail hugepages",
            "none are reserved",
            "sysctl -w vm.nr_hugepages=160",
        ),
        (
            node1,
            Some("0"),
            "Warn hugepages",
            "CPU 3 polls there",
            "echo 160 > /sys/devices/system/node/node1",
        ),
        ("proc/self/mounts", Some(""), "Fail hugetlbfs", "not mounted", "mount -t hugetlbfs"),
        (
            "sys/devices/system/cpu/isolated",
            Some(""),
            "Warn isolated",
            "CPU 3",
            "isolcpus=3 nohz_full=3",
        ),
        (
            &cpu3("topology/thread_siblings_list"),
            Some("1,3"),
            "Warn siblings",
            "CPU 1",
            "echo 0 > /sys/devices/system/cpu/cpu1/online",
        ),
        (
            &cpu3("cpufreq/scaling_governor"),
            Some("powersave"),
            "Warn governor",
            "`powersave` on CPU 3",
            "cpupower -c 3",
        ),
        (&cpu3("cpuidle/state1/disable"), Some("0"), "Warn c-states", "CPU 3", "idle-set -D 20"),
        (&nic("numa_node"), Some("0"), "Warn numa", "port p0 is on node 0", "`cores` of 0-1"),
        ("sys/kernel/iommu_groups", None, "Fail iommu", "none", "intel_iommu=on iommu=pt"),
        ("sys/bus/pci/drivers/vfio-pci", None, "Fail vfio", "not loaded", "modprobe vfio-pci"),
        (NIC, None, "Fail device", "no PCI device", "scripts/bind-nic.sh bind 0000:01:00.0"),
        (
            &nic("driver"),
            None,
            "Fail device",
            "bound to no driver",
            "scripts/bind-nic.sh bind 0000:01:00.0",
        ),
        (&nic("device"), Some("0xffff"), "Fail driver", "no driver in", "librte-meta-net"),
        (&nic("vendor"), Some("junk"), "Fail driver", "no driver in", "librte-meta-net"),
        (DRIVERS, None, "Fail dpdk", "without network drivers", "librte-meta-net"),
        (
            "usr/lib/dpdk/pmds/librte_net_ice.so",
            Some("PMD_INFO_STRING= "),
            "Fail driver",
            "no driver in",
            "librte-meta-net",
        ),
        (
            "lib/firmware/intel/ice/ddp/ice.pkg",
            None,
            "Warn firmware",
            "DDP package",
            "firmware-misc-nonfree",
        ),
        ("proc/cpuinfo", Some("\u{0}\n::::\nflags"), "", "", ""),
    ];
    for (number, (path, text, what, found, fix)) in rows.into_iter().enumerate() {
        let fake = Fake::new(&format!("lack-{number}"));
        match text {
            Some(text) => fake.write(path, text),
            None => fake.remove(path),
        }
        let wrong = fake.wrong();
        let is_told = |one: &String| {
            let (told, remedy) = one.split_once(" | ").unwrap();
            told.starts_with(what) && told.contains(found) && remedy.contains(fix)
        };
        assert!(what.is_empty() || wrong.iter().any(is_told), "{path}: {wrong:?}");
    }
}

#[test]
fn a_packaged_node_is_told_of_the_packages_script() {
    let fake = Fake::new("packaged");
    fake.remove(&format!("{NIC}/driver"));
    fake.write("usr/sbin/pmdns-bind-nic", "");
    let wrong = fake.wrong();
    assert!(wrong[0].contains("`pmdns-bind-nic bind 0000:01:00.0`"), "{wrong:?}");
}

#[test]
fn a_core_that_pmdns_uses_twice_is_told_once() {
    let mut fake = Fake::new("twice");
    fake.config.placements[0].cores = vec![2, 3];
    for cpu in [2, 3] {
        fake.write(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"),
            "2-3\n",
        );
    }
    let wrong = fake.wrong();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("CPU 2 and CPU 3 share a core, and pmdns uses both"), "{wrong:?}");
}

#[test]
fn noiommu_is_a_warning_that_says_what_it_means() {
    let fake = Fake::new("noiommu");
    fake.remove("sys/kernel/iommu_groups");
    fake.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
    let wrong = fake.wrong();
    assert!(
        wrong[0].starts_with("Warn iommu: ") && wrong[0].contains("write all memory"),
        "{wrong:?}"
    );
}

#[test]
fn what_only_pci_ports_need_is_no_failure_without_them() {
    let mut fake = Fake::new("no-pci");
    for path in [
        "sys/kernel/iommu_groups",
        "sys/bus/pci/drivers/vfio-pci",
        "sys/devices/system/node",
        "proc/self/mounts",
    ] {
        fake.remove(path);
    }
    fake.write("proc/self/limits", "Max locked memory 65536 65536 bytes\n");
    // Nothing is known of what is needed.
    let levels: Vec<Level> = fake.findings(None).iter().map(|one| one.level).collect();
    assert_eq!(levels.iter().max(), Some(&Level::Warn), "{levels:?}");
    assert_eq!(levels.iter().filter(|level| **level == Level::Warn).count(), 5, "{levels:?}");
    // It is known that nothing of it is.
    fake.config.ports[0].device = "net_null0".to_owned();
    fake.config.eal.args = vec!["--no-huge".to_owned()];
    let wrong = fake.wrong();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("no driver in") && wrong[0].contains("net_null0"), "{wrong:?}");
}

#[test]
fn the_json_has_the_worst_level() {
    let fake = Fake::new("json");
    fake.remove("sys/kernel/iommu_groups");
    let json = json(&fake.findings(Some(&fake.config)));
    assert_eq!(json["worst"], "fail");
    let iommu =
        json["findings"].as_array().unwrap().iter().find(|one| one["check"] == "iommu").unwrap();
    assert_eq!(iommu["level"], "fail");
    assert!(iommu["fix"].as_str().unwrap().contains("VT-d"), "{iommu}");
}

#[test]
fn the_kernel_may_have_the_addresses_of_a_port_that_it_shares() {
    let mut fake = Fake::new("shared");
    let loopback = InterfaceAddress { address: [127, 0, 0, 1].into(), length: 8 };
    fake.config.ports[0].addresses = vec![loopback];
    let wrong = fake.wrong();
    assert!(wrong.len() == 1 && wrong[0].starts_with("Warn addresses: "), "{wrong:?}");
    fake.config.ports[0].share_with_kernel = true;
    assert_eq!(fake.wrong(), [""; 0]);
}
