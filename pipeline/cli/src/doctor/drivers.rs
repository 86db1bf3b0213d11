//! Checks of DPDK: its version, its drivers, and the firmware that a driver loads.
//!
//! Each driver's library contains lines that say which devices it is for, as `dpdk-pmdinfo.py` reads them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pmdns_config::{PciAddress, device_name};
use serde::Deserialize;

use super::facts::Facts;
use super::finding::Finding;
use super::tree::Tree;
use crate::program::Dpdk;

/// The beginning of a driver's line in its library.
const MARK: &[u8] = b"PMD_INFO_STRING= ";
/// Bytes of a library that are read: the largest of DPDK 22.11 has 20 MiB.
const MAX_LIBRARY: u64 = 64 << 20;
/// The number that stands for any.
const ANY: u32 = 0xffff;
/// Where E810 NICs' package is looked for. Without it they have neither RSS nor checksums.
const DDP: [&str; 2] =
    ["lib/firmware/updates/intel/ice/ddp/ice.pkg", "lib/firmware/intel/ice/ddp/ice.pkg"];

/// A driver of DPDK's.
#[derive(Debug, Deserialize)]
pub(super) struct Driver {
    name: String,
    /// Vendor, device, and those of the subsystem.
    #[serde(default)]
    pci_ids: Vec<[u32; 4]>,
}

/// The drivers whose libraries are in a folder. What cannot be read has none.
pub(super) fn in_folder(tree: &Tree<'_>, folder: &Path) -> Vec<Driver> {
    libraries(tree, folder)
        .iter()
        .flat_map(|name| in_library(&tree.path(folder.join(name))))
        .collect()
}

/// The libraries of network drivers: one of the names that each has (`librte_net_ice.so`, `.so.23`, `.so.23.0`).
fn libraries(tree: &Tree<'_>, folder: &Path) -> Vec<String> {
    let mut names = tree.names(folder);
    let stem = |name: &str| name.split_once(".so").map(|(stem, _)| stem.to_owned());
    names.retain(|name| name.starts_with("librte_net_") && stem(name).is_some());
    names.dedup_by_key(|name| stem(name));
    names
}

fn in_library(path: &Path) -> Vec<Driver> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_LIBRARY).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let mut drivers = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(place) = rest.windows(MARK.len()).position(|window| window == MARK) {
        rest = &rest[place + MARK.len()..];
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        drivers.extend(serde_json::from_slice::<Driver>(text));
    }
    drivers
}

pub(super) fn dpdk(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(Dpdk { version, drivers }) = &facts.dpdk else {
        return vec![Finding::fail(
            "dpdk",
            "this pmdns was built without DPDK",
            "install one with it (docs/tasks/install.md)",
        )];
    };
    let count = libraries(&facts.tree, drivers).len();
    vec![if count > 0 {
        Finding::ok("dpdk", format!("{version}, {count} network drivers in {}", drivers.display()))
    } else {
        Finding::fail(
            "dpdk",
            format!("{version}, without network drivers in {}", drivers.display()),
            "`apt-get install librte-meta-net`",
        )
    }]
}

/// The driver of each port.
pub(super) fn of_ports(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(dpdk) = &facts.dpdk else { return Vec::new() };
    let ports = facts.config.map_or(&[][..], |config| &config.ports).iter();
    let finding = |port: &pmdns_config::PortSettings| match of_device(facts, &port.device) {
        Some(driver) => Finding::ok("driver", format!("port {}: {}", port.name, driver.name)),
        None => Finding::fail(
            "driver",
            format!(
                "port {}: no driver in {} is for {}",
                port.name,
                dpdk.drivers.display(),
                device_name(&port.device)
            ),
            "`apt-get install librte-meta-net`; if it is installed, this DPDK does not support the device",
        ),
    };
    ports.filter(|port| is_there(facts, &port.device)).map(finding).collect()
}

pub(super) fn firmware(facts: &Facts<'_>) -> Vec<Finding> {
    let ports = facts.config.map_or(&[][..], |config| &config.ports).iter();
    let needs = |port: &&pmdns_config::PortSettings| {
        of_device(facts, &port.device).is_some_and(|driver| driver.name == "net_ice")
    };
    let finding =
        |port: &pmdns_config::PortSettings| match DDP.iter().find(|path| facts.tree.has(path)) {
            Some(path) => Finding::ok("firmware", format!("port {}: /{path}", port.name)),
            None => Finding::warn(
                "firmware",
                format!(
                    "port {}: there is no DDP package /{}: no RSS, no checksums",
                    port.name, DDP[1]
                ),
                "`apt-get install firmware-misc-nonfree` (Debian 12) or `linux-firmware` (Ubuntu)",
            ),
        };
    ports.filter(needs).map(finding).collect()
}

/// Whether a port's device may have a driver: captures have none, and missing devices are told of already.
fn is_there(facts: &Facts<'_>, device: &str) -> bool {
    match PciAddress::of(device) {
        Some(address) => facts.tree.has(format!("sys/bus/pci/devices/{address}")),
        None => device.starts_with("net_"),
    }
}

fn of_device<'f>(facts: &'f Facts<'_>, device: &str) -> Option<&'f Driver> {
    let Some(address) = PciAddress::of(device) else {
        let name = device_name(device);
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
        return facts.drivers.iter().find(|driver| driver.name == name);
    };
    let id = |file: &str| {
        let text = facts.tree.text(format!("sys/bus/pci/devices/{address}/{file}"))?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let ids = [
        id("vendor")?,
        id("device")?,
        id("subsystem_vendor").unwrap_or(ANY),
        id("subsystem_device").unwrap_or(ANY),
    ];
    let fits =
        |known: &[u32; 4]| known.iter().zip(ids).all(|(known, id)| *known == ANY || *known == id);
    facts.drivers.iter().find(|driver| driver.pci_ids.iter().any(fits))
}
