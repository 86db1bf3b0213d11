//! `newServer` and the policies of pools.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pmdns_config::DEFAULT_GROUP;

use super::call::Call;
use super::lua::Value;
use super::names::{group, note_relative, socket};
use crate::draft::{DraftTable, Value as Written};
use crate::meaning::{Forwarder, Upstream};
use crate::source::Origin;

/// The strategy that is nearest to dnsdist's `leastOutstanding`.
const LEAST_OUTSTANDING: &str = "fastest";

/// A server, and the group of its pool.
pub(super) struct Server {
    group: String,
    order: u32,
    weight: u64,
    upstream: Upstream,
}

/// Options of a server that need no counterpart.
const UNNEEDED: [&str; 19] = [
    "name",
    "id",
    "sockets",
    "checkName",
    "checkType",
    "checkClass",
    "checkFunction",
    "mustResolve",
    "checkTCP",
    "tcpFastOpen",
    "tcpConnectTimeout",
    "tcpSendTimeout",
    "tcpRecvTimeout",
    "retries",
    "healthCheckMode",
    "maxInFlight",
    "reconnectOnUp",
    "tlsSessionCache",
    "addXPF",
];

/// Reads a server into the list.
pub(super) fn server(
    forwarder: &mut Forwarder,
    servers: &mut Vec<Server>,
    call: &Call<'_>,
    origin: &Origin,
) {
    let text = |key: &str| call.option(0, key).and_then(Value::text);
    let address = match address(call) {
        Ok(address) => address,
        Err(why) => return forwarder.draft.decisive(origin, why),
    };
    let mut keys = Vec::new();
    if address.contains("://") {
        keys.extend(certificate_keys(forwarder, call, origin));
    }
    if is(call, "useClientSubnet", "true") {
        keys.push(("client_subnet", true.into()));
        forwarder.draft.set("client_subnet", "policy", "add", origin);
    }
    match text("source") {
        Some(source) if source.parse::<IpAddr>().is_ok() => keys.push(("source", source.into())),
        Some(_) => {
            forwarder.draft.unmapped(origin, "`source` is an address here, not an interface")
        }
        None => {}
    }
    let weight = text("weight").and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    set_health_checks(forwarder, call, origin);
    call.skip(0, &UNNEEDED);
    let pools = call.option(0, "pool").and_then(Value::texts).unwrap_or_default();
    if pools.len() > 1 {
        let why = "an upstream is in one group; this one is in that of its first pool";
        forwarder.draft.decisive(origin, why);
    }
    let order = text("order").and_then(|text| text.parse().ok()).unwrap_or(1);
    let group = group(pools.first().copied().unwrap_or_default());
    let upstream = Upstream { address, keys, origin: origin.clone() };
    servers.push(Server { group, order, weight, upstream });
    forwarder.draft.read(origin);
}

/// Whether an option has this name as its value, as in `true`.
fn is(call: &Call<'_>, option: &str, name: &str) -> bool {
    matches!(call.option(0, option), Some(Value::Name(other)) if other == name)
}

