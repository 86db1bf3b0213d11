//! `forward-zone:` and `stub-zone:`: whom we ask.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::bootstrap::Bootstrap;
use super::clause::{Clause, Conf, Setting};
use super::paths::whole;
use super::server::is_off;
use crate::draft::Value;
use crate::meaning::{Forwarder, NONE, Upstream, network, truth};
use crate::special;

/// The zones that have servers of their own.
pub(super) struct Forwards {
    groups: BTreeMap<String, String>,
    bootstrap: Bootstrap,
}

impl Forwards {
    /// The group that is asked for a name.
    pub(super) fn group_of(&self, name: &str) -> &str {
        let mut rest = Some(name);
        while let Some(suffix) = rest {
            if let Some(group) = self.groups.get(suffix) {
                return group;
            }
            rest = suffix.split_once('.').map(|(_, above)| above);
        }
        "default"
    }

    pub(super) fn has(&self, zone: &str) -> bool {
        self.groups.contains_key(zone)
    }
}

pub(super) fn key_of(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) -> Forwards {
    let mut forwards = Forwards { groups: BTreeMap::new(), bootstrap: Bootstrap::default() };
    // Names of built-in zones are answered by Unbound itself, unless a local zone says otherwise.
    let locals = conf.server.all("local-zone");
    let open: BTreeSet<String> = locals
        .filter(|one| {
            ["nodefault", "transparent", "typetransparent", "always_transparent", "inform"]
                .contains(&one.nth(1))
        })
        .map(|one| key_of(one.value()))
        .collect();
    let unblocks = conf.server.last("unblock-lan-zones").and_then(truth) == Some(true);
    let asked = asked(conf);
    for (place, clause) in conf.others.iter().enumerate() {
        if clause.name == "forward-zone" || clause.name == "stub-zone" {
            let name = key_of(clause.last("name").unwrap_or_default());
            if asked.get(&name).is_some_and(|(asked, _)| *asked != place) {
                clause.settings.iter().for_each(|one| forwarder.draft.read(&one.origin));
                forwarder.draft.unneeded(&clause.origin);
                continue;
            }
            let is_open = |zone: &str| {
                unblocks && special::is_of_networks(zone) || is_at_or_above(&open, &name, zone)
            };
            if special::zone_of(&name).is_some_and(|zone| !is_open(&zone)) {
                let why = "Unbound answers these names itself (`local-zone` with `nodefault` says \
                           otherwise), so these servers are not asked";
                forwarder.draft.unmapped(&clause.origin, why);
                clause.settings.iter().for_each(|one| forwarder.draft.read(&one.origin));
                continue;
            }
            zone(clause, conf, &mut forwards, forwarder);
        }
    }
    source_addresses(conf, forwarder);
    subnets(conf, forwarder);
    forwards
}

/// The zones with servers of their own: each with its place among the clauses. Of several with one name the last counts,
/// but a stub zone is not asked where a forward zone is.
pub(super) fn asked(conf: &Conf) -> BTreeMap<String, (usize, &Clause)> {
    let mut asked: BTreeMap<String, (usize, &Clause)> = BTreeMap::new();
    let of_kind = |kind: &'static str| {
        conf.others.iter().enumerate().filter(move |(_, clause)| clause.name == kind)
    };
    for (place, clause) in of_kind("stub-zone").chain(of_kind("forward-zone")) {
        if let Some(name) = clause.last("name") {
            asked.insert(key_of(name), (place, clause));
        }
    }
    asked
}

/// Whether one of `names` is `name`, or above it and not above `zone`.
fn is_at_or_above(names: &BTreeSet<String>, name: &str, zone: &str) -> bool {
    let mut rest = Some(name);
    while let Some(suffix) = rest {
        if names.contains(suffix) {
            return true;
        }
        if suffix == zone {
            return false;
        }
        rest = suffix.split_once('.').map(|(_, above)| above);
    }
    false
}

/// Whether the servers of a zone are asked over TLS.
pub(super) fn is_encrypted(zone: &Clause, conf: &Conf) -> bool {
    let is_yes = |one: Option<&str>| one.and_then(truth) == Some(true);
    let prefix = zone.name.trim_end_matches("-zone");
    let own = zone.last(&format!("{prefix}-tls-upstream"));
    let own = own.or_else(|| zone.last(&format!("{prefix}-ssl-upstream")));
    let all = conf.server.last("tls-upstream").or_else(|| conf.server.last("ssl-upstream"));
    is_yes(own) || is_yes(all)
}

