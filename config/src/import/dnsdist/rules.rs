//! `addAction(rule, action)`: the kinds that a table of pmdns stands for.

use std::net::IpAddr;

use super::logs;
use super::lua::Value;
use super::names::{group, view_of};
use crate::import::draft::Table;
use crate::import::meaning::{Forwarder, NONE, network};
use crate::import::source::Origin;
use crate::prefix::Prefix;

/// The queries that a rule selects.
enum Selected {
    All,
    /// Names with everything below them.
    Suffixes(Vec<String>),
    /// These names alone.
    Names(Vec<String>),
    Clients(Vec<Prefix>),
    /// Clients that send more queries a second: the rate, the prefixes' lengths, the burst.
    Over(Vec<String>),
    /// Queries of type ANY.
    Any,
}

pub(super) fn action(forwarder: &mut Forwarder, arguments: &[Value], origin: &Origin) {
    if logs::action(forwarder, arguments, origin) {
        return;
    }
    let [rule, Value::Call(action, of_action), ..] = arguments else {
        return forwarder.draft.unmapped(origin, "there is no rule with an action that is known");
    };
    let Some(selected) = selected(rule) else {
        return forwarder.draft.unmapped(origin, format!("such a rule: {NONE}"));
    };
    let first = of_action.first();
    let code = match first {
        Some(Value::Name(code)) => code.rsplit('.').next().unwrap_or_default().to_ascii_uppercase(),
        _ => String::new(),
    };
    match (selected, &**action, &*code) {
        (Selected::Any, _, _) => forwarder.draft.unneeded(origin),
        (Selected::Over(limit), action, _) => over(forwarder, &limit, action, origin),
        (Selected::All, "PoolAction", _) => {
            forwarder.ask(
                ".",
                &group(first.and_then(Value::text).unwrap_or_default()),
                &[],
                origin,
            );
        }
        (Selected::Suffixes(names), "PoolAction", _) => {
            let group = group(first.and_then(Value::text).unwrap_or_default());
            names.iter().for_each(|name| forwarder.ask(name, &group, &[], origin));
        }
        (Selected::Clients(clients), "PoolAction", _) => {
            let pool = first.and_then(Value::text).unwrap_or_default();
            let (name, group) = (view_of(pool), group(pool));
            let is_same =
                |table: &Table| table.name == "view" && table.text("name") == Some(&*name);
            let view = match forwarder.draft.tables.iter().position(is_same) {
                Some(at) => &mut forwarder.draft.tables[at],
                None => {
                    let view = forwarder.draft.add("view", Some(origin.clone()));
                    view.set("name", &*name, None);
                    view.set("group", group, Some(origin.clone()));
                    view
                }
            };
            for prefix in clients {
                view.push("clients", prefix.to_string(), Some(origin.clone()));
            }
        }
        (Selected::Clients(clients), "DropAction", _) => {
            clients.into_iter().for_each(|one| forwarder.access(one, "drop", origin));
        }
        (Selected::Clients(clients), "RCodeAction", "REFUSED") => {
            clients.into_iter().for_each(|one| forwarder.access(one, "refuse", origin));
        }
        (Selected::Suffixes(names), "RCodeAction", "NXDOMAIN") => {
            names.iter().for_each(|name| forwarder.block(name, &[], origin));
        }
        (Selected::Names(names), "RCodeAction", "NXDOMAIN") => {
            names.iter().for_each(|name| forwarder.block(name, &[], origin));
            forwarder.draft.unmapped(origin, "`[block]` blocks the names below it too");
        }
        (Selected::Suffixes(names), "SpoofAction", _) => {
            spoof(forwarder, &names, true, first, origin)
        }
        (Selected::Names(names), "SpoofAction", _) => {
            spoof(forwarder, &names, false, first, origin)
        }
        (Selected::Suffixes(names) | Selected::Names(names), "SpoofCNAMEAction", _) => {
            let target = first.and_then(Value::text).unwrap_or_default();
            names.iter().for_each(|name| forwarder.local((name, "CNAME", 60, target), &[], origin));
        }
        (Selected::Suffixes(_) | Selected::Names(_), "DropAction" | "RCodeAction", _) => {
            let why =
                "write the names into a file of `[[blocklist]]` with the `action` that this is";
            forwarder.draft.unmapped(origin, why);
        }
        _ => forwarder.draft.unmapped(origin, format!("this action of such a rule: {NONE}")),
    }
}

fn selected(rule: &Value) -> Option<Selected> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        Some(value.texts()?.into_iter().map(str::to_owned).collect())
    };
    let either = |names: Vec<String>| {
        let clients: Option<Vec<Prefix>> = names.iter().map(|name| network(name)).collect();
        clients
            .filter(|clients| !clients.is_empty())
            .map_or(Selected::Suffixes(names), Selected::Clients)
    };
    let Value::Call(name, arguments) = rule else { return texts(rule).map(either) };
    let first = arguments.first();
    match &**name {
        "AllRule" => Some(Selected::All),
        "makeRule" => first.and_then(texts).map(either),
        "SuffixMatchNodeRule" | "QNameSuffixRule" => first.and_then(texts).map(Selected::Suffixes),
        "QNameRule" | "QNameSetRule" => first.and_then(texts).map(Selected::Names),
        "NetmaskGroupRule" => {
            let networks = first.and_then(texts)?;
            let clients: Option<Vec<Prefix>> = networks.iter().map(|text| network(text)).collect();
            clients.map(Selected::Clients)
        }
        "MaxQPSIPRule" => {
            let numbers: Option<Vec<String>> =
                arguments.iter().map(|one| one.text().map(str::to_owned)).collect();
            numbers.map(Selected::Over)
        }
        "QTypeRule" => {
            let is_any = match first? {
                Value::Name(name) => name.ends_with(".ANY"),
                other => other.text() == Some("ANY"),
            };
            is_any.then_some(Selected::Any)
        }
        _ => None,
    }
}

/// A limit for each client: its rate, and what becomes of queries over it.
fn over(forwarder: &mut Forwarder, limit: &[String], action: &str, origin: &Origin) {
    let slip = match action {
        "DropAction" => 0_u64,
        "TCAction" => 1,
        _ => {
            return forwarder
                .draft
                .unmapped(origin, "queries over a limit are dropped, or get TC=1");
        }
    };
    let of = |at: usize, usual: &'static str| limit.get(at).map_or(usual, String::as_str);
    let rate = of(0, "0");
    forwarder.number("ratelimit", "queries_per_second", rate, origin);
    forwarder.number("ratelimit", "ipv4_prefix", of(1, "32"), origin);
    forwarder.number("ratelimit", "ipv6_prefix", of(2, "64"), origin);
    forwarder.number("ratelimit", "burst", limit.get(3).map_or(rate, String::as_str), origin);
    forwarder.draft.set("ratelimit", "slip", slip, origin);
}

fn spoof(
    forwarder: &mut Forwarder,
    names: &[String],
    is_suffix: bool,
    addresses: Option<&Value>,
    origin: &Origin,
) {
    for text in addresses.and_then(Value::texts).unwrap_or_default() {
        let Ok(address) = text.parse::<IpAddr>() else {
            forwarder.draft.unmapped(origin, "this is no address");
            continue;
        };
        names.iter().for_each(|name| forwarder.spoof(name, address, is_suffix, origin));
    }
}
