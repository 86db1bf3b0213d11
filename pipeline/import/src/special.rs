//! Names that resolvers answer by themselves, as `policy.special_use` does (RFC 6303, RFC 6761, RFC 7793).

/// The zones, apart from those that are many.
const ZONES: [&str; 18] = [
    "localhost",
    "invalid",
    "onion",
    "home.arpa",
    "service.arpa",
    "resolver.arpa",
    "10.in-addr.arpa",
    "168.192.in-addr.arpa",
    "0.in-addr.arpa",
    "127.in-addr.arpa",
    "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "d.f.ip6.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa",
    "255.in-addr.arpa",
];

/// Whether a zone has the names of addresses.
pub(crate) fn is_reverse(zone: &str) -> bool {
    [".in-addr.arpa", ".ip6.arpa"].iter().any(|end| zone.ends_with(end))
}

/// Whether a zone has the names of networks' addresses, but not of this host's.
pub(crate) fn is_of_networks(zone: &str) -> bool {
    let loopback = ["127.in-addr.arpa", &format!("1.{}ip6.arpa", "0.".repeat(31))];
    is_reverse(zone) && !loopback.contains(&zone)
}

/// The zone of these that a name is in.
pub(crate) fn zone_of(name: &str) -> Option<String> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let mut rest = Some(&*name);
    while let Some(suffix) = rest {
        if is_zone(suffix) {
            return Some(suffix.to_owned());
        }
        rest = suffix.split_once('.').map(|(_, above)| above);
    }
    None
}

fn is_zone(name: &str) -> bool {
    let second = |end: &str, from: u8, to: u8| {
        let number = name.strip_suffix(end).and_then(|label| label.parse::<u8>().ok());
        number.is_some_and(|number| (from..to).contains(&number))
    };
    let link_local = || {
        let digit = name.strip_suffix(".e.f.ip6.arpa");
        digit.is_some_and(|digit| ["8", "9", "a", "b"].contains(&digit))
    };
    let zeros = || {
        let digit = name.strip_suffix(&format!(".{}ip6.arpa", "0.".repeat(31)));
        digit.is_some_and(|digit| ["0", "1"].contains(&digit))
    };
    ZONES.contains(&name)
        || second(".172.in-addr.arpa", 16, 32)
        || second(".100.in-addr.arpa", 64, 128)
        || link_local()
        || zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_special_zones_are_found() {
        for (name, zone) in [
            ("5.1.20.172.IN-ADDR.arpa.", Some("20.172.in-addr.arpa")),
            ("32.172.in-addr.arpa", None),
            ("a.home.arpa", Some("home.arpa")),
            ("127.100.in-addr.arpa", Some("127.100.in-addr.arpa")),
            ("1.8.e.f.ip6.arpa", Some("8.e.f.ip6.arpa")),
            ("example", None),
        ] {
            assert_eq!(zone_of(name).as_deref(), zone, "{name}");
        }
    }
}
