//! `dns64 PREFIX { ... }`: AAAA records that are made of A records.

use super::access;
use super::names::Names;
use super::statement::Statement;
use crate::import::draft::{Table, Value};
use crate::import::meaning::{Forwarder, NONE, network, truth};
use crate::import::source::Origin;
use crate::prefix::Prefix;

/// Networks, and where they stand.
type Networks = Vec<(Prefix, Origin)>;

pub(super) fn map(one: &Statement, views: &[String], names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let is_for_all = |table: &Table| table.values("views").next().is_none();
    if !views.is_empty() && forwarder.draft.all("dns64").any(is_for_all) {
        forwarder.draft.unmapped(&origin, "the prefixes of `options` hold in this view too");
    }
    let Some(views) = clients(one, views, names, forwarder) else { return };
    let excluded = excluded(one, names, forwarder);
    let unused = unused(one, names, forwarder);
    let text = one.word(1);
    let prefix = network(text).map_or_else(|| text.to_owned(), |prefix| prefix.to_string());
    let table = forwarder.draft.add("dns64", Some(origin.clone()));
    table.set("prefix", prefix, Some(origin.clone()));
    for (key, networks) in [("exclude", excluded), ("exclude_ipv4", unused)] {
        for (prefix, origin) in networks {
            table.push(key, prefix.to_string(), Some(origin));
        }
    }
    table.in_views(&views, &origin);
    for part in one.block() {
        let why = match (part.word(0), part.word(1)) {
            ("clients" | "exclude" | "mapped", _) => continue,
            ("suffix", "::") | ("recursive-only", _) => {
                forwarder.draft.unneeded(&part.origin());
                continue;
            }
            ("break-dnssec", value) if truth(value) == Some(true) => {
                forwarder.draft.unneeded(&part.origin());
                continue;
            }
            ("break-dnssec", _) => {
                "clients that set DO without CD get addresses, without signatures"
            }
            ("suffix", _) => "the bits behind the IPv4 address are zero (RFC 6052 section 2.2)",
            _ => NONE,
        };
        forwarder.draft.unmapped(&part.origin(), why);
    }
}

/// The views whose clients get addresses; `None`: there are no such clients.
fn clients(
    one: &Statement,
    views: &[String],
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) -> Option<Vec<String>> {
    let Some(list) = one.find("clients") else { return Some(views.to_vec()) };
    let clients = access::clients(list, &names.lists, forwarder);
    for (_, _, origin) in clients.iter().filter(|(_, allowed, _)| !allowed) {
        let why = "`dns64.views` has the clients that get addresses, not those that do not";
        forwarder.draft.unmapped(origin, why);
    }
    let allowed = || clients.iter().filter(|(_, allowed, _)| *allowed);
    let has_all = |is_ipv4: bool| {
        allowed().any(|(prefix, _, _)| prefix.length == 0 && prefix.network.is_ipv4() == is_ipv4)
    };
    let why = match () {
        () if has_all(true) && has_all(false) => return Some(views.to_vec()),
        () if allowed().next().is_none() => "no clients get addresses",
        () if names.has_views => {
            "write these clients into a `[[view]]`, and a `[[dns64]]` with its name in `views`"
        }
        () => {
            let networks = allowed().map(|(prefix, _, origin)| (*prefix, origin.clone())).collect();
            return Some(vec![view(networks, list, forwarder)]);
        }
    };
    forwarder.draft.unmapped(&one.origin(), why);
    None
}

/// The name of a view with these clients, and no others.
fn view(networks: Networks, list: &Statement, forwarder: &mut Forwarder) -> String {
    let wanted: Vec<Value> =
        networks.iter().map(|(prefix, _)| Value::Text(prefix.to_string())).collect();
    let same = forwarder.draft.all("view").find(|view| view.values("clients").eq(&wanted));
    if let Some(name) = same.and_then(|view| view.text("name")) {
        return name.to_owned();
    }
    // There are no other views than those of earlier lists.
    let name = match forwarder.draft.all("view").count() {
        0 => "dns64".to_owned(),
        others => format!("dns64-{}", others + 1),
    };
    let view = forwarder.draft.add("view", Some(list.origin()));
    view.set("name", &*name, None);
    for (prefix, origin) in networks {
        view.push("clients", prefix.to_string(), Some(origin));
    }
    name
}

/// IPv6 addresses that do not count.
fn excluded(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) -> Networks {
    let Some(list) = one.find("exclude") else { return Networks::new() };
    let mut excluded = Networks::new();
    for (prefix, is_listed, origin) in access::clients(list, &names.lists, forwarder) {
        match is_listed {
            true if prefix.network.is_ipv6() => excluded.push((prefix, origin)),
            true => {}
            false => forwarder.draft.unmapped(&origin, "`dns64.exclude` has no exceptions"),
        }
    }
    excluded
}

/// IPv4 addresses that no others are made of: those that stand before `any`, with an exclamation mark.
fn unused(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) -> Networks {
    let Some(list) = one.find("mapped") else { return Networks::new() };
    let mut networks = access::clients(list, &names.lists, forwarder);
    networks.retain(|(prefix, _, _)| prefix.network.is_ipv4());
    let is_any = |(prefix, is_used, _): &(Prefix, bool, Origin)| *is_used && prefix.length == 0;
    let end = networks.iter().position(is_any);
    networks.truncate(end.unwrap_or(networks.len()));
    if end.is_none() || networks.iter().any(|(_, is_used, _)| *is_used) {
        let why = "`dns64.exclude_ipv4` has the addresses that are not used, not those that are";
        forwarder.draft.unmapped(&list.origin(), why);
    }
    let unused = networks.into_iter().filter(|(_, is_used, _)| !is_used);
    unused.map(|(prefix, _, origin)| (prefix, origin)).collect()
}
