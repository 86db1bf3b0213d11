//! The system's facts about a port's device, before anything is started: is it there, and which driver has it.

use std::fmt;
use std::fs;
use std::path::Path;

use pmdns_config::PciAddress;

/// Kernel drivers that exist to leave a PCI device to a program.
const DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Kernel drivers that share their device with DPDK.
pub const SHARED_DRIVERS: [&str; 2] = ["mlx5_core", "mlx4_core"];
/// DPDK's drivers over an interface that must exist.
const OVER_AN_INTERFACE: [&str; 3] = ["net_af_xdp", "net_af_packet", "net_pcap"];
/// Where the kernel shows devices.
pub const ROOT: &str = "/";

/// A problem of a device, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is not there.
    Missing(String),
    /// It is there, but a driver has it that DPDK may not be able to share it with.
    Kept(String),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(text) | Self::Kept(text)) = self;
        f.write_str(text)
    }
}

/// The problem of a device, as far as the files of `proc` and `sys` under `root` say. `None`: nothing, or they do
/// not say.
pub fn doubt(root: &Path, device: &str) -> Option<Doubt> {
    match PciAddress::of(device) {
        Some(address) => doubt_of_pci(root, address),
        None => doubt_of_interface(root, device),
    }
}

/// Whether a process without capabilities can open the PCI device, as far as the files of `sys` under `root` say: it is bound to
/// vfio, behind an IOMMU.
pub fn is_on_vfio(root: &Path, device: &str) -> bool {
    let Some(address) = PciAddress::of(device) else { return false };
    let driver = root.join("sys/bus/pci/devices").join(address.to_string()).join("driver");
    let is_vfio = fs::read_link(driver).is_ok_and(|driver| driver.ends_with(DRIVERS[0]));
    let unsafe_mode = root.join("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    is_vfio && !fs::read_to_string(unsafe_mode).is_ok_and(|mode| mode.starts_with('Y'))
}

fn doubt_of_pci(root: &Path, address: PciAddress) -> Option<Doubt> {
    let devices = root.join("sys/bus/pci/devices");
    if !devices.exists() {
        return None;
    }
    let device = devices.join(address.to_string());
    if !device.exists() {
        let text = format!("this machine has no PCI device {address} (`lspci -D` lists them)");
        return Some(Doubt::Missing(text));
    }
    let bind = format!("bind it: `dpdk-devbind.py -b vfio-pci {address}`");
    let Ok(driver) = fs::read_link(device.join("driver")) else {
        let text = format!("the PCI device {address} is bound to no driver; {bind}");
        return Some(Doubt::Kept(text));
    };
    let driver = driver.file_name()?.to_string_lossy();
    if DRIVERS.contains(&&*driver) || SHARED_DRIVERS.contains(&&*driver) {
        return None;
    }
    let text = format!("the PCI device {address} is bound to `{driver}`, which keeps it; {bind}");
    Some(Doubt::Kept(text))
}

/// The MTU of the interface that a device is on, if it is on one of those below `root`.
pub fn interface_mtu(root: &Path, device: &str) -> Option<u16> {
    OVER_AN_INTERFACE.iter().find(|driver| device.starts_with(**driver))?;
    let interface = interface_of(device).filter(|name| !name.contains('/'))?;
    let file = root.join("sys/class/net").join(interface).join("mtu");
    // Loopback has one of 65,536, which is no bound.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn interface_of(device: &str) -> Option<&str> {
    device.split(',').find_map(|option| option.strip_prefix("iface="))
}

/// Whether the kernel has an interface of this name. `None`: it does not say.
pub fn has_interface(root: &Path, name: &str) -> Option<bool> {
    // Those of the network namespace we are in, which those under /sys need not be.
    let interfaces = fs::read_to_string(root.join("proc/self/net/dev")).ok()?;
    let mut names = interfaces.lines().filter_map(|line| line.split_once(':'));
    Some(names.any(|(there, _)| there.trim() == name))
}

fn doubt_of_interface(root: &Path, device: &str) -> Option<Doubt> {
    let interface = interface_of(device)?;
    let needs_one = OVER_AN_INTERFACE.iter().any(|driver| device.starts_with(driver));
    let is_there = has_interface(root, interface)?;
    let text = || format!("there is no interface `{interface}` here (`ip link` lists them)");
    (needs_one && !is_there).then(|| Doubt::Missing(text()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root with one NIC that vfio-pci drives, one that the kernel does, one that nobody does, and an interface.
    fn root(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("pmdns-root-{name}-{}", std::process::id()));
        let pci = root.join("sys/bus/pci/devices");
        for (address, driver) in [
            ("0000:01:00.0", Some("vfio-pci")),
            ("0000:02:00.0", Some("e1000e")),
            ("0000:03:00.0", None),
        ] {
            fs::create_dir_all(pci.join(address)).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../drivers/{driver}"), pci.join(address).join("driver")).unwrap();
            }
        }
        fs::create_dir_all(root.join("sys/class/net/eth0")).unwrap();
        fs::write(root.join("sys/class/net/eth0/mtu"), "1400\n").unwrap();
        fs::create_dir_all(root.join("proc/self/net")).unwrap();
        let interfaces = "Inter-|   Receive\n face |bytes\n    lo: 1 2\n  eth0: 3 4\n";
        fs::write(root.join("proc/self/net/dev"), interfaces).unwrap();
        root
    }

    #[test]
    fn a_device_on_vfio_behind_an_iommu_is_known() {
        let root = root("vfio");
        let is = |device| is_on_vfio(&root, device);
        assert!(is("01:00.0,opt=1"));
        for other in ["02:00.0", "03:00.0", "04:00.0", "net_tap0"] {
            assert!(!is(other), "{other}");
        }
        let parameters = root.join("sys/module/vfio/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("enable_unsafe_noiommu_mode"), "Y\n").unwrap();
        assert!(!is("01:00.0"), "it may be behind none");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn bound_low_devices_are_looked_at_before_anything_starts() {
        let root = root("looks");
        let doubt = |device: &str| doubt(&root, device);
        for fine in
            ["01:00.0", "net_af_xdp0,iface=eth0", "net_tap0,iface=pm0", "replay", "net_null0"]
        {
            assert_eq!(doubt(fine), None, "{fine}");
        }
        for (device, words) in [
            ("02:00.0,opt=1", "is bound to `e1000e`"),
            (
                "0000:03:00.0",
                "bound to no driver; bind it: `dpdk-devbind.py -b vfio-pci 0000:03:00.0`",
            ),
            ("04:00.0", "no PCI device 0000:04:00.0"),
            ("net_af_packet0,iface=eth1", "no interface `eth1`"),
            ("net_af_xdp0,iface=../net/eth0,start_queue=0", "no interface"),
        ] {
            let told = doubt(device).unwrap();
            assert!(told.to_string().contains(words), "{device}: {told}");
            assert_eq!(matches!(told, Doubt::Missing(_)), words.starts_with("no "), "{told:?}");
        }
        assert_eq!(doubt_of_pci(Path::new("/nowhere"), PciAddress::of("01:00.0").unwrap()), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_interface_behind_a_device_says_its_mtu() {
        let root = root("mtu");
        let mtu = |device| interface_mtu(&root, device);
        assert_eq!(mtu("net_af_xdp0,iface=eth0,start_queue=0"), Some(1400));
        assert_eq!(mtu("net_tap0,iface=eth0"), None, "it makes one of its own");
        assert_eq!(mtu("net_af_xdp0,iface=eth1"), None);
        assert_eq!(mtu("net_af_xdp0,iface=../net/eth0"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
