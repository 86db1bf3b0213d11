//! Forward zones, local zones, views, tags and policy zones.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::clause::{Clause, Setting};
use super::server::{of_all_upstreams, server};
use crate::import::draft::Value;
use crate::import::meaning::{Forwarder, NONE, Upstream, network, plain_name, truth};
use crate::import::source::Origin;
use crate::prefix::Prefix;

/// The TTL of local data that has none.
const LOCAL_TTL: u32 = 3600;

/// The views that clients with tags are in, by the tags.
type Tagged = BTreeMap<BTreeSet<String>, String>;

pub(super) fn map(clauses: &[Clause], forwarder: &mut Forwarder) {
    let tagged = views(clauses, forwarder);
    for clause in clauses {
        match &*clause.name {
            "server" => local(clause, &[], &zone_tags(clause), &tagged, forwarder),
            "view" => {
                let name = plain_name(clause.last("name").unwrap_or_default());
                local(clause, &[name], &BTreeMap::new(), &tagged, forwarder);
            }
            "forward-zone" | "stub-zone" => forward(clause, clauses, forwarder),
            "rpz" => policy_zone(clause, &tagged, forwarder),
            "auth-zone" => auth_zone(clause, forwarder),
            _ => {}
        }
    }
    source_addresses(clauses, forwarder);
}

/// Which clients are in which view, and which tags a view stands for.
fn views(clauses: &[Clause], forwarder: &mut Forwarder) -> Tagged {
    let servers = || clauses.iter().filter(|clause| clause.name == "server");
    let mut clients: BTreeMap<String, (Prefix, String, Origin)> = BTreeMap::new();
    let mut tagged = Tagged::new();
    for one in servers().flat_map(|clause| clause.settings.iter()) {
        let name = match &*one.key {
            "access-control-view" => plain_name(one.nth(1)),
            "access-control-tag" => {
                let tags = one.nth(1).split_whitespace().map(str::to_owned).collect();
                let name = plain_name(&format!("tags-{}", one.nth(1)));
                tagged.entry(tags).or_insert(name).clone()
            }
            _ => continue,
        };
        let Some(prefix) = network(one.value()) else {
            forwarder.draft.unmapped(&one.origin, "this is no network");
            continue;
        };
        let known = clients
            .entry(prefix.to_string())
            .or_insert_with(|| (prefix, name.clone(), one.origin.clone()));
        if known.1 != name {
            let why = format!("a client is in one view, and these are in `{}`", known.1);
            forwarder.draft.unmapped(&one.origin, why);
        }
    }
    let mut names: BTreeMap<&String, Vec<(&Prefix, &Origin)>> = BTreeMap::new();
    for (prefix, name, origin) in clients.values() {
        names.entry(name).or_default().push((prefix, origin));
    }
    for (name, members) in names {
        let view =
            forwarder.draft.add("view", members.first().map(|(_, origin)| (*origin).clone()));
        view.set("name", &**name, None);
        for (prefix, origin) in members {
            view.push("clients", prefix.to_string(), Some(origin.clone()));
        }
    }
    tagged
}

/// The tags of each local zone.
fn zone_tags(clause: &Clause) -> BTreeMap<String, Vec<String>> {
    let tags = |one: &Setting| one.nth(1).split_whitespace().map(str::to_owned).collect();
    clause.all("local-zone-tag").map(|one| (key_of(one.value()), tags(one))).collect()
}

