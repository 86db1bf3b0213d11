//! Checks of PCI devices, and of how they are handed to pmdns.

use pmdns_config::PciAddress;
use pmdns_nics::device;

use super::facts::Facts;
use super::finding::Finding;

/// With an IOMMU a device reaches the memory it is given, and no other.
pub(super) fn iommu(facts: &Facts<'_>) -> Vec<Finding> {
    let groups = facts.tree.names("sys/kernel/iommu_groups").len();
    let unsafe_mode = facts.tree.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    let is_amd = facts
        .tree
        .field("proc/cpuinfo", "vendor_id")
        .is_some_and(|vendor| vendor == "AuthenticAMD");
    let (feature, arguments) = match is_amd {
        true => ("AMD-Vi", "iommu=pt"),
        false => ("VT-d", "intel_iommu=on iommu=pt"),
    };
    let fix = format!(
        "turn on {feature} in the firmware, add `{arguments}` to GRUB_CMDLINE_LINUX in /etc/default/grub, \
         `update-grub`, restart the machine"
    );
    vec![if groups > 0 {
        Finding::ok("iommu", format!("{groups} groups of devices"))
    } else if unsafe_mode.is_some_and(|mode| mode == "Y") {
        Finding::warn(
            "iommu",
            "none; vfio is in noiommu mode, in which a device can read and write all memory",
            fix,
        )
    } else {
        Finding::lacks(
            facts.has_pci(),
            "iommu",
            "none, so no device can be handed over safely",
            fix,
        )
    }]
}

pub(super) fn vfio(facts: &Facts<'_>) -> Vec<Finding> {
    // Devices that share a kernel driver (mlx5) need none.
    let is_needed = facts.has_pci().map(|_| {
        let shares = |address: &PciAddress| {
            let driver = facts.tree.link(format!("sys/bus/pci/devices/{address}/driver"));
            driver.is_some_and(|driver| device::SHARED_DRIVERS.contains(&&*driver))
        };
        facts.pci_ports().iter().any(|(_, address)| !shares(address))
    });
    let load = "`modprobe vfio-pci`, and the line `vfio-pci` in /etc/modules-load.d/vfio.conf";
    vec![if facts.tree.has("sys/bus/pci/drivers/vfio-pci") {
        Finding::ok("vfio", "the module vfio-pci is loaded")
    } else {
        Finding::lacks(is_needed, "vfio", "the module vfio-pci is not loaded", load)
    }]
}

/// Whether each port's device is there, and left to pmdns.
pub(super) fn bound(facts: &Facts<'_>) -> Vec<Finding> {
    let ports = facts.config.map_or(&[][..], |config| &config.ports).iter();
    let finding = |port: &pmdns_config::PortSettings| {
        let Some(doubt) = device::doubt(&facts.machine.root, &port.device) else {
            return Finding::ok("device", format!("port {}: {}", port.name, port.device));
        };
        let found = format!("port {}: {doubt}", port.name);
        match PciAddress::of(&port.device) {
            Some(address) => {
                let packaged = facts.tree.has("usr/sbin/pmdns-bind-nic");
                let script = if packaged { "pmdns-bind-nic" } else { "scripts/bind-nic.sh" };
                Finding::fail("device", found, format!("`{script} bind {address}`"))
            }
            None => Finding::fail("device", found, "name another interface in `port.device`"),
        }
    };
    ports.map(finding).collect()
}
