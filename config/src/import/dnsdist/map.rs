//! The meaning of the calls.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::lua::{PROGRAM, Value, statements};
use super::names::{self, socket};
use super::{logs, rules, servers};
use crate::import::draft::Draft;
use crate::import::meaning::{Forwarder, NONE, network};
use crate::import::source::{Origin, Sources, Text, shown};
use crate::limits::MAX_IMPORT_NESTING;

/// Bytes of the cache for an entry of dnsdist's.
const ENTRY_BYTES: u64 = 256;
/// Values in variables, and in the places of variables: a program can double them with each line.
const MAX_KEPT: usize = 1 << 22;
/// The clients that dnsdist answers without an access list.
const USUAL_CLIENTS: [&str; 9] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "192.168.0.0/16",
    "172.16.0.0/12",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];
/// Calls about dnsdist's own process and its console.
const UNNEEDED: [&str; 22] = [
    "setSecurityPollSuffix",
    "controlSocket",
    "setKey",
    "setConsoleACL",
    "addConsoleACL",
    "setMaxTCPClientThreads",
    "setVerbose",
    "setMaxUDPOutstanding",
    "setRingBuffersSize",
    "setRingBuffersLockRetries",
    "setWebserverConfig",
    "setConsoleConnectionsLogging",
    "setMaxTCPQueuedConnections",
    "setUDPMultipleMessagesVectorSize",
    "setRandomizedOutgoingSockets",
    "setOutgoingTLSSessionsCacheMaxTicketsPerBackend",
    "setServFailWhenNoServer",
    "setCacheCleaningDelay",
    "setCacheCleaningPercentage",
    "setSyslogFacility",
    "newDNSName",
    "setStructuredLogging",
];

/// A configuration that is read.
#[derive(Default)]
pub(super) struct Program {
    forwarder: Forwarder,
    variables: BTreeMap<String, Value>,
    /// Values that were kept in variables, or put in their places.
    kept: usize,
    servers: Vec<servers::Server>,
    /// The clients that `setACL` and `addACL` name.
    clients: Option<Vec<(String, Origin)>>,
    first: Option<Origin>,
}

impl Program {
    pub(super) fn read(&mut self, text: &Text, sources: &mut Sources<'_>) {
        for one in statements(&text.text) {
            let origin = Origin::new(text.at(one.line), &one.text);
            self.first.get_or_insert_with(|| origin.clone());
            let Some(value) = one.value else {
                self.forwarder.draft.unmapped(&origin, PROGRAM);
                continue;
            };
            let value = self.resolved(value);
            match (one.variable, value) {
                (variable, Value::Call(name, arguments)) => {
                    self.call(&name, &arguments, &origin, sources);
                    if let Some(variable) = variable {
                        let value = match &*name {
                            "newSuffixMatchNode" | "newNMG" => Value::Table(Vec::new()),
                            _ => Value::Call(name, arguments),
                        };
                        self.keep(variable, value, &origin);
                    }
                }
                (Some(variable), value) => self.keep(variable, value, &origin),
                (None, _) => self.forwarder.draft.unmapped(&origin, PROGRAM),
            }
        }
    }

    /// Sets a variable, if its value is not too large.
    fn keep(&mut self, variable: String, value: Value, origin: &Origin) {
        let (values, depth) = value.measure();
        self.kept = self.kept.saturating_add(values);
        if self.kept > MAX_KEPT || depth > MAX_IMPORT_NESTING {
            return self.forwarder.draft.unmapped(origin, PROGRAM);
        }
        self.variables.insert(variable, value);
    }

    /// The value with that of a variable in its place.
    fn resolved(&mut self, value: Value) -> Value {
        match value {
            Value::Call(name, arguments) => {
                let is_method = ["add", "addMask", "setCache"].contains(&&*name);
                let resolve = |(at, one): (usize, Value)| match is_method && at == 0 {
                    true => one,
                    false => self.variable(one),
                };
                Value::Call(name, arguments.into_iter().enumerate().map(resolve).collect())
            }
            other => other,
        }
    }

