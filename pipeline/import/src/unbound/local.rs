//! Local zones and local data, of the server and of views.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use super::clause::{Clause, Conf, Setting};
use super::clients::{Groups, tags_of};
use super::forward::{Forwards, key_of};
use crate::meaning::{Forwarder, LocalData, NONE, truth};
use crate::source::Origin;
use crate::special;

/// The TTL of local data that has none.
const LOCAL_TTL: u32 = 3600;
/// Types of a zone whose names are resolved, but for local data.
const OPEN: [&str; 7] = [
    "transparent",
    "typetransparent",
    "always_transparent",
    "nodefault",
    "inform",
    "ipset",
    "block_a",
];
/// Types of a zone that has no answers but one.
const CLOSED: [&str; 8] = [
    "always_nxdomain",
    "always_refuse",
    "always_deny",
    "always_nodata",
    "refuse",
    "deny",
    "inform_deny",
    "inform_redirect",
];
/// Types that pay no attention to local data.
const WITHOUT_DATA: [&str; 8] = [
    "always_nxdomain",
    "always_refuse",
    "always_deny",
    "always_nodata",
    "always_null",
    "always_transparent",
    "nodefault",
    "noview",
];

/// A local zone.
struct Zone<'c> {
    name: &'c str,
    kind: &'c str,
    origin: &'c Origin,
    /// The views that it holds in; none: all.
    views: Vec<String>,
    data: Vec<Data<'c>>,
}

/// A record.
struct Data<'c> {
    name: String,
    rtype: String,
    ttl: u32,
    data: String,
    origin: &'c Origin,
}

/// The zones of the server, or of a view, by their names.
type Zones<'c> = BTreeMap<String, Zone<'c>>;

pub(super) fn map(conf: &Conf, groups: &Groups, forwards: &Forwards, forwarder: &mut Forwarder) {
    let tags = zone_tags(conf, forwarder);
    let mut loose = Vec::new();
    let server = zones(&conf.server, &mut loose, forwarder, |name| {
        let tags = tags.get(name);
        groups.views(|group| group.sees(tags))
    });
    let all = groups.views(|group| group.sees(None)).unwrap_or_default();
    for (key, zone) in &server {
        write(key, zone, &server, None, forwards, forwarder);
    }
    loose.iter().for_each(|one| add(one, &all, false, forwarder));
    stay_built_in(conf, &server, forwards, forwarder);
    for view in conf.all("view") {
        of_view(view, &server, groups, forwards, forwarder);
    }
}

/// Names that Unbound answers itself also where it asks for those of private networks (`unblock-lan-zones`). Here both are
/// one key.
fn stay_built_in(conf: &Conf, server: &Zones<'_>, forwards: &Forwards, forwarder: &mut Forwarder) {
    let Some(one) = conf.server.all("unblock-lan-zones").next_back() else { return };
    if truth(one.value()) != Some(true) {
        return;
    }
    let origin = &one.origin;
    let (ipv4, ipv6) =
        (reverse_name([127, 0, 0, 1].into()), reverse_name(Ipv6Addr::LOCALHOST.into()));
    for zone in ["localhost", "invalid", "onion", "home.arpa", "127.in-addr.arpa", &*ipv6] {
        if server.contains_key(zone) || forwards.has(zone) {
            continue;
        }
        forwarder.empty_zone(zone, &[], origin);
        if zone == "localhost" {
            for (rtype, data) in [("A", "127.0.0.1"), ("AAAA", "::1")] {
                let record = LocalData { name: zone, rtype, ttl: LOCAL_TTL, data };
                forwarder.local_below(record, &[], origin);
            }
        }
        for name in [&ipv4, &ipv6].into_iter().filter(|name| name.ends_with(zone)) {
            let record = LocalData { name, rtype: "PTR", ttl: LOCAL_TTL, data: "localhost." };
            forwarder.local(record, &[], origin);
        }
    }
}

fn of_view(
    view: &Clause,
    server: &Zones<'_>,
    groups: &Groups,
    forwards: &Forwards,
    forwarder: &mut Forwarder,
) {
    let name = view.last("name").unwrap_or_default();
    for one in &view.settings {
        match &*one.key {
            "name" | "view-first" => forwarder.draft.read(&one.origin),
            // Others count as unread.
            _ => {}
        }
    }
    let Some(views) = groups.views(|group| group.is_in(name)) else {
        view.settings.iter().for_each(|one| forwarder.draft.read(&one.origin));
        return forwarder.draft.unneeded(&view.origin);
    };
    let is_first = view.last("view-first").and_then(truth) == Some(true);
    let mut loose = Vec::new();
    let own = zones(view, &mut loose, forwarder, |_| Some(views.clone()));
    let outer = is_first.then_some(server);
    for (key, zone) in &own {
        write(key, zone, &own, outer, forwards, forwarder);
    }
    loose.iter().for_each(|one| add(one, &views, false, forwarder));
}

