//! The meaning of the calls.

use std::collections::BTreeMap;

use super::call::Call;
use super::kinds::KINDS;
use super::lua::{PROGRAM, Value, statements};
use super::names;
use super::proxies::Proxies;
use super::selected::is_decisive;
use super::{logs, rules, servers, sockets, webserver};
use crate::clients::{ByClient, SettingValue};
use crate::draft::Draft;
use crate::limits::MAX_NESTING;
use crate::meaning::{AccessAction, Forwarder, NONE, network};
use crate::source::{Origin, Sources, Text, shown};

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
/// How the names of calls begin that ask for something, on a console.
const OF_CONSOLE: [&str; 4] = ["show", "exceed", "get", "grep"];

/// Names in a program that decide who may ask, what they are told, or whom we ask.
const DECIDING: [&str; 20] = [
    "blockFilter",
    "addLuaAction",
    "addPoolRule",
    "addQPSPoolRule",
    "addDomainBlock",
    "setServerPolicyLua",
    "newServer",
    "rmServer",
    "addAction",
    "setACL",
    "addACL",
    "rmACL",
    "setACLFromFile",
    "setRules",
    "clearRules",
    "setLocal",
    "addLocal",
    "addDOHLocal",
    "addTLSLocal",
    "addDOQLocal",
];

/// A configuration that is read.
#[derive(Default)]
pub(super) struct Program {
    forwarder: Forwarder,
    variables: BTreeMap<String, Value>,
    /// Values that were kept in variables, or put in their places.
    kept: usize,
    servers: Vec<servers::Server>,
    /// Addresses that queries come to: the arguments of the calls.
    locals: Vec<(Vec<Value>, Origin)>,
    proxies: Proxies,
    /// The clients that `setACL` and `addACL` name.
    clients: Option<Vec<(String, Origin)>>,
    /// The rules in their order, of which the first that matches decides.
    rules: Vec<rules::Rule>,
    first: Option<Origin>,
}