    fn variable(&mut self, value: Value) -> Value {
        match value {
            Value::Name(name) => match self.variables.get(&name) {
                Some(value) if self.kept <= MAX_KEPT => {
                    self.kept = self.kept.saturating_add(value.measure().0);
                    value.clone()
                }
                _ => Value::Name(name),
            },
            Value::Call(name, arguments) => {
                Value::Call(name, arguments.into_iter().map(|one| self.variable(one)).collect())
            }
            other => other,
        }
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Value],
        origin: &Origin,
        sources: &mut Sources<'_>,
    ) {
        let first = arguments.first();
        let text = first.and_then(Value::text).unwrap_or_default().to_owned();
        match name {
            "includeDirectory" => self.include(&text, origin, sources),
            "setLocal" | "addLocal" => self.local(&text, arguments, origin),
            "addTLSLocal" => self.encrypted("tls", 853, &text, arguments, origin),
            "addDOHLocal" => self.encrypted("https", 443, &text, arguments, origin),
            "addDOQLocal" => self.encrypted("quic", 853, &text, arguments, origin),
            "setACL" => {
                self.clients = Some(Vec::new());
                self.clients(first, origin);
            }
            "addACL" => self.clients(first, origin),
            "newServer" => servers::server(&mut self.forwarder, &mut self.servers, first, origin),
            "setServerPolicy" => servers::policy(&mut self.forwarder, first, "default", origin),
            "setPoolServerPolicy" => {
                let pool = arguments.get(1).and_then(Value::text).unwrap_or_default().to_owned();
                servers::policy(&mut self.forwarder, first, &names::group(&pool), origin);
            }
            "addAction" => rules::action(&mut self.forwarder, arguments, origin),
            "addResponseAction" | "addCacheHitResponseAction" | "addSelfAnsweredResponseAction" => {
                if !logs::action(&mut self.forwarder, arguments, origin) {
                    self.forwarder.draft.unmapped(origin, NONE);
                }
            }
            "newRemoteLogger" => self.forwarder.draft.unmapped(origin, logs::PROTOBUF),
            // The action that uses it says so.
            "newFrameStreamUnixLogger" | "newFrameStreamTcpLogger" => {}
            "newPacketCache" => self.cache(&text, arguments.get(1), origin),
            "setStaleCacheEntriesTTL" => {
                self.forwarder.draft.set("cache", "serve_stale", text != "0", origin);
                if text != "0" {
                    self.forwarder.number("cache", "stale_window_seconds", &text, origin);
                }
            }
            "setECSSourcePrefixV4" => {
                self.forwarder.number("client_subnet", "ipv4_prefix", &text, origin)
            }
            "setECSSourcePrefixV6" => {
                self.forwarder.number("client_subnet", "ipv6_prefix", &text, origin)
            }
            "setMaxTCPQueriesPerConnection" => {
                self.forwarder.number("streams", "max_queries_per_connection", &text, origin);
            }
            "setProxyProtocolACL" => {
                for prefix in first.and_then(Value::texts).unwrap_or_default() {
                    self.forwarder.draft.push("streams", "proxy_protocol", prefix, origin);
                }
            }
            "webserver" => match text.parse::<SocketAddr>() {
                Ok(_) => {
                    self.forwarder.draft.set("metrics", "listen", &*text, origin);
                    let why = "metrics alone are at this address; for the HTTP API and the console see `[api]` and `[[token]]`";
                    self.forwarder.draft.unmapped(origin, why);
                }
                Err(_) => self.forwarder.draft.unmapped(origin, "this is no address and port"),
            },
            "add" | "addMask" => self.add_to_set(arguments, origin),
            // The cache serves all pools, and was made by `newPacketCache`.
            "setCache" | "getPool" | "newSuffixMatchNode" | "newNMG" => {}
            _ if UNNEEDED.contains(&name) => self.forwarder.draft.unneeded(origin),
            "dynBlockRulesGroup" => {
                let why = "limits of `[ratelimit]` hold at once; there are no timed blocks";
                self.forwarder.draft.unmapped(origin, why);
            }
            _ => self.forwarder.draft.unmapped(origin, NONE),
        }
    }

    fn include(&mut self, folder: &str, origin: &Origin, sources: &mut Sources<'_>) {
        let is_lua = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "conf");
        let files = sources.find(folder).and_then(|found| match found.first() {
            Some(folder) => sources.in_folder(folder, is_lua),
            None => Ok(Vec::new()),
        });
        match files {
            Ok(files) => {
                for file in files {
                    match sources.open(&file) {
                        Ok(text) => {
                            self.read(&text, sources);
                            sources.close();
                        }
                        Err(why) => self.forwarder.draft.unmapped(origin, shown(&why)),
                    }
                }
            }
            Err(why) => self.forwarder.draft.unmapped(origin, shown(&why)),
        }
    }

    fn local(&mut self, text: &str, arguments: &[Value], origin: &Origin) {
        let Some(address) = socket(text, 53) else {
            return self.forwarder.draft.unmapped(origin, "this is no address");
        };
        let is_udp_only =
            arguments.get(1).and_then(|it| it.key("doTCP")) == Some(&Value::Name("false".into()));
        if self.forwarder.listen(address, origin) && !is_udp_only {
            self.forwarder.stream("tcp", address, origin);
        }
    }

    fn encrypted(
        &mut self,
        transport: &'static str,
        port: u16,
        text: &str,
        arguments: &[Value],
        origin: &Origin,
    ) {
        let Some(address) = socket(text, port) else {
            return self.forwarder.draft.unmapped(origin, "this is no address");
        };
        let files = |at: usize| arguments.get(at).and_then(Value::texts).unwrap_or_default();
        if transport == "https" && files(1).is_empty() {
            return self.forwarder.draft.unmapped(origin, "HTTP without TLS is not served");
        }
        self.forwarder.stream(transport, address, origin);
        for (at, key) in [(1, "certificate"), (2, "key")] {
            if let Some(file) = files(at).first() {
                self.forwarder.draft.set("streams", key, *file, origin);
            }
            if files(at).len() > 1 {
                self.forwarder.draft.unmapped(origin, format!("there is one `streams.{key}`"));
            }
        }
        if let Some(path) = files(3).first().filter(|_| transport == "https") {
            self.forwarder.draft.set("streams", "https_path", *path, origin);
        }
    }

    fn clients(&mut self, listed: Option<&Value>, origin: &Origin) {
        let Some(texts) = listed.and_then(Value::texts) else {
            return self.forwarder.draft.unmapped(origin, PROGRAM);
        };
        let usual =
            || USUAL_CLIENTS.iter().map(|text| ((*text).to_owned(), origin.clone())).collect();
        let clients = self.clients.get_or_insert_with(usual);
        clients.extend(texts.into_iter().map(|text| (text.to_owned(), origin.clone())));
    }

    fn cache(&mut self, entries: &str, options: Option<&Value>, origin: &Origin) {
        match entries.parse::<u64>() {
            Ok(entries) => self.forwarder.cache_size(entries.saturating_mul(ENTRY_BYTES), origin),
            Err(_) => self.forwarder.draft.unmapped(origin, "this is no number of entries"),
        }
        let Some(Value::Table(fields)) = options else { return };
        for (name, value) in fields {
            let key = match name.as_deref() {
                Some("maxTTL") => "max_ttl",
                Some("minTTL") => "min_ttl",
                Some("maxNegativeTTL") => "max_negative_ttl",
                Some("staleTTL") => "stale_ttl",
                Some("numberOfShards" | "deferrableInsertLock" | "keepStaleData") => continue,
                name => {
                    let name = name.unwrap_or("an option").to_owned();
                    self.forwarder.draft.unmapped(origin, format!("`{}`: {NONE}", shown(&name)));
                    continue;
                }
            };
            self.forwarder.number("cache", key, value.text().unwrap_or_default(), origin);
        }
    }

    /// Adds names or networks to a set of them.
    fn add_to_set(&mut self, arguments: &[Value], origin: &Origin) {
        if let [Value::Name(variable), rest @ ..] = arguments
            && let Some(Value::Table(fields)) = self.variables.get_mut(variable)
            && let Some(texts) = rest.first().and_then(Value::texts)
        {
            fields.extend(texts.into_iter().map(|text| (None, Value::Text(text.to_owned()))));
            return;
        }
        self.forwarder.draft.unmapped(origin, PROGRAM);
    }

    pub(super) fn finish(mut self) -> Draft {
        let origin = self.first.clone().unwrap_or_default();
        let is_usual = self.clients.is_none();
        let usual = USUAL_CLIENTS.map(|text| (text.to_owned(), Origin::new(origin.place, "")));
        for (text, origin) in self.clients.take().unwrap_or_else(|| usual.to_vec()) {
            match network(&text) {
                Some(prefix) => self.forwarder.access(prefix, "allow", &origin),
                None => self
                    .forwarder
                    .draft
                    .unmapped(&origin, format!("`{}` is no network", shown(&text))),
            }
        }
        if is_usual {
            self.forwarder.draft.single("acl").note =
                "The clients that dnsdist answers without `setACL`.".to_owned();
        }
        self.forwarder.draft.set("acl", "default", "drop", &origin);
        servers::finish(&mut self.forwarder, std::mem::take(&mut self.servers));
        self.forwarder.share_port();
        self.forwarder.draft
    }
}
