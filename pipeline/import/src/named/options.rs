//! `options { ... }`, and the options of a view.

use std::net::{IpAddr, SocketAddr};

use super::access::{self, Unknown};
use super::kinds::KINDS;
use super::names::Names;
use super::scope::Scope;
use super::servers::upstreams;
use super::statement::Statement;
use super::{dns64, kinds, logging, rebinding};
use crate::meaning::{Forwarder, bytes, truth};
use crate::query_log::TEXT_LOG;
use crate::source::Origin;

/// Options that are read with the views, or with each other.
const OF_SCOPE: [&str; 16] = [
    "allow-recursion",
    "allow-query-cache",
    "allow-query",
    "blackhole",
    "recursion",
    "forwarders",
    "forward",
    "response-policy",
    "deny-answer-addresses",
    "dns64",
    "empty-zones-enable",
    "disable-empty-zone",
    "match-clients",
    "zone",
    "port",
    "directory",
];

/// Why `forward first` differs.
pub(super) const FIRST: &str =
    "pmdns does not resolve from the root if the forwarders fail: it is always `forward only`";

/// Maps the options that hold for all clients.
pub(super) fn map(block: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let port = block.find("port").and_then(|one| one.word(1).parse().ok());
    for one in block.block() {
        match one.word(0) {
            // A view may have its own instead.
            word @ ("response-policy"
            | "deny-answer-addresses"
            | "dns64"
            | "disable-empty-zone") => {
                if names.all_views_have(word) {
                    forwarder.draft.unneeded(&one.origin());
                    one.note_read(&mut forwarder.draft);
                }
            }
            word if OF_SCOPE.contains(&word) => one.note_read(&mut forwarder.draft),
            "listen-on" | "listen-on-v6" => {
                listen(one, port, names, forwarder);
                one.note_read(&mut forwarder.draft);
            }
            "dnstap" | "dnstap-output" | "dnstap-identity" | "dnstap-version" => {
                logging::dnstap(one, block, names, forwarder);
                one.note_read(&mut forwarder.draft);
            }
            _ => option(one, names, forwarder),
        }
    }
}

/// Maps the options that a view may have too.
pub(super) fn of_scope(scope: &Scope<'_>, names: &Names<'_>, forwarder: &mut Forwarder) {
    let own = scope.view.or(scope.options);
    if let Some(view) = scope.view {
        for one in view.block() {
            match one.word(0) {
                "response-policy"
                | "deny-answer-addresses"
                | "dns64"
                | "disable-empty-zone"
                | "zone" => {}
                word if OF_SCOPE.contains(&word) => one.note_read(&mut forwarder.draft),
                "match-destinations" | "match-recursive-only" => kinds::list(one, forwarder),
                word if KINDS.unneeded.contains(&word) => kinds::list(one, forwarder),
                word if KINDS.decisive.contains(&word) => kinds::list(one, forwarder),
                _ => {
                    let same = scope.options.and_then(|options| options.find(one.word(0)));
                    match same
                        .is_some_and(|same| same.words == one.words && same.block().is_empty())
                    {
                        true => forwarder.draft.unneeded(&one.origin()),
                        false => forwarder
                            .draft
                            .unmapped(&one.origin(), "this is the same for all views"),
                    }
                    one.note_read(&mut forwarder.draft);
                }
            }
        }
    }
    for one in all_of(scope, "dns64") {
        dns64::map(one, &scope.views, names, forwarder);
    }
    for one in all_of(scope, "disable-empty-zone") {
        match is_asked(scope) {
            true => forwarder.draft.unneeded(&one.origin()),
            false => forwarder.ask(one.word(1), "default", &scope.views, &one.origin()),
        }
    }
    if let Some(one) = scope.find("deny-answer-addresses") {
        rebinding::map(one, scope, names, forwarder);
    }
    if let Some(policy) = scope.find("response-policy") {
        response_policy(policy, scope, names, forwarder);
    }
    forward(scope, own, names, forwarder);
}

