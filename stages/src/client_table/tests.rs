//! The client table beside a naive model, and its bounds.

use std::collections::HashMap;
use std::net::IpAddr;

use pmdns_config::Prefix;
use proptest::prelude::*;

use super::*;

fn seed() -> Seed {
    Seed::new(*b"sixteen letters!")
}

fn find(table: &ClientTable, address: IpAddr) -> Option<u8> {
    table.prefetch(&octets(address));
    table.find(&octets(address))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The longest match by looking at every prefix.
fn scan(model: &HashMap<Prefix, u8>, address: IpAddr) -> Option<u8> {
    let matching = model.iter().filter(|(prefix, _)| prefix.contains(address));
    matching.max_by_key(|(prefix, _)| prefix.length).map(|(_, view)| *view)
}

/// The prefix of IPv4 with this number, all of one length.
fn subscriber(number: u32) -> Prefix {
    Prefix { network: IpAddr::V4((0x0a00_0000 + number).into()), length: 32 }
}

#[test]
fn the_longest_prefix_decides_in_both_families() {
    let (table, mut writer) = ClientTable::on_heap(16, seed());
    let find = |address: &str| find(&table, address.parse().unwrap());
    assert_eq!((find("10.0.0.1"), find("2001:db8::1")), (None, None));
    for (view, text) in [
        (1, "0.0.0.0/0"),
        (2, "10.0.0.0/8"),
        (3, "10.1.2.3"),
        (4, "::/0"),
        (5, "2001:db8::/56"),
        (6, "2001:db8::/64"),
        (31, "2001:db8::7"),
    ] {
        writer.set(&text.parse().unwrap(), view).unwrap();
    }
    for (address, view) in [
        ("192.0.2.1", 1),
        ("10.1.2.2", 2),
        ("10.1.2.3", 3),
        ("2001:db9::", 4),
        ("2001:db8:0:1::", 5),
        ("2001:db8::8", 6),
        ("2001:db8::7", 31),
    ] {
        assert_eq!(find(address), Some(view), "{address}");
    }
    assert!(writer.remove(&"10.1.2.3".parse().unwrap()));
    assert!(!writer.remove(&"10.1.2.3".parse().unwrap()));
    assert_eq!((find("10.1.2.3"), writer.len()), (Some(2), 6));
}

#[test]
fn a_full_table_finds_all_and_takes_no_more() {
    for max_entries in [1u32, 4, 5, 1000] {
        let (table, mut writer) = ClientTable::on_heap(max_entries as usize, seed());
        for number in 0..max_entries {
            writer.set(&subscriber(number), (number % 32) as u8).unwrap();
        }
        assert_eq!(writer.set(&subscriber(max_entries), 1), Err(TableFull));
        assert_eq!(writer.set(&subscriber(0), 9), Ok(()), "a prefix that is in it changes");
        for number in 1..max_entries {
            let found = find(&table, subscriber(number).network);
            assert_eq!(found, Some((number % 32) as u8), "{number} of {max_entries}");
        }
        assert_eq!(find(&table, subscriber(0).network), Some(9));
        (0..max_entries).for_each(|number| assert!(writer.remove(&subscriber(number))));
        assert!(writer.is_empty());
        let words = table.arena.words();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "as at first");
    }
}

/// What docs/tasks/profiles.md says of memory and of search.
#[test]
fn a_million_entries_take_16_bytes_each_and_are_found_at_once() {
    const MILLION: usize = 1_000_000;
    assert_eq!(ClientTable::bytes_for(MILLION), 16 * MILLION + 64);
    let (table, mut writer) = ClientTable::on_heap(MILLION, seed());
    for number in 0..MILLION as u32 {
        writer.set(&subscriber(number), 1).unwrap();
    }
    let passed =
        table.lines()[1..].iter().filter(|bucket| bucket[SLOTS].load(Ordering::Relaxed) != 0);
    let passed = passed.count();
    assert!(passed < table.buckets / 10, "{passed} of {} buckets send readers on", table.buckets);
}

proptest! {
    #[test]
    fn agrees_with_a_model_after_any_changes(
        changes in proptest::collection::vec(
            (any::<bool>(), 0u8..8, 0u8..=128, any::<Option<u8>>()), 1..200
        ),
        addresses in proptest::collection::vec((any::<bool>(), 0u8..8, any::<u8>()), 50),
    ) {
        // Few different networks, so that prefixes nest and come back.
        let address = |is_ipv4: bool, high: u8, low: u8| match is_ipv4 {
            true => IpAddr::V4((u32::from(high) << 24 | u32::from(low)).into()),
            false => IpAddr::V6((u128::from(high) << 120 | u128::from(low)).into()),
        };
        let (table, mut writer) = ClientTable::on_heap(24, seed());
        let mut model = HashMap::new();
        for (is_ipv4, high, length, view) in changes {
            let length = if is_ipv4 { length % 33 } else { length };
            let prefix = Prefix::of(address(is_ipv4, high, high), length);
            match view {
                None => prop_assert_eq!(writer.remove(&prefix), model.remove(&prefix).is_some()),
                Some(view) => {
                    let is_full = model.len() == 24 && !model.contains_key(&prefix);
                    prop_assert_eq!(writer.set(&prefix, view % 32).is_err(), is_full);
                    if !is_full {
                        model.insert(prefix, view % 32);
                    }
                }
            }
            prop_assert_eq!(writer.len(), model.len());
        }
        let near = model.keys().map(|prefix| prefix.network);
        let anywhere = addresses.into_iter().map(|(is_ipv4, high, low)| address(is_ipv4, high, low));
        for address in near.chain(anywhere) {
            prop_assert_eq!(find(&table, address), scan(&model, address), "{}", address);
        }
    }
}
