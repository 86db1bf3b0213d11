//! The clause `dnstap:`.

use std::net::{IpAddr, SocketAddr};

use super::clause::{Conf, Setting};
use super::paths::path;
use crate::meaning::{Forwarder, NONE, truth};
use crate::query_log::{ANSWERS, CLIENTS, IDENTITY, VERSION};

/// Why a reader behind TLS is not connected to.
const TLS: &str =
    "there is no TLS to a reader; name one at a unix socket, or in a network of yours";
/// The port of a reader that has none.
const PORT: u16 = 53;
/// Settings that need nothing, unless their value says otherwise.
const UNNEEDED: [&str; 20] = [
    "dnstap-enable",
    "dnstap-bidirectional",
    "dnstap-socket-path",
    "dnstap-ip",
    "dnstap-tls",
    "dnstap-tls-server-name",
    "dnstap-tls-cert-bundle",
    "dnstap-tls-client-key-file",
    "dnstap-tls-client-cert-file",
    "dnstap-send-identity",
    "dnstap-send-version",
    "dnstap-identity",
    "dnstap-version",
    "dnstap-sample-rate",
    "dnstap-log-client-query-messages",
    "dnstap-log-client-response-messages",
    "dnstap-log-resolver-query-messages",
    "dnstap-log-resolver-response-messages",
    "dnstap-log-forwarder-query-messages",
    "dnstap-log-forwarder-response-messages",
];

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) {
    let settings: Vec<&Setting> = conf.all("dnstap").flat_map(|clause| &clause.settings).collect();
    let last = |key: &str| settings.iter().rfind(|one| one.key == key).map(|one| one.value());
    let is_yes = |key: &str| last(key).and_then(truth) == Some(true);
    if !is_yes("dnstap-enable") {
        return settings.iter().for_each(|one| forwarder.draft.unneeded(&one.origin));
    }
    let is_of_clients =
        is_yes("dnstap-log-client-query-messages") || is_yes("dnstap-log-client-response-messages");
    let has_address = last("dnstap-ip").is_some_and(|ip| !ip.is_empty());
    let is_tls = has_address && last("dnstap-tls").and_then(truth) != Some(false);
    if !has_address && last("dnstap-socket-path").is_none_or(str::is_empty) {
        let enabled = settings.iter().filter(|one| one.key == "dnstap-enable");
        let why = "write the socket of the reader into `query_log.dnstap`";
        enabled.for_each(|one| forwarder.draft.unmapped(&one.origin, why));
    }
    for one in &settings {
        let (value, origin) = (one.value(), &one.origin);
        let is_on = truth(value) == Some(true);
        let is_set = !value.is_empty();
        let why = match &*one.key {
            "dnstap-ip" | "dnstap-socket-path" if is_set && !is_of_clients => CLIENTS,
            "dnstap-ip" if is_set => {
                address(value, is_tls, one, forwarder);
                continue;
            }
            "dnstap-socket-path" if is_set && !has_address => {
                let socket = path(one, &conf.server, forwarder);
                forwarder.draft.set("query_log", "dnstap", socket, origin);
                continue;
            }
            "dnstap-identity" if is_set && is_yes("dnstap-send-identity") => {
                forwarder.draft.set("query_log", "dnstap_identity", value, origin);
                continue;
            }
            "dnstap-sample-rate" if value != "0" => {
                forwarder.number("query_log", "sample", value, origin);
                continue;
            }
            "dnstap-bidirectional" if !is_on => "pmdns waits for what the reader answers",
            "dnstap-send-identity" if !is_on => IDENTITY,
            "dnstap-send-version" if !is_on => VERSION,
            "dnstap-version" if is_set => VERSION,
            "dnstap-log-client-query-messages" if is_on => ANSWERS,
            "dnstap-log-resolver-query-messages"
            | "dnstap-log-resolver-response-messages"
            | "dnstap-log-forwarder-query-messages"
            | "dnstap-log-forwarder-response-messages"
                if is_on =>
            {
                CLIENTS
            }
            key if key.starts_with("dnstap-tls-") && is_set && is_tls => TLS,
            key if UNNEEDED.contains(&key) => {
                forwarder.draft.unneeded(origin);
                continue;
            }
            _ => NONE,
        };
        forwarder.draft.unmapped(origin, why);
    }
}

/// `address@port`.
fn address(value: &str, is_tls: bool, one: &Setting, forwarder: &mut Forwarder) {
    let (address, port) = match value.split_once('@') {
        Some((address, port)) => (address, port.parse::<u16>().ok()),
        None => (value, Some(PORT)),
    };
    let socket = match (address.parse::<IpAddr>(), port) {
        (Ok(address), Some(port)) => SocketAddr::new(address, port).to_string(),
        _ => return forwarder.draft.unmapped(&one.origin, "this is no address and port"),
    };
    match is_tls {
        true => {
            forwarder.draft.propose("query_log", "dnstap", socket, &one.origin);
            forwarder.draft.unmapped(&one.origin, TLS);
        }
        false => forwarder.draft.set("query_log", "dnstap", socket, &one.origin),
    }
}
