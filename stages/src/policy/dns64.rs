//! How IPv6 clients are told of IPv4 hosts: by addresses under a NAT64's prefix (RFC 6052). It says which of them are made.
//! Their reverse names stand for those of IPv4 addresses (RFC 6147 section 5.3.1).

use std::net::{IpAddr, Ipv6Addr};

use pmdns_config::{Config, Prefix};

use super::builtin::wire;

/// The prefix that belongs to nobody in particular (RFC 6052 section 2.1).
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
/// Addresses that it must not stand before, as they are not global (RFC 6052 section 3.1, RFC 5735 section 3, RFC 6598).
const NOT_GLOBAL: [([u8; 4], u8); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];
/// The byte of an address that stays zero (RFC 6052 section 2.2).
const ZERO_BYTE: usize = 8;
/// Below it are the reverse names of IPv6 addresses (RFC 3596 section 2.5), a label of one digit for each four bits.
const IP6_ARPA: &[u8] = b"\x03ip6\x04arpa\0";
const DIGITS: usize = 32;

/// How AAAA records are made of A records for the clients of one view.
#[derive(Clone, Debug)]
pub struct Dns64 {
    prefixes: Vec<Translation>,
    /// IPv6 addresses that are as good as none.
    excluded: Vec<Prefix>,
}

/// One prefix of a NAT64.
#[derive(Clone, Debug)]
struct Translation {
    prefix: [u8; 16],
    /// Its length in bytes.
    length: usize,
    /// IPv4 addresses that are not reached by it.
    unmapped: Vec<Prefix>,
}

impl Dns64 {
    /// That of a view; `None`: no AAAA records are made there.
    pub(super) fn of(config: &Config, view: u8) -> Option<Self> {
        let mut all = Self { prefixes: Vec::new(), excluded: Vec::new() };
        for dns64 in config.dns64.iter().filter(|one| config.view_set(&one.views).has(view)) {
            let IpAddr::V6(network) = dns64.prefix.network else { continue };
            let mut unmapped = dns64.exclude_ipv4.clone();
            if network == WELL_KNOWN {
                let prefix = |(network, length)| Prefix { network: IpAddr::from(network), length };
                unmapped.extend(NOT_GLOBAL.map(prefix));
            }
            let length = usize::from(dns64.prefix.length / 8);
            all.prefixes.push(Translation { prefix: network.octets(), length, unmapped });
            all.excluded.extend(&dns64.exclude);
        }
        (!all.prefixes.is_empty()).then_some(all)
    }

    /// The addresses that stand for an IPv4 address, one for each prefix by which it is reached.
    pub fn addresses(&self, ipv4: [u8; 4]) -> impl Iterator<Item = [u8; 16]> {
        self.prefixes
            .iter()
            .filter(move |one| !has(&one.unmapped, ipv4))
            .map(move |one| one.put(ipv4))
    }

    /// The addresses under all prefixes, also if an exclusion has the IPv4 address.
    pub(super) fn under_all(&self, ipv4: [u8; 4]) -> impl Iterator<Item = [u8; 16]> {
        self.prefixes.iter().map(move |one| one.put(ipv4))
    }

    /// Whether an AAAA record with this address is as good as none.
    pub fn excludes(&self, ipv6: [u8; 16]) -> bool {
        has(&self.excluded, ipv6)
    }

    /// The reverse name of the IPv4 address for which a reverse name of an IPv6 address stands; both are in wire format.
    pub fn reverse(&self, name: &[u8]) -> Option<Vec<u8>> {
        let ipv6 = address_of(name)?;
        let [a, b, c, d] = self.prefixes.iter().find_map(|one| one.take(ipv6))?;
        Some(wire(&format!("{d}.{c}.{b}.{a}.in-addr.arpa")))
    }

    /// The IPv4 address that one under a prefix stands for.
    pub(super) fn ipv4_in(&self, ipv6: [u8; 16]) -> Option<[u8; 4]> {
        self.prefixes.iter().find_map(|one| one.inside(ipv6))
    }

    /// The names above the reverse names under each prefix.
    pub(super) fn reverse_zones(&self) -> impl Iterator<Item = Box<[u8]>> {
        self.prefixes.iter().map(|one| {
            let digits = one.prefix[..one.length].iter().rev();
            let labels = digits.map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            wire(&format!("{}ip6.arpa", labels.collect::<String>())).into()
        })
    }
}

impl Translation {
    /// Where the bytes of an IPv4 address stand.
    fn places(&self) -> impl Iterator<Item = usize> {
        (self.length..).filter(|at| *at != ZERO_BYTE).take(4)
    }

    fn put(&self, ipv4: [u8; 4]) -> [u8; 16] {
        let mut ipv6 = self.prefix;
        for (at, byte) in self.places().zip(ipv4) {
            ipv6[at] = byte;
        }
        ipv6
    }

    /// The IPv4 address in one under the prefix. Bytes behind it mean nothing (RFC 6052 section 2.2).
    fn inside(&self, ipv6: [u8; 16]) -> Option<[u8; 4]> {
        let is_ours = ipv6[..self.length] == self.prefix[..self.length] && ipv6[ZERO_BYTE] == 0;
        let mut ipv4 = [0; 4];
        for (byte, at) in ipv4.iter_mut().zip(self.places()) {
            *byte = ipv6[at];
        }
        is_ours.then_some(ipv4)
    }

    /// The same, of an address that is made.
    fn take(&self, ipv6: [u8; 16]) -> Option<[u8; 4]> {
        self.inside(ipv6).filter(|ipv4| !has(&self.unmapped, *ipv4))
    }
}

