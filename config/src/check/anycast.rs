//! The rules of `[anycast]`.

use super::rules::{Checked, Mistakes, at_most, broken, in_range, unicast};
use super::taps::check_name;
use crate::limits::{
    MAX_ANYCAST_ADDRESSES, MAX_IN_A_ROW, MAX_TIMEOUT_MS, MIN_HEALTH_INTERVAL_MS,
    MIN_HEALTH_TIMEOUT_MS,
};
use crate::name::wire_name;
use crate::problem::BrokenRule;
use crate::settings::Config;

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    let anycast = &config.anycast;
    if let Err(error) = wire_name(&anycast.probe) {
        found.note(broken("anycast.probe", BrokenRule::ProbeName(error)));
    }
    if let Some(client) = anycast.client {
        found.note(unicast("anycast.client", client));
    }
    let (min, max) = (MIN_HEALTH_INTERVAL_MS, MAX_TIMEOUT_MS);
    found.note(in_range("anycast.interval_ms", anycast.interval_ms, min, max));
    found.note(in_range("anycast.timeout_ms", anycast.timeout_ms, MIN_HEALTH_TIMEOUT_MS, max));
    found.note(in_range("anycast.failures", anycast.failures, 1, MAX_IN_A_ROW));
    found.note(in_range("anycast.successes", anycast.successes, 1, MAX_IN_A_ROW));
    found.note(check_interface(config));
    let count = anycast.addresses.len();
    found.note(at_most("anycast.addresses", "addresses", count, MAX_ANYCAST_ADDRESSES));
    for (index, announced) in anycast.addresses.iter().enumerate() {
        let mut served = config.ports.iter().flat_map(|port| &port.addresses);
        if !served.any(|address| address.address == announced.address) {
            let problem = BrokenRule::NotServed(announced.address);
            found.note(broken(format!("anycast.addresses[{index}]"), problem));
        }
    }
}

fn check_interface(config: &Config) -> Checked {
    let anycast = &config.anycast;
    let Some(name) = &anycast.interface else {
        return match anycast.addresses.is_empty() {
            true => Ok(()),
            false => broken("anycast.interface", BrokenRule::Empty("a name, as in \"pm-anycast\"")),
        };
    };
    if anycast.addresses.is_empty() {
        let fix = "the addresses to announce, as in [\"192.0.2.53/32\"]";
        return broken("anycast.addresses", BrokenRule::Empty(fix));
    }
    check_name("anycast.interface", name)?;
    let taps = config.ports.iter().position(|port| port.tap.as_ref() == Some(name));
    match taps {
        None => Ok(()),
        Some(port) => broken(
            "anycast.interface",
            BrokenRule::Twice {
                value: format!("`{name}`"),
                other: format!("port[{port}].tap"),
                fix: "give it a name of its own",
            },
        ),
    }
}
