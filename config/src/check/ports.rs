//! The rules of `[[port]]`.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Verdict, at_most, broken, in_range, plain_name, unicast};
use crate::device::device_name;
use crate::limits::{
    MAX_ADDRESSES, MAX_DESCRIPTORS, MAX_LINK_WAIT_MS, MAX_PORTS, MAX_VLANS, MIN_DESCRIPTORS,
    VLAN_IDS,
};
use crate::problem::Problem;
use crate::settings::Port;
use crate::vlan::Vlan;

/// The device of a port that frames are played into from a file; there may be several.
const REPLAY: &str = "replay";

pub(super) fn check(ports: &[Port]) -> Verdict {
    if ports.is_empty() {
        let fix = "a [[port]] table with name, device and addresses; see config/examples";
        return broken("port", Problem::None(fix));
    }
    at_most("port", "ports", ports.len(), MAX_PORTS)?;
    for (index, port) in ports.iter().enumerate() {
        check_port(&format!("port[{index}]"), port)?;
    }
    check_unique_names(ports)?;
    check_unique_devices(ports)?;
    check_unique_addresses(ports)
}

fn check_port(path: &str, port: &Port) -> Verdict {
    plain_name(&format!("{path}.name"), &port.name)?;
    let key = format!("{path}.device");
    if port.device.trim().is_empty() {
        let fix =
            "a PCI address like \"0000:01:00.0\", a vdev like \"net_tap0,iface=pm0\" or \"replay\"";
        return broken(key, Problem::Empty(fix));
    }
    if port.device.contains('\0') {
        return broken(key, Problem::ZeroByte);
    }
    let key = format!("{path}.addresses");
    if port.addresses.is_empty() {
        return broken(
            key,
            Problem::Empty("at least one address of ours, as in [\"192.0.2.53/24\"]"),
        );
    }
    at_most(&key, "addresses", port.addresses.len(), MAX_ADDRESSES)?;
    for (index, address) in port.addresses.iter().enumerate() {
        unicast(&format!("{key}[{index}]"), address.address)?;
    }
    check_vlans(&format!("{path}.vlans"), &port.vlans)?;
    in_range(&format!("{path}.dns_port"), port.dns_port, 1, u16::MAX)?;
    let (min, max) = (MIN_DESCRIPTORS, MAX_DESCRIPTORS);
    in_range(&format!("{path}.rx_descriptors"), port.rx_descriptors, min, max)?;
    in_range(&format!("{path}.tx_descriptors"), port.tx_descriptors, min, max)?;
    in_range(&format!("{path}.link_wait_ms"), port.link_wait_ms, 0, MAX_LINK_WAIT_MS)
}

fn check_vlans(key: &str, vlans: &[Vlan]) -> Verdict {
    if vlans.is_empty() {
        return broken(key, Problem::Empty("at least one, as in [\"untagged\"]"));
    }
    at_most(key, "VLANs", vlans.len(), MAX_VLANS)?;
    for (index, vlan) in vlans.iter().enumerate() {
        let (entry, (min, max)) = (format!("{key}[{index}]"), VLAN_IDS);
        vlan.ids().try_for_each(|id| in_range(&entry, id, min, max))?;
        if let Some(first) = vlans[..index].iter().position(|other| other == vlan) {
            let (value, other) = (vlan.to_string(), format!("{key}[{first}]"));
            return broken(entry, Problem::Twice { value, other, fix: "remove one of the two" });
        }
    }
    Ok(())
}

fn check_unique_names(ports: &[Port]) -> Verdict {
    for (index, port) in ports.iter().enumerate() {
        if let Some(first) = ports[..index].iter().position(|other| other.name == port.name) {
            let problem = Problem::Twice {
                value: format!("`{}`", port.name),
                other: format!("port[{first}].name"),
                fix: "give each port its own name",
            };
            return broken(format!("port[{index}].name"), problem);
        }
    }
    Ok(())
}

/// Two ports on one device: what stands before the comma is the device, the rest are its options.
fn check_unique_devices(ports: &[Port]) -> Verdict {
    let device = |port: &Port| device_name(&port.device);
    for (index, port) in ports.iter().enumerate() {
        let name = device(port);
        let first = ports[..index].iter().position(|other| device(other) == name);
        if let Some(first) = first.filter(|_| name != REPLAY) {
            let problem = Problem::Twice {
                value: format!("`{name}`"),
                other: format!("port[{first}].device"),
                fix: "one device is one port; number vdevs on, as in net_tap0 and net_tap1",
            };
            return broken(format!("port[{index}].device"), problem);
        }
    }
    Ok(())
}

fn check_unique_addresses(ports: &[Port]) -> Verdict {
    let mut seen: HashMap<IpAddr, String> = HashMap::new();
    for (index, port) in ports.iter().enumerate() {
        for (place, address) in port.addresses.iter().enumerate() {
            let key = format!("port[{index}].addresses[{place}]");
            if let Some(other) = seen.insert(address.address, key.clone()) {
                let value = address.address.to_string();
                let fix = "an address belongs to one port, remove one of the two";
                return broken(key, Problem::Twice { value, other, fix });
            }
        }
    }
    Ok(())
}
