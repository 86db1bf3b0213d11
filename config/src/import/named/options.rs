//! `options { ... }`, and the options of a view.

use std::net::{IpAddr, SocketAddr};

use super::map::upstreams;
use super::names::Names;
use super::statement::Statement;
use super::{access, dns64, logging};
use crate::import::meaning::{Forwarder, NONE, bytes, plain_name, truth};
use crate::import::query_log::TEXT_LOG;

/// Options of named's own process, of zones that it is an authority of, and of work that pmdns does not do or always does.
const UNNEEDED: [&str; 58] = [
    "directory",
    "pid-file",
    "session-keyfile",
    "dump-file",
    "statistics-file",
    "memstatistics-file",
    "recursing-file",
    "secroots-file",
    "key-directory",
    "managed-keys-directory",
    "bindkeys-file",
    "geoip-directory",
    "lock-file",
    "recursion",
    "auth-nxdomain",
    "allow-transfer",
    "allow-update",
    "allow-notify",
    "notify",
    "also-notify",
    "zone-statistics",
    "transfers-in",
    "transfers-out",
    "transfers-per-ns",
    "interface-interval",
    "minimal-responses",
    "empty-zones-enable",
    "qname-minimization",
    "max-recursion-depth",
    "max-recursion-queries",
    "dnssec-enable",
    "dnssec-lookaside",
    "version",
    "hostname",
    "server-id",
    "edns-udp-size",
    "forward",
    "listen-on",
    "listen-on-v6",
    "port",
    "max-journal-size",
    "session-keyname",
    "tkey-gssapi-keytab",
    "startup-notify-rate",
    "reserved-sockets",
    "automatic-interface-scan",
    "message-compression",
    "dialup",
    "trust-anchor-telemetry",
    "dns64-server",
    "dns64-contact",
    "fstrm-set-buffer-hint",
    "fstrm-set-flush-timeout",
    "fstrm-set-input-queue-size",
    "fstrm-set-output-notify-threshold",
    "fstrm-set-output-queue-model",
    "fstrm-set-output-queue-size",
    "fstrm-set-reopen-interval",
];

/// Maps the options in a block. `views`: those that it holds for; none: all.
pub(super) fn map(
    block: &Statement,
    views: &[String],
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) {
    let access = ["allow-recursion", "allow-query-cache", "allow-query"];
    let decides = access.iter().find_map(|word| block.find(word));
    for one in block.block() {
        let word = one.word(0);
        if access.contains(&word) {
            match decides {
                Some(other) if other.place == one.place && views.is_empty() => {
                    let clients = access::clients(one, &names.lists, forwarder);
                    access::give(clients, "refuse", forwarder);
                }
                Some(other) if other.place != one.place => forwarder.draft.unneeded(&one.origin()),
                _ => forwarder.draft.unmapped(&one.origin(), "`[acl]` holds for all views"),
            }
            continue;
        }
        match word {
            "forwarders" => forward(one, views, forwarder),
            "zone" | "match-clients" if !views.is_empty() => {}
            "response-policy" => policy(one, views, forwarder),
            "dns64" => dns64::map(one, views, names, forwarder),
            _ if !views.is_empty() && !UNNEEDED.contains(&word) => {
                forwarder.draft.unmapped(&one.origin(), "this is the same for all views");
            }
            "listen-on" | "listen-on-v6" => listen(one, names, forwarder),
            "dnstap" | "dnstap-output" | "dnstap-identity" | "dnstap-version" => {
                logging::dnstap(one, block, names, forwarder);
            }
            _ => option(one, names, forwarder),
        }
    }
    if views.is_empty() && decides.is_none() {
        let why = "without a list named answers the networks of its interfaces; write them into `acl.allow`";
        forwarder.draft.unmapped(&block.origin(), why);
    }
    if block.find("forward").is_none_or(|one| one.word(1) != "only")
        && block.find("forwarders").is_some()
    {
        let why = "pmdns does not resolve from the root if the forwarders fail: it is always `forward only`";
        forwarder.draft.unmapped(&block.origin(), why);
    }
}

