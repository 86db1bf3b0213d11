//! `newServer` and the policies of pools.

use std::collections::BTreeMap;

use super::lua::Value;
use super::names::{group, socket};
use crate::import::draft::Value as Written;
use crate::import::meaning::{Forwarder, NONE, Upstream};
use crate::import::source::{Origin, shown};

/// A server, and the group of its pool.
pub(super) struct Server {
    group: String,
    order: u32,
    upstream: Upstream,
}

/// Reads a server into the list.
pub(super) fn server(
    forwarder: &mut Forwarder,
    servers: &mut Vec<Server>,
    options: Option<&Value>,
    origin: &Origin,
) {
    let draft = &mut forwarder.draft;
    let text = |key: &str| options.and_then(|it| it.key(key)).and_then(Value::text);
    let is = |key: &str, name: &str| matches!(options.and_then(|it| it.key(key)), Some(Value::Name(other)) if other == name);
    let address = options.and_then(Value::text).or_else(|| text("address")).unwrap_or_default();
    let usual = match (text("dohPath"), text("tls")) {
        (Some(_), Some(_)) => 443,
        (None, Some(_)) => 853,
        _ => 53,
    };
    let Some(address) = socket(address, usual) else {
        return draft.unmapped(origin, "an upstream has an address, as in 192.0.2.1:53");
    };
    let (address, mut keys) = match (text("tls"), text("dohPath")) {
        (None | Some(""), _) => (address.to_string(), Vec::new()),
        (Some(_), None) => (format!("tls://{address}"), Vec::new()),
        (Some(_), Some(path)) => (format!("https://{address}{path}"), Vec::new()),
    };
    if address.contains("://") {
        for (option, key) in [("subjectName", "name"), ("caStore", "ca_file")] {
            keys.extend(text(option).map(|text| (key, Written::from(text))));
        }
    }
    if is("useClientSubnet", "true") {
        keys.push(("client_subnet", true.into()));
        draft.set("client_subnet", "policy", "add", origin);
    }
    if let Some(source) = text("source").filter(|source| source.parse::<std::net::IpAddr>().is_ok())
    {
        keys.push(("source", source.into()));
    }
    for (option, key, factor) in [
        ("maxCheckFailures", "failures", 1),
        ("rise", "successes", 1),
        ("checkInterval", "interval_ms", 1000),
        ("checkTimeout", "timeout_ms", 1),
    ] {
        if let Some(number) = text(option).and_then(|text| text.parse::<u64>().ok()) {
            draft.set("health", key, number.saturating_mul(factor), origin);
        }
    }
    let known = [
        "address",
        "name",
        "pool",
        "order",
        "tls",
        "subjectName",
        "caStore",
        "dohPath",
        "useClientSubnet",
        "source",
        "maxCheckFailures",
        "rise",
        "checkInterval",
        "checkTimeout",
        "weight",
        "sockets",
        "id",
        "checkName",
        "checkType",
        "mustResolve",
    ];
    if let Some(Value::Table(fields)) = options {
        for (name, _) in fields {
            let name = name.as_deref().unwrap_or("a value without a name");
            if !known.contains(&name) {
                draft.unmapped(origin, format!("`{}`: {NONE}", shown(name)));
            }
        }
    }
    let pools = options.and_then(|it| it.key("pool")).and_then(Value::texts).unwrap_or_default();
    if pools.len() > 1 {
        draft
            .unmapped(origin, "an upstream is in one group; this one is in that of its first pool");
    }
    let order = text("order").and_then(|text| text.parse().ok()).unwrap_or(1);
    let group = group(pools.first().copied().unwrap_or_default());
    let upstream = Upstream { address, keys, origin: origin.clone() };
    servers.push(Server { group, order, upstream });
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
        "leastOutstanding" => "fastest",
        "wrandom" | "whashed" | "chashed" => {
            draft.unmapped(
                origin,
                "servers are asked in turn; write their weights as `weight` into each [[upstream]]",
            );
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
    let mut groups: BTreeMap<String, Vec<(u32, Upstream)>> = BTreeMap::new();
    for Server { group, order, upstream } in servers {
        groups.entry(group).or_default().push((order, upstream));
    }
    for (group, mut servers) in groups {
        servers.sort_by_key(|(order, _)| *order);
        forwarder.group(&group, servers.into_iter().map(|(_, server)| server).collect());
    }
}