/// The tags of each local zone.
fn zone_tags(conf: &Conf, forwarder: &mut Forwarder) -> BTreeMap<String, BTreeSet<String>> {
    for key in ["define-tag", "local-zone-tag"] {
        conf.server.all(key).for_each(|one| forwarder.draft.read(&one.origin));
    }
    // Of several for a zone the first counts, so it is the last that is collected.
    let tags = conf.server.all("local-zone-tag").rev();
    tags.map(|one| (key_of(one.value()), tags_of(one, 1))).collect()
}

/// The local zones of a clause with their data; data in none of them is `loose`. Of several zones of a name the last counts.
fn zones<'c>(
    clause: &'c Clause,
    loose: &mut Vec<Data<'c>>,
    forwarder: &mut Forwarder,
    views: impl Fn(&str) -> Option<Vec<String>>,
) -> Zones<'c> {
    let mut zones = Zones::new();
    let mut unseen = BTreeSet::new();
    for one in clause.all("local-zone") {
        let key = key_of(one.value());
        let Some(views) = views(&key) else {
            forwarder.draft.unmapped(&one.origin, "no clients have its tags");
            unseen.insert(key);
            continue;
        };
        let (name, kind) = (one.value(), one.nth(1));
        let zone = Zone { name, kind, origin: &one.origin, views, data: Vec::new() };
        forwarder.draft.read(&one.origin);
        if let Some(before) = zones.insert(key, zone) {
            forwarder.draft.unneeded(before.origin);
        }
    }
    let records = clause.all("local-data").filter_map(|one| Some((one, record(one)?)));
    let pointers = clause.all("local-data-ptr").filter_map(|one| Some((one, pointer(one)?)));
    let mut known = BTreeSet::new();
    for (one, data) in records.chain(pointers) {
        known.insert(one.origin.place);
        forwarder.draft.read(&one.origin);
        let zone = above(&data.name, true)
            .find(|name| zones.contains_key(*name) || unseen.contains(*name));
        match zone.map(str::to_owned) {
            Some(zone) => match zones.get_mut(&zone) {
                Some(zone) => zone.data.push(data),
                None => forwarder.draft.unneeded(&one.origin),
            },
            None => loose.push(data),
        }
    }
    let all = clause.all("local-data").chain(clause.all("local-data-ptr"));
    for one in all.filter(|one| !known.contains(&one.origin.place)) {
        forwarder.draft.unmapped(&one.origin, "this is no record");
    }
    zones
}

/// A name with the names above it, or those alone.
fn above(name: &str, with_itself: bool) -> impl Iterator<Item = &str> {
    let first = if with_itself { Some(name) } else { parent(name) };
    std::iter::successors(first, |name| parent(name))
}

fn parent(name: &str) -> Option<&str> {
    match name.split_once('.') {
        Some((_, above)) => Some(above),
        None if name.is_empty() => None,
        None => Some(""),
    }
}

/// A record as in a zone file: `name ttl IN type data`.
fn record(one: &Setting) -> Option<Data<'_>> {
    let text = one.values.join(" ");
    let word = |text: &str| {
        let text = text.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        (text[..end].to_owned(), text[end..].trim_start().to_owned())
    };
    let (name, mut rest) = word(&text);
    let mut ttl = LOCAL_TTL;
    let rtype = loop {
        let (next, after) = word(&rest);
        rest = after;
        match next.parse() {
            Ok(number) => ttl = number,
            Err(_) if next.eq_ignore_ascii_case("IN") => {}
            Err(_) => break next,
        }
    };
    let (name, data) = (key_of(&name), rest);
    (!rtype.is_empty()).then_some(Data { name, rtype, ttl, data, origin: &one.origin })
}

/// `address ttl name`: a PTR record.
fn pointer(one: &Setting) -> Option<Data<'_>> {
    let words: Vec<&str> = one.values.iter().flat_map(|it| it.split_whitespace()).collect();
    let (address, ttl, name) = match words[..] {
        [address, name] => (address, LOCAL_TTL, name),
        [address, ttl, name] => (address, ttl.parse().ok()?, name),
        _ => return None,
    };
    let name_of = reverse_name(address.parse().ok()?);
    let (rtype, data) = ("PTR".to_owned(), name.to_owned());
    Some(Data { name: name_of, rtype, ttl, data, origin: &one.origin })
}

/// The name of an address's PTR record.
pub(super) fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits = v6
                .octets()
                .into_iter()
                .rev()
                .map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            digits.collect::<String>() + "ip6.arpa"
        }
    }
}

fn add(one: &Data<'_>, views: &[String], is_below: bool, forwarder: &mut Forwarder) {
    let name = if one.name.is_empty() { "." } else { &one.name };
    let record = LocalData { name, rtype: &one.rtype, ttl: one.ttl, data: &one.data };
    match is_below {
        true => forwarder.local_below(record, views, one.origin),
        false => forwarder.local(record, views, one.origin),
    }
}