impl Program {
    pub(super) fn read(&mut self, text: &Text, sources: &mut Sources<'_>) {
        for one in statements(&text.text) {
            let origin = Origin::new(text.at(one.line), &one.text);
            // A place of its own: what stands for the whole file is not this statement.
            self.first.get_or_insert_with(|| Origin::new(text.at(one.line), &one.text));
            self.forwarder.draft.parsed(&origin);
            let Some(value) = one.value else {
                // It may have changed what it names.
                for word in &one.words {
                    self.variables.remove(word);
                }
                match one.words.iter().any(|word| DECIDING.contains(&&**word)) {
                    true => self.forwarder.draft.decisive(&origin, PROGRAM),
                    false => self.forwarder.draft.unmapped(&origin, PROGRAM),
                }
                continue;
            };
            let value = self.resolved(value);
            match (one.variable, value) {
                (variable, Value::Call(name, arguments)) => {
                    self.call(&name, &arguments, &origin, sources);
                    if let Some(variable) = variable {
                        let value = match (&*name, &arguments[..]) {
                            ("newSuffixMatchNode" | "newNMG", []) => Value::Table(Vec::new()),
                            ("newNMG", [masks @ Value::Table(_)]) => masks.clone(),
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
        if self.kept > MAX_KEPT || depth > MAX_NESTING {
            return self.forwarder.draft.decisive(origin, PROGRAM);
        }
        self.forwarder.draft.read(origin);
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
        let call = Call::new(arguments);
        let text = arguments.first().and_then(Value::text).unwrap_or_default().to_owned();
        match name {
            "includeDirectory" => self.include(&text, origin, sources),
            "setLocal" | "addLocal" => {
                if name == "setLocal" {
                    // It is in the place of all addresses before.
                    let before = self.locals.drain(..);
                    before.for_each(|(_, origin)| self.forwarder.draft.unneeded(&origin));
                }
                self.forwarder.draft.read(origin);
                self.locals.push((arguments.to_vec(), origin.clone()));
            }
            "addTLSLocal" => sockets::encrypted("tls", 853, &call, origin, &mut self.forwarder),
            "addDOHLocal" => sockets::encrypted("https", 443, &call, origin, &mut self.forwarder),
            "addDOQLocal" => sockets::encrypted("quic", 853, &call, origin, &mut self.forwarder),
            "setACL" => {
                self.clients = Some(Vec::new());
                self.clients(arguments.first(), origin);
            }
            "addACL" => self.clients(arguments.first(), origin),
            "newServer" => {
                servers::server(&mut self.forwarder, &mut self.servers, &call, origin);
                call.list_rest(origin, &mut self.forwarder);
            }
            "addAction" => self.rule(arguments, origin),
            "newPacketCache" => {
                self.cache(&call, origin);
                call.list_rest(origin, &mut self.forwarder);
            }
            "add" | "addMask" => self.add_to_set(arguments, origin),
            // The cache serves all pools, and was made by `newPacketCache`.
            "setCache" | "getPool" | "newSuffixMatchNode" | "newNMG" | "newDNSName" => {
                self.forwarder.draft.read(origin);
            }
            _ => self.setting(name, arguments, &text, origin),
        }
    }

    /// A rule with its action. Those that log stand for themselves, the others are in an order.
    fn rule(&mut self, arguments: &[Value], origin: &Origin) {
        if !logs::action(&mut self.forwarder, arguments, origin) {
            self.forwarder.draft.read(origin);
            self.rules.push(rules::Rule { arguments: arguments.to_vec(), origin: origin.clone() });
        }
    }

    /// Calls that one key stands for.
    fn setting(&mut self, name: &str, arguments: &[Value], text: &str, origin: &Origin) {
        let (first, forwarder) = (arguments.first(), &mut self.forwarder);
        match name {
            "setServerPolicy" => servers::policy(forwarder, first, "default", origin),
            "setPoolServerPolicy" => {
                let pool = arguments.get(1).and_then(Value::text).unwrap_or_default().to_owned();
                servers::policy(forwarder, first, &names::group(&pool), origin);
            }
            name if name.starts_with("add") && name.ends_with("ResponseAction") => {
                if logs::action(forwarder, arguments, origin) {
                    return;
                }
                match arguments {
                    [rule, Value::Call(action, _), ..] if !is_decisive(rule, action) => {
                        forwarder.draft.unmapped(origin, NONE);
                    }
                    _ => forwarder.draft.decisive(origin, NONE),
                }
            }
            "newRemoteLogger" => forwarder.draft.unmapped(origin, logs::PROTOBUF),
            // The action that uses it says so.
            "newFrameStreamUnixLogger" | "newFrameStreamTcpLogger" => forwarder.draft.read(origin),
            "setStaleCacheEntriesTTL" => {
                forwarder.draft.set("cache", "serve_stale", text != "0", origin);
                if text != "0" {
                    forwarder.number("cache", "stale_window_seconds", text, origin);
                }
            }
            "setECSSourcePrefixV4" => {
                forwarder.number("client_subnet", "ipv4_prefix", text, origin)
            }
            "setECSSourcePrefixV6" => {
                forwarder.number("client_subnet", "ipv6_prefix", text, origin)
            }
            "setMaxTCPQueriesPerConnection" => {
                forwarder.number("streams", "max_queries_per_connection", text, origin);
            }
            "setProxyProtocolACL" => self.proxies.list(first, origin, forwarder),
            "setProxyProtocolApplyACLToProxiedClients" => {
                self.proxies.judge_clients(first, origin, forwarder);
            }
            "webserver" => webserver::address(&Call::new(arguments), origin, forwarder),
            "setWebserverConfig" => webserver::access(&Call::new(arguments), origin, forwarder),
            "dynBlockRulesGroup" => {
                let why = "limits of `[ratelimit]` hold at once; there are no timed blocks";
                forwarder.draft.unmapped(origin, why);
            }
            // They print something.
            _ if OF_CONSOLE.iter().any(|begin| name.starts_with(begin)) => {
                forwarder.draft.unneeded(origin);
            }
            // One of another name counts as unread.
            _ => {
                KINDS.list(name, origin, forwarder);
            }
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
                self.forwarder.draft.read(origin);
                for file in files {
                    match sources.open(&file) {
                        Ok(text) => {
                            self.read(&text, sources);
                            sources.close();
                        }
                        Err(why) => self.forwarder.draft.decisive(origin, shown(&why)),
                    }
                }
            }
            Err(why) => self.forwarder.draft.decisive(origin, shown(&why)),
        }
    }

    fn clients(&mut self, listed: Option<&Value>, origin: &Origin) {
        let Some(texts) = listed.and_then(Value::texts) else {
            return self.forwarder.draft.decisive(origin, PROGRAM);
        };
        self.forwarder.draft.read(origin);
        let usual =
            || USUAL_CLIENTS.iter().map(|text| ((*text).to_owned(), origin.clone())).collect();
        let clients = self.clients.get_or_insert_with(usual);
        clients.extend(texts.into_iter().map(|text| (text.to_owned(), origin.clone())));
    }

    /// `newPacketCache(entries, {...})`, or with all of its options in their order.
    fn cache(&mut self, call: &Call<'_>, origin: &Origin) {
        match call.text(0).and_then(|entries| entries.parse::<u64>().ok()) {
            Some(entries) => self.forwarder.cache_size(entries.saturating_mul(ENTRY_BYTES), origin),
            None => self.forwarder.draft.unmapped(origin, "this is no number of entries"),
        }
        for (option, at, key) in [
            ("maxTTL", 1, "max_ttl"),
            ("minTTL", 2, "min_ttl"),
            ("staleTTL", 4, "stale_ttl"),
            ("maxNegativeTTL", 8, "max_negative_ttl"),
        ] {
            let value = call.option(1, option).and_then(Value::text).or_else(|| call.text(at));
            if let Some(value) = value {
                self.forwarder.number("cache", key, value, origin);
            }
        }
        call.skip(1, &["numberOfShards", "deferrableInsertLock", "keepStaleData"]);
        // `numberOfShards` and `deferrableInsertLock`.
        let _ = (call.argument(6), call.argument(7));
    }

    /// Adds names or networks to a set of them.
    fn add_to_set(&mut self, arguments: &[Value], origin: &Origin) {
        if let [Value::Name(variable), rest @ ..] = arguments
            && let Some(Value::Table(fields)) = self.variables.get_mut(variable)
            && let Some(texts) = rest.first().and_then(Value::texts)
        {
            fields.extend(texts.into_iter().map(|text| (None, Value::Text(text.to_owned()))));
            return self.forwarder.draft.read(origin);
        }
        self.forwarder.draft.decisive(origin, PROGRAM);
    }

    pub(super) fn finish(mut self) -> Draft {
        for (arguments, origin) in std::mem::take(&mut self.locals) {
            sockets::plain(&Call::new(&arguments), &origin, &mut self.forwarder);
        }
        let origin = self.first.clone().unwrap_or_default();
        let is_usual = self.clients.is_none();
        let usual = USUAL_CLIENTS.map(|text| (text.to_owned(), Origin::new(origin.place, "")));
        let mut answers = ByClient::all(SettingValue::by("drop", &origin));
        for (text, origin) in self.clients.take().unwrap_or_else(|| usual.to_vec()) {
            let (bare, answer) = match text.strip_prefix('!') {
                Some(bare) => (bare, "drop"),
                None => (&*text, "allow"),
            };
            match network(bare) {
                Some(prefix) => answers.set(prefix, SettingValue::by(answer, &origin)),
                None => {
                    let why = format!("`{}` is no network", shown(&text));
                    self.forwarder.draft.decisive(&origin, why);
                }
            }
        }
        if is_usual {
            self.forwarder.draft.single("acl").note =
                "The clients that dnsdist answers without `setACL`.".to_owned();
        }
        let answers = rules::map(std::mem::take(&mut self.rules), &answers, &mut self.forwarder);
        self.access(&answers, &origin);
        servers::finish(&mut self.forwarder, std::mem::take(&mut self.servers));
        self.proxies.finish(&mut self.forwarder);
        self.forwarder.share_port();
        self.forwarder.draft
    }

    /// Writes who may ask. dnsdist drops all others.
    fn access(&mut self, answers: &ByClient<SettingValue<AccessAction>>, origin: &Origin) {
        let mut listed = ByClient::all(SettingValue::by_default("refuse"));
        for (network, said) in answers.networks() {
            match said.value {
                "drop" if network.length == 0 => {}
                _ => listed.set(network, said.clone()),
            }
        }
        self.forwarder.access(&listed, origin);
        self.forwarder.draft.set("acl", "default", "drop", origin);
    }
}
