//! Servers: those that queries are forwarded to, and those that policy zones come from.

use std::net::{IpAddr, SocketAddr};

use super::names::Names;
use super::statement::Statement;
use crate::draft::Value;
use crate::limits::MAX_NESTING;
use crate::meaning::{Forwarder, NONE, Upstream};
use crate::source::Origin;

/// A server that a zone is transferred from.
pub(super) struct Primary {
    pub(super) socket: SocketAddr,
    pub(super) key: Option<String>,
    pub(super) origin: Origin,
}

/// The servers of a list, as in `forwarders port 53 { 192.0.2.1 tls NAME; }`.
pub(super) fn upstreams(
    list: &Statement,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) -> Vec<Upstream> {
    let usual = list.behind("port").and_then(|port| port.parse::<u16>().ok());
    let all_tls = list.behind("tls");
    let mut servers = Vec::new();
    for one in list.block() {
        let origin = one.origin();
        let Ok(address) = one.word(0).parse::<IpAddr>() else {
            forwarder.draft.decisive(&origin, "this is no address");
            continue;
        };
        let tls = one.behind("tls").or(all_tls).filter(|tls| *tls != "none");
        let port = one.behind("port").and_then(|port| port.parse().ok()).or(usual);
        let usual_port = if tls.is_some() { 853 } else { 53 };
        let socket = SocketAddr::new(address, port.unwrap_or(usual_port));
        let (address, keys) = match tls {
            Some(tls) => (format!("tls://{socket}"), certificate(tls, &origin, names, forwarder)),
            None => (socket.to_string(), Vec::new()),
        };
        for (option, value) in one.pairs(1).filter(|(option, _)| !["port", "tls"].contains(option))
        {
            forwarder.draft.decisive(&origin, format!("`{option} {value}`: {NONE}"));
        }
        servers.push(Upstream { address, keys, origin });
    }
    servers
}

/// How the certificate of a server is checked, by the `tls` statement of this name.
fn certificate(
    tls: &str,
    origin: &Origin,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) -> Vec<(&'static str, Value)> {
    let block = names.tls.get(tls);
    let mut keys = Vec::new();
    for (word, key) in [("remote-hostname", "name"), ("ca-file", "ca_file")] {
        if let Some(one) = block.and_then(|block| block.find(word)) {
            forwarder.draft.read(&one.origin());
            let value = match key {
                "ca_file" => names.path(one.word(1), &one.origin(), forwarder),
                _ => one.word(1).to_owned(),
            };
            keys.push((key, Value::from(value)));
        }
    }
    if keys.is_empty() {
        let why = "named does not check the certificate; here it has to be valid for the address, or for `upstream.name`";
        forwarder.draft.unmapped(origin, why);
    }
    keys
}

/// The servers of a zone's `primaries`, which may be in lists with names.
pub(super) fn primaries(
    zone: &Statement,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) -> Vec<Primary> {
    let mut primaries = Vec::new();
    for list in ["primaries", "masters"].iter().filter_map(|word| zone.find(word)) {
        add_primaries(list, None, (names, 0), &mut primaries, forwarder);
    }
    primaries
}

fn add_primaries(
    list: &Statement,
    key: Option<&str>,
    (names, depth): (&Names<'_>, usize),
    primaries: &mut Vec<Primary>,
    forwarder: &mut Forwarder,
) {
    let usual = list.behind("port").and_then(|port| port.parse().ok()).unwrap_or(53);
    for one in list.block() {
        let origin = one.origin();
        forwarder.draft.read(&origin);
        if !names.take_elements(1) {
            return forwarder.draft.decisive(&origin, "the lists in this list are too many");
        }
        let port = one.behind("port").and_then(|port| port.parse().ok()).unwrap_or(usual);
        let key = one.behind("key").or(key);
        match (one.word(0).parse::<IpAddr>(), names.servers.get(one.word(0))) {
            (Ok(address), _) => {
                let socket = SocketAddr::new(address, port);
                primaries.push(Primary {
                    socket,
                    key: key.map(str::to_owned),
                    origin: origin.clone(),
                });
            }
            (Err(_), Some(list)) if depth < MAX_NESTING => {
                add_primaries(list, key, (names, depth + 1), primaries, forwarder);
            }
            (Err(_), _) => forwarder.draft.decisive(&origin, "this is no address"),
        }
        let known = ["port", "key"];
        for (option, value) in one.pairs(1).filter(|(option, _)| !known.contains(option)) {
            forwarder
                .draft
                .decisive(&origin, format!("`{option} {value}`: transfers are over TCP"));
        }
    }
}