fn forward(one: &Statement, views: &[String], forwarder: &mut Forwarder) {
    let servers = upstreams(one, forwarder);
    if servers.is_empty() {
        return forwarder.draft.unneeded(&one.origin());
    }
    match views.first() {
        None => forwarder.forward(".", servers, &[], &one.origin()),
        Some(view) => {
            let wanted = if view == "default" { "default".to_owned() } else { plain_name(view) };
            let group = forwarder.group(&wanted, servers);
            if group != "default" || view != "default" {
                forwarder.ask(".", &group, views, &one.origin());
            }
        }
    }
}

fn policy(one: &Statement, views: &[String], forwarder: &mut Forwarder) {
    for zone in one.block() {
        let name = zone.behind("zone").unwrap_or_default().to_owned();
        let origin = Some(zone.origin());
        let table = forwarder.draft.add("rpz", origin.clone());
        table.set("file", format!("/var/lib/pmdns/{}.rpz", plain_name(&name)), origin.clone());
        table.set("zone", name, origin);
        table.in_views(views, &zone.origin());
        if let Some(policy) = zone.behind("policy").filter(|policy| *policy != "given") {
            let why =
                format!("the rules of a zone say what becomes of a query, not `policy {policy}`");
            forwarder.draft.unmapped(&zone.origin(), why);
        }
    }
}

fn listen(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let tls = one.behind("tls").filter(|tls| *tls != "none");
    let http = one.behind("http");
    let usual = match (tls, http) {
        (_, Some(_)) => 443,
        (Some(_), None) => 853,
        (None, None) => 53,
    };
    let port = one.behind("port").and_then(|port| port.parse().ok()).unwrap_or(usual);
    if http.is_some() && tls.is_none() {
        return forwarder.draft.unmapped(&origin, "HTTP without TLS is not served");
    }
    for element in one.block() {
        let origin = element.origin();
        match (element.word(0), element.word(0).parse::<IpAddr>()) {
            ("none", _) => {}
            (_, Ok(address)) => {
                let socket = SocketAddr::new(address, port);
                match (tls, http) {
                    (Some(_), Some(_)) => forwarder.stream("https", socket, &origin),
                    (Some(_), None) => forwarder.stream("tls", socket, &origin),
                    (None, _) => {
                        if forwarder.listen(socket, &origin) {
                            forwarder.stream("tcp", socket, &origin);
                        }
                    }
                }
            }
            _ => {
                let why = "write the addresses of this server into `port.addresses`";
                forwarder.draft.unmapped(&origin, why);
            }
        }
    }
    if let Some(tls) = tls.and_then(|name| names.tls.get(name)) {
        for (word, key) in [("cert-file", "certificate"), ("key-file", "key")] {
            if let Some(file) = tls.find(word) {
                forwarder.draft.set("streams", key, file.word(1), &file.origin());
            }
        }
    }
    let endpoints = http.and_then(|name| names.http.get(name)).and_then(|it| it.find("endpoints"));
    if let Some(path) = endpoints.and_then(|list| list.block().first()) {
        forwarder.draft.set("streams", "https_path", path.word(0), &path.origin());
    }
}

