//! `struct settings` of `filter.c`, as bytes: which port, which VLANs, which addresses.

use std::net::IpAddr;

use pmdns_config::limits::{MAX_ADDRESSES, MAX_PORT_QUERY_SOURCES, MAX_VLANS};
use pmdns_config::narrow::{to_u32, to_usize};
use pmdns_config::{PortSettings, Vlan};

/// The name that the settings begin with.
pub(super) const NAME: [u8; 16] = *b"pmdns settings\0\0";
/// The numbers of `filter.c`.
const SLOTS: usize = 4096;
const PROBES: usize = 16;
const VLANS: usize = 64;
const SERVICE: u8 = 1;
const QUERY_SOURCE: u8 = 2;
/// Seeds that are tried. With a quarter of the slots in use nearly every one does.
const SEEDS: u64 = 1024;

const _: () = assert!(MAX_VLANS == VLANS && 3 * (MAX_ADDRESSES + MAX_PORT_QUERY_SOURCES) < SLOTS);

/// An address as two words of memory.
type Words = (u64, u64);

/// The settings for `port`.
pub(super) fn bytes(port: &PortSettings) -> Vec<u8> {
    let table = Table::of(port);
    let mut bytes = NAME.to_vec();
    // It is compared with the number in a frame, which is in the order of the network.
    let dns_port = u16::from_ne_bytes(port.dns_port.to_be_bytes());
    bytes.extend(u32::from(dns_port).to_ne_bytes());
    bytes.extend(to_u32(port.vlans.len()).to_ne_bytes());
    bytes.extend(table.seed.to_ne_bytes());
    let vlans = port.vlans.iter().copied().map(key_of).chain(std::iter::repeat(0));
    vlans.take(VLANS).for_each(|key| bytes.extend(key.to_ne_bytes()));
    for (high, low) in &table.addresses {
        bytes.extend(high.to_ne_bytes());
        bytes.extend(low.to_ne_bytes());
    }
    bytes.extend(&table.kinds);
    bytes
}

/// A hash table with open addressing. The kind of an empty slot is 0.
struct Table {
    seed: u64,
    addresses: Vec<Words>,
    kinds: Vec<u8>,
}

impl Table {
    /// With a seed that leaves no address further than `PROBES` from its slot.
    fn of(port: &PortSettings) -> Self {
        let services = port.addresses.iter().map(|ours| (words(ours.address), SERVICE));
        let sources = port.query_sources.iter().map(|ours| (words(*ours), QUERY_SOURCE));
        let all: Vec<(Words, u8)> = services.chain(sources).collect();
        let mut tables = (0..SEEDS).filter_map(|seed| Self::with_seed(seed, &all));
        tables.next().expect("a seed of so many suits a table that is a quarter full")
    }

    fn with_seed(seed: u64, all: &[(Words, u8)]) -> Option<Self> {
        let mut table = Self { seed, addresses: vec![(0, 0); SLOTS], kinds: vec![0; SLOTS] };
        for (address, kind) in all {
            let slots = slots(seed, *address);
            let slot = { slots }.find(|slot| table.kinds[*slot] == 0)?;
            table.addresses[slot] = *address;
            table.kinds[slot] = *kind;
        }
        Some(table)
    }
}

/// The slots that an address may have, in order.
fn slots(seed: u64, (high, low): Words) -> impl Iterator<Item = usize> {
    let mixed = (high ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low;
    let hash = (mixed ^ mixed >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
    // Its upper bits, as many as a slot's number has.
    let first = to_usize(hash >> (u64::BITS - SLOTS.trailing_zeros()));
    (first..first + PROBES).map(|slot| slot % SLOTS)
}

fn words(address: IpAddr) -> Words {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let [high, low] = [&address.octets()[..8], &address.octets()[8..]]
        .map(|half| u64::from_ne_bytes(half.try_into().expect("half of 16 bytes")));
    (high, low)
}

/// The tags of a VLAN in one number: the id, or the outer and the inner one.
fn key_of(vlan: Vlan) -> u32 {
    vlan.ids().fold(0, |key, id| key << 16 | u32::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `sizeof(struct settings)`, in the order of its fields.
    const SIZE: usize = 16 + 4 + 4 + 8 + 4 * VLANS + 16 * SLOTS + SLOTS;

    #[test]
    fn the_settings_are_as_long_as_the_programs() {
        assert_eq!(bytes(&PortSettings::new("p", "net_af_xdp0")).len(), SIZE);
    }

    #[test]
    fn as_many_addresses_as_a_port_may_have_find_a_place() {
        let mut port = PortSettings::new("p", "net_af_xdp0");
        let address = |number: usize| format!("2001:db8::{number:x}/64").parse().unwrap();
        port.addresses = (1..=MAX_ADDRESSES).map(address).collect();
        port.query_sources = (0..MAX_PORT_QUERY_SOURCES)
            .map(|at| format!("192.0.2.{at}").parse().unwrap())
            .collect();
        let table = Table::of(&port);
        let used = table.kinds.iter().filter(|kind| **kind != 0).count();
        assert_eq!(used, MAX_ADDRESSES + MAX_PORT_QUERY_SOURCES);
        for ours in &port.addresses {
            let address = words(ours.address);
            assert!(slots(table.seed, address).any(|slot| table.addresses[slot] == address));
        }
    }
}
