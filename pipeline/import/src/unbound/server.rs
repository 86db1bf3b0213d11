//! The clause `server:`, and clauses that stand once.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::clause::{Clause, Conf, Setting};
use super::kinds;
use super::paths::{note_folder, path, whole};
use crate::meaning::{Forwarder, NONE, bytes, truth};
use crate::query_log::TEXT_LOG;

/// The tags of the keys of the root since 2017.
const ROOT_KEYS: [&str; 2] = ["20326", "38696"];

/// Where unbound-anchor and the packages of systems keep the root's keys.
const ROOT_KEY_FILES: [&str; 10] = [
    "/etc/unbound/root.key",
    "/etc/unbound/var/root.key",
    "/opt/homebrew/etc/unbound/root.key",
    "/usr/local/etc/unbound/root.key",
    "/usr/share/dns/root.key",
    "/usr/share/dnssec-root/trusted-key.key",
    "/etc/trusted-key.key",
    "/var/lib/unbound/root.key",
    "/var/unbound/db/root.key",
    "/var/unbound/root.key",
];
/// The settings that name files of anchors.
const ANCHOR_FILES: [&str; 2] = ["auto-trust-anchor-file", "trust-anchor-file"];

/// Keys of which the last setting counts. A second setting of others that one key stands for is listed.
const SINGLE: [&str; 16] = [
    "module-config",
    "msg-cache-size",
    "rrset-cache-size",
    "unblock-lan-zones",
    "insecure-lan-zones",
    "ip-ratelimit",
    "ratelimit",
    "do-ip4",
    "do-ip6",
    "do-udp",
    "log-queries",
    "log-replies",
    "tcp-upstream",
    "val-permissive-mode",
    "ignore-cd-flag",
    "serve-original-ttl",
];

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) {
    for one in &conf.server.settings {
        match is_replaced(one, &conf.server) {
            true => forwarder.draft.unneeded(&one.origin),
            false => setting(one, &conf.server, forwarder),
        }
    }
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

/// Whether a later setting of the same key is in the place of this one.
fn is_replaced(one: &Setting, server: &Clause) -> bool {
    let last = || server.all(&one.key).next_back();
    let is_last = |last: &Setting| last.origin.place == one.origin.place;
    SINGLE.contains(&&*one.key) && !last().is_some_and(is_last)
}

fn setting(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    let (value, origin) = (one.value(), &one.origin);
    if needs_nothing(one, server, forwarder) || is_one_key(one, forwarder) {
        return;
    }
    match &*one.key {
        "interface" | "ip-address" => interface(one, server, forwarder),
        "port" | "tls-port" | "ssl-port" | "https-port" | "quic-port" | "do-tcp"
        | "msg-cache-size" | "rrset-cache-size" | "use-caps-for-id" | "tls-upstream"
        | "ssl-upstream" => {
            // They are read with `interface`, with each other, or with the upstreams.
            forwarder.draft.read(origin);
        }
        "tls-cert-bundle" | "ssl-cert-bundle" => {
            // It is a key of each upstream.
            forwarder.draft.read(origin);
            note_folder(one, server, forwarder);
        }
        "tls-service-pem" | "ssl-service-pem" | "tls-service-key" | "ssl-service-key" => {
            stream_file(one, server, forwarder);
        }
        "serve-expired-ttl" if value == "0" => {
            forwarder.draft.unmapped(origin, "`cache.stale_window_seconds` has to have an end");
        }
        "serve-expired-ttl" => forwarder.number("cache", "stale_window_seconds", value, origin),
        "edns-buffer-size" => forwarder.number("answers", "max_udp_size", value, origin),
        "ip-ratelimit" => {
            forwarder.number("ratelimit", "queries_per_second", value, origin);
            // Unbound counts each address by itself.
            forwarder.draft.set("ratelimit", "ipv4_prefix", 32, origin);
            forwarder.draft.set("ratelimit", "ipv6_prefix", 128, origin);
        }
        "nsid" => match value.strip_prefix("ascii_") {
            Some(text) => forwarder.draft.set("answers", "nsid", text, origin),
            None => forwarder.draft.unmapped(origin, "`answers.nsid` is a text, not hexadecimal"),
        },
        "module-config" => modules(one, server, forwarder),
        key if ANCHOR_FILES.contains(&key) => anchor(one, server, forwarder),
        "trust-anchor" => inline_anchor(one, server, forwarder),
        "domain-insecure" => {
            forwarder.draft.push("dnssec", "negative_trust_anchors", value, origin)
        }
        // Names that are answered here nevertheless are read with the local zones.
        "unblock-lan-zones" => forwarder.draft.set("policy", "special_use", false, origin),
        "do-udp" => forwarder.draft.unmapped(origin, "queries over UDP are always answered"),
        "num-threads" => {
            forwarder.draft.unmapped(origin, "choose the cores of your machine in `[[placement]]`");
        }
        "log-queries" | "log-replies" => forwarder.draft.unmapped(origin, TEXT_LOG),
        "logfile" if !value.is_empty() && logs_queries(server) => {
            let file = path(one, server, forwarder);
            forwarder.propose_log(Path::new(&file), origin);
        }
        _ => kinds::list(one, forwarder),
    }
}

/// Writes a setting that one key stands for. Whether it is one.
fn is_one_key(one: &Setting, forwarder: &mut Forwarder) -> bool {
    let (value, origin) = (one.value(), &one.origin);
    let (table, key) = match &*one.key {
        "cache-min-ttl" => ("cache", "min_ttl"),
        "cache-max-ttl" => ("cache", "max_ttl"),
        "cache-max-negative-ttl" => ("cache", "max_negative_ttl"),
        "serve-expired-reply-ttl" => ("cache", "stale_ttl"),
        "serve-expired-client-timeout" => ("cache", "stale_client_timeout_ms"),
        "max-udp-size" => ("answers", "max_udp_size"),
        "incoming-num-tcp" => ("streams", "max_connections"),
        "tcp-idle-timeout" => ("streams", "idle_timeout_ms"),
        "max-client-subnet-ipv4" => ("client_subnet", "ipv4_prefix"),
        "max-client-subnet-ipv6" => ("client_subnet", "ipv6_prefix"),
        _ => return is_one_switch(one, forwarder) || is_one_text(one, forwarder),
    };
    forwarder.number(table, key, value, origin);
    true
}

fn is_one_switch(one: &Setting, forwarder: &mut Forwarder) -> bool {
    let (table, key) = match &*one.key {
        "serve-expired" => ("cache", "serve_stale"),
        "prefetch" => ("prefetch", "enabled"),
        "deny-any" => ("answers", "minimal_any"),
        "answer-cookie" => ("cookies", "enabled"),
        _ => return false,
    };
    forwarder.switch(table, key, one.value(), &one.origin);
    true
}

fn is_one_text(one: &Setting, forwarder: &mut Forwarder) -> bool {
    let (table, key) = match &*one.key {
        "http-endpoint" => ("streams", "https_path"),
        "cookie-secret" => ("cookies", "secret"),
        "identity" => ("answers", "identity"),
        "version" => ("answers", "version"),
        _ => return false,
    };
    forwarder.draft.set(table, key, one.value(), &one.origin);
    true
}

/// The certificate of the streams, or its key.
fn stream_file(one: &Setting, server: &Clause, forwarder: &mut Forwarder) {
    if one.value().is_empty() {
        return forwarder.draft.unneeded(&one.origin);
    }
    let key = if one.key.ends_with("-pem") { "certificate" } else { "key" };
    let file = path(one, server, forwarder);
    forwarder.draft.set("streams", key, file, &one.origin);
}

/// Whether a setting needs nothing because of its value, or of another setting. It is listed as such.
fn needs_nothing(one: &Setting, server: &Clause, forwarder: &mut Forwarder) -> bool {
    let value = one.value();
    let is_off = truth(value) == Some(false);
    let needs_nothing = match &*one.key {
        "edns-buffer-size" => server.last("max-udp-size").is_some(),
        "unblock-lan-zones"
        | "insecure-lan-zones"
        | "log-queries"
        | "log-replies"
        | "aggressive-nsec"
        | "val-permissive-mode"
        | "ignore-cd-flag"
        | "tcp-upstream"
        | "serve-original-ttl" => is_off,
        "do-udp" => !is_off,
        "ratelimit" | "ip-ratelimit-cookie" => value == "0",
        "hide-identity" | "hide-version" => true,
        key @ ("identity" | "version") => {
            server.last(&format!("hide-{key}")).and_then(truth) == Some(true)
        }
        // If they are off, they are a key of each upstream.
        "use-caps-for-id" => !is_off,
        _ => false,
    };
    if needs_nothing {
        forwarder.draft.unneeded(&one.origin);
    }
    needs_nothing
}

/// Whether the log has a line for each query, or for each answer.
fn logs_queries(server: &Clause) -> bool {
    let is_on = |key| server.last(key).and_then(truth) == Some(true);
    is_on("log-queries") || is_on("log-replies")
}

/// Whether addresses of this family are not used: `do-ip4: no`, `do-ip6: no`.
pub(super) fn is_off(address: IpAddr, server: &Clause) -> bool {
    let key = if address.is_ipv4() { "do-ip4" } else { "do-ip6" };
    server.last(key).and_then(truth) == Some(false)
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
    if is_off(address, server) {
        return forwarder.draft.unneeded(origin);
    }
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
    let file = path(one, server, forwarder);
    // The root's keys are built in, and the file of unbound-anchor has no others.
    if ROOT_KEY_FILES.contains(&&*file) {
        return;
    }
    let files = ANCHOR_FILES.iter().flat_map(|key| server.all(key));
    let mut others = files.filter(|other| !other.value().is_empty());
    let has_others = others.any(|other| whole(other.value(), server) != file)
        || server.all("trust-anchor").next().is_some();
    match has_others {
        true => {
            let why = "`dnssec.trust_anchor` is one file, and replaces the root's keys that are built in; write all \
                       anchors into one file";
            forwarder.draft.decisive(&one.origin, why);
        }
        false => forwarder.draft.set("dnssec", "trust_anchor", file, &one.origin),
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
    let keys = ["msg-cache-size", "rrset-cache-size"];
    let sizes: Vec<&Setting> = keys.iter().filter_map(|key| server.all(key).next_back()).collect();
    let mut total = 0_u64;
    for one in &sizes {
        match bytes(one.value()) {
            Some(size) => total = total.saturating_add(size),
            None => forwarder.draft.unmapped(&one.origin, "this is not a size"),
        }
    }
    if let Some(last) = sizes.iter().max_by_key(|one| one.origin.place).filter(|_| total > 0) {
        forwarder.cache_size(total, &last.origin);
    }
}
