//! The interface of a port: made, named, addressed. All of this needs `CAP_NET_ADMIN`, so it is done before privileges are
//! given up.

use std::fs;
use std::io;

use pmdns_config::{InterfaceAddress, PortSettings, Vlan};
#[cfg(feature = "dpdk")]
use pmdns_nics::dpdk::{Eal, Mempool};
use pmdns_nics::{KernelEnd, PortFacts, TUN, Tap};

use super::netlink::{Message, Netlink, Request};

/// The address of the interface of announced addresses. No frame goes there.
const ANYCAST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 54];
/// Its MTU.
const ANYCAST_MTU: u32 = 1500;
/// Settings of the interface (ip-sysctl.rst): the family, the name, the value.
///
/// Strict filters of sources would drop what comes by another port than its answer leaves by. ARP asks in the name of an
/// address that the neighbor stage answers for. Addresses are the configured ones and no others. Routes are the operator's: no
/// packet names a better router, or the way that its answer takes.
const SETTINGS: [(&str, &str, &str); 12] = [
    ("ipv4", "rp_filter", "2"),
    ("ipv4", "arp_announce", "2"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv4", "secure_redirects", "0"),
    ("ipv4", "send_redirects", "0"),
    ("ipv4", "shared_media", "0"),
    ("ipv4", "accept_source_route", "0"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "accept_redirects", "0"),
    ("ipv6", "accept_source_route", "0"),
    ("ipv6", "autoconf", "0"),
    ("ipv6", "addr_gen_mode", "1"),
];

/// Why a port has no interface of the kernel.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// It cannot be made.
    #[error(
        "port {port}: no TAP {tap} from {TUN}: {error}; load the module `tun`, and start with CAP_NET_ADMIN"
    )]
    Open {
        /// The port's name.
        port: String,
        /// The interface's.
        tap: String,
        /// The kernel's reason.
        error: io::Error,
    },
    /// The interface of announced addresses cannot be made.
    #[error(
        "no interface {tap} with the anycast.addresses from {TUN}: {error}. Load the module `tun`, start with \
         CAP_NET_ADMIN, and make sure that no other `pmdns health --watch` runs"
    )]
    Anycast {
        /// The interface's name.
        tap: String,
        /// The kernel's reason.
        error: io::Error,
    },
    /// It cannot be set up.
    #[error("port {port}: the TAP {tap} does not take {what}: {error}; {fix}")]
    SetUp {
        /// The port's name.
        port: String,
        /// The interface's.
        tap: String,
        /// What it was to get.
        what: String,
        /// The kernel's reason.
        error: io::Error,
        /// What to change.
        fix: &'static str,
    },
}

/// The interface that `port` asks for, if any. `make` makes one of this name. One that another process has `passed` stays as it
/// is, but for the addresses and the default route that it lacks.
///
/// # Errors
///
/// The kernel does not make it, or does not take its addresses.
pub fn open(
    port: &PortSettings,
    facts: &PortFacts,
    passed: Option<Tap>,
    make: impl FnOnce(&str) -> io::Result<Box<dyn KernelEnd>>,
) -> Result<Option<Box<dyn KernelEnd>>, TapError> {
    let Some(name) = &port.tap else { return Ok(None) };
    let failed = |error| TapError::Open { port: port.name.clone(), tap: name.clone(), error };
    let is_new = passed.is_none();
    let mut tap = match passed {
        Some(tap) => Box::new(tap) as Box<dyn KernelEnd>,
        None => make(name).map_err(failed)?,
    };
    if is_new {
        tap.set_link(false).map_err(failed)?;
        SETTINGS.iter().for_each(|(family, key, value)| set(name, family, key, value));
    }
    let mut netlink = Netlink::open().map_err(failed)?;
    let index = rustix::net::netdevice::name_to_index(netlink.socket(), name)
        .map_err(|error| failed(error.into()))?;
    for (message, what, fix) in messages(port, facts, index, is_new || !is_set_up(name, facts)) {
        match netlink.ask(&message) {
            Err(error) if !is_new && error.kind() == io::ErrorKind::AlreadyExists => {}
            asked => asked.map_err(|error| TapError::SetUp {
                port: port.name.clone(),
                tap: name.clone(),
                what,
                error,
                fix,
            })?,
        }
    }
    Ok(Some(tap))
}

/// Makes the interface `name` for a port: over vhost-net where the kernel has that.
///
/// # Errors
///
/// The kernel does not make it.
#[cfg(feature = "dpdk")]
pub fn make(eal: &Eal, pool: &Mempool, port: &str, name: &str) -> io::Result<Box<dyn KernelEnd>> {
    match eal.open_vhost(name, pool) {
        Ok(tap) => {
            tracing::info!("port {port}: {name} is over vhost-net");
            for warning in tap.warnings() {
                tracing::warn!("port {port}: {name}: {warning}");
            }
            Ok(Box::new(tap))
        }
        Err(why) => {
            let tap = Tap::open(name)?;
            tracing::info!("port {port}: {name} is a plain TAP, without vhost-net ({why})");
            Ok(Box::new(tap))
        }
    }
}

