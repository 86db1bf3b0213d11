//! The rules of the kernel's end of ports: `tap` and `tap_default_route` of `[[port]]`, and `[exceptions]`.

use super::rules::{Checked, Mistakes, broken, in_range, unlike_earlier};
use crate::device::{device_name, interface_made};
use crate::limits::{MAX_EXCEPTION_RATE, MAX_INTERFACE_NAME};
use crate::problem::BrokenRule;
use crate::settings::{Exceptions, PortSettings};

/// The device of a port that frames are played into from a file.
pub(super) const REPLAY: &str = "replay";

pub(super) fn check_ports(ports: &[PortSettings], found: &mut Mistakes) {
    for (index, port) in ports.iter().enumerate() {
        let key = format!("port[{index}].tap_default_route");
        found.note(check_route(key, port));
        let Some(tap) = &port.tap else { continue };
        let key = format!("port[{index}].tap");
        found.note(check_name(&key, tap));
        if device_name(&port.device) == REPLAY {
            found.note(broken(&*key, BrokenRule::TapOfReplay(tap.clone())));
        }
        if ports.iter().any(|other| interface_made(&other.device) == Some(tap)) {
            found.note(broken(&*key, tap_of_device(tap)));
        }
        let path = |at| format!("port[{at}].tap");
        let same = |other: &PortSettings| other.tap.as_ref() == Some(tap);
        let fix = "give the TAP of each port its own name";
        found.note(unlike_earlier(ports, index, same, path, format!("`{tap}`"), fix));
    }
}

pub(super) fn check_rates(rates: &Exceptions, found: &mut Mistakes) {
    for (key, rate) in [
        ("link_per_second", rates.link_per_second),
        ("control_per_second", rates.control_per_second),
        ("streams_per_second", rates.streams_per_second),
        ("rest_per_second", rates.rest_per_second),
    ] {
        found.note(in_range(&format!("exceptions.{key}"), rate, 0, MAX_EXCEPTION_RATE));
    }
}

/// The kernel takes more names. These need no quotes in any tool, and no `%d` makes another name of them.
pub(super) fn check_name(key: &str, name: &str) -> Checked {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (1..=MAX_INTERFACE_NAME).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(()),
        false => broken(key, BrokenRule::InterfaceName(name.to_owned())),
    }
}

/// The kernel has one interface of a name.
fn tap_of_device(tap: &str) -> BrokenRule {
    BrokenRule::Dpdk(format!(
        "is `{tap}`, the name of the interface that the device of a port makes; write another name"
    ))
}

fn check_route(key: String, port: &PortSettings) -> Checked {
    let why = match (port.tap_default_route, &port.tap) {
        (false, _) => return Ok(()),
        (true, None) => "the port has no `tap`; write its name, or remove this key",
        (true, Some(_)) if port.gateways.is_empty() => {
            "the port has no `gateways`; write the router's address there, or remove this key"
        }
        (true, Some(_)) => return Ok(()),
    };
    broken(key, BrokenRule::Impossible(why))
}
