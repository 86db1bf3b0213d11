//! Facts about the ports for the stages: our own addresses, the upstreams behind them, and the work of the hardware.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pmdns_nics::PortFacts;

use crate::query_sources::{Owner, QuerySources, SourceIndex};
use crate::vlan::{Tags, Vlans};
use crate::wire::ip::{v4, v6};
use crate::wire::layout::{Flags, Layout};

/// So many addresses are compared one by one; of more, the middle one first.
const FEW: usize = 16;

/// The addresses of the port of health checks.
const PROBED_MAC: [u8; 6] = [2, 0, 0, 0, 0, 53];
/// See [`Port::probes`].
pub const PROBED_V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);
/// See [`Port::probes`].
pub const PROBED_V6: Ipv6Addr = Ipv6Addr::LOCALHOST;

/// Whether a frame with this layout is for the port of health checks.
pub(crate) fn is_for_probes(layout: Layout, frame: &[u8]) -> bool {
    let sent_to = |at: usize| frame.get(usize::from(layout.l3) + at..);
    !layout.is_stream()
        && match layout.flags.has(Flags::IPV6) {
            true => {
                sent_to(v6::DESTINATION).and_then(<[u8]>::first_chunk) == Some(&PROBED_V6.octets())
            }
            false => {
                sent_to(v4::DESTINATION).and_then(<[u8]>::first_chunk) == Some(&PROBED_V4.octets())
            }
        }
}

/// One port, as the stages see it.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// Our hardware address.
    pub mac: [u8; 6],
    /// Our IPv4 addresses that queries come to, sorted.
    pub ipv4: Vec<[u8; 4]>,
    /// Our IPv6 addresses that queries come to, sorted.
    pub ipv6: Vec<[u8; 16]>,
    /// The VLANs it is on.
    pub vlans: Vlans,
    /// UDP port that queries come to.
    pub dns_port: u16,
    /// Whether the port computes checksums on transmit.
    pub checksum_offload: bool,
    /// Whether its frames may have an unfinished UDP checksum without saying so.
    pub partial_checksums: bool,
    /// Whether an interface of the kernel stands for it, which gets what is not for us.
    pub has_tap: bool,
    /// The addresses that upstreams are asked from.
    pub sources: PortSources,
    /// Hosts on the link that queries to upstreams go through, or that are upstreams.
    pub next_hops: Vec<IpAddr>,
    /// Whether its frames are queries of stream clients, without headers of a wire.
    pub is_streams: bool,
    /// Whether neighbours are told of the addresses that queries come to.
    pub claim: Claim,
}

/// Whether a node claims the addresses of its ports. One that stands by does not: neighbours hear of them from another node.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<ClaimFlags>);

#[derive(Debug, Default)]
struct ClaimFlags {
    is_standby: AtomicBool,
    has_left: AtomicBool,
}

impl Claim {
    /// Whether the node stands by.
    pub fn is_standby(&self) -> bool {
        self.0.is_standby.load(Ordering::Relaxed)
    }

    /// The node stands by from now on, or does not.
    pub fn set_standby(&self, is_standby: bool) {
        self.0.is_standby.store(is_standby, Ordering::Relaxed);
    }

    /// Whether another process of the node has all addresses, those that upstreams are asked from too.
    pub fn has_left(&self) -> bool {
        self.0.has_left.load(Ordering::Relaxed)
    }

    /// Another process has all addresses from now on, or has them no more.
    pub fn set_left(&self, has_left: bool) {
        self.0.has_left.store(has_left, Ordering::Relaxed);
    }
}