/// The statements of the view, or else of the options.
pub(super) fn all_of<'s>(scope: &Scope<'s>, word: &str) -> impl Iterator<Item = &'s Statement> {
    let has = |block: &&Statement| block.find(word).is_some();
    let block = scope.view.filter(has).or(scope.options);
    let word = word.to_owned();
    block.into_iter().flat_map(Statement::block).filter(move |one| one.word(0) == word)
}

/// Whether private reverse zones are asked upstream: without empty zones, or with nothing but forwarders.
pub(super) fn is_asked(scope: &Scope<'_>) -> bool {
    let has_servers = scope.find("forwarders").is_some_and(|list| !list.block().is_empty());
    let is_only = scope.find("forward").is_some_and(|one| one.word(1) == "only");
    !scope.is_on("empty-zones-enable", true) || (has_servers && is_only)
}

/// The setting that says so.
fn why_asked(scope: &Scope<'_>) -> Option<Origin> {
    let one = scope.find("empty-zones-enable").or_else(|| scope.find("forward"))?;
    Some(one.origin())
}

/// Writes whether special-use names are answered here. named leaves them to the forwarders of `forward only`.
pub(super) fn special_use(scopes: &[Scope<'_>], forwarder: &mut Forwarder) {
    let asked: Vec<bool> = scopes.iter().map(is_asked).collect();
    let origin = scopes.iter().filter(|scope| is_asked(scope)).find_map(why_asked);
    match origin {
        Some(origin) if asked.iter().all(|asked| *asked) => {
            forwarder.draft.set("policy", "special_use", false, &origin);
        }
        Some(origin) => {
            let why = "special-use names are answered here in all views, or in none (`policy.special_use`)";
            forwarder.draft.unmapped(&origin, why);
        }
        None => {}
    }
}

fn forward(
    scope: &Scope<'_>,
    own: Option<&Statement>,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) {
    let list = own.and_then(|own| own.find("forwarders"));
    let inherited = scope.options.and_then(|options| options.find("forwarders"));
    let is_first = scope.find("forward").is_none_or(|one| one.word(1) != "only");
    if is_first && let Some(list) = list.or(inherited) {
        forwarder.draft.unmapped(&list.origin(), FIRST);
    }
    let views: &[String] = if list.is_some() && scope.view.is_some() { &scope.views } else { &[] };
    let Some(list) = list.or(inherited) else { return };
    let servers = upstreams(list, names, forwarder);
    match (servers.is_empty(), views) {
        (true, []) => forwarder.draft.unneeded(&list.origin()),
        (true, _) => {
            let why = "names without forwarders are not resolved from the root";
            forwarder.draft.decisive(&list.origin(), why);
        }
        (false, views) => {
            forwarder.forward(".", servers, views, &list.origin());
        }
    }
}

/// `response-policy { zone NAME ...; } ...`.
fn response_policy(
    policy: &Statement,
    scope: &Scope<'_>,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) {
    let all = policy.origin();
    for (option, value) in policy.pairs(1) {
        match (option, truth(value)) {
            ("break-dnssec", Some(true)) | ("qname-wait-recurse", Some(false)) => {}
            ("recursive-only", Some(true)) | ("min-update-interval" | "add-soa", _) => {}
            _ => forwarder
                .draft
                .unmapped(&all, format!("`{option} {value}`: pmdns has no counterpart")),
        }
    }
    for zone in policy.block() {
        let (name, origin) = (zone.behind("zone").unwrap_or_default(), zone.origin());
        forwarder.draft.read(&origin);
        let mut reason = None;
        let mut is_left_out = false;
        for (option, value) in zone.pairs(0) {
            match (option, value) {
                ("zone", _) | ("policy", "given") => {}
                ("policy", "disabled") => {
                    forwarder.draft.unneeded(&origin);
                    is_left_out = true;
                }
                ("policy", value) => {
                    is_left_out |= ["passthru", "no-op"].contains(&value);
                    let why = format!(
                        "the rules of a zone say what becomes of a query, not `policy {value}`"
                    );
                    forwarder.draft.unmapped(&origin, why);
                }
                ("ede", "blocked" | "censored" | "filtered" | "prohibited") => reason = Some(value),
                ("recursive-only", "yes") | ("ede", "none") => {}
                _ => {
                    let why = format!("`{option} {value}`: pmdns has no counterpart");
                    forwarder.draft.unmapped(&origin, why);
                }
            }
        }
        if is_left_out {
            continue;
        }
        let kept = names.whole(&format!("{}.rpz", forwarder.short("rpz", name)));
        let table = forwarder.draft.add("rpz", Some(origin.clone()));
        table.set("file", kept, Some(origin.clone()));
        table.set("zone", name, Some(origin.clone()));
        if let Some(reason) = reason {
            table.set("extended_error", reason, Some(origin.clone()));
        }
        table.in_views(&scope.views, &origin);
    }
}

fn listen(one: &Statement, plain: Option<u16>, names: &Names<'_>, forwarder: &mut Forwarder) {
    let origin = one.origin();
    let tls = one.behind("tls").filter(|tls| *tls != "none");
    let http = one.behind("http");
    let usual = match (tls, http) {
        (_, Some(_)) => 443,
        (Some(_), None) => 853,
        (None, None) => plain.unwrap_or(53),
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
                let path = names.path(file.word(1), &file.origin(), forwarder);
                forwarder.draft.set("streams", key, path, &file.origin());
            }
        }
    }
    for (option, value) in one.pairs(1).filter(|(it, _)| !["port", "tls", "http"].contains(it)) {
        forwarder.draft.decisive(&origin, format!("`{option} {value}`: pmdns has no counterpart"));
    }
    let endpoints = http.and_then(|name| names.http.get(name)).and_then(|it| it.find("endpoints"));
    if let Some(path) = endpoints.and_then(|list| list.block().first()) {
        forwarder.draft.set("streams", "https_path", path.word(0), &path.origin());
    }
    for path in endpoints.iter().flat_map(|list| list.block()).skip(1) {
        forwarder.draft.unmapped(&path.origin(), "there is one `streams.https_path`");
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
        "check-names" if value == "response" && one.word(2) == "fail" => {
            forwarder
                .draft
                .unmapped(origin, "answers for names that are no host names are relayed");
        }
        "max-udp-size" => forwarder.number("answers", "max_udp_size", value, origin),
        "minimal-any" => forwarder.switch("answers", "minimal_any", value, origin),
        "prefetch" => forwarder.draft.set("prefetch", "enabled", value != "0", origin),
        "dnssec-validation" => {
            if truth(value) == Some(true) && !names.has_anchors {
                let why = "without `trust-anchors` named validates nothing; here the root's keys are built in";
                forwarder.draft.unmapped(origin, why);
            }
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
        "version" | "hostname" | "server-id" if ["", "none"].contains(&value) => {
            forwarder.draft.unneeded(origin);
        }
        "server-id" if value == "hostname" => {
            let why = "write the machine's name into `answers.identity`; without it such queries are refused";
            forwarder.draft.unmapped(origin, why);
        }
        "version" => forwarder.draft.set("answers", "version", value, origin),
        "hostname" | "server-id" => forwarder.draft.set("answers", "identity", value, origin),
        "tcp-clients" => forwarder.number("streams", "max_connections", value, origin),
        "rate-limit" => rate_limit(one, names, forwarder),
        "querylog" | "responselog" if truth(value) == Some(false) => {
            forwarder.draft.unneeded(origin);
        }
        "querylog" | "responselog" => forwarder.draft.unmapped(origin, TEXT_LOG),
        _ => kinds::list(one, forwarder),
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
                let clients = access::clients(one, names, Unknown::NoMatch, forwarder);
                match clients.without(|said| said.value != Some(true)) {
                    Some(exempt) => {
                        for (prefix, _) in exempt {
                            forwarder.draft.push("ratelimit", "exempt", prefix.to_string(), origin);
                        }
                    }
                    None => forwarder.draft.unmapped(origin, "these are too many networks"),
                }
                continue;
            }
            "responses-per-second" => {
                let why = "it counts equal answers, `ratelimit.queries_per_second` all queries of a client; choose a number";
                forwarder.draft.unmapped(origin, why);
                continue;
            }
            _ => {
                kinds::list(one, forwarder);
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
