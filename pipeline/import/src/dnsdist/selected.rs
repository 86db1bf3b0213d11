//! Rules, as in `QNameSuffixRule(...)`: which queries they select.

use pmdns_config::Prefix;

use super::lua::Value;
use crate::meaning::network;

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

/// Actions that neither decide who is answered, nor what with, nor whom we ask.
pub(super) const HARMLESS: [&str; 31] = [
    "DelayAction",
    "DelayResponseAction",
    "DisableValidationAction",
    "DnstapLogAction",
    "KeyValueStoreLookupAction",
    "KeyValueStoreRangeLookupAction",
    "LimitTTLResponseAction",
    "LogAction",
    "MacAddrAction",
    "NoneAction",
    "RemoteLogAction",
    "SNMPTrapAction",
    "SNMPTrapResponseAction",
    "SetAdditionalProxyProtocolValueAction",
    "SetDisableValidationAction",
    "SetEDNSOptionAction",
    "SetExtendedDNSErrorAction",
    "SetExtendedDNSErrorResponseAction",
    "SetMacAddrAction",
    "SetMaxReturnedTTLAction",
    "SetMaxReturnedTTLResponseAction",
    "SetMaxTTLResponseAction",
    "SetMinTTLResponseAction",
    "SetProxyProtocolValuesAction",
    "SetReducedTTLResponseAction",
    "SetSkipCacheAction",
    "SetSkipCacheResponseAction",
    "SetTagAction",
    "SetTempFailureCacheTTLAction",
    "SkipCacheAction",
    "TeeAction",
];
/// Actions that decide whom we ask, or what the upstream is told about a client.
const OF_UPSTREAMS: [&str; 6] = [
    "DisableECSAction",
    "ECSOverrideAction",
    "PoolAction",
    "QPSPoolAction",
    "SetDisableECSAction",
    "SetECSAction",
];

/// Whether the loss of an action decides about access or privacy: if it may be about clients, or about all names but some.
pub(super) fn is_decisive(condition: &Value, action: &str) -> bool {
    if HARMLESS.contains(&action) {
        return false;
    }
    let is_program = action.contains("Lua") || action.contains("FFI");
    is_program || OF_UPSTREAMS.contains(&action) || !is_of_queries(condition) || has_not(condition)
}

/// Whether a rule selects what another one does not.
fn has_not(rule: &Value) -> bool {
    match rule {
        Value::Call(name, arguments) => name == "NotRule" || arguments.iter().any(has_not),
        Value::Table(fields) => fields.iter().any(|(_, value)| has_not(value)),
        _ => false,
    }
}

/// What a rule selects; `None`: it is one that no table stands for.
pub(super) fn selected(rule: &Value) -> Option<Selected> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        Some(value.texts()?.into_iter().map(str::to_owned).collect())
    };
    // With one network among them the names do not count.
    let either = |names: Vec<String>| {
        let clients: Vec<Prefix> = names.iter().filter_map(|name| network(name)).collect();
        match clients.is_empty() {
            true => Selected::Suffixes(names),
            false => Selected::Clients(clients, true),
        }
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
fn is_of_queries(rule: &Value) -> bool {
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