/// The query sources of one port.
#[derive(Clone, Debug, Default)]
pub struct PortSources {
    table: Option<Arc<QuerySources>>,
    ipv4: Vec<([u8; 4], SourceIndex)>,
    ipv6: Vec<([u8; 16], SourceIndex)>,
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
        port.ipv4.sort_unstable();
        port.ipv6.sort_unstable();
        port
    }

    /// The port of clients over streams. It is on no VLAN, so no frame of it looks like one from a wire.
    pub fn streams() -> Self {
        Self { vlans: Vlans::of(&[]), is_streams: true, ..Self::default() }
    }

    /// The port of health checks. Nobody can send from its addresses, so it takes none from a client.
    pub fn probes() -> Self {
        Self::new(PROBED_MAC, [PROBED_V4.into(), PROBED_V6.into()])
    }

    /// The port that the config describes, with what it can do.
    pub fn of(settings: &pmdns_config::PortSettings, facts: &PortFacts) -> Self {
        let addresses = settings.addresses.iter().map(|address| address.address);
        Self {
            vlans: Vlans::of(&settings.vlans),
            dns_port: settings.dns_port,
            checksum_offload: settings.checksum_offload && facts.checksum_offload,
            partial_checksums: facts.partial_checksums,
            has_tap: settings.tap.is_some(),
            ..Self::new(facts.mac, addresses)
        }
    }

    /// The same port, from which upstreams are asked: by the sources of `table` on the port of this `number`.
    pub fn with_query_sources(self, table: Arc<QuerySources>, number: usize) -> Self {
        Self { sources: PortSources::of(table, number), ..self }
    }

    /// The same port, whose queries go out by way of these hosts on its link.
    pub fn with_next_hops(self, next_hops: Vec<IpAddr>) -> Self {
        Self { next_hops, ..self }
    }

    /// The same port, whose addresses are claimed or not.
    pub fn with_claim(self, claim: Claim) -> Self {
        Self { claim, ..self }
    }

    /// Whether queries come to this IPv4 address of ours.
    #[inline]
    pub fn is_ours_v4(&self, address: [u8; 4]) -> bool {
        has(&self.ipv4, address)
    }

    /// Whether queries come to this IPv6 address of ours.
    #[inline]
    pub fn is_ours_v6(&self, address: [u8; 16]) -> bool {
        has(&self.ipv6, address)
    }

    /// Whether the IPv4 address is one of ours, of either kind.
    pub(crate) fn has_v4(&self, address: [u8; 4]) -> bool {
        self.is_ours_v4(address) || self.sources.find_v4(address).is_some()
    }

    /// Whether the IPv6 address is one of ours, of either kind.
    pub(crate) fn has_v6(&self, address: [u8; 16]) -> bool {
        self.is_ours_v6(address) || self.sources.find_v6(address).is_some()
    }

    /// Whether neighbours that ask for this IPv4 address by `frame` are told that it is here.
    pub(crate) fn answers_for_v4(&self, address: [u8; 4], frame: &[u8]) -> bool {
        self.is_ours_v4(address) && !self.claim.is_standby()
            || self.sources.find_v4(address).is_some() && self.claims_sources_in(frame)
    }

    /// Whether neighbours that ask for this IPv6 address by `frame` are told that it is here.
    pub(crate) fn answers_for_v6(&self, address: [u8; 16], frame: &[u8]) -> bool {
        self.is_ours_v6(address) && !self.claim.is_standby()
            || self.sources.find_v6(address).is_some() && self.claims_sources_in(frame)
    }

    /// Whether neighbours that ask by `frame` are told of query sources.
    fn claims_sources_in(&self, frame: &[u8]) -> bool {
        !self.claim.has_left() && self.asks_in_vlan_of(frame)
    }

    /// Whether a frame is in the VLAN that upstreams are asked in: the port's first. Hosts in the others are clients, and
    /// none of them can pretend to be a next hop or an upstream.
    pub(crate) fn asks_in_vlan_of(&self, frame: &[u8]) -> bool {
        let vlan = Tags::read(frame).ok().and_then(|tags| self.vlans.find(tags));
        vlan.is_some() && vlan.as_ref() == self.vlans.listed().first()
    }
}

