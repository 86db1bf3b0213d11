//! What the stages need to know of the ports: our own addresses, and what to leave to the hardware.

use std::net::IpAddr;

use pmdns_nics::PortFacts;

use crate::vlan::Vlans;

/// One port, as the stages see it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Our IPv4 addresses.
    pub ipv4: Vec<[u8; 4]>,
    /// Our IPv6 addresses.
    pub ipv6: Vec<[u8; 16]>,
    /// The VLANs it is on.
    pub vlans: Vlans,
    /// UDP port that queries come to.
    pub dns_port: u16,
    /// Whether the port computes checksums on transmit.
    pub checksum_offload: bool,
    /// Whether its frames may have an unfinished UDP checksum without saying so.
    pub partial_checksums: bool,
}

impl Port {
    /// A port with the given addresses that answers untagged frames on port 53.
    pub fn new(mac: [u8; 6], addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut port = Self { mac, dns_port: 53, ..Self::default() };
        for address in addresses {
            match address {
                IpAddr::V4(address) => port.ipv4.push(address.octets()),
                IpAddr::V6(address) => port.ipv6.push(address.octets()),
            }
        }
        port
    }

    /// The port that the config describes, with what it can do.
    pub fn of(settings: &pmdns_config::Port, facts: &PortFacts) -> Self {
        let addresses = settings.addresses.iter().map(|address| address.address);
        Self {
            vlans: Vlans::of(&settings.vlans),
            dns_port: settings.dns_port,
            checksum_offload: settings.checksum_offload && facts.checksum_offload,
            partial_checksums: facts.partial_checksums,
            ..Self::new(facts.mac, addresses)
        }
    }

    /// Whether the IPv4 address is one of ours.
    #[inline]
    pub fn is_ours_v4(&self, address: [u8; 4]) -> bool {
        self.ipv4.contains(&address)
    }

    /// Whether the IPv6 address is one of ours.
    #[inline]
    pub fn is_ours_v6(&self, address: [u8; 16]) -> bool {
        self.ipv6.contains(&address)
    }
}

/// Every port, by the number its frames carry ([`Frame::port`](pmdns_nics::Frame::port)).
pub type Ports = std::sync::Arc<[Port]>;
