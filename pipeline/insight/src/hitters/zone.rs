//! The zone that a name is counted for: the domain that was registered, by the public suffix list, or a longer forward zone.
//!
//! Two labels would be `co.uk` for half of Britain, and a limit on it would hit all of them. The list is part of the program.
//! Reverse zones are cut where networks are delegated: the list would give a /8.

use pmdns_engine::rule_names::ZoneNames;
use pmdns_stages::wire::name::suffixes;

/// The most labels of a name that the list is asked about. Its rules have five at most.
const LABELS: usize = 8;
/// Where addresses have their names, and how many labels below are a network that is delegated: a /24, a /48.
const REVERSE: [(&[u8], usize); 2] = [(b"\x07in-addr\x04arpa\0", 3), (b"\x03ip6\x04arpa\0", 12)];

/// Cuts names to their zones.
#[derive(Clone, Debug, Default)]
pub(super) struct ZoneCut {
    forwards: ZoneNames,
}

impl ZoneCut {
    pub(super) fn new(forwards: ZoneNames) -> Self {
        Self { forwards }
    }

    /// The zone of a name in lower case.
    pub(super) fn zone<'n>(&self, name: &'n [u8]) -> &'n [u8] {
        let registered = network(name).unwrap_or_else(|| registered(name));
        let longer = suffixes(name)
            .take_while(|above| above.len() > registered.len())
            .find(|above| self.forwards.iter().any(|zone| **zone == **above));
        longer.unwrap_or(registered)
    }
}

/// The reverse zone of a network. Names above such are their own.
fn network(name: &[u8]) -> Option<&[u8]> {
    let above = |top: &[u8]| suffixes(name).position(|suffix| suffix == top);
    let (below, labels) = REVERSE.iter().find_map(|(top, labels)| Some((above(top)?, *labels)))?;
    suffixes(name).nth(below.saturating_sub(labels))
}

/// The domain that was registered. Names above such are their own.
fn registered(name: &[u8]) -> &[u8] {
    let labels = suffixes(name).count().saturating_sub(1);
    let mut last = suffixes(name).skip(labels.saturating_sub(LABELS));
    let short = last.next().unwrap_or(name);
    let mut text: Vec<u8> = Vec::with_capacity(short.len());
    for above in suffixes(short) {
        let Some(label) = above.get(1..1 + usize::from(above[0])).filter(|one| !one.is_empty())
        else {
            break;
        };
        // A dot within a label is none between two.
        text.extend(label.iter().map(|byte| if *byte == b'.' { b'-' } else { *byte }));
        text.push(b'.');
    }
    text.pop();
    let domain = psl::domain(&text).map_or(text.len(), |domain| domain.as_bytes().len());
    // A label has as many bytes more in wire format as in text: one. So has the root.
    let len = (domain + 2).min(short.len());
    &name[name.len() - len..]
}

#[cfg(test)]
mod tests {
    use pmdns_config::narrow::to_u8;
    use pmdns_engine::rule_names::forward_zones;
    use proptest::prelude::*;

    use super::*;

    fn wire(text: &str) -> Box<[u8]> {
        pmdns_config::wire_name(text).unwrap()
    }

    #[test]
    fn zones_are_what_was_registered_or_longer_forward_zones() {
        let more = "[[upstream]]\naddress = \"192.0.2.2:53\"\ngroup = \"inner\"\n\
             [[forward]]\nzone = \"lab.corp.example\"\ngroup = \"inner\"\n\
             [[forward]]\nzone = \"lan\"\ngroup = \"inner\"\n\
             [[forward]]\nzone = \"1.1.1.10.in-addr.arpa\"\ngroup = \"inner\"\n";
        let cut = ZoneCut::new(forward_zones(&pmdns_engine::testing::config(more)));
        for (name, zone) in [
            ("x1.www.example.com", "example.com"),
            ("example.com", "example.com"),
            ("com", "com"),
            ("x1.shop.co.uk", "shop.co.uk"),
            ("co.uk", "co.uk"),
            ("1.2.0.192.in-addr.arpa", "2.0.192.in-addr.arpa"),
            ("x.1.2.0.192.in-addr.arpa", "2.0.192.in-addr.arpa"),
            ("0.192.in-addr.arpa", "0.192.in-addr.arpa"),
            ("in-addr.arpa", "in-addr.arpa"),
            (
                "f.e.d.c.b.a.9.8.7.6.5.4.3.2.1.0.1.0.0.0.2.1.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
                "2.1.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            ),
            ("1.0.0.2.ip6.arpa", "1.0.0.2.ip6.arpa"),
            ("a.b.c.d.e.in-addr.arpa.example.com", "example.com"),
            ("x.1.1.1.10.in-addr.arpa", "1.1.1.10.in-addr.arpa"),
            ("a.b.printer.lan", "printer.lan"),
            ("a.b.lab.corp.example", "lab.corp.example"),
            ("a.corp.example", "corp.example"),
            ("1.2.3.4.5.6.7.8.9.a.b.example.org", "example.org"),
        ] {
            let name = wire(name);
            assert_eq!(cut.zone(&name), &*wire(zone), "{zone}");
        }
        assert_eq!(cut.zone(b"\0"), b"\0");
        assert_eq!(cut.zone(b"\x05a.com\x02uk\0"), b"\x05a.com\x02uk\0", "no dot of its own");
    }

    proptest! {
        #[test]
        fn any_name_has_a_zone_above_it(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..12)) {
            let mut name: Vec<u8> = labels.iter().flat_map(|label| [&[to_u8(label.len())][..], label].concat()).collect();
            name.push(0);
            let cut = ZoneCut::default();
            let zone = cut.zone(&name);
            prop_assert!(suffixes(&name).any(|above| above == zone));
        }
    }
}
