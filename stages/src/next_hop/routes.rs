//! Over which next hop an upstream is reached: on the link itself, or by the gateways of its family.

use std::net::{IpAddr, Ipv6Addr};

use pmdns_config::InterfaceAddress;

use super::table::{HopAddress, HopPlan, HopTable};

/// Next hops of one process: the gateways of all ports, and the upstreams.
pub const MAX_HOPS: usize = 192;

/// The addresses on the link of one port.
#[derive(Clone, Debug, Default)]
pub struct LinkAddresses {
    /// Our addresses, with the lengths of their prefixes.
    pub addresses: Vec<InterfaceAddress>,
    /// The addresses that queries to upstreams come from.
    pub query_sources: Vec<IpAddr>,
    /// The gateways, the preferred one first.
    pub gateways: Vec<IpAddr>,
}

/// Where each upstream's queries may go. Fixed at start.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    plans: Vec<HopPlan>,
    /// By upstream: the numbers of its next hops, the preferred one first.
    candidates: Vec<Vec<usize>>,
}

/// The next hop that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Its number.
    pub hop: usize,
    /// Where it is.
    pub place: HopAddress,
}

impl Routes {
    /// The routes over these links, by port number. Each upstream is given with its port; `None` stands for one that
    /// is not asked over a port.
    pub fn new(links: &[LinkAddresses], upstreams: &[Option<(usize, IpAddr)>]) -> Self {
        let mut routes = Self::default();
        for upstream in upstreams {
            let candidates = upstream.map(|(port, address)| routes.find(links, port, address));
            routes.candidates.push(candidates.unwrap_or_default());
        }
        routes
    }

    /// The next hops, each once, by their numbers.
    pub fn plans(&self) -> &[HopPlan] {
        &self.plans
    }

    /// The addresses of the next hops on a port, which its stages are to listen for.
    pub fn on_port(&self, port: usize) -> Vec<IpAddr> {
        let there = self.plans.iter().filter(|plan| plan.port == port);
        there.map(|plan| plan.address).collect()
    }

    /// The next hop that the upstream's queries go to now. It is the first that is known to be
    /// there, else the first of those that were there not long ago. `None`: nobody is.
    #[inline]
    pub fn choose(&self, upstream: usize, table: &HopTable) -> Option<NextHop> {
        let mut stale = None;
        for hop in self.candidates.get(upstream)?.iter().copied() {
            match table.find(hop) {
                Some(place) if place.is_fresh => return Some(NextHop { hop, place }),
                Some(place) => stale = stale.or(Some(NextHop { hop, place })),
                None => {}
            }
        }
        stale
    }

    /// No query to this upstream can leave: all its next hops are doubted.
    pub fn doubt_all(&self, upstream: usize, table: &HopTable) {
        let candidates = self.candidates.get(upstream).into_iter().flatten();
        candidates.for_each(|hop| table.doubt(*hop));
    }

    /// The numbers of the next hops to `address`, which are added if they are new.
    fn find(&mut self, links: &[LinkAddresses], port: usize, address: IpAddr) -> Vec<usize> {
        let Some(link) = links.get(port) else { return Vec::new() };
        let hops = match link.has(address) {
            true => vec![address],
            false => link.gateways_to(address).collect(),
        };
        let plan = |address| Some(HopPlan { port, address, from: link.asks_from(address)? });
        hops.into_iter().filter_map(plan).filter_map(|plan| self.add(plan)).collect()
    }

    /// The number of a next hop. `None`: there are too many, which the limits of the config rule out.
    fn add(&mut self, plan: HopPlan) -> Option<usize> {
        let known = self.plans.iter().position(|known| *known == plan);
        if known.is_none() {
            debug_assert!(self.plans.len() < MAX_HOPS, "the config bounds gateways and upstreams");
            if self.plans.len() >= MAX_HOPS {
                return None;
            }
            self.plans.push(plan);
        }
        known.or(Some(self.plans.len() - 1))
    }
}

impl LinkAddresses {
    /// Whether the address is on the link, so that no gateway stands between.
    pub fn has(&self, address: IpAddr) -> bool {
        is_link_local(address) || self.addresses.iter().any(|ours| shares_prefix(*ours, address))
    }

    /// Gateways of the same family, in order.
    fn gateways_to(&self, address: IpAddr) -> impl Iterator<Item = IpAddr> {
        let is_v4 = address.is_ipv4();
        self.gateways.iter().copied().filter(move |gateway| gateway.is_ipv4() == is_v4)
    }

    /// The address of ours that asks for a next hop. A query source is used for nothing else, but some hosts answer
    /// only those in their own prefix.
    fn asks_from(&self, hop: IpAddr) -> Option<IpAddr> {
        let prefix = self.addresses.iter().find(|ours| shares_prefix(**ours, hop));
        let near = |ours: InterfaceAddress| {
            let is_near = |source: &&IpAddr| shares_prefix(ours, **source);
            self.query_sources.iter().find(is_near).copied().unwrap_or(ours.address)
        };
        let addresses = self.addresses.iter().map(|ours| ours.address);
        let mut any = self.query_sources.iter().copied().chain(addresses);
        prefix.copied().map(near).or_else(|| any.find(|ours| ours.is_ipv4() == hop.is_ipv4()))
    }
}

