//! The rules of ports that are shared with the kernel: `share_with_kernel` of `[[port]]`.

use super::rules::{Checked, Mistakes, broken};
use crate::device::{PciAddress, device_name};
use crate::limits::MAX_FLOW_RULES;
use crate::problem::BrokenRule;
use crate::settings::PortSettings;

pub(super) fn check(ports: &[PortSettings], found: &mut Mistakes) {
    for (index, port) in ports.iter().enumerate() {
        if port.share_with_kernel {
            found.note(check_port(format!("port[{index}].share_with_kernel"), port));
        }
    }
}

fn check_port(key: String, port: &PortSettings) -> Checked {
    let over_xdp = device_name(&port.device).starts_with("net_af_xdp");
    let rules = port.addresses.len() * port.vlans.len();
    let why = if !over_xdp && PciAddress::of(&port.device).is_none() {
        "the device is neither net_af_xdp nor a PCI device, so the kernel has no interface of it; remove the key"
    } else if port.tap.is_some() {
        "the port has a `tap` as well, and the kernel has its own interface already; remove one of the two"
    } else if over_xdp && port.device.contains(",xdp_prog=") {
        "the device names a program with xdp_prog, and one program fits; remove one of the two"
    } else if !over_xdp && !port.query_sources.is_empty() {
        "the kernel gets the replies of neighbours, so `query_sources` cannot send over this device; remove them"
    } else if !over_xdp && rules > MAX_FLOW_RULES {
        "each address in each VLAN is a rule of the device, which are too many; write at most 4096 in all"
    } else {
        return Ok(());
    };
    broken(key, BrokenRule::Impossible(why))
}