/// Options that one key stands for.
fn option(one: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let (word, value, origin) = (one.word(0), one.word(1), &one.origin());
    let time = match word {
        "min-cache-ttl" => Some(("cache", "min_ttl")),
        "max-cache-ttl" => Some(("cache", "max_ttl")),
        "max-ncache-ttl" => Some(("cache", "max_negative_ttl")),
        "max-stale-ttl" => Some(("cache", "stale_window_seconds")),
        "stale-answer-ttl" => Some(("cache", "stale_ttl")),
        "stale-refresh-time" => Some(("cache", "stale_backoff_seconds")),
        _ => None,
    };
    if let Some((table, key)) = time {
        return match seconds(value) {
            Some(seconds) => forwarder.draft.set(table, key, seconds, origin),
            None => forwarder.draft.unmapped(origin, "this is no time"),
        };
    }
    match word {
        "max-cache-size" => match bytes(value) {
            Some(size) if size > 0 => forwarder.cache_size(size, origin),
            _ => forwarder.draft.unmapped(origin, "write a number of bytes into `cache.size`"),
        },
        "stale-answer-enable" => forwarder.switch("cache", "serve_stale", value, origin),
        "stale-cache-enable" => forwarder.draft.unneeded(origin),
        "stale-answer-client-timeout" if value != "off" && value != "disabled" => {
            forwarder.number("cache", "stale_client_timeout_ms", value, origin);
        }
        "max-udp-size" => forwarder.number("answers", "max_udp_size", value, origin),
        "minimal-any" => forwarder.switch("answers", "minimal_any", value, origin),
        "prefetch" => forwarder.draft.set("prefetch", "enabled", value != "0", origin),
        "dnssec-validation" => {
            forwarder.draft.set("dnssec", "validate", truth(value) != Some(false), origin);
        }
        "validate-except" => {
            for name in one.block() {
                let origin = name.origin();
                forwarder.draft.push("dnssec", "negative_trust_anchors", name.word(0), &origin);
            }
        }
        "answer-cookie" => forwarder.switch("cookies", "enabled", value, origin),
        "require-server-cookie" => forwarder.switch("cookies", "require", value, origin),
        "cookie-secret" => forwarder.draft.set("cookies", "secret", value, origin),
        "version" | "hostname" | "server-id" if !["", "none", "hostname"].contains(&value) => {
            let key = if word == "version" { "version" } else { "identity" };
            forwarder.draft.set("answers", key, value, origin);
        }
        "tcp-clients" => forwarder.number("streams", "max_connections", value, origin),
        "blackhole" => {
            let clients = access::clients(one, &names.lists, forwarder);
            for (prefix, _, origin) in clients.into_iter().filter(|(_, dropped, _)| *dropped) {
                forwarder.access(prefix, "drop", &origin);
            }
        }
        "rate-limit" => rate_limit(one, names, forwarder),
        "recursion" if truth(value) == Some(false) => {
            forwarder.draft.unmapped(origin, "pmdns forwards for all clients that `[acl]` allows");
        }
        "querylog" | "responselog" if truth(value) == Some(false) => {
            forwarder.draft.unneeded(origin);
        }
        "querylog" | "responselog" => forwarder.draft.unmapped(origin, TEXT_LOG),
        _ if UNNEEDED.contains(&word) => forwarder.draft.unneeded(origin),
        _ => forwarder.draft.unmapped(origin, NONE),
    }
}

fn rate_limit(block: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    for one in block.block() {
        let (value, origin) = (one.word(1), &one.origin());
        let key = match one.word(0) {
            "all-per-second" => "queries_per_second",
            "errors-per-second" => "error_replies_per_second",
            "slip" => "slip",
            "ipv4-prefix-length" => "ipv4_prefix",
            "ipv6-prefix-length" => "ipv6_prefix",
            "log-only" => {
                forwarder.switch("ratelimit", "dry_run", value, origin);
                continue;
            }
            "exempt-clients" => {
                for (prefix, _, origin) in access::clients(one, &names.lists, forwarder) {
                    forwarder.draft.push("ratelimit", "exempt", prefix.to_string(), &origin);
                }
                continue;
            }
            "responses-per-second" => {
                let why = "it counts equal answers, `ratelimit.queries_per_second` all queries of a client; choose a number";
                forwarder.draft.unmapped(origin, why);
                continue;
            }
            _ => {
                forwarder.draft.unmapped(origin, NONE);
                continue;
            }
        };
        forwarder.number("ratelimit", key, value, origin);
    }
}

/// A time in seconds, or with units, as in `1d12h`.
fn seconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut total, mut number) = (0_u64, String::new());
    for character in text.chars() {
        let unit = match character.to_ascii_lowercase() {
            digit if digit.is_ascii_digit() => {
                number.push(digit);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_have_units() {
        assert_eq!(seconds("1d12h"), Some(129_600));
        assert_eq!(seconds("90"), Some(90));
        for wrong in ["", "1", "d", "1x", "5m3"].into_iter().filter(|text| *text != "1") {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