/// Whether `address` is in the prefix of an address of ours.
fn shares_prefix(ours: InterfaceAddress, address: IpAddr) -> bool {
    let same_bits = match (ours.address, address) {
        (IpAddr::V4(ours), IpAddr::V4(other)) => (ours.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(ours), IpAddr::V6(other)) => (ours.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    same_bits >= u32::from(ours.length)
}

/// fe80::/10 is on every link (RFC 4291 section 2.5.6), and gateways often have no other address.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unicast_link_local(&address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::next_hop::table::{HopState, Row};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn link() -> LinkAddresses {
        let addresses = ["10.9.0.53/24", "10.9.1.53/24", "fd09::53/64"];
        LinkAddresses {
            addresses: addresses.map(|text| text.parse().unwrap()).into(),
            query_sources: ["10.9.1.60", "fd09:0:0:1::60", "fd09::60"].map(ip).into(),
            gateways: ["10.9.0.1", "fe80::1", "10.9.1.1", "fd09::1"].map(ip).into(),
        }
    }

    fn hops(upstream: &str) -> Vec<(IpAddr, IpAddr)> {
        let routes = Routes::new(&[link()], &[Some((0, ip(upstream)))]);
        let candidates = routes.candidates[0].iter();
        candidates.map(|hop| (routes.plans()[*hop].address, routes.plans()[*hop].from)).collect()
    }

    #[test]
    fn an_upstream_on_the_link_is_its_own_next_hop() {
        let near = ip("10.9.1.60");
        assert_eq!(hops("10.9.1.9"), [(ip("10.9.1.9"), near)]);
        let ours = ip("10.9.0.53");
        assert_eq!(hops("10.9.0.9"), [(ip("10.9.0.9"), ours)], "asked from its own prefix");
        assert_eq!(hops("fd09::9"), [(ip("fd09::9"), ip("fd09::60"))]);
        let any = ip("fd09:0:0:1::60");
        assert_eq!(hops("fe80::9"), [(ip("fe80::9"), any)], "link-local");
    }

    #[test]
    fn others_are_reached_by_the_gateways_of_their_family_in_order() {
        let ours = ip("10.9.0.53");
        let expected = [(ip("10.9.0.1"), ours), (ip("10.9.1.1"), ip("10.9.1.60"))];
        assert_eq!(hops("192.0.2.9"), expected);
        let addresses: Vec<_> = hops("2001:db8::9").into_iter().map(|(hop, _)| hop).collect();
        assert_eq!(addresses, [ip("fe80::1"), ip("fd09::1")]);
    }

    #[test]
    fn without_a_gateway_or_a_port_there_is_no_next_hop() {
        let lone = LinkAddresses { gateways: Vec::new(), ..link() };
        let far = ip("192.0.2.9");
        let routes = Routes::new(&[lone], &[Some((0, far)), Some((1, far)), None]);
        assert!(routes.plans().is_empty());
        let table = HopTable::new(Vec::new());
        assert!((0..4).all(|upstream| routes.choose(upstream, &table).is_none()));
    }

    #[test]
    fn each_next_hop_stands_once() {
        let upstreams = ["192.0.2.1", "192.0.2.2", "10.9.0.1", "10.9.0.9"];
        let routes = Routes::new(&[link(), link()], &upstreams.map(|text| Some((0, ip(text)))));
        assert_eq!(routes.plans().len(), 3);
        assert_eq!(routes.candidates, [vec![0, 1], vec![0, 1], vec![0], vec![2]]);
        let two = Routes::new(&[link(), link()], &[0, 1].map(|port| Some((port, ip("10.9.0.9")))));
        assert_eq!(two.plans().len(), 2, "an address on two ports is two next hops");
        assert_eq!([0, 1, 2].map(|port| two.on_port(port).len()), [1, 1, 0]);
        assert_eq!(routes.on_port(0).last(), Some(&ip("10.9.0.9")));
    }

    #[test]
    fn an_upstream_without_a_way_doubts_all_its_next_hops() {
        let upstreams = ["192.0.2.1", "10.9.0.9"].map(|text| Some((0, ip(text))));
        let routes = Routes::new(&[link()], &upstreams);
        let table = HopTable::new(routes.plans().to_vec());
        routes.doubt_all(0, &table);
        routes.doubt_all(9, &table);
        assert_eq!([0, 1, 2].map(|hop| table.take_doubt(hop)), [true, true, false]);
    }

    #[test]
    fn a_next_hop_known_to_be_there_goes_before_one_that_was() {
        let routes = Routes::new(&[link()], &[Some((0, ip("192.0.2.1")))]);
        let table = HopTable::new(routes.plans().to_vec());
        let chosen = || routes.choose(0, &table).map(|next| (next.hop, next.place.mac[5]));
        let publish = |hop: usize, state| {
            let mac = [2, 0, 0, 0, 0, u8::try_from(hop).unwrap()];
            table.publish(hop, &Row { state, mac, ..Row::default() });
        };
        assert_eq!(chosen(), None);
        for (first, second, expected) in [
            (HopState::Failed, HopState::Stale, Some(1)),
            (HopState::Stale, HopState::Stale, Some(0)),
            (HopState::Stale, HopState::Reachable, Some(1)),
            (HopState::Reachable, HopState::Reachable, Some(0)),
            (HopState::Incomplete, HopState::Failed, None),
        ] {
            publish(0, first);
            publish(1, second);
            assert_eq!(chosen(), expected.map(|hop| (hop, hop as u8)), "{first:?} {second:?}");
        }
    }
}