/// A zone whose names are asked of some servers.
fn zone(clause: &Clause, conf: &Conf, forwards: &mut Forwards, forwarder: &mut Forwarder) {
    let is_yes = |one: Option<&str>| one.and_then(truth) == Some(true);
    let prefix = clause.name.trim_end_matches("-zone");
    let is_encrypted = is_encrypted(clause, conf);
    let mut servers = Vec::new();
    for one in &clause.settings {
        match one.key.strip_prefix(prefix).unwrap_or(&one.key) {
            "name" | "-tls-upstream" | "-ssl-upstream" => forwarder.draft.read(&one.origin),
            "-addr" => servers.extend(upstream(one, is_encrypted, conf, forwarder)),
            "-host" if is_encrypted => servers.extend(host(one, conf, forwards, forwarder)),
            "-host" => {
                forwarder
                    .draft
                    .decisive(&one.origin, "a plain upstream has an address, not a name");
            }
            "-first" | "-no-cache" | "-tcp-upstream" | "-prime" if !is_yes(Some(one.value())) => {
                forwarder.draft.unneeded(&one.origin);
            }
            "-first" | "-no-cache" | "-tcp-upstream" | "-prime" => {
                forwarder.draft.unmapped(&one.origin, NONE);
            }
            // It counts as unread.
            _ => {}
        }
    }
    let Some(name) = clause.last("name") else {
        return forwarder.draft.decisive(&clause.origin, "it has no name");
    };
    if servers.is_empty() {
        let why = "it has no server that could be taken over, and its names are not resolved from the root";
        return forwarder.draft.decisive(&clause.origin, why);
    }
    if servers.iter().any(|one| one.keys.iter().any(|(key, _)| *key == "client_subnet")) {
        let origin = servers[0].origin.clone();
        forwarder.draft.single("client_subnet").set("policy", "add", Some(origin));
    }
    if clause.name == "stub-zone" {
        let why = "these servers have to answer as resolvers do, with RA; servers of the zone alone do not";
        forwarder.draft.unmapped(&clause.origin, why);
    }
    let group = forwarder.forward(name, servers, &[], &clause.origin);
    forwards.groups.insert(key_of(name), group);
}

/// `address@port#name`.
fn upstream(
    one: &Setting,
    is_encrypted: bool,
    conf: &Conf,
    forwarder: &mut Forwarder,
) -> Option<Upstream> {
    let (address, port, name) = parts(one.value());
    // Without a name and a port it is 53, also for TLS.
    let usual = if name.is_some() { 853 } else { 53 };
    let (Ok(address), Some(port)) = (address.parse::<IpAddr>(), port.unwrap_or(Some(usual))) else {
        forwarder.draft.decisive(&one.origin, "this is no address of a server");
        return None;
    };
    if is_off(address, &conf.server) {
        forwarder.draft.unneeded(&one.origin);
        return None;
    }
    let mut keys = of_all_upstreams(conf, Some(address), is_encrypted);
    let socket = SocketAddr::new(address, port);
    let written = match is_encrypted {
        true => format!("tls://{socket}"),
        false => socket.to_string(),
    };
    match name.filter(|name| is_encrypted && !name.is_empty()) {
        Some(name) => keys.push(("name", Value::from(name))),
        None if is_encrypted => {
            let why = "Unbound does not check the certificate without a `#name`; here it has to be \
                       valid for the address, or for `upstream.name`";
            forwarder.draft.unmapped(&one.origin, why);
        }
        None => {}
    }
    Some(Upstream { address: written, keys, origin: one.origin.clone() })
}

/// `host@port#name`, which is looked up.
fn host(
    one: &Setting,
    conf: &Conf,
    forwards: &mut Forwards,
    forwarder: &mut Forwarder,
) -> Option<Upstream> {
    let (host, port, name) = parts(one.value());
    let usual = if name.is_some() { 853 } else { 53 };
    let Some(port) = port.unwrap_or(Some(usual)) else {
        forwarder.draft.decisive(&one.origin, "behind the @ is no port");
        return None;
    };
    if !forwards.bootstrap.knows(host, one, conf, forwarder) {
        return None;
    }
    let mut keys = of_all_upstreams(conf, None, true);
    keys.extend(name.filter(|name| !name.is_empty()).map(|name| ("name", Value::from(name))));
    let host = host.trim_end_matches('.');
    let address = match port {
        853 => format!("tls://{host}"),
        _ => format!("tls://{host}:{port}"),
    };
    Some(Upstream { address, keys, origin: one.origin.clone() })
}

