//! The clause `server:`, and clauses that stand once.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::clause::{Clause, Conf, Setting};
use super::kinds;
use crate::import::meaning::{Forwarder, NONE, bytes, truth};
use crate::import::query_log::TEXT_LOG;

/// The tags of the keys of the root since 2017.
const ROOT_KEYS: [&str; 2] = ["20326", "38696"];

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) {
    conf.server.settings.iter().for_each(|one| setting(one, &conf.server, forwarder));
    for clause in &conf.others {
        match &*clause.name {
            "remote-control" | "python" | "dynlib" => {
                clause.settings.iter().for_each(|one| forwarder.draft.unneeded(&one.origin));
            }
            "cachedb" | "ipset" | "dnscrypt" => {
                for one in &clause.settings {
                    forwarder.draft.unmapped(&one.origin, NONE);
                }
            }
            _ => {}
        }
    }
    sizes(&conf.server, forwarder);
}

fn setting(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    let (value, origin) = (one.value(), &one.origin);
    let key = &*one.key;
    let number = match key {
        "cache-min-ttl" => Some(("cache", "min_ttl")),
        "cache-max-ttl" => Some(("cache", "max_ttl")),
        "cache-max-negative-ttl" => Some(("cache", "max_negative_ttl")),
        "serve-expired-reply-ttl" => Some(("cache", "stale_ttl")),
        "serve-expired-client-timeout" => Some(("cache", "stale_client_timeout_ms")),
        "max-udp-size" => Some(("answers", "max_udp_size")),
        "incoming-num-tcp" => Some(("streams", "max_connections")),
        "tcp-idle-timeout" => Some(("streams", "idle_timeout_ms")),
        "max-client-subnet-ipv4" => Some(("client_subnet", "ipv4_prefix")),
        "max-client-subnet-ipv6" => Some(("client_subnet", "ipv6_prefix")),
        _ => None,
    };
    if let Some((table, key)) = number {
        return forwarder.number(table, key, value, origin);
    }
    let switch = match key {
        "serve-expired" => Some(("cache", "serve_stale")),
        "prefetch" => Some(("prefetch", "enabled")),
        "deny-any" => Some(("answers", "minimal_any")),
        "answer-cookie" => Some(("cookies", "enabled")),
        _ => None,
    };
    if let Some((table, key)) = switch {
        return forwarder.switch(table, key, value, origin);
    }
    let text = match key {
        "tls-service-pem" | "ssl-service-pem" => Some(("streams", "certificate")),
        "tls-service-key" | "ssl-service-key" => Some(("streams", "key")),
        "http-endpoint" => Some(("streams", "https_path")),
        "cookie-secret" => Some(("cookies", "secret")),
        _ => None,
    };
    if let Some((table, key)) = text {
        return forwarder.draft.set(table, key, value, origin);
    }
    match key {
        "interface" | "ip-address" => interface(one, server, forwarder),
        "port" | "tls-port" | "ssl-port" | "https-port" | "quic-port" | "do-tcp"
        | "msg-cache-size" | "rrset-cache-size" => {
            // They are read with `interface`, and with each other.
            forwarder.draft.read(origin);
        }
        "serve-expired-ttl" => match value {
            "0" => {
                forwarder.draft.unmapped(origin, "`cache.stale_window_seconds` has to have an end")
            }
            _ => forwarder.number("cache", "stale_window_seconds", value, origin),
        },
        "edns-buffer-size" if server.last("max-udp-size").is_none() => {
            forwarder.number("answers", "max_udp_size", value, origin);
        }
        "edns-buffer-size" => forwarder.draft.unneeded(origin),
        "ip-ratelimit" => {
            forwarder.number("ratelimit", "queries_per_second", value, origin);
            // Unbound counts each address by itself.
            forwarder.draft.set("ratelimit", "ipv4_prefix", 32, origin);
            forwarder.draft.set("ratelimit", "ipv6_prefix", 128, origin);
        }
        "identity" | "version" if server.last(&format!("hide-{key}")) == Some("yes") => {
            forwarder.draft.unneeded(origin);
        }
        "identity" => forwarder.draft.set("answers", "identity", value, origin),
        "version" => forwarder.draft.set("answers", "version", value, origin),
        "nsid" => match value.strip_prefix("ascii_") {
            Some(text) => forwarder.draft.set("answers", "nsid", text, origin),
            None => forwarder.draft.unmapped(origin, "`answers.nsid` is a text, not hexadecimal"),
        },
        "module-config" => modules(one, server, forwarder),
        "auto-trust-anchor-file" | "trust-anchor-file" => anchor(one, server, forwarder),
        "domain-insecure" => {
            forwarder.draft.push("dnssec", "negative_trust_anchors", value, origin)
        }
        "unblock-lan-zones" | "insecure-lan-zones" if truth(value) == Some(false) => {
            forwarder.draft.unneeded(origin);
        }
        "unblock-lan-zones" => forwarder.draft.set("policy", "special_use", false, origin),
        "num-threads" => {
            forwarder.draft.unmapped(origin, "choose the cores of your machine in `[[placement]]`");
        }
        "hide-identity" | "hide-version" => forwarder.draft.unneeded(origin),
        "log-queries"
        | "log-replies"
        | "aggressive-nsec"
        | "val-permissive-mode"
        | "ignore-cd-flag"
        | "tcp-upstream"
        | "serve-original-ttl"
            if truth(value) == Some(false) =>
        {
            forwarder.draft.unneeded(origin);
        }
        "log-queries" | "log-replies" => forwarder.draft.unmapped(origin, TEXT_LOG),
        "logfile" if !value.is_empty() && logs_queries(server) => {
            let folder = Path::new(server.last("directory").unwrap_or_default());
            forwarder.propose_log(&folder.join(value), origin);
        }
        "ratelimit" | "ip-ratelimit-cookie" if value == "0" => forwarder.draft.unneeded(origin),
        "trust-anchor" => inline_anchor(one, server, forwarder),
        "use-caps-for-id" => match truth(value) {
            // It is a key of each upstream.
            Some(false) => forwarder.draft.read(origin),
            _ => forwarder.draft.unneeded(origin),
        },
        "tls-cert-bundle" | "ssl-cert-bundle" | "tls-upstream" | "ssl-upstream" => {
            // They are read with the upstreams.
            forwarder.draft.read(origin);
        }
        _ => kinds::list(one, forwarder),
    }
}

