//! The clause `server:`, and clauses that stand once.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::clause::{Clause, Setting};
use crate::import::draft::Value;
use crate::import::meaning::{Forwarder, NONE, bytes, network, truth};
use crate::import::query_log::TEXT_LOG;

/// Settings of unbound's own process and of work that pmdns does not do, or always does.
const UNNEEDED: [&str; 73] = [
    "verbosity",
    "username",
    "directory",
    "chroot",
    "pidfile",
    "logfile",
    "use-syslog",
    "log-identity",
    "log-time-ascii",
    "log-tag-queryreply",
    "log-servfail",
    "log-local-actions",
    "log-destaddr",
    "statistics-interval",
    "statistics-cumulative",
    "extended-statistics",
    "statistics-inhibit-zero",
    "shm-enable",
    "shm-key",
    "do-daemonize",
    "so-rcvbuf",
    "so-sndbuf",
    "so-reuseport",
    "outgoing-range",
    "outgoing-port-permit",
    "outgoing-port-avoid",
    "outgoing-num-tcp",
    "num-queries-per-thread",
    "msg-cache-slabs",
    "rrset-cache-slabs",
    "infra-cache-slabs",
    "key-cache-slabs",
    "ip-ratelimit-slabs",
    "ratelimit-slabs",
    "msg-buffer-size",
    "infra-host-ttl",
    "infra-cache-numhosts",
    "infra-cache-min-rtt",
    "infra-cache-max-rtt",
    "infra-keep-probing",
    "key-cache-size",
    "neg-cache-size",
    "root-hints",
    "qname-minimisation",
    "qname-minimisation-strict",
    "harden-short-bufsize",
    "harden-large-queries",
    "harden-glue",
    "harden-below-nxdomain",
    "harden-referral-path",
    "harden-algo-downgrade",
    "harden-dnssec-stripped",
    "use-caps-for-id",
    "caps-exempt",
    "caps-whitelist",
    "minimal-responses",
    "rrset-roundrobin",
    "target-fetch-policy",
    "hide-trustanchor",
    "hide-http-user-agent",
    "root-key-sentinel",
    "trust-anchor-signaling",
    "val-clean-additional",
    "val-log-level",
    "val-bogus-ttl",
    "val-sig-skew-min",
    "val-sig-skew-max",
    "prefetch-key",
    "interface-automatic",
    "do-ip4",
    "do-ip6",
    "do-udp",
    "prefer-ip6",
];
/// Settings that `zones.rs` and `dns64.rs` read.
const ELSEWHERE: [&str; 17] = [
    "local-zone",
    "local-data",
    "local-data-ptr",
    "define-tag",
    "access-control-tag",
    "access-control-view",
    "local-zone-tag",
    "outgoing-interface",
    "tls-upstream",
    "ssl-upstream",
    "tls-cert-bundle",
    "ssl-cert-bundle",
    "send-client-subnet",
    "client-subnet-always-forward",
    "dns64-prefix",
    "dns64-synthall",
    "dns64-ignore-aaaa",
];

pub(super) fn map(clauses: &[Clause], forwarder: &mut Forwarder) {
    for clause in clauses {
        match &*clause.name {
            "server" => clause.settings.iter().for_each(|one| setting(one, clauses, forwarder)),
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
    sizes(clauses, forwarder);
}

/// The last value of a setting of the server.
pub(super) fn server<'c>(clauses: &'c [Clause], key: &str) -> Option<&'c str> {
    let servers = clauses.iter().filter(|clause| clause.name == "server");
    servers.rev().find_map(|clause| clause.last(key))
}

fn setting(one: &Setting, clauses: &[Clause], forwarder: &mut Forwarder) {
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
        "interface" | "ip-address" => interface(one, clauses, forwarder),
        "port" | "tls-port" | "ssl-port" | "https-port" | "quic-port" | "do-tcp"
        | "msg-cache-size" | "rrset-cache-size" => {
            // They are read with `interface`, and with each other.
        }
        "access-control" => access(one, forwarder),
        "serve-expired-ttl" => match value {
            "0" => {
                forwarder.draft.unmapped(origin, "`cache.stale_window_seconds` has to have an end")
            }
            _ => forwarder.number("cache", "stale_window_seconds", value, origin),
        },
        "edns-buffer-size" if server(clauses, "max-udp-size").is_none() => {
            forwarder.number("answers", "max_udp_size", value, origin);
        }
        "edns-buffer-size" => forwarder.draft.unneeded(origin),
        "ip-ratelimit" => {
            forwarder.number("ratelimit", "queries_per_second", value, origin);
            // Unbound counts each address by itself.
            forwarder.draft.set("ratelimit", "ipv4_prefix", 32, origin);
            forwarder.draft.set("ratelimit", "ipv6_prefix", 128, origin);
        }
        "identity" | "version" if server(clauses, &format!("hide-{key}")) == Some("yes") => {
            forwarder.draft.unneeded(origin);
        }
        "identity" => forwarder.draft.set("answers", "identity", value, origin),
        "version" => forwarder.draft.set("answers", "version", value, origin),
        "nsid" => match value.strip_prefix("ascii_") {
            Some(text) => forwarder.draft.set("answers", "nsid", text, origin),
            None => forwarder.draft.unmapped(origin, "`answers.nsid` is a text, not hexadecimal"),
        },
        "module-config" => modules(one, clauses, forwarder),
        "auto-trust-anchor-file" | "trust-anchor-file" => anchor(one, clauses, forwarder),
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
        "logfile" if !value.is_empty() && logs_queries(clauses) => {
            let folder = Path::new(server(clauses, "directory").unwrap_or_default());
            forwarder.propose_log(&folder.join(value), origin);
        }
        "ratelimit" | "ip-ratelimit-cookie" if value == "0" => forwarder.draft.unneeded(origin),
        _ if UNNEEDED.contains(&key) => forwarder.draft.unneeded(origin),
        _ if ELSEWHERE.contains(&key) => {}
        _ => forwarder.draft.unmapped(origin, NONE),
    }
}