/// Writes what a zone answers. `outer`: zones that count where those of the view say nothing.
fn write(
    key: &str,
    zone: &Zone<'_>,
    zones: &Zones<'_>,
    outer: Option<&Zones<'_>>,
    forwards: &Forwards,
    forwarder: &mut Forwarder,
) {
    let Zone { name, kind, origin, views, data } = zone;
    let own = above(key, false).find_map(|name| zones.get(name));
    let of_server = || above(key, true).find_map(|name| outer?.get(name));
    let around = own.or_else(of_server).filter(|zone| !OPEN.contains(&zone.kind));
    if WITHOUT_DATA.contains(kind) {
        data.iter().for_each(|one| forwarder.draft.unneeded(one.origin));
    } else if *kind != "redirect" && *kind != "inform_redirect" {
        data.iter().for_each(|one| add(one, views, false, forwarder));
    }
    if let Some(around) = around.filter(|_| !OPEN.contains(kind))
        && !CLOSED.contains(&around.kind)
        && CLOSED.contains(kind)
    {
        let why = format!("it is in `{}`, whose answer it gets", around.name);
        return forwarder.draft.unmapped(origin, why);
    }
    match *kind {
        kind if OPEN.contains(&kind) => open(key, zone, around, forwards, forwarder),
        "always_nxdomain" => forwarder.block(name, views, origin),
        // Without data not even the name itself exists.
        "static" if data.is_empty() && special::zone_of(key).is_none() => {
            forwarder.block(name, views, origin);
        }
        "static" => {
            let is_apex = |one: &Data<'_>| one.name == key && one.rtype.eq_ignore_ascii_case("SOA");
            match data.iter().any(is_apex) {
                true => forwarder.draft.read(origin),
                false => forwarder.empty_zone(name, views, origin),
            }
        }
        "redirect" | "inform_redirect" => {
            data.iter().for_each(|one| add(one, views, true, forwarder));
            if data.is_empty() {
                let why = "it has no local data; its names are asked upstream";
                forwarder.draft.unmapped(origin, why);
            }
        }
        "always_null" => {
            for (rtype, address) in [("A", "0.0.0.0"), ("AAAA", "::")] {
                let record = LocalData { name, rtype, ttl: LOCAL_TTL, data: address };
                forwarder.local_below(record, views, origin);
            }
        }
        kind if CLOSED.contains(&kind) => {
            forwarder.block(name, views, origin);
            let why = "its names are NXDOMAIN; for another answer write the name into a file of `[[blocklist]]` with this `action`";
            forwarder.draft.unmapped(origin, why);
        }
        kind => forwarder.draft.decisive(origin, format!("`{kind}`: {NONE}")),
    }
}

/// A zone whose names are resolved: an exception, if it is in another zone or in one that is built in.
fn open(
    key: &str,
    zone: &Zone<'_>,
    around: Option<&Zone<'_>>,
    forwards: &Forwards,
    forwarder: &mut Forwarder,
) {
    let Zone { name, kind, origin, views, data } = zone;
    match *kind {
        "typetransparent" if !data.is_empty() => {
            let why = "other types of a name with local data are NOERROR without records here, not resolved";
            forwarder.draft.unmapped(origin, why);
        }
        "inform" => {
            forwarder.draft.unmapped(origin, "queries for these names alone are not logged")
        }
        "ipset" | "block_a" => forwarder.draft.unmapped(origin, format!("`{kind}`: {NONE}")),
        _ => {}
    }
    if let Some(around) = around {
        let is_blocked = CLOSED.contains(&around.kind) && around.views.is_empty();
        return match is_blocked && views.is_empty() {
            true => forwarder.except(name, origin),
            false => {
                let why = format!("it is in `{}`, whose answer it gets", around.name);
                forwarder.draft.unmapped(origin, why);
            }
        };
    }
    let Some(built_in) = special::zone_of(key).filter(|_| !forwards.has(key)) else {
        return forwarder.draft.unneeded(origin);
    };
    if built_in != key && !data.is_empty() {
        let why = "a part of a built-in zone is either asked upstream or answered here; it is answered here";
        return forwarder.draft.unmapped(origin, why);
    }
    forwarder.ask(name, forwards.group_of(key), views, origin);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverse_names_have_the_last_digit_first() {
        assert_eq!(reverse_name("192.0.2.3".parse().unwrap()), "3.2.0.192.in-addr.arpa");
        let long = reverse_name("2001:db8::1".parse().unwrap());
        assert!(
            long.starts_with("1.0.0.0.") && long.ends_with("8.b.d.0.1.0.0.2.ip6.arpa"),
            "{long}"
        );
    }

    #[test]
    fn above_a_name_are_its_suffixes_and_the_root() {
        assert_eq!(above("a.b", true).collect::<Vec<_>>(), ["a.b", "b", ""]);
        assert_eq!(above("a.b", false).collect::<Vec<_>>(), ["b", ""]);
    }
}
