//! Longest-prefix match, worked out beforehand: nested prefixes become ranges that do not overlap, so
//! that finding the longest match is one binary search.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;

use pmdns_config::Prefix;

/// A value for every client, by the longest prefix that matches its address.
#[derive(Clone, Debug)]
pub(crate) struct Clients<V> {
    ipv4: Ranges<u32, V>,
    ipv6: Ranges<u128, V>,
}

impl<V: Copy + PartialEq> Clients<V> {
    /// The longest of the prefixes that matches decides, `default` where none does. Of two equal prefixes the
    /// later one holds.
    pub(crate) fn new<'p>(rules: impl IntoIterator<Item = (&'p Prefix, V)>, default: V) -> Self {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (Prefix { network, length }, value) in rules {
            let length = *length;
            match network {
                IpAddr::V4(network) => {
                    ipv4.push(Rule { network: network.to_bits(), length, value })
                }
                IpAddr::V6(network) => {
                    ipv6.push(Rule { network: network.to_bits(), length, value })
                }
            }
        }
        Self { ipv4: Ranges::new(ipv4, default), ipv6: Ranges::new(ipv6, default) }
    }

    /// What is said of every client, if nothing tells them apart.
    pub(crate) fn everyone(&self) -> Option<V> {
        // What holds for all addresses need not be the default: a prefix of length 0 may say it.
        match (&*self.ipv4.values, &*self.ipv6.values) {
            ([ipv4], [ipv6]) if ipv4 == ipv6 => Some(*ipv4),
            _ => None,
        }
    }

    /// What is made of what both say of a client.
    pub(crate) fn join<W, T>(&self, other: &Clients<W>, join: impl Fn(V, W) -> T) -> Clients<T>
    where
        W: Copy + PartialEq,
        T: Copy + PartialEq,
    {
        Clients {
            ipv4: self.ipv4.join(&other.ipv4, &join),
            ipv6: self.ipv6.join(&other.ipv6, &join),
        }
    }

    /// What is said of a client with this address of 4 or 16 bytes.
    #[inline]
    pub(crate) fn find(&self, client: &[u8]) -> V {
        if let Ok(address) = client.try_into() {
            self.ipv4.find(u32::from_be_bytes(address))
        } else if let Ok(address) = client.try_into() {
            self.ipv6.find(u128::from_be_bytes(address))
        } else {
            debug_assert!(false, "an address has 4 or 16 bytes");
            self.ipv4.default
        }
    }
}

/// An address as a number: `u32` for IPv4, `u128` for IPv6.
pub(crate) trait Address: Copy + Ord + Debug {
    /// The lowest address.
    const ZERO: Self;

    /// The last address of the network that starts here and whose leading `length` bits are fixed.
    fn last(self, length: u8) -> Self;

    /// The address after this one; `None` after the highest.
    fn next(self) -> Option<Self>;
}