fn key_of(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The views that have one of these tags.
fn with_tags(tags: &[String], tagged: &Tagged) -> Vec<String> {
    let views = tagged.iter().filter(|(set, _)| tags.iter().any(|tag| set.contains(tag)));
    views.map(|(_, name)| name.clone()).collect()
}

/// Local zones and local data of the server or of a view.
fn local(
    clause: &Clause,
    views: &[String],
    tags: &BTreeMap<String, Vec<String>>,
    tagged: &Tagged,
    forwarder: &mut Forwarder,
) {
    let mut redirected = BTreeSet::new();
    for one in clause.all("local-zone") {
        let (name, origin) = (one.value(), &one.origin);
        let views = match tags.get(&key_of(name)) {
            Some(tags) => with_tags(tags, tagged),
            None => views.to_vec(),
        };
        if tags.contains_key(&key_of(name)) && views.is_empty() {
            forwarder.draft.unmapped(origin, "no clients have its tags");
            continue;
        }
        match one.nth(1) {
            "always_nxdomain" => forwarder.block(name, &views, origin),
            "static" => forwarder.empty_zone(name, &views, origin),
            "redirect" => {
                redirected.insert(key_of(name));
            }
            "always_null" => {
                for (owner, is_below) in [(name.to_owned(), false), (format!("*.{name}"), true)] {
                    if !(is_below && name == ".") {
                        forwarder.local((&owner, "A", LOCAL_TTL, "0.0.0.0"), &views, origin);
                        forwarder.local((&owner, "AAAA", LOCAL_TTL, "::"), &views, origin);
                    }
                }
            }
            "transparent" | "typetransparent" => forwarder.draft.unneeded(origin),
            "nodefault" => forwarder.ask(name, "default", &views, origin),
            "refuse" | "always_refuse" | "deny" | "always_deny" | "always_nodata" => {
                let why =
                    "write the name into a file of `[[blocklist]]` with the `action` that this is";
                forwarder.draft.unmapped(origin, why);
            }
            kind => forwarder.draft.unmapped(origin, format!("`{kind}`: {NONE}")),
        }
    }
    for one in clause.all("local-data") {
        record(&one.values.join(" "), &redirected, views, &one.origin, forwarder);
    }
    for one in clause.all("local-data-ptr") {
        let words: Vec<&str> = one.values.iter().flat_map(|it| it.split_whitespace()).collect();
        match (words.first().and_then(|it| it.parse::<IpAddr>().ok()), words.last()) {
            (Some(address), Some(name)) if words.len() > 1 => {
                let owner = reverse_name(address);
                forwarder.local((&owner, "PTR", LOCAL_TTL, name), views, &one.origin);
            }
            _ => forwarder.draft.unmapped(&one.origin, "this is no address and name"),
        }
    }
    if clause.name == "view" {
        for one in &clause.settings {
            match &*one.key {
                "name" | "local-zone" | "local-data" | "local-data-ptr" => {}
                "view-first" if truth(one.value()) == Some(true) => {
                    forwarder.draft.unneeded(&one.origin);
                }
                "view-first" => {
                    let why = "tables of a view add to those of all clients";
                    forwarder.draft.unmapped(&one.origin, why);
                }
                _ => forwarder.draft.unmapped(&one.origin, NONE),
            }
        }
    }
}

/// A record as in a zone file: `name ttl IN type data`.
fn record(
    text: &str,
    redirected: &BTreeSet<String>,
    views: &[String],
    origin: &Origin,
    forwarder: &mut Forwarder,
) {
    let word = |text: &str| {
        let text = text.trim_start();
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        (text[..end].to_owned(), text[end..].trim_start().to_owned())
    };
    let (name, mut rest) = word(text);
    let mut ttl = LOCAL_TTL;
    let rtype = loop {
        let (next, after) = word(&rest);
        rest = after;
        if let Ok(number) = next.parse() {
            ttl = number;
        } else if !next.eq_ignore_ascii_case("IN") {
            break next;
        }
    };
    forwarder.local((&name, &rtype, ttl, &rest), views, origin);
    if redirected.contains(&key_of(&name)) {
        forwarder.local((&format!("*.{name}"), &rtype, ttl, &rest), views, origin);
    }
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

/// A zone whose names are asked of some servers.
fn forward(clause: &Clause, clauses: &[Clause], forwarder: &mut Forwarder) {
    let is_yes = |one: Option<&str>| one.and_then(truth) == Some(true);
    let prefix = clause.name.trim_end_matches("-zone");
    let own_tls = clause.last(&format!("{prefix}-tls-upstream"));
    let own_tls = own_tls.or_else(|| clause.last(&format!("{prefix}-ssl-upstream")));
    let all_tls = server(clauses, "tls-upstream").or_else(|| server(clauses, "ssl-upstream"));
    let is_encrypted = is_yes(own_tls) || is_yes(all_tls);
    let mut servers = Vec::new();
    for one in &clause.settings {
        match one.key.strip_prefix(prefix).unwrap_or(&one.key) {
            "name" => {}
            "-addr" => match upstream(one, is_encrypted, clauses) {
                Some(upstream) => servers.push(upstream),
                None => forwarder.draft.unmapped(&one.origin, "this is no address of a server"),
            },
            "-host" if is_encrypted => {
                let host = one.value().split(['@', '#']).next().unwrap_or_default();
                let address = format!("tls://{}", host.trim_end_matches('.'));
                servers.push(Upstream { address, keys: Vec::new(), origin: one.origin.clone() });
            }
            "-host" => {
                forwarder
                    .draft
                    .unmapped(&one.origin, "a plain upstream has an address, not a name");
            }
            "-tls-upstream" | "-ssl-upstream" => {}
            "-first" | "-no-cache" | "-tcp-upstream" | "-prime" if !is_yes(Some(one.value())) => {
                forwarder.draft.unneeded(&one.origin);
            }
            _ => forwarder.draft.unmapped(&one.origin, NONE),
        }
    }
    let Some(zone) = clause.last("name") else {
        return forwarder.draft.unmapped(&clause.origin, "it has no name");
    };
    if servers.is_empty() {
        return forwarder
            .draft
            .unmapped(&clause.origin, "it has no server that could be taken over");
    }
    if servers.iter().any(|one| one.keys.iter().any(|(key, _)| *key == "client_subnet")) {
        let origin = servers[0].origin.clone();
        forwarder.draft.single("client_subnet").set("policy", "add", Some(origin));
    }
    if clause.name == "stub-zone" {
        let why = "these servers have to answer as resolvers do, with RA; servers of the zone alone do not";
        forwarder.draft.unmapped(&clause.origin, why);
    }
    forwarder.forward(zone, servers, &[], &clause.origin);
}

/// `address@port#name`.
fn upstream(one: &Setting, is_encrypted: bool, clauses: &[Clause]) -> Option<Upstream> {
    let (rest, name) = match one.value().split_once('#') {
        Some((rest, name)) => (rest, Some(name)),
        None => (one.value(), None),
    };
    let (address, port) = match rest.split_once('@') {
        Some((address, port)) => (address, Some(port.parse::<u16>().ok()?)),
        None => (rest, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let port = port.unwrap_or(if is_encrypted { 853 } else { 53 });
    let mut keys = of_all_upstreams(clauses, address, is_encrypted);
    let socket = SocketAddr::new(address, port);
    let written = match is_encrypted {
        true => format!("tls://{socket}"),
        false => socket.to_string(),
    };
    if let Some(name) = name.filter(|name| is_encrypted && !name.is_empty()) {
        keys.push(("name", Value::from(name)));
    }
    Some(Upstream { address: written, keys, origin: one.origin.clone() })
}

/// Source addresses beyond the first of a family are not used.
fn source_addresses(clauses: &[Clause], forwarder: &mut Forwarder) {
    let servers = clauses.iter().filter(|clause| clause.name == "server");
    let mut seen = BTreeSet::new();
    for one in servers.flat_map(|clause| clause.all("outgoing-interface")) {
        match one.value().parse::<IpAddr>() {
            Ok(address) if seen.insert(address.is_ipv4()) => {}
            Ok(_) => forwarder.draft.unmapped(&one.origin, "an upstream has one `source`"),
            Err(_) => forwarder.draft.unmapped(&one.origin, "this is no address"),
        }
    }
}

fn policy_zone(clause: &Clause, tagged: &Tagged, forwarder: &mut Forwarder) {
    let origin = Some(clause.origin.clone());
    let name = clause.last("name").unwrap_or_default().to_owned();
    let mut primaries = Vec::new();
    let mut views = Vec::new();
    for one in &clause.settings {
        match &*one.key {
            "name" | "zonefile" => {}
            "primary" | "master" => {
                let (address, port) =
                    one.value().split_once('@').unwrap_or_else(|| (one.value(), "53"));
                match (address.parse::<IpAddr>(), port.parse::<u16>()) {
                    (Ok(address), Ok(port)) => {
                        primaries.push((SocketAddr::new(address, port), one))
                    }
                    _ => forwarder
                        .draft
                        .unmapped(&one.origin, "a primary has an address, not a name"),
                }
            }
            "tags" => {
                let tags: Vec<String> = one.value().split_whitespace().map(str::to_owned).collect();
                views = with_tags(&tags, tagged);
                if views.is_empty() {
                    forwarder.draft.unmapped(&one.origin, "no clients have these tags");
                }
            }
            "rpz-log" | "rpz-log-name" | "allow-notify" => forwarder.draft.unneeded(&one.origin),
            _ => forwarder.draft.unmapped(&one.origin, NONE),
        }
    }
    let file = clause.last("zonefile");
    if file.is_none() && primaries.is_empty() {
        return forwarder.draft.unmapped(&clause.origin, "it has neither a file nor a primary");
    }
    let kept = format!("/var/lib/pmdns/{}.rpz", plain_name(&name));
    let zone = forwarder.draft.add("rpz", origin.clone());
    zone.set("file", file.unwrap_or(&kept), origin.clone());
    match primaries.is_empty() {
        true => zone.set("origin", name, origin),
        false => zone.set("zone", name, origin),
    };
    for (primary, one) in primaries {
        zone.push("primaries", primary.to_string(), Some(one.origin.clone()));
    }
    zone.in_views(&views, &clause.origin);
}

/// A zone that is answered from a file.
fn auth_zone(clause: &Clause, forwarder: &mut Forwarder) {
    let origin = Some(clause.origin.clone());
    let is_copied = ["primary", "master", "url"].iter().any(|key| clause.last(key).is_some());
    match clause.last("zonefile").filter(|_| !is_copied) {
        Some(file) => {
            let zone = forwarder.draft.add("zone", origin.clone());
            zone.set("file", file, origin.clone());
            zone.set("origin", clause.last("name").unwrap_or("."), origin);
        }
        None => {
            forwarder.draft.unmapped(&clause.origin, "zones are not transferred, but for `[[rpz]]`")
        }
    }
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
}
