//! The meaning of the statements: options, views, zones.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::names::Names;
use super::statement::Statement;
use super::{access, logging, options};
use crate::import::draft::Value;
use crate::import::meaning::{Forwarder, NONE, Upstream, plain_name};

pub(super) fn map(statements: &[Statement], forwarder: &mut Forwarder) {
    let names = Names::of(statements);
    for one in statements.iter().filter(|one| one.word(0) == "options") {
        options::map(one, &[], &names, forwarder);
    }
    if !statements.iter().any(|one| one.find("dnssec-validation").is_some())
        && let Some(first) = statements.first()
    {
        // `dnssec-validation auto` is the default.
        forwarder.draft.set("dnssec", "validate", true, &first.origin());
    }
    for one in statements {
        match one.word(0) {
            "options" => {}
            "acl" | "tls" | "http" | "controls" | "statistics-channels" => {
                forwarder.draft.unneeded(&one.origin());
            }
            "logging" => logging::map(one, &names, forwarder),
            "zone" => zone(one, &[], &names, forwarder),
            "view" => view(one, &names, forwarder),
            "key" => key(one, statements, forwarder),
            _ => forwarder.draft.unmapped(&one.origin(), NONE),
        }
    }
}

fn view(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let name = plain_name(one.word(1));
    let clients = match one.find("match-clients") {
        Some(list) => access::clients(list, &names.lists, forwarder),
        None => Vec::new(),
    };
    let is_all = clients.is_empty() || clients.iter().any(|(prefix, _, _)| prefix.length == 0);
    let views = match is_all {
        // All other clients: the tables of this view hold for those that are in no other.
        true => vec!["default".to_owned()],
        false => {
            let view = forwarder.draft.add("view", Some(origin));
            view.set("name", &*name, None);
            for (prefix, _, origin) in clients.iter().filter(|(_, allowed, _)| *allowed) {
                view.push("clients", prefix.to_string(), Some(origin.clone()));
            }
            vec![name]
        }
    };
    for (_, _, origin) in clients.iter().filter(|(_, allowed, _)| !allowed) {
        forwarder.draft.unmapped(origin, "a view lists the clients in it only");
    }
    for statement in one.block() {
        match statement.word(0) {
            "match-clients" => {}
            "zone" => zone(statement, &views, names, forwarder),
            _ => {}
        }
    }
    options::map(one, &views, names, forwarder);
}

fn zone(one: &Statement, views: &[String], names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let name = one.word(1);
    let kind = one.find("type").map_or("", |it| it.word(1));
    let is_policy = forwarder.draft.all("rpz").any(|table| table.text("zone") == Some(name));
    match kind {
        _ if is_policy => policy_zone(one, names, forwarder),
        "hint" => forwarder.draft.unneeded(&origin),
        "forward" => {
            if let Some(servers) = one.find("forwarders") {
                let servers = upstreams(servers, forwarder);
                match servers.is_empty() {
                    true => forwarder.draft.unmapped(
                        &origin,
                        "names without forwarders are not resolved from the root",
                    ),
                    false => forwarder.forward(name, servers, views, &origin),
                }
            }
        }
        "stub" | "static-stub" => {
            let lists = ["server-addresses", "primaries", "masters"];
            let servers = lists.iter().find_map(|word| one.find(word));
            let servers = servers.map_or_else(Vec::new, |list| upstreams(list, forwarder));
            let why = match servers.is_empty() {
                true => "it has no server that could be taken over",
                false => {
                    forwarder.forward(name, servers, views, &origin);
                    "these servers have to answer as resolvers do, with RA; servers of the zone alone do not"
                }
            };
            forwarder.draft.unmapped(&origin, why);
        }
        "primary" | "master" => match one.find("file") {
            Some(file) => {
                let table = forwarder.draft.add("zone", Some(origin.clone()));
                table.set("file", names.path(file.word(1)), Some(origin.clone()));
                table.set("origin", name, Some(origin.clone()));
                table.in_views(views, &origin);
            }
            None => forwarder.draft.unmapped(&origin, "it has no file"),
        },
        "secondary" | "slave" | "mirror" => {
            forwarder.draft.unmapped(&origin, "zones are not transferred, but for `[[rpz]]`");
        }
        _ => forwarder.draft.unmapped(&origin, NONE),
    }
}

