//! The multicast groups that a port must hear. IPv6 neighbours are asked for by multicast (RFC 4861 section 7.2.2).
//! Routers ask by multicast who hears what (RFC 3810).

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;

use pmdns_config::PortSettings;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::set_ipv6_add_membership;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Memberships of one socket: the kernel bounds the memory of its options (`net.core.optmem_max`, 20 KiB).
const OF_A_SOCKET: usize = 128;

/// The groups of a port; none if it has no IPv6 address.
pub(crate) fn of(port: &PortSettings) -> BTreeSet<Ipv6Addr> {
    let addresses = port.addresses.iter().map(|ours| ours.address);
    let all = addresses.chain(port.query_sources.iter().copied());
    let mut groups: BTreeSet<Ipv6Addr> = all.filter_map(solicited_node).collect();
    if !groups.is_empty() {
        groups.insert(ALL_NODES);
    }
    groups
}

/// The MAC address that frames to a group have (RFC 2464 section 7).
pub(crate) fn mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Has the kernel join the groups on its interface, as long as the sockets are open: it tells the device and the switches.
pub(crate) fn join(interface: &str, groups: &BTreeSet<Ipv6Addr>) -> io::Result<Vec<OwnedFd>> {
    let groups: Vec<&Ipv6Addr> = groups.iter().collect();
    let sockets = groups.chunks(OF_A_SOCKET).map(|groups| {
        let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
        let socket = socket_with(AddressFamily::INET6, kind, flags, None)?;
        let index = name_to_index(&socket, interface)?;
        for group in groups {
            set_ipv6_add_membership(&socket, group, index)?;
        }
        Ok(socket)
    });
    sockets.collect()
}

/// The group in which an address is asked for (RFC 4291 section 2.7.1).
fn solicited_node(address: IpAddr) -> Option<Ipv6Addr> {
    let IpAddr::V6(address) = address else { return None };
    let [.., a, b, c] = address.octets();
    Some(Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_hears_the_groups_of_its_addresses_each_once() {
        let mut port = PortSettings::new("p", "replay");
        port.addresses = vec!["192.0.2.1/24".parse().unwrap()];
        assert_eq!(of(&port).len(), 0, "IPv4 asks by broadcast");
        port.addresses.push("2001:db8::12:3456/64".parse().unwrap());
        port.addresses.push("2001:db8:1::12:3456/64".parse().unwrap());
        port.query_sources = vec!["fe80::a".parse().unwrap()];
        let macs: Vec<[u8; 6]> = of(&port).into_iter().map(mac).collect();
        assert_eq!(
            macs,
            [
                [0x33, 0x33, 0, 0, 0, 1],
                [0x33, 0x33, 0xff, 0, 0, 0xa],
                [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]
            ]
        );
    }

    #[test]
    fn an_interface_that_is_not_there_joins_nothing() {
        assert!(join("no-such-if", &BTreeSet::from([ALL_NODES])).is_err());
        assert_eq!(join("no-such-if", &BTreeSet::new()).unwrap().len(), 0);
    }
}
