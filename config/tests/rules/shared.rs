//! The rules of ports that are shared with the kernel.

use pmdns_config::Config;

use crate::{LAWFUL, refuses_text};

/// The lawful text, with another device and `more` in its first port.
fn with(device: &str, more: &str) -> String {
    LAWFUL.replacen("net_tap0,iface=pm0", device, 1).replacen(
        "name = \"up\"\n",
        &format!("name = \"up\"\nshare_with_kernel = true\n{more}\n"),
        1,
    )
}

#[test]
fn af_xdp_and_pci_devices_are_shared() {
    for device in ["net_af_xdp0,iface=eth0", "0000:01:00.0"] {
        let config = Config::from_toml(&with(device, "")).unwrap();
        assert!(config.ports[0].share_with_kernel && !config.ports[1].share_with_kernel);
    }
}

#[test]
fn nothing_else_is_and_not_with_everything() {
    let xdp = "net_af_xdp0,iface=eth0";
    let many = format!("vlans = {:?}", (1..=64).collect::<Vec<_>>());
    let more = (1..=65).map(|n| format!("\"203.0.113.{n}/24\"")).collect::<Vec<_>>().join(", ");
    for (device, settings, part) in [
        ("net_tap0,iface=pm0", "", "the kernel has no interface of it; remove the key"),
        (xdp, "tap = \"pm-edge\"", "the kernel has its own interface already"),
        ("net_af_xdp0,iface=eth0,xdp_prog=a.o", "", "one program fits"),
        (
            "01:00.0",
            "query_sources = [\"192.0.2.60\"]",
            "`query_sources` cannot send over this device",
        ),
        ("01:00.0", &*many, "write at most 4096 in all"),
    ] {
        let mut text = with(device, settings);
        if settings.starts_with("vlans") {
            text = text.replacen("addresses = [", &format!("addresses = [{more}, "), 1);
        }
        let line = crate::line_of(&text, "share_with_kernel = true");
        refuses_text(&text, &format!("line {line}: `port[0].share_with_kernel` "), &[part]);
    }
}
