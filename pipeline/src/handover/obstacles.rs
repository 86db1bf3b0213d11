//! What of a configuration cannot pass to another process yet.

use pmdns_config::{Config, PciAddress, PortSettings, Vlan, interface_made};

use super::devices::{has_peer, is_exclusive};
use super::process::cannot_pass;
use super::taps::is_over_af_xdp;

/// What of a configuration cannot pass to another process yet, and what to do.
pub(super) fn obstacle(config: &Config) -> Option<String> {
    let of_port = config.ports.iter().find_map(of_port);
    of_port.or_else(|| of_arguments(config)).map(cannot_pass)
}

/// What keeps a process of the configuration `next` from taking over from one whose configuration is `running`.
pub(crate) fn obstacle_between(running: &Config, next: &Config) -> Option<String> {
    if running.control.socket != next.control.socket {
        // It would look for this process there.
        return Some(cannot_pass("another `control.socket`"));
    }
    obstacle(next)
}

fn is_pair(vlan: &Vlan) -> bool {
    matches!(vlan, Vlan::Double(..))
}

/// Why a port cannot pass.
fn of_port(port: &PortSettings) -> Option<String> {
    let options = || port.device.split(',').map(str::trim);
    let has_address = options().any(|option| option.starts_with("mac=") && option != "mac=fixed");
    let name = &port.name;
    match interface_made(&port.device) {
        // The driver of a packet socket puts the outer tag back as a customer's, which it may not have been.
        None if is_over_af_xdp(port) && port.vlans.iter().any(is_pair) => {
            Some(format!("port `{name}`: a pair of `vlans`"))
        }
        // The kernel would get each frame twice. The copy by the port's interface finds no socket that is bound to the `tap`,
        // as BGP's are, and it would reset such a connection.
        None if is_over_af_xdp(port) && port.tap.is_some() => {
            Some(format!("port `{name}`: a `tap` of a port over AF_XDP"))
        }
        // The driver would load it a second time.
        None if is_over_af_xdp(port) && options().any(|option| option.starts_with("xdp_prog=")) => {
            Some(format!("port `{name}`: `xdp_prog` in its device"))
        }
        None if is_over_af_xdp(port) => None,
        None if !is_exclusive(port) => Some(format!("port `{name}`: its device")),
        interface if !has_address && (interface.is_some() || has_peer(port)) => {
            Some(format!("port `{name}`: a hardware address that is not in `device` (mac=)"))
        }
        _ => None,
    }
}

/// Why the arguments of the EAL keep a device from passing: a device that is opened later has the options of its port alone.
fn of_arguments(config: &Config) -> Option<String> {
    let has_options = |port: &PortSettings| {
        if let Some(word) = config.eal.args.iter().find(|word| word.starts_with("--allow")) {
            return Some(format!(
                "port `{}`: `{word}` in `eal.args`, which is not needed,",
                port.name
            ));
        }
        let address = PciAddress::of(&port.device)?;
        let words = config.eal.args.iter().map(|word| word.strip_prefix("-a").unwrap_or(word));
        let mut same = words.filter(|word| PciAddress::of(word) == Some(address));
        same.find(|word| word.contains(',')).map(|word| {
            format!(
                "port `{}`: options in `eal.args` ({word}), which belong in its `device`,",
                port.name
            )
        })
    };
    config.ports.iter().filter(|port| is_exclusive(port)).find_map(has_options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_pass_is_named() {
        let xdp = PortSettings {
            vlans: vec![Vlan::Untagged, Vlan::Tagged(7)],
            ..PortSettings::new("p", "net_af_xdp0,iface=eth1")
        };
        assert_eq!(of_port(&xdp), None);
        let own = PortSettings::new("p", "net_af_xdp0,iface=eth1,xdp_prog=own.o");
        assert!(of_port(&own).is_some_and(|why| why.contains("`xdp_prog`")));
        let xdp = PortSettings { tap: Some("pm-edge".to_owned()), ..xdp };
        assert!(of_port(&xdp).is_some_and(|why| why.contains("a `tap` of a port over AF_XDP")));
        let tap = PortSettings { device: "net_tap0,iface=pm0,mac=02:00:00:00:00:aa".into(), ..xdp };
        assert_eq!(of_port(&tap), None);
        let xdp = PortSettings::new("p", "net_af_xdp0,iface=eth1");
        let pair = PortSettings { vlans: vec![Vlan::Double(7, 8)], ..xdp.clone() };
        let shared = PortSettings { share_with_kernel: true, ..xdp };
        assert_eq!(of_port(&shared), None);
        let memif = PortSettings::new("p", "net_memif0,mac=02:00:00:00:00:aa");
        assert_eq!(of_port(&memif), None);
        for (port, what) in [
            (PortSettings::new("p", "net_memif0"), "a hardware address"),
            (PortSettings::new("p", "net_vhost1,iface=/run/vhost"), "its device"),
            // It is on no driver.
            (PortSettings::new("p", "ffff:ff:1f.7"), "its device"),
            (PortSettings::new("p", "net_virtio_user0,path=/run/vhost"), "a hardware address"),
            (pair, "a pair of `vlans`"),
            (PortSettings::new("p", "net_pcap0,iface=eth1"), "its device"),
            (PortSettings::new("p", "net_tap0,iface=pm0"), "a hardware address"),
        ] {
            let told = of_port(&port).unwrap();
            assert!(told.starts_with(&format!("port `p`: {what}")), "{told}");
        }
    }
}
