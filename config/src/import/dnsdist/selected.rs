//! Rules, as in `QNameSuffixRule(...)`: which queries they select.

use super::lua::Value;
use crate::import::meaning::network;
use crate::prefix::Prefix;

/// The queries that a rule selects.
pub(super) enum Selected {
    All,
    /// Names with everything below them.
    Suffixes(Vec<String>),
    /// These names alone.
    Names(Vec<String>),
    /// Clients in these networks, or those in none of them.
    Clients(Vec<Prefix>, bool),
    /// Clients that send more queries a second: the rate, the prefixes' lengths, the burst.
    Over(Vec<String>),
    /// Queries of type ANY.
    Any,
}

/// Rules about the query alone, whoever sends it.
const OF_QUERIES: [&str; 24] = [
    "AndRule",
    "OrRule",
    "NotRule",
    "QTypeRule",
    "QNameRule",
    "QNameSetRule",
    "QNameSuffixRule",
    "SuffixMatchNodeRule",
    "RegexRule",
    "RE2Rule",
    "TCPRule",
    "QClassRule",
    "OpcodeRule",
    "RDRule",
    "DNSSECRule",
    "QNameLabelsCountRule",
    "QNameWireLengthRule",
    "RecordsCountRule",
    "RecordsTypeCountRule",
    "TrailingDataRule",
    "EDNSVersionRule",
    "EDNSOptionRule",
    "newDNSName",
    "newDNSNameSet",
];

/// What a rule selects; `None`: it is one that no table stands for.
pub(super) fn selected(rule: &Value) -> Option<Selected> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        Some(value.texts()?.into_iter().map(str::to_owned).collect())
    };
    let either = |names: Vec<String>| {
        let clients: Option<Vec<Prefix>> = names.iter().map(|name| network(name)).collect();
        let clients = clients.filter(|clients| !clients.is_empty());
        clients.map_or(Selected::Suffixes(names), |clients| Selected::Clients(clients, true))
    };
    let Value::Call(name, arguments) = rule else { return texts(rule).map(either) };
    let first = arguments.first();
    match &**name {
        "AllRule" => Some(Selected::All),
        "makeRule" => first.and_then(texts).map(either),
        "SuffixMatchNodeRule" | "QNameSuffixRule" => first.and_then(texts).map(Selected::Suffixes),
        "QNameRule" | "QNameSetRule" => first.and_then(texts).map(Selected::Names),
        // With more arguments it is about destinations, or only counts.
        "NetmaskGroupRule" if arguments.len() == 1 => {
            let networks = first.and_then(texts)?;
            let clients: Option<Vec<Prefix>> = networks.iter().map(|text| network(text)).collect();
            clients.map(|clients| Selected::Clients(clients, true))
        }
        "NotRule" => match selected(first?)? {
            Selected::Clients(clients, is_in) => Some(Selected::Clients(clients, !is_in)),
            _ => None,
        },
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

/// Whether a rule is about queries alone. Others may be about clients.
pub(super) fn is_of_queries(rule: &Value) -> bool {
    match rule {
        Value::Text(text) => network(text).is_none(),
        Value::Number(_) => true,
        // A constant, as in `DNSQType.ANY`.
        Value::Name(name) => name.contains('.') || name == "true" || name == "false",
        Value::Table(fields) => fields.iter().all(|(_, value)| is_of_queries(value)),
        Value::Call(name, arguments) => {
            OF_QUERIES.contains(&&**name) && arguments.iter().all(is_of_queries)
        }
    }
}