fn has<A: Copy>(prefixes: &[Prefix], address: A) -> bool
where
    IpAddr: From<A>,
{
    prefixes.iter().any(|prefix| prefix.contains(address.into()))
}

/// The IPv6 address whose reverse name this is.
fn address_of(name: &[u8]) -> Option<[u8; 16]> {
    let (labels, end) = name.split_at_checked(2 * DIGITS)?;
    if !end.eq_ignore_ascii_case(IP6_ARPA) {
        return None;
    }
    let mut address = 0u128;
    for label in labels.as_chunks::<2>().0.iter().rev() {
        let digit = char::from(label[1]).to_digit(16).filter(|_| label[0] == 1)?;
        address = address << 4 | u128::from(digit);
    }
    Some(address.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use pmdns_config::View;

    use super::*;
    use crate::testing::name_of;

    fn dns64(text: &str) -> Dns64 {
        Dns64::of(&config(text), 0).unwrap()
    }

    fn config(text: &str) -> Config {
        let table = |prefix: &str| pmdns_config::Dns64Settings {
            prefix: prefix.parse().unwrap(),
            exclude: vec!["::ffff:0:0/96".parse().unwrap()],
            exclude_ipv4: vec!["198.51.100.0/24".parse().unwrap()],
            views: Vec::new(),
        };
        Config { dns64: text.split(' ').map(table).collect(), ..Config::default() }
    }

    fn made(prefix: &str, ipv4: &str) -> Vec<Ipv6Addr> {
        let ipv4: Ipv4Addr = ipv4.parse().unwrap();
        dns64(prefix).addresses(ipv4.octets()).map(Ipv6Addr::from).collect()
    }

    fn reverse(address: Ipv6Addr) -> Vec<u8> {
        let labels = address.octets().into_iter().rev();
        let labels = labels.map(|byte| format!("{:X}.{:x}.", byte & 15, byte >> 4));
        name_of(&format!("{}IP6.arpa.", labels.collect::<String>()))
    }

    /// The table of section 2.4, and back again.
    #[test]
    fn rfc_6052_2_4_addresses_are_put_under_prefixes_of_every_length() {
        for (prefix, expected) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
        ] {
            let expected: Ipv6Addr = expected.parse().unwrap();
            assert_eq!(made(prefix, "192.0.2.33"), [expected], "{prefix}");
            let name = dns64(prefix).reverse(&reverse(expected));
            assert_eq!(name, Some(name_of("33.2.0.192.in-addr.arpa.")), "{prefix}");
        }
        assert_eq!(
            made("64:ff9b::/96", "8.8.4.4"),
            ["64:ff9b::808:404".parse::<Ipv6Addr>().unwrap()]
        );
    }

    #[test]
    fn rfc_6052_3_1_the_well_known_prefix_does_not_stand_before_addresses_that_are_not_global() {
        for address in
            ["10.0.0.1", "192.168.1.1", "172.31.0.1", "100.64.0.1", "127.0.0.1", "224.0.0.1"]
        {
            assert_eq!(made("64:ff9b::/96", address), [] as [Ipv6Addr; 0], "{address}");
            assert_eq!(made("64:ff9b:1::/96", address).len(), 1, "{address}");
        }
        assert_eq!(made("64:ff9b:1::/96 64:ff9b::/96", "10.0.0.1").len(), 1, "of two prefixes one");
        assert_eq!(made("64:ff9b:1::/96 64:ff9b::/96", "9.9.9.9").len(), 2);
        assert_eq!(
            made("64:ff9b:1::/96", "198.51.100.1"),
            [] as [Ipv6Addr; 0],
            "the operator says so"
        );
    }

    #[test]
    fn rfc_6147_5_3_1_only_whole_reverse_names_under_a_prefix_stand_for_ipv4_addresses() {
        let dns64 = dns64("64:ff9b::/96");
        let found = |address: &str| dns64.reverse(&reverse(address.parse().unwrap()));
        assert_eq!(found("64:ff9b::1.2.3.4"), Some(name_of("4.3.2.1.in-addr.arpa.")));
        assert_eq!(found("64:ff9c::1.2.3.4"), None);
        assert_eq!(found("64:ff9b:0:0:100::1.2.3.4"), None, "a byte that has to be zero");
        assert_eq!(found("64:ff9b::10.2.3.4"), None, "not global");
        let whole = reverse("64:ff9b::1.2.3.4".parse().unwrap());
        let wrong = [&b"\x01g"[..], &whole[2..]].concat();
        for name in
            [&whole[2..], &whole[..64], &[&b"\x011"[..], &whole].concat(), &wrong, b"\0", b""]
        {
            assert_eq!(dns64.reverse(name), None);
        }
        let zones: Vec<_> = dns64.reverse_zones().collect();
        assert!(zones.len() == 1 && whole.to_ascii_lowercase().ends_with(&zones[0]));
    }

    #[test]
    fn a_view_has_the_prefixes_that_hold_in_it() {
        let mut config = config("64:ff9b::/96");
        assert!(Dns64::of(&config, 0).is_some());
        config.views = vec![View { name: "six".into(), ..View::default() }];
        config.dns64[0].views = vec!["six".into()];
        assert!(Dns64::of(&config, 0).is_none() && Dns64::of(&config, 1).is_some());
        assert_eq!(config.scopes(), [0, 1], "they share no answers");
        assert!(
            dns64("64:ff9b::/96").excludes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4])
        );
    }
}