/// Whether the log has a line for each query, or for each answer.
fn logs_queries(server: &Clause) -> bool {
    let is_on = |key| server.last(key).and_then(truth) == Some(true);
    is_on("log-queries") || is_on("log-replies")
}

/// Where queries come to, by the port: UDP and TCP, TLS, HTTPS, or QUIC.
fn interface(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    let origin = &one.origin;
    let (address, port) = match one.value().split_once('@') {
        Some((address, port)) => (address, Some(port)),
        None => (one.value(), None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        let why = "write the addresses of this interface into `port.addresses`";
        return forwarder.draft.unmapped(origin, why);
    };
    let port_of = |key: &str, other: u16| {
        server.last(key).and_then(|text| text.parse().ok()).unwrap_or(other)
    };
    let port = match port.map(str::parse) {
        None => port_of("port", 53),
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return forwarder.draft.unmapped(origin, "behind the @ is no port"),
    };
    let socket = SocketAddr::new(address, port);
    let transports =
        [("tls-port", 853, "tls"), ("https-port", 443, "https"), ("quic-port", 853, "quic")];
    let mut is_encrypted = false;
    for (key, usual, transport) in transports {
        // Without a setting of its port there is no QUIC.
        let is_on = transport != "quic" || server.last(key).is_some();
        if port == port_of(key, usual) && is_on {
            forwarder.stream(transport, socket, origin);
            is_encrypted = true;
        }
    }
    if !is_encrypted && forwarder.listen(socket, origin) && server.last("do-tcp") != Some("no") {
        forwarder.stream("tcp", socket, origin);
    }
}

/// Which modules there are: those that pmdns has are options of it.
fn modules(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    for module in one.values.iter().flat_map(|value| value.split_whitespace()) {
        match module {
            "iterator" | "respip" | "subnetcache" | "dns64" => forwarder.draft.read(&one.origin),
            "validator" => {
                forwarder.draft.read(&one.origin);
                let anchors = ["auto-trust-anchor-file", "trust-anchor-file", "trust-anchor"];
                let is_set =
                    |key: &&str| server.last(key).is_some_and(|value| is_of_root(key, value));
                if anchors.iter().any(is_set) {
                    forwarder.draft.set("dnssec", "validate", true, &one.origin);
                }
            }
            "python" | "dynlib" => {
                let why = format!("`{module}`: a program of yours decides about answers");
                forwarder.draft.decisive(&one.origin, why);
            }
            _ => forwarder.draft.unmapped(&one.origin, format!("`{module}`: {NONE}")),
        }
    }
}

fn anchor(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    let validates = server.last("module-config").is_none_or(|it| it.contains("validator"));
    if !validates || one.value().is_empty() {
        return forwarder.draft.unneeded(&one.origin);
    }
    forwarder.draft.set("dnssec", "validate", true, &one.origin);
    // The root's keys are built in, and the file of unbound-anchor has no others.
    if !one.value().ends_with("root.key") {
        forwarder.draft.set("dnssec", "trust_anchor", one.value(), &one.origin);
    }
}

/// Whether an anchor is of use for all names: a file may have any, and a text is that of one zone.
fn is_of_root(key: &str, value: &str) -> bool {
    key != "trust-anchor" || value.split_whitespace().next() == Some(".")
}

/// An anchor as a text. Those of the root are built in.
fn inline_anchor(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    let validates = server.last("module-config").is_none_or(|it| it.contains("validator"));
    let text = one.values.join(" ");
    let is_known = ROOT_KEYS.iter().any(|tag| text.split_whitespace().any(|word| word == *tag));
    match () {
        () if !validates => forwarder.draft.unneeded(&one.origin),
        () if is_of_root("trust-anchor", &text) => {
            forwarder.draft.set("dnssec", "validate", true, &one.origin);
            if !is_known {
                let why = "the root's keys are built in; write another one into the file `dnssec.trust_anchor`";
                forwarder.draft.unmapped(&one.origin, why);
            }
        }
        () => {
            let why = "write it into the file `dnssec.trust_anchor`, and set `dnssec.validate`";
            forwarder.draft.unmapped(&one.origin, why);
        }
    }
}

/// Both caches together.
fn sizes(server: &Clause, forwarder: &mut Forwarder) {
    let is_size = |one: &&Setting| one.key == "msg-cache-size" || one.key == "rrset-cache-size";
    let sizes: Vec<&Setting> = server.settings.iter().filter(is_size).collect();
    let mut total = 0_u64;
    for one in &sizes {
        match bytes(one.value()) {
            Some(size) => total = total.saturating_add(size),
            None => forwarder.draft.unmapped(&one.origin, "this is not a size"),
        }
    }
    if let Some(last) = sizes.last().filter(|_| total > 0) {
        forwarder.cache_size(total, &last.origin);
    }
}
