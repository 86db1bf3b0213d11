//! The rules of `[[port]]`.

use std::collections::HashMap;
use std::net::IpAddr;

use super::rules::{
    Checked, Mistakes, at_most, broken, in_range, plain_name, unicast, unlike_earlier,
};
use super::taps::REPLAY;
use crate::device::{device_name, interface_made, mistaken_for, wrong_mac};
use crate::limits::{
    MAX_ADDRESSES, MAX_DESCRIPTORS, MAX_INTERFACE_NAME, MAX_LINK_WAIT_MS, MAX_PORTS, MAX_VLANS,
    MIN_DESCRIPTORS, VLAN_IDS,
};
use crate::problem::BrokenRule;
use crate::settings::PortSettings;
use crate::vlan::Vlan;

pub(super) fn check(ports: &[PortSettings], found: &mut Mistakes) {
    if ports.is_empty() {
        let fix = "a [[port]] table with name, device and addresses; see config/examples";
        found.note(broken("port", BrokenRule::None(fix)));
    }
    found.note(at_most("port", "ports", ports.len(), MAX_PORTS));
    for (index, port) in ports.iter().enumerate() {
        check_port(&format!("port[{index}]"), port, found);
    }
    check_unique_names(ports, found);
    check_unique_devices(ports, found);
    check_unique_addresses(ports, found);
}

fn check_port(path: &str, port: &PortSettings, found: &mut Mistakes) {
    found.note(plain_name(&format!("{path}.name"), &port.name));
    found.note(check_device(format!("{path}.device"), &port.device));
    let key = format!("{path}.addresses");
    if port.addresses.is_empty() {
        let fix = "at least one address of ours, as in [\"192.0.2.53/24\"]";
        found.note(broken(&*key, BrokenRule::Empty(fix)));
    }
    found.note(at_most(&key, "addresses", port.addresses.len(), MAX_ADDRESSES));
    for (index, address) in port.addresses.iter().enumerate() {
        let key = format!("{key}[{index}]");
        // Health checks come from addresses of loopback to themselves.
        found.note(match address.address.to_canonical().is_loopback() {
            true => broken(key, BrokenRule::NotRoutable(address.address)),
            false => unicast(&key, address.address),
        });
    }
    check_vlans(&format!("{path}.vlans"), &port.vlans, found);
    found.note(in_range(&format!("{path}.dns_port"), port.dns_port, 1, u16::MAX));
    let (min, max) = (MIN_DESCRIPTORS, MAX_DESCRIPTORS);
    found.note(in_range(&format!("{path}.rx_descriptors"), port.rx_descriptors, min, max));
    found.note(in_range(&format!("{path}.tx_descriptors"), port.tx_descriptors, min, max));
    let key = format!("{path}.link_wait_ms");
    found.note(in_range(&key, port.link_wait_ms, 0, MAX_LINK_WAIT_MS));
}

fn check_device(key: String, device: &str) -> Checked {
    if device.trim().is_empty() {
        let fix =
            "a PCI address like \"0000:01:00.0\", a vdev like \"net_tap0,iface=pm0\" or \"replay\"";
        return broken(key, BrokenRule::Empty(fix));
    }
    if device.contains('\0') {
        return broken(key, BrokenRule::ZeroByte);
    }
    if let Some(driver) = mistaken_for(device) {
        return broken(key, BrokenRule::OtherDriver { name: device_name(device), driver });
    }
    if let Some(interface) = interface_made(device).filter(|name| name.len() > MAX_INTERFACE_NAME) {
        return broken(
            key,
            BrokenRule::Dpdk(format!(
                "names the interface `{interface}`, and the kernel takes {MAX_INTERFACE_NAME} bytes at most; write a shorter name"
            )),
        );
    }
    match wrong_mac(device) {
        Some(mac) => broken(key, BrokenRule::NoMac(mac.to_owned())),
        None => Ok(()),
    }
}

fn check_vlans(key: &str, vlans: &[Vlan], found: &mut Mistakes) {
    if vlans.is_empty() {
        found.note(broken(key, BrokenRule::Empty("at least one, as in [\"untagged\"]")));
    }
    found.note(at_most(key, "VLANs", vlans.len(), MAX_VLANS));
    for (index, vlan) in vlans.iter().enumerate() {
        let (entry, (min, max)) = (format!("{key}[{index}]"), VLAN_IDS);
        found.note(vlan.ids().try_for_each(|id| in_range(&entry, id, min, max)));
        let (path, fix) = (|at| format!("{key}[{at}]"), "remove one of the two");
        found.note(unlike_earlier(vlans, index, |other| other == vlan, path, vlan, fix));
    }
}

fn check_unique_names(ports: &[PortSettings], found: &mut Mistakes) {
    for (index, port) in ports.iter().enumerate() {
        let path = |at| format!("port[{at}].name");
        let (same, name) =
            (|other: &PortSettings| other.name == port.name, format!("`{}`", port.name));
        let fix = "give each port its own name";
        found.note(unlike_earlier(ports, index, same, path, name, fix));
    }
}

/// Two ports on one device: what stands before the comma is the device, the rest are its options.
fn check_unique_devices(ports: &[PortSettings], found: &mut Mistakes) {
    let device = |port: &PortSettings| device_name(&port.device);
    for (index, port) in ports.iter().enumerate() {
        let name = device(port);
        // Frames may be played into several ports.
        let same = |other: &PortSettings| name != REPLAY && device(other) == name;
        let path = |at| format!("port[{at}].device");
        let fix = "one device is one port; number vdevs on, as in net_tap0 and net_tap1";
        found.note(unlike_earlier(ports, index, same, path, format!("`{name}`"), fix));
    }
}

fn check_unique_addresses(ports: &[PortSettings], found: &mut Mistakes) {
    let mut seen: HashMap<IpAddr, String> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        for (place, address) in port.addresses.iter().enumerate() {
            let key = format!("port[{index}].addresses[{place}]");
            if let Some(other) = seen.insert(address.address, key.clone()) {
                let value = address.address.to_string();
                let fix = "an address belongs to one port, remove one of the two";
                found.note(broken(key, BrokenRule::Twice { value, other, fix }));
            }
        }
    }
}
