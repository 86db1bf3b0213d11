//! The rules of the kernel's end of ports.

use pmdns_config::Config;

use crate::{LAWFUL, refuses_text};

/// The lawful text, with `more` in its first port.
fn with(more: &str) -> String {
    LAWFUL.replacen("name = \"up\"\n", &format!("name = \"up\"\n{more}\n"), 1)
}

#[track_caller]
fn refuses(more: &str, key: &str, part: &str) {
    let text = with(more);
    let last = more.lines().last().unwrap_or_default();
    let line = crate::line_of(&text, last);
    refuses_text(&text, &format!("line {line}: `{key}` "), &[part]);
}

#[test]
fn a_port_may_have_a_tap_and_default_routes_by_it() {
    let more = "gateways = [\"192.0.2.1\"]\ntap = \"pm-edge\"\ntap_default_route = true";
    let config = Config::from_toml(&with(more)).unwrap();
    assert_eq!(config.ports[0].tap.as_deref(), Some("pm-edge"));
    assert!(config.ports[1].tap.is_none() && !config.ports[1].tap_default_route);
}

#[test]
fn the_kernel_takes_the_name_of_a_tap() {
    Config::from_toml(&with("tap = \"fifteen-letters\"")).unwrap();
    let part = "an interface has a name of 1 to 15 letters, digits, `-` and `_`";
    for name in ["", "sixteen-letters!", "pm edge", "pm/edge", "pm.7", "pm%d", "p\u{e4}"] {
        refuses(&format!("tap = \"{name}\""), "port[0].tap", part);
    }
}

#[test]
fn each_tap_has_its_own_name() {
    let text = with("tap = \"pm-edge\"").replacen(
        "name = \"down\"\n",
        "name = \"down\"\n# the second\ntap = \"pm-edge\"\n",
        1,
    );
    let line = crate::line_of(&text, "# the second") + 1;
    let start = format!("line {line}: `port[1].tap` is `pm-edge`, as is `port[0].tap` already");
    refuses_text(&text, &start, &["give the TAP of each port its own name"]);
}

#[test]
fn an_interface_that_a_device_makes_is_no_tap() {
    for name in ["pm0", "pm1"] {
        let part = "the name of the interface that the device of a port makes; write another name";
        refuses(&format!("tap = \"{name}\""), "port[0].tap", part);
    }
}

#[test]
fn a_capture_has_no_kernel_behind_it() {
    let text = with("tap = \"pm-edge\"").replacen("net_tap0,iface=pm0", "replay", 1);
    let line = crate::line_of(&text, "tap = \"pm-edge\"");
    let part = "the device `replay` reads a file, and no host is behind it; remove the key";
    refuses_text(&text, &format!("line {line}: `port[0].tap` "), &[part]);
}

#[test]
fn a_default_route_leads_by_a_tap_to_a_gateway() {
    let key = "port[0].tap_default_route";
    refuses("tap_default_route = true", key, "the port has no `tap`; write its name");
    let without_gateway = "tap = \"pm-edge\"\ntap_default_route = true";
    refuses(without_gateway, key, "the port has no `gateways`; write the router's address there");
}