impl PortSources {
    fn of(table: Arc<QuerySources>, number: usize) -> Self {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (index, source) in table.indexes().zip(table.sources()) {
            match source.address {
                _ if source.port != number => {}
                IpAddr::V4(address) => ipv4.push((address.octets(), index)),
                IpAddr::V6(address) => ipv6.push((address.octets(), index)),
            }
        }
        Self { table: Some(table), ipv4, ipv6 }
    }

    /// Which source of the port has this IPv4 address.
    #[inline]
    pub fn find_v4(&self, address: [u8; 4]) -> Option<SourceIndex> {
        self.ipv4.iter().find(|source| source.0 == address).map(|source| source.1)
    }

    /// Which source of the port has this IPv6 address.
    #[inline]
    pub fn find_v6(&self, address: [u8; 16]) -> Option<SourceIndex> {
        self.ipv6.iter().find(|source| source.0 == address).map(|source| source.1)
    }

    /// Which query waits on a UDP port of a source.
    #[inline]
    pub fn owner(&self, source: SourceIndex, udp_port: u16) -> Option<Owner> {
        self.table.as_ref()?.owner(source, udp_port)
    }

    /// The port's IPv4 addresses of this kind.
    pub fn ipv4(&self) -> impl ExactSizeIterator<Item = [u8; 4]> + '_ {
        self.ipv4.iter().map(|source| source.0)
    }

    /// The port's IPv6 addresses of this kind.
    pub fn ipv6(&self) -> impl ExactSizeIterator<Item = [u8; 16]> + '_ {
        self.ipv6.iter().map(|source| source.0)
    }
}

/// Whether one of the sorted addresses is this one.
#[inline]
fn has<const N: usize>(sorted: &[[u8; N]], address: [u8; N]) -> bool {
    if sorted.len() <= FEW {
        sorted.contains(&address)
    } else {
        sorted.binary_search(&address).is_ok()
    }
}

/// Every port, by the number its frames carry ([`Frame::port`](pmdns_nics::Frame::port)).
pub type Ports = Arc<[Port]>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query_sources::Source;

    #[test]
    fn query_sources_are_claimed_by_a_node_that_stands_by_and_by_no_process_that_has_left_them() {
        let source = Source { port: 0, address: [10, 9, 0, 60].into() };
        let sources = Arc::new(QuerySources::new(vec![source]));
        let port = Port::new([2; 6], [[10, 9, 0, 2].into()]).with_query_sources(sources, 0);
        let answers = || [2, 60].map(|host| port.answers_for_v4([10, 9, 0, host], &[0; 60]));
        assert_eq!(answers(), [true, true]);
        port.claim.set_standby(true);
        assert_eq!(answers(), [false, true]);
        port.claim.set_left(true);
        assert_eq!(answers(), [false, false]);
    }

    #[test]
    fn each_address_of_ours_is_known_however_many_there_are() {
        let ipv4 =
            |number: u16| IpAddr::from([10, 7, number.to_be_bytes()[0], number.to_be_bytes()[1]]);
        let ipv6 = |number: u16| IpAddr::from([0xfd07, 0, 0, 0, 0, 0, 0, number]);
        for count in [1, 16, 17, 1024] {
            // Every second number, the largest first.
            let ours = (0..count).rev().map(|number| number * 2);
            let port = Port::new([2; 6], ours.flat_map(|number| [ipv4(number), ipv6(number)]));
            let is_ours = |address| match address {
                IpAddr::V4(address) => port.is_ours_v4(address.octets()),
                IpAddr::V6(address) => port.is_ours_v6(address.octets()),
            };
            for number in 0..2 * count + 2 {
                let wanted = number % 2 == 0 && number < 2 * count;
                assert_eq!(
                    (is_ours(ipv4(number)), is_ours(ipv6(number))),
                    (wanted, wanted),
                    "{number} of {count}"
                );
            }
        }
    }
}
