//! `dns64 PREFIX { ... }`: AAAA records that are made of A records.

use pmdns_config::Prefix;

use super::access::{self, Clients, Unknown};
use super::names::Names;
use super::statement::Statement;
use crate::clients::SettingValue;
use crate::draft::{DraftTable, Value};
use crate::meaning::{Forwarder, NONE, network, truth};
use crate::source::Origin;

/// The most networks that addresses are not made of.
const MAX_UNUSED: usize = 64;

/// Networks, and where they stand.
type Networks = Vec<(Prefix, Option<Origin>)>;

pub(super) fn map(one: &Statement, views: &[String], names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let is_for_all = |table: &DraftTable| table.values("views").next().is_none();
    if !views.is_empty() && forwarder.draft.all("dns64").any(is_for_all) {
        forwarder.draft.unmapped(&origin, "the prefixes of `options` hold in this view too");
    }
    let Some(views) = clients(one, views, names, forwarder) else {
        return one.note_read(&mut forwarder.draft);
    };
    let excluded = excluded(one, names, forwarder);
    let unused = unused(one, names, forwarder);
    let text = one.word(1);
    let prefix = network(text).map_or_else(|| text.to_owned(), |prefix| prefix.to_string());
    let table = forwarder.draft.add("dns64", Some(origin.clone()));
    table.set("prefix", prefix, Some(origin.clone()));
    for (key, networks) in [("exclude", excluded), ("exclude_ipv4", unused)] {
        for (prefix, origin) in networks {
            table.push(key, prefix.to_string(), origin);
        }
    }
    table.in_views(&views, &origin);
    for part in one.block() {
        let why = match (part.word(0), part.word(1)) {
            ("clients" | "exclude" | "mapped", _) => {
                part.note_read(&mut forwarder.draft);
                continue;
            }
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
    let clients = access::clients(list, names, Unknown::NoMatch, forwarder);
    let is_matched = |said: &SettingValue<Option<bool>>| said.value == Some(true);
    let why = match () {
        () if clients.values().all(is_matched) => return Some(views.to_vec()),
        () if !clients.values().any(is_matched) => "no clients get addresses",
        () if names.has_views => {
            "write these clients into a `[[view]]`, and a `[[dns64]]` with its name in `views`"
        }
        () => match matched(&clients, true) {
            Some(networks) => return Some(vec![view(networks, list, forwarder)]),
            None => "these are too many networks",
        },
    };
    forwarder.draft.unmapped(&one.origin(), why);
    None
}

/// The networks that a list matches, or all others.
fn matched(clients: &Clients, is_matched: bool) -> Option<Networks> {
    let pieces = clients.without(|said| (said.value == Some(true)) != is_matched)?;
    Some(pieces.into_iter().map(|(network, said)| (network, said.origin.clone())).collect())
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
    forwarder.view(&name, networks, &list.origin());
    name
}

/// IPv6 addresses that do not count.
fn excluded(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) -> Networks {
    let Some(list) = one.find("exclude") else { return Networks::new() };
    let listed = access::clients(list, names, Unknown::NoMatch, forwarder);
    let mut excluded = matched(&listed, true).unwrap_or_default();
    excluded.retain(|(prefix, _)| prefix.network.is_ipv6());
    excluded
}

/// IPv4 addresses that no others are made of: those that `mapped` does not match.
fn unused(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) -> Networks {
    let Some(list) = one.find("mapped") else { return Networks::new() };
    let used = access::clients(list, names, Unknown::NoMatch, forwarder);
    let mut unused = matched(&used, false).unwrap_or_default();
    unused.retain(|(prefix, _)| prefix.network.is_ipv4());
    if unused.len() > MAX_UNUSED {
        let why = "`dns64.exclude_ipv4` has the addresses that are not used, and these are too many networks";
        forwarder.draft.unmapped(&list.origin(), why);
        unused.clear();
    }
    unused
}