/// The address of an upstream with its protocol, or the reason that there is none.
fn address(call: &Call<'_>) -> Result<String, &'static str> {
    let text = |key: &str| call.option(0, key).and_then(Value::text);
    let (tls, path) = (text("tls"), text("dohPath"));
    let usual = match (path, tls) {
        (Some(_), Some(_)) => 443,
        (None, Some(_)) => 853,
        _ => 53,
    };
    let address = call.text(0).or_else(|| text("address")).unwrap_or_default();
    let address = socket(address, usual).ok_or("an upstream has an address, as in 192.0.2.1:53")?;
    match (tls, path) {
        (None | Some(""), Some(_)) => Err("there is no HTTP without TLS to an upstream"),
        (None | Some(""), None) => Ok(address.to_string()),
        (Some(_), None) => Ok(format!("tls://{address}")),
        (Some(_), Some(path)) => Ok(format!("https://{address}{path}")),
    }
}

/// The keys by which the certificate of an encrypted upstream is checked.
fn certificate_keys(
    forwarder: &mut Forwarder,
    call: &Call<'_>,
    origin: &Origin,
) -> Vec<(&'static str, Written)> {
    let text = |key: &str| call.option(0, key).and_then(Value::text);
    let options = [("subjectName", "name"), ("subjectAddr", "name"), ("caStore", "ca_file")];
    let keys = options.into_iter().filter_map(|(option, key)| Some((key, text(option)?.into())));
    let keys = keys.collect();
    if let Some(file) = text("caStore") {
        note_relative(file, origin, forwarder);
    }
    if is(call, "validateCertificates", "false") {
        let why = "the certificate is checked: it has to be valid for the address, or for `upstream.name`";
        forwarder.draft.unmapped(origin, why);
    }
    keys
}

/// Health checks of a server are those of all upstreams.
fn set_health_checks(forwarder: &mut Forwarder, call: &Call<'_>, origin: &Origin) {
    let text = |key: &str| call.option(0, key).and_then(Value::text);
    let number = |key: &str| text(key).and_then(|text| text.parse::<u64>().ok());
    for (option, key, factor) in [
        ("maxCheckFailures", "failures", 1),
        ("rise", "successes", 1),
        ("checkInterval", "interval_ms", 1000),
        ("checkTimeout", "timeout_ms", 1),
    ] {
        if let Some(number) = number(option) {
            forwarder.draft.set("health", key, number.saturating_mul(factor), origin);
        }
    }
}

/// Which server of a group is asked.
pub(super) fn policy(
    forwarder: &mut Forwarder,
    policy: Option<&Value>,
    group: &str,
    origin: &Origin,
) {
    let draft = &mut forwarder.draft;
    let name = match policy {
        Some(Value::Name(name)) => name.as_str(),
        _ => "",
    };
    let strategy = match name {
        "firstAvailable" => "failover",
        "roundrobin" => "round_robin",
        "leastOutstanding" => LEAST_OUTSTANDING,
        "wrandom" | "whashed" | "chashed" => {
            draft.unmapped(origin, "servers are asked in turn, by their `weight`, not at random");
            "round_robin"
        }
        _ => return draft.unmapped(origin, "there is no such strategy"),
    };
    let table = draft.add("group", Some(origin.clone()));
    table.set("name", group, Some(origin.clone()));
    table.set("strategy", strategy, Some(origin.clone()));
}

/// Puts the servers of each pool into a group, in their order.
pub(super) fn finish(forwarder: &mut Forwarder, servers: Vec<Server>) {
    let mut groups: BTreeMap<String, Vec<Server>> = BTreeMap::new();
    for server in servers {
        groups.entry(server.group.clone()).or_default().push(server);
    }
    for (group, mut servers) in groups {
        servers.sort_by_key(|server| server.order);
        let of_group = |table: &&DraftTable| table.text("name") == Some(&*group);
        let strategy = forwarder.draft.all("group").find(of_group);
        let is_by_turns = strategy.and_then(|table| table.text("strategy")) == Some("round_robin");
        if strategy.is_none() && servers.len() > 1 {
            // dnsdist's own default.
            let table = forwarder.draft.add("group", None);
            table.set("name", &*group, None);
            table.set("strategy", LEAST_OUTSTANDING, None);
        }
        let mut upstreams = Vec::new();
        for Server { weight, mut upstream, .. } in servers {
            match weight {
                1 => {}
                _ if is_by_turns => upstream.keys.push(("weight", weight.into())),
                _ => {
                    let why = "`weight` counts in a group with the strategy `round_robin` alone";
                    forwarder.draft.unmapped(&upstream.origin, why);
                }
            }
            upstreams.push(upstream);
        }
        let origin = upstreams.first().map(|first| first.origin.clone());
        let other = forwarder.group(&group, upstreams);
        if other != group {
            ask_other(&group, &other, &origin.unwrap_or_default(), forwarder);
        }
    }
}

/// The servers of a pool are those of another one: its group is asked.
fn ask_other(group: &str, other: &str, origin: &Origin, forwarder: &mut Forwarder) {
    for table in &mut forwarder.draft.tables {
        if ["forward", "view"].contains(&table.name) && table.text("group") == Some(group) {
            let origin = table.origin.clone();
            table.set("group", other, origin);
        }
    }
    if group == DEFAULT_GROUP {
        forwarder.ask(".", other, &[], origin);
    }
}