/// The zone of a policy: its file, and where it comes from.
fn policy_zone(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let (name, origin) = (one.word(1).to_owned(), one.origin());
    let list = one.find("primaries").or_else(|| one.find("masters"));
    let mut primaries = Vec::new();
    let mut tsig = None;
    for primary in list.iter().flat_map(|list| list.block()) {
        let port = primary.behind("port").and_then(|port| port.parse().ok()).unwrap_or(53);
        match primary.word(0).parse::<IpAddr>() {
            Ok(address) => {
                primaries.push((SocketAddr::new(address, port), primary.origin()));
                tsig = primary.behind("key").map(str::to_owned).or(tsig);
            }
            Err(_) => forwarder.draft.unmapped(&primary.origin(), "this is no address"),
        }
    }
    let file = one.find("file").map(|file| names.path(file.word(1)));
    let tables = forwarder.draft.tables.iter_mut();
    for table in tables.filter(|table| table.name == "rpz" && table.text("zone") == Some(&*name)) {
        if let Some(file) = &file {
            table.set("file", &**file, Some(origin.clone()));
        }
        if primaries.is_empty() {
            table.entries.retain(|entry| entry.key != "zone");
            table.set("origin", &*name, Some(origin.clone()));
        }
        for (primary, origin) in &primaries {
            table.push("primaries", primary.to_string(), Some(origin.clone()));
        }
        if let Some(tsig) = &tsig {
            table.set("tsig", &**tsig, Some(origin.clone()));
        }
    }
}

/// A key; only those of transfers of policy zones are needed.
fn key(one: &Statement, statements: &[Statement], forwarder: &mut Forwarder) {
    let mut uses = BTreeSet::new();
    let views = statements.iter().filter(|it| it.word(0) == "view").flat_map(|view| view.block());
    for zone in statements.iter().chain(views).filter(|it| it.word(0) == "zone") {
        let lists = [zone.find("primaries"), zone.find("masters")].into_iter().flatten();
        uses.extend(lists.flat_map(|list| list.block()).filter_map(|it| it.behind("key")));
    }
    let origin = Some(one.origin());
    if !uses.contains(one.word(1)) {
        return forwarder.draft.unneeded(&one.origin());
    }
    let table = forwarder.draft.add("tsig", origin.clone());
    table.set("name", one.word(1), origin.clone());
    for (word, key) in [("algorithm", "algorithm"), ("secret", "secret")] {
        if let Some(value) = one.find(word) {
            table.set(key, value.word(1).trim_end_matches('.').to_owned(), origin.clone());
        }
    }
}

/// The servers of a list, as in `forwarders port 53 { 192.0.2.1; }`.
pub(super) fn upstreams(list: &Statement, forwarder: &mut Forwarder) -> Vec<Upstream> {
    let usual = list.behind("port").and_then(|port| port.parse::<u16>().ok());
    let all_tls = list.behind("tls");
    let mut servers = Vec::new();
    for one in list.block() {
        let Ok(address) = one.word(0).parse::<IpAddr>() else {
            forwarder.draft.unmapped(&one.origin(), "this is no address");
            continue;
        };
        let tls = one.behind("tls").or(all_tls).filter(|tls| *tls != "none");
        let port = one.behind("port").and_then(|port| port.parse().ok()).or(usual);
        let usual_port = if tls.is_some() { 853 } else { 53 };
        let socket = SocketAddr::new(address, port.unwrap_or(usual_port));
        let address = match tls {
            Some(_) => format!("tls://{socket}"),
            None => socket.to_string(),
        };
        let keys: Vec<(&'static str, Value)> = Vec::new();
        servers.push(Upstream { address, keys, origin: one.origin() });
    }
    if all_tls.is_some_and(|tls| tls != "none") {
        let why = "write the name of each certificate (`remote-hostname`) into `upstream.name`";
        forwarder.draft.unmapped(&list.origin(), why);
    }
    servers
}