/// The parts of `server@port#name`; a port that is none is `Some(None)`.
pub(super) fn parts(value: &str) -> (&str, Option<Option<u16>>, Option<&str>) {
    let (rest, name) = match value.split_once('#') {
        Some((rest, name)) => (rest, Some(name)),
        None => (value, None),
    };
    match rest.split_once('@') {
        Some((server, port)) => (server, Some(port.parse().ok()), name),
        None => (rest, None, name),
    }
}

/// The keys of an upstream that hold for all of them. An upstream with a name has no address.
fn of_all_upstreams(
    conf: &Conf,
    address: Option<IpAddr>,
    is_encrypted: bool,
) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    let is_of_family = |source: &IpAddr| address.is_some_and(|it| it.is_ipv4() == source.is_ipv4());
    let mut sources = conf.server.all("outgoing-interface");
    let source = sources.find_map(|one| one.value().parse::<IpAddr>().ok().filter(is_of_family));
    if let Some(source) = source {
        keys.push(("source", Value::Text(source.to_string())));
    }
    let bundle = conf.server.last("tls-cert-bundle");
    let bundle = bundle.or_else(|| conf.server.last("ssl-cert-bundle"));
    if let Some(bundle) = bundle.filter(|bundle| is_encrypted && !bundle.is_empty()) {
        keys.push(("ca_file", whole(bundle, &conf.server).into()));
    }
    // Letters are in random case here unless a setting says otherwise.
    if conf.server.last("use-caps-for-id").and_then(truth) == Some(false) {
        keys.push(("mix_case", false.into()));
    }
    if address.is_some_and(|address| sends_subnets(conf) && is_sent_to(conf, address)) {
        keys.push(("client_subnet", true.into()));
    }
    keys
}

/// Whether clients' networks are sent to anybody: it takes a module.
fn sends_subnets(conf: &Conf) -> bool {
    let modules = conf.server.all("module-config").next_back();
    let mut words = modules.iter().flat_map(|one| &one.values).flat_map(|it| it.split_whitespace());
    words.any(|module| module == "subnetcache")
}

fn is_sent_to(conf: &Conf, address: IpAddr) -> bool {
    let mut networks = conf.server.all("send-client-subnet").filter_map(|one| network(one.value()));
    networks.any(|network| network.contains(address))
}

/// Networks of clients that nobody is sent.
fn subnets(conf: &Conf, forwarder: &mut Forwarder) {
    let addresses: Vec<IpAddr> = forwarder
        .draft
        .all("upstream")
        .filter_map(|table| table.text("address"))
        .map(|address| address.trim_start_matches("tls://"))
        .filter_map(|address| address.parse::<SocketAddr>().ok())
        .map(|socket| socket.ip())
        .collect();
    for one in conf.server.all("send-client-subnet") {
        let sent = network(one.value());
        let is_used = sent.is_some_and(|it| addresses.iter().any(|address| it.contains(*address)));
        match sends_subnets(conf) {
            false => forwarder.draft.unneeded(&one.origin),
            true if is_used => forwarder.draft.read(&one.origin),
            true => forwarder.draft.unmapped(&one.origin, "this is the address of no upstream"),
        }
    }
}

/// Source addresses beyond the first of a family are not used.
fn source_addresses(conf: &Conf, forwarder: &mut Forwarder) {
    let mut seen = BTreeSet::new();
    let hosts = conf.others.iter().flat_map(|clause| &clause.settings);
    let has_hosts =
        hosts.into_iter().any(|one| one.key == "forward-host" || one.key == "stub-host");
    for one in conf.server.all("outgoing-interface") {
        match one.value().parse::<IpAddr>() {
            Ok(_) if has_hosts => {
                forwarder.draft.unmapped(&one.origin, "an upstream with a name has no `source`");
            }
            Ok(address) if seen.insert(address.is_ipv4()) => forwarder.draft.read(&one.origin),
            Ok(_) => forwarder.draft.unmapped(&one.origin, "an upstream has one `source`"),
            Err(_) => forwarder.draft.unmapped(&one.origin, "this is no address"),
        }
    }
}