/// Whether the log has a line for each query, or for each answer.
fn logs_queries(clauses: &[Clause]) -> bool {
    let is_on = |key| server(clauses, key).and_then(truth) == Some(true);
    is_on("log-queries") || is_on("log-replies")
}

/// Where queries come to, by the port: UDP and TCP, TLS, HTTPS, or QUIC.
fn interface(one: &Setting, clauses: &[Clause], forwarder: &mut Forwarder) {
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
        server(clauses, key).and_then(|text| text.parse().ok()).unwrap_or(other)
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
        let is_on = transport != "quic" || server(clauses, key).is_some();
        if port == port_of(key, usual) && is_on {
            forwarder.stream(transport, socket, origin);
            is_encrypted = true;
        }
    }
    if !is_encrypted && forwarder.listen(socket, origin) && server(clauses, "do-tcp") != Some("no")
    {
        forwarder.stream("tcp", socket, origin);
    }
}

fn access(one: &Setting, forwarder: &mut Forwarder) {
    let Some(clients) = network(one.value()) else {
        return forwarder.draft.unmapped(&one.origin, "this is no network");
    };
    let answer = match one.nth(1) {
        "allow" | "allow_setrd" => "allow",
        "allow_snoop" | "allow_cookie" => {
            let why = "the clients may ask as any others; pmdns has no such difference";
            forwarder.draft.unmapped(&one.origin, why);
            "allow"
        }
        "refuse" | "refuse_non_local" => "refuse",
        "deny" | "deny_non_local" => "drop",
        _ => return forwarder.draft.unmapped(&one.origin, "this is no action of access-control"),
    };
    if one.nth(1).ends_with("_non_local") {
        forwarder.draft.unmapped(&one.origin, "the clients get no local data either");
    }
    forwarder.access(clients, answer, &one.origin);
}

/// Which modules there are: those that pmdns has are options of it.
fn modules(one: &Setting, clauses: &[Clause], forwarder: &mut Forwarder) {
    for module in one.values.iter().flat_map(|value| value.split_whitespace()) {
        match module {
            "iterator" | "respip" | "subnetcache" | "dns64" => {}
            "validator" => {
                let anchors = ["auto-trust-anchor-file", "trust-anchor-file", "trust-anchor"];
                if anchors.iter().any(|key| server(clauses, key).is_some()) {
                    forwarder.draft.set("dnssec", "validate", true, &one.origin);
                }
            }
            _ => forwarder.draft.unmapped(&one.origin, format!("`{module}`: {NONE}")),
        }
    }
}

fn anchor(one: &Setting, clauses: &[Clause], forwarder: &mut Forwarder) {
    let validates = server(clauses, "module-config").is_none_or(|it| it.contains("validator"));
    if !validates || one.value().is_empty() {
        return forwarder.draft.unneeded(&one.origin);
    }
    forwarder.draft.set("dnssec", "validate", true, &one.origin);
    // The root's keys are built in, and the file of unbound-anchor has no others.
    if !one.value().ends_with("root.key") {
        forwarder.draft.set("dnssec", "trust_anchor", one.value(), &one.origin);
    }
}

/// Both caches together.
fn sizes(clauses: &[Clause], forwarder: &mut Forwarder) {
    let servers = clauses.iter().filter(|clause| clause.name == "server");
    let is_size = |one: &&Setting| one.key == "msg-cache-size" || one.key == "rrset-cache-size";
    let sizes: Vec<&Setting> =
        servers.flat_map(|clause| &clause.settings).filter(is_size).collect();
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

/// The keys of an upstream that hold for all of them.
pub(super) fn of_all_upstreams(
    clauses: &[Clause],
    address: IpAddr,
    is_encrypted: bool,
) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    let servers = || clauses.iter().filter(|clause| clause.name == "server");
    let mut sources = servers().flat_map(|clause| clause.all("outgoing-interface"));
    let source = sources.find_map(|one| {
        one.value().parse::<IpAddr>().ok().filter(|source| source.is_ipv4() == address.is_ipv4())
    });
    if let Some(source) = source.filter(|_| !is_encrypted) {
        keys.push(("source", Value::Text(source.to_string())));
    }
    let bundle = server(clauses, "tls-cert-bundle").or_else(|| server(clauses, "ssl-cert-bundle"));
    if let Some(bundle) = bundle.filter(|bundle| is_encrypted && !bundle.is_empty()) {
        keys.push(("ca_file", bundle.into()));
    }
    let subnets = || servers().flat_map(|clause| clause.all("send-client-subnet"));
    let is_sent = |one: &Setting| network(one.value()).is_some_and(|it| it.network == address);
    if subnets().any(is_sent) {
        keys.push(("client_subnet", true.into()));
    }
    keys
}
