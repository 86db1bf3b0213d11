//! Addresses that public names do not lead to: those of private networks, of links and of hosts themselves.
//!
//! The name of a stranger's web page may lead to an address of the client's own network. Then the page may speak to the hosts
//! there, as if it came from there (DNS rebinding). The name that is asked for decides: it is what browsers tell pages apart by.
//! So an alias that leads from a stranger's name into an excepted zone is no way round.

use std::net::{IpAddr, Ipv6Addr};

use pmdns_config::{
    Config, NameError, Prefix, Rebinding as Settings, RebindingAction, ViewSet, wire_name,
};

use super::dns64::Dns64;
use super::names::{Listing, Names};
use crate::cache::{Entry, Key};
use crate::lpm::Clients;
use crate::wire::dns::Rcode;
use crate::wire::name::{Seed, suffixes};

/// The value of a name that may lead anywhere.
const EXCEPTED: u32 = 1;

/// Prefixes under which an IPv6 address has an IPv4 address in its last bytes: mapped and compatible ones (RFC 4291 section
/// 2.5.5), and those of a NAT64 (RFC 6052 section 2.1, RFC 8215).
const TRANSLATED: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
];
/// Addresses of 6to4, which have an IPv4 address behind these two bytes (RFC 3056 section 2).
const SIX_TO_FOUR: [u8; 2] = [0x20, 0x02];

/// All tables, in the order of the file. Each that holds in a view applies there.
#[derive(Debug)]
pub(super) struct Rebindings {
    all: Box<[Rebinding]>,
    seed: Seed,
}

/// One of them.
#[derive(Debug)]
struct Rebinding {
    views: ViewSet,
    action: RebindingAction,
    addresses: Clients<bool>,
    except: Names,
}

/// What an answer has become.
#[derive(Debug)]
pub(super) enum Cleaned {
    /// Itself, or what is left of it.
    Rest(Entry),
    /// Nothing is left of it: this rcode is in its place.
    Nothing(Entry, Rcode),
}

impl Rebindings {
    /// Those of a configuration.
    pub(super) fn of(config: &Config, seed: Seed) -> Result<Self, NameError> {
        let all = config.rebindings.iter().map(|one| Rebinding::new(one, config, seed));
        Ok(Self { all: all.collect::<Result<_, _>>()?, seed })
    }

    /// Whether every name may lead anywhere.
    pub(super) fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    /// An upstream's answer to `key`, without what a public name must not lead to. `dns64` says how addresses are made in the
    /// views that share it.
    pub(super) fn cleaned(&self, mut entry: Entry, key: Key<'_>, dns64: Option<&Dns64>) -> Cleaned {
        for one in self.all.iter().filter(|one| one.views.has(key.scope())) {
            if one.excepts(key.name, self.seed) {
                continue;
            }
            let Some(rest) = entry.without_addresses(key, |address| one.has(address, dns64)) else {
                continue;
            };
            match (one.action, rest) {
                (RebindingAction::Refuse, _) => return Cleaned::Nothing(entry, Rcode::REFUSED),
                (RebindingAction::Remove, None) => return Cleaned::Nothing(entry, Rcode::NOERROR),
                (RebindingAction::Remove, Some(rest)) => entry = rest,
            }
        }
        Cleaned::Rest(entry)
    }
}

impl Rebinding {
    fn new(settings: &Settings, config: &Config, seed: Seed) -> Result<Self, NameError> {
        let mut except = Listing::default();
        for name in &settings.except {
            // A file of the configuration has fewer names than a table has room for.
            let _is_there = except.add(&wire_name(name)?, EXCEPTED);
        }
        let addresses = settings.addresses.iter().map(|prefix: &Prefix| (prefix, true));
        Ok(Self {
            views: config.view_set(&settings.views),
            action: settings.action,
            addresses: Clients::new(addresses, false),
            except: except.build(seed, |earlier, _| earlier),
        })
    }

    /// Whether a name may lead anywhere.
    fn excepts(&self, name: &[u8], seed: Seed) -> bool {
        self.except.len() > 0
            && suffixes(name).any(|one| self.except.find(seed.hash_loosely(one), one).is_some())
    }

    /// Whether an address, of 4 or 16 bytes, is one of those, or an IPv6 address that stands for one.
    fn has(&self, address: &[u8], dns64: Option<&Dns64>) -> bool {
        let Ok(ipv6) = <[u8; 16]>::try_from(address) else {
            return address.len() == 4 && self.addresses.find(address);
        };
        self.addresses.find(&ipv6) || ipv4_in(ipv6, dns64).any(|ipv4| self.addresses.find(&ipv4))
    }
}

/// The IPv4 addresses that an IPv6 address may stand for.
fn ipv4_in(ipv6: [u8; 16], dns64: Option<&Dns64>) -> impl Iterator<Item = [u8; 4]> {
    let address = IpAddr::from(ipv6);
    let is_under = |(network, length): &(Ipv6Addr, u8)| {
        Prefix { network: IpAddr::V6(*network), length: *length }.contains(address)
    };
    let [a, b, c, d, .., w, x, y, z] = ipv6;
    let last = TRANSLATED.iter().any(is_under).then_some([w, x, y, z]);
    let first = ([a, b] == SIX_TO_FOUR).then(|| [c, d, ipv6[4], ipv6[5]]);
    last.into_iter().chain(first).chain(dns64.and_then(|dns64| dns64.ipv4_in(ipv6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(own: &[&str], address: &str) -> bool {
        let mut table = Settings::default();
        if !own.is_empty() {
            table.addresses = own.iter().map(|prefix| prefix.parse().unwrap()).collect();
        }
        let config = Config { rebindings: vec![table], ..Config::default() };
        let rebindings = Rebindings::of(&config, Seed::new([7; 16])).unwrap();
        match address.parse().unwrap() {
            IpAddr::V4(address) => rebindings.all[0].has(&address.octets(), None),
            IpAddr::V6(address) => rebindings.all[0].has(&address.octets(), None),
        }
    }

    #[test]
    fn addresses_that_are_not_public_are_meant_in_every_form() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.1.1",
            "255.255.255.255",
            "::",
            "::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::192.168.1.1",
            "64:ff9b:1::10.0.0.1",
            "64:ff9b:1:2:3:4:10.0.0.1",
            "2002:a00:1::1",
            "2002:c0a8:101::",
        ] {
            assert!(has(&[], address), "{address}");
        }
        for address in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.2.1",
            "192.169.0.1",
            "2001:db8::10.0.0.1",
            "64:ff9b::8.8.8.8",
            "::ffff:8.8.8.8",
            "2002:808:808::a00:1",
            "64:ff9b:2::10.0.0.1",
        ] {
            assert!(!has(&[], address), "{address}");
        }
        let own = ["203.0.113.0/24", "2001:db8:5::/48"];
        assert!(has(&own, "203.0.113.7") && has(&own, "::ffff:203.0.113.7"));
        assert!(has(&own, "2001:db8:5::1") && !has(&own, "10.0.0.1"));
    }
}
