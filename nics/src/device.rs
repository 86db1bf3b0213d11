//! What the system says of a port's device, before anything is started: is it there, and who drives it.

use std::fs;
use std::path::Path;

use pmdns_config::PciAddress;

/// Kernel drivers that leave a PCI device to DPDK: three that exist for that, and two that share theirs.
const DRIVERS: [&str; 5] = ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core"];
/// DPDK's drivers over an interface that must exist.
const OVER_AN_INTERFACE: [&str; 3] = ["net_af_xdp", "net_af_packet", "net_pcap"];
/// Where the kernel shows devices.
pub const SYS: &str = "/sys";

/// What is wrong with a device, as far as the files under `sys` say, and what to do. `None`: nothing, or they do not say.
pub fn doubt(sys: &Path, device: &str) -> Option<String> {
    match PciAddress::of(device) {
        Some(address) => doubt_of_pci(sys, address),
        None => doubt_of_interface(sys, device),
    }
}

fn doubt_of_pci(sys: &Path, address: PciAddress) -> Option<String> {
    let devices = sys.join("bus/pci/devices");
    if !devices.exists() {
        return None;
    }
    let device = devices.join(address.to_string());
    if !device.exists() {
        return Some(format!("this machine has no PCI device {address} (`lspci -D` lists them)"));
    }
    let bind = format!("bind it: `dpdk-devbind.py -b vfio-pci {address}`");
    let Ok(driver) = fs::read_link(device.join("driver")) else {
        return Some(format!("the PCI device {address} is bound to no driver; {bind}"));
    };
    let driver = driver.file_name()?.to_string_lossy();
    if DRIVERS.contains(&&*driver) {
        return None;
    }
    Some(format!("the PCI device {address} is bound to `{driver}`, which keeps it; {bind}"))
}

fn doubt_of_interface(sys: &Path, device: &str) -> Option<String> {
    let interface = device.split(',').find_map(|option| option.strip_prefix("iface="))?;
    let needs_one = OVER_AN_INTERFACE.iter().any(|driver| device.starts_with(driver));
    let interfaces = sys.join("class/net");
    // An interface's name is one folder's.
    let is_there = !interface.contains('/') && interfaces.join(interface).exists();
    (needs_one && interfaces.exists() && !is_there)
        .then(|| format!("there is no interface `{interface}` here (`ip link` lists them)"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/sys` with one NIC that vfio-pci drives, one that the kernel does, one that nobody does, and an interface.
    fn sys(name: &str) -> std::path::PathBuf {
        let sys = std::env::temp_dir().join(format!("pmdns-sys-{name}-{}", std::process::id()));
        let pci = sys.join("bus/pci/devices");
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
        fs::create_dir_all(sys.join("class/net/eth0")).unwrap();
        sys
    }

    #[test]
    fn bound_low_devices_are_looked_at_before_anything_starts() {
        let sys = sys("looks");
        let doubt = |device: &str| doubt(&sys, device);
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
            let told = doubt(device).unwrap_or_default();
            assert!(told.contains(words), "{device}: {told}");
        }
        assert_eq!(doubt_of_pci(Path::new("/nowhere"), PciAddress::of("01:00.0").unwrap()), None);
        fs::remove_dir_all(&sys).unwrap();
    }
}