/// An interface with these addresses, which routing daemons announce while it is there.
///
/// # Errors
///
/// The kernel does not make it, or does not take its addresses.
pub fn open_anycast(name: &str, addresses: &[InterfaceAddress]) -> Result<Tap, TapError> {
    let failed = |error| TapError::Anycast { tap: name.to_owned(), error };
    let tap = Tap::open(name).map_err(failed)?;
    SETTINGS.iter().for_each(|(family, key, value)| set(name, family, key, value));
    let mut netlink = Netlink::open().map_err(failed)?;
    let index = rustix::net::netdevice::name_to_index(netlink.socket(), name)
        .map_err(|error| failed(error.into()))?;
    let link = Request::Link { index, mac: ANYCAST_MAC, mtu: ANYCAST_MTU };
    netlink.ask(&link.message()).map_err(failed)?;
    for ours in addresses {
        let request = Request::Address { index, address: ours.address, prefix: ours.length };
        netlink.ask(&request.message()).map_err(failed)?;
    }
    Ok(tap)
}

/// Writes a setting. Where there is none, the kernel lacks the family.
fn set(tap: &str, family: &str, name: &str, value: &str) {
    let file = format!("/proc/sys/net/{family}/conf/{tap}/{name}");
    match fs::write(&file, value) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("{file} stays as it is: {error}; write {value} to it");
        }
        _ => {}
    }
}

/// Whether the interface has the addresses and the MTU of the port. To set the same ones again would make the kernel forget its
/// neighbours.
fn is_set_up(name: &str, facts: &PortFacts) -> bool {
    let value = |file: &str| fs::read_to_string(format!("/sys/class/net/{name}/{file}"));
    let mac = facts.mac.map(|byte| format!("{byte:02x}")).join(":");
    let is = |file: &str, wanted: &str| value(file).is_ok_and(|text| text.trim() == wanted);
    is("address", &mac) && is("mtu", &facts.mtu.to_string())
}

/// What the kernel is told of the interface, with words for it, and what to do if it refuses. `link`: that of its link, too.
fn messages(
    port: &PortSettings,
    facts: &PortFacts,
    index: u32,
    link: bool,
) -> Vec<(Message, String, &'static str)> {
    let of_link = || {
        (
            Request::Link { index, mac: facts.mac, mtu: facts.mtu.into() }.message(),
            "the port's MAC address".to_owned(),
            "delete an interface of this name that is left over (`ip link delete`)",
        )
    };
    let mut all: Vec<_> = link.then(of_link).into_iter().collect();
    // With tags only, the operator's VLAN interfaces get the addresses: here they would be in no VLAN.
    if !port.vlans.contains(&Vlan::Untagged) {
        return all;
    }
    for ours in &port.addresses {
        let (address, prefix) = (ours.address, ours.length);
        all.push((
            Request::Address { index, address, prefix }.message(),
            format!("the address {address}/{prefix}"),
            "remove the address from the other interface",
        ));
    }
    let routed = port.tap_default_route;
    for is_ipv4 in [true, false] {
        let gateway = port.gateways.iter().find(|one| one.is_ipv4() == is_ipv4);
        if let Some(gateway) = gateway.filter(|_| routed) {
            all.push((
                Request::DefaultRoute { index, gateway: *gateway }.message(),
                format!("the default route via {gateway}"),
                "remove the other default route, or `tap_default_route`",
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What guides to hardening demand of each interface (CIS Debian Linux 12 Benchmark 3.3, ANSSI-BP-028 R12), and where we
    /// differ, with the reason.
    const DEMANDED: [(&str, &str, &str, Option<&str>); 13] = [
        ("ipv4", "accept_redirects", "0", None),
        ("ipv4", "secure_redirects", "0", None),
        ("ipv4", "send_redirects", "0", None),
        ("ipv4", "accept_source_route", "0", None),
        ("ipv4", "shared_media", "0", None),
        ("ipv4", "arp_announce", "2", None),
        ("ipv4", "rp_filter", "1", Some("answers may leave by another port, so 2")),
        ("ipv4", "log_martians", "1", Some("a flood would fill the log; the ports count")),
        (
            "ipv4",
            "arp_ignore",
            "1",
            Some("the neighbor stage answers, and the kernel gets no requests"),
        ),
        ("ipv6", "accept_ra", "0", None),
        ("ipv6", "accept_redirects", "0", None),
        ("ipv6", "accept_source_route", "0", None),
        ("ipv6", "autoconf", "0", None),
    ];

    #[test]
    fn attack_f_the_interface_has_what_guides_to_hardening_demand() {
        for (family, name, value, reason) in DEMANDED {
            let ours = SETTINGS.iter().find(|ours| (ours.0, ours.1) == (family, name));
            let is_as_demanded = ours.is_some_and(|ours| ours.2 == value);
            assert_ne!(is_as_demanded, reason.is_some(), "{family} {name}");
        }
        for (family, name, _) in SETTINGS {
            let is_demanded = DEMANDED.iter().any(|one| (one.0, one.1) == (family, name));
            assert!(is_demanded || name == "addr_gen_mode", "{family} {name}");
        }
    }
}