macro_rules! address {
    ($number:ty) => {
        impl Address for $number {
            const ZERO: Self = 0;

            fn last(self, length: u8) -> Self {
                self | Self::MAX.checked_shr(u32::from(length)).unwrap_or(0)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}

address!(u32);
address!(u128);

/// A prefix and what is said of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<A, V> {
    /// The first address of the network; bits beyond `length` are zero.
    pub(crate) network: A,
    /// Leading bits that count.
    pub(crate) length: u8,
    /// What is said of it.
    pub(crate) value: V,
}

/// A value for every address, as sorted ranges that cover them all.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<A, V> {
    /// The first address of each range but the first, which starts at zero.
    starts: Box<[A]>,
    /// One value more than there are starts.
    values: Box<[V]>,
    /// What is said of addresses without any rule.
    default: V,
}

impl<A: Address, V: Copy + PartialEq> Ranges<A, V> {
    /// The longest of the `rules` that matches decides, `default` where none does. Of two rules about the
    /// same prefix the later one holds.
    pub(crate) fn new(mut rules: Vec<Rule<A, V>>, default: V) -> Self {
        // An enclosing network comes before what it encloses: prefixes nest or are apart.
        rules.sort_by_key(|rule| (rule.network, rule.length));
        let mut sweep = Sweep { ranges: vec![(A::ZERO, default)], open: Vec::new(), default };
        for rule in rules {
            sweep.close_before(rule.network);
            sweep.open.push((rule.network.last(rule.length), rule.value));
            sweep.start(rule.network);
        }
        sweep.close_all();
        sweep.ranges.dedup_by_key(|(_, value)| *value);
        Self {
            starts: sweep.ranges.iter().skip(1).map(|(start, _)| *start).collect(),
            values: sweep.ranges.iter().map(|(_, value)| *value).collect(),
            default,
        }
    }

    /// What is made of what both say of each address.
    fn join<W, T>(&self, other: &Ranges<A, W>, join: impl Fn(V, W) -> T) -> Ranges<A, T>
    where
        W: Copy + PartialEq,
        T: Copy + PartialEq,
    {
        let starts: BTreeSet<A> = self.starts.iter().chain(&other.starts).copied().collect();
        let all = std::iter::once(A::ZERO).chain(starts.iter().copied());
        let value = |address| join(self.find(address), other.find(address));
        let mut ranges: Vec<_> = all.map(|start| (start, value(start))).collect();
        ranges.dedup_by_key(|(_, value)| *value);
        Ranges {
            starts: ranges.iter().skip(1).map(|(start, _)| *start).collect(),
            values: ranges.iter().map(|(_, value)| *value).collect(),
            default: join(self.default, other.default),
        }
    }

    /// What the longest matching prefix says of `address`.
    #[inline]
    pub(crate) fn find(&self, address: A) -> V {
        let index = self.starts.partition_point(|start| *start <= address);
        self.values.get(index).copied().unwrap_or(self.default)
    }
}

/// A walk over all addresses from the lowest to the highest.
struct Sweep<A, V> {
    ranges: Vec<(A, V)>,
    /// Last address and value of the networks we are inside of, the innermost at the end.
    open: Vec<(A, V)>,
    default: V,
}

impl<A: Address, V: Copy> Sweep<A, V> {
    /// Leaves every network that ends before `address`.
    fn close_before(&mut self, address: A) {
        while let Some((last, _)) = self.open.pop_if(|(last, _)| *last < address) {
            self.resume_after(last);
        }
    }

    /// Leaves every network.
    fn close_all(&mut self) {
        while let Some((last, _)) = self.open.pop() {
            self.resume_after(last);
        }
    }

    /// Goes on with what encloses the network that ended at `last`.
    fn resume_after(&mut self, last: A) {
        if let Some(next) = last.next() {
            self.start(next);
        }
    }

    /// Starts a range with the value that the innermost open network has. It replaces a range that
    /// starts at the same address, which would be empty.
    fn start(&mut self, address: A) {
        let value = self.open.last().map_or(self.default, |(_, value)| *value);
        self.ranges.pop_if(|(start, _)| *start == address);
        self.ranges.push((address, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule<A>(network: A, length: u8, value: u8) -> Rule<A, u8> {
        Rule { network, length, value }
    }

    /// The longest match by looking at every rule.
    fn scan(rules: &[Rule<u32, u8>], address: u32) -> u8 {
        let matching = rules
            .iter()
            .filter(|rule| (rule.network..=rule.network.last(rule.length)).contains(&address));
        // `max_by_key` gives the last of equals, as `Ranges` does.
        matching.max_by_key(|rule| rule.length).map_or(0, |rule| rule.value)
    }

    #[test]
    fn a_network_in_a_network_in_a_network() {
        let rules = vec![
            rule(0x0a00_0000, 8, 1),
            rule(0x0a01_0000, 16, 2),
            rule(0x0a01_0200, 24, 3),
            rule(0x0a01_02ff, 32, 4),
        ];
        let ranges = Ranges::new(rules, 0);
        let of = |address: [u8; 4]| ranges.find(u32::from_be_bytes(address));
        assert_eq!(of([9, 255, 255, 255]), 0);
        assert_eq!(of([10, 0, 255, 255]), 1);
        assert_eq!(of([10, 1, 1, 255]), 2);
        assert_eq!(of([10, 1, 2, 254]), 3);
        assert_eq!(of([10, 1, 2, 255]), 4);
        assert_eq!(of([10, 1, 3, 0]), 2);
        assert_eq!(of([10, 2, 0, 0]), 1);
        assert_eq!(of([11, 0, 0, 0]), 0);
    }

    #[test]
    fn the_first_and_the_last_address() {
        let ranges = Ranges::new(vec![rule(u128::MAX, 128, 2), rule(0, 128, 1)], 0);
        assert_eq!([0, 1, u128::MAX - 1, u128::MAX].map(|a| ranges.find(a)), [1, 0, 0, 2]);
        let all = Ranges::new(vec![rule(0u128, 0, 7)], 0);
        assert_eq!([0, u128::MAX].map(|a| all.find(a)), [7, 7]);
    }

    #[test]
    fn neighbours_with_the_same_value_are_one_range() {
        let halves = vec![rule(0u32, 1, 5), rule(1 << 31, 1, 5)];
        assert_eq!(Ranges::new(halves, 0).values.len(), 1);
    }

    #[test]
    fn what_holds_for_everyone_is_what_is_found_for_each() {
        let clients = |prefixes: &[(&str, u8)]| {
            let rules: Vec<(Prefix, u8)> =
                prefixes.iter().map(|(text, value)| (text.parse().unwrap(), *value)).collect();
            Clients::new(rules.iter().map(|(prefix, value)| (prefix, *value)), 0)
        };
        for (prefixes, everyone) in [
            (&[][..], Some(0)),
            (&[("0.0.0.0/0", 7), ("::/0", 7)], Some(7)),
            (&[("0.0.0.0/1", 7), ("128.0.0.0/1", 7), ("::/0", 7)], Some(7)),
            (&[("0.0.0.0/0", 7)], None),
            (&[("0.0.0.0/0", 7), ("::/0", 8)], None),
            (&[("0.0.0.0/0", 7), ("::/0", 7), ("::1", 0)], None),
        ] {
            let clients = clients(prefixes);
            assert_eq!(clients.everyone(), everyone, "{prefixes:?}");
            for address in [&[0; 4][..], &[255; 4], &[0; 16], &[255; 16]] {
                assert!(everyone.is_none_or(|value| clients.find(address) == value));
            }
            let joined = clients.join(&clients, |one, other| one + other);
            assert_eq!(joined.everyone(), everyone.map(|value| 2 * value), "{prefixes:?}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_scan_over_all_rules(
            rules in proptest::collection::vec((any::<u32>(), 0u8..=32, 1u8..5), 0..40),
            near in any::<proptest::sample::Index>(), anywhere: u32,
        ) {
            // Few different networks, so that rules nest and meet.
            let rules: Vec<_> = rules.into_iter().map(|(address, length, value)| {
                let network = address & 0xc300_0003;
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                rule(network & mask, length, value)
            }).collect();
            let ranges = Ranges::new(rules.clone(), 0);
            prop_assert_eq!(ranges.find(anywhere), scan(&rules, anywhere));
            if rules.is_empty() {
                return Ok(());
            }
            let (some, others) = rules.split_at(near.index(rules.len()));
            let [some, others] = [some, others].map(|rules| Ranges::new(rules.to_vec(), 0));
            let joined = some.join(&others, |some, other| (some, other));
            prop_assert_eq!(joined.find(anywhere), (some.find(anywhere), others.find(anywhere)));
            let edge = rules[near.index(rules.len())];
            let last = edge.network.last(edge.length);
            for address in [
                edge.network, last, edge.network.wrapping_sub(1), last.wrapping_add(1),
            ] {
                prop_assert_eq!(ranges.find(address), scan(&rules, address));
                prop_assert_eq!(joined.find(address), (some.find(address), others.find(address)));
            }
        }
    }
}
