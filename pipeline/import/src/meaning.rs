//! The parts that all three formats have, each in its way: addresses, clients, servers, records.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use pmdns_config::limits::MAX_NAME;
use pmdns_config::{DEFAULT_GROUP, InterfaceAddress, LocalRecord, Prefix, wire_name};

use crate::clients::{ByClient, SettingValue};
use crate::draft::{Draft, Value};
use crate::source::Origin;

/// The note on a setting that many servers have and pmdns has not yet.
pub(crate) const NONE: &str = "pmdns has no counterpart";
/// Where queries over streams come to.
pub(crate) const TAP: &str = "pm-edge";

/// A server that queries are forwarded to.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// As `upstream.address` has it.
    pub(crate) address: String,
    /// Further keys.
    pub(crate) keys: Vec<(&'static str, Value)>,
    pub(crate) origin: Origin,
}

/// What becomes of a client's queries: `acl.allow`, `acl.refuse` or `acl.drop`.
pub(crate) type AccessAction = &'static str;
/// Networks of the access list and of views.
const MAX_NETWORKS: usize = 65_536;

/// The forwarder that a configuration describes.
#[derive(Default)]
pub(crate) struct Forwarder {
    pub(crate) draft: Draft,
    dns_port: Option<u16>,
    /// The group of each upstream's address.
    groups: BTreeMap<String, String>,
    /// Short names, each with the kind and name that it stands for.
    names: BTreeMap<(&'static str, String), String>,
    /// Local records: of each name the views, type, TTL and data.
    records: BTreeMap<String, Vec<ImportedRecord>>,
}

/// A local record as it is written.
#[derive(Clone, Copy)]
pub(crate) struct LocalData<'d> {
    pub(crate) name: &'d str,
    pub(crate) rtype: &'d str,
    pub(crate) ttl: u32,
    pub(crate) data: &'d str,
}

/// A local record that was taken over.
struct ImportedRecord {
    views: Vec<String>,
    rtype: String,
    ttl: u32,
    data: String,
}

impl Forwarder {
    /// An address that queries over UDP come to.
    pub(crate) fn listen(&mut self, address: SocketAddr, origin: &Origin) -> bool {
        let ip = address.ip();
        let why = match ip {
            _ if ip.is_unspecified() => {
                "pmdns answers at the addresses of its port; list them in `port.addresses`"
            }
            _ if ip.is_loopback() => {
                "an address of a port is not loopback; local programs ask the port's address"
            }
            _ if self.dns_port.is_some_and(|port| port != address.port()) => {
                "all addresses of a port have the same `dns_port`"
            }
            _ => {
                self.dns_port = Some(address.port());
                self.draft.read(origin);
                let port = self.draft.port();
                port.push("addresses", ip.to_string(), Some(origin.clone()));
                if address.port() != 53 {
                    port.set("dns_port", u64::from(address.port()), Some(origin.clone()));
                }
                return true;
            }
        };
        self.draft.unmapped(origin, why);
        false
    }

    /// An address that clients connect to.
    pub(crate) fn stream(&mut self, transport: &'static str, address: SocketAddr, origin: &Origin) {
        self.draft.push("streams", transport, address.to_string(), origin);
    }

    /// The kernel has the addresses of the port too if clients over streams use them.
    pub(crate) fn share_port(&mut self) {
        let has_port = self.draft.all("port").any(|port| !port.entries.is_empty());
        if has_port && self.draft.all("streams").next().is_some() {
            self.draft.single("port").set("tap", TAP, None);
            self.draft.single("streams").note =
                "Sockets of the kernel, which has the port's addresses by `port.tap`.".to_owned();
        }
    }

    /// Which clients get which answer. All others are refused.
    pub(crate) fn access(
        &mut self,
        clients: &ByClient<SettingValue<AccessAction>>,
        origin: &Origin,
    ) {
        if clients.len() > MAX_NETWORKS {
            let why = "these are too many networks, so all clients are refused";
            return self.draft.decisive(origin, why);
        }
        let is_default = |network: Prefix, answer| network.length == 0 && answer == "refuse";
        for (network, SettingValue { value, origin }) in clients.networks() {
            match is_default(network, *value) {
                true => {}
                false => {
                    let (acl, network) = (self.draft.single("acl"), network.to_string());
                    acl.push(value, network, origin.clone());
                }
            }
        }
    }

    /// A view of these clients.
    pub(crate) fn view(
        &mut self,
        name: &str,
        clients: Vec<(Prefix, Option<Origin>)>,
        origin: &Origin,
    ) {
        let view = self.draft.add("view", Some(origin.clone()));
        view.set("name", name, None);
        for (prefix, origin) in clients {
            view.push("clients", prefix.to_string(), origin);
        }
    }

    /// A short name that no other `name` of this kind has.
    pub(crate) fn short(&mut self, kind: &'static str, name: &str) -> String {
        let plain = plain_name(name);
        for number in 1_usize.. {
            let short = match number {
                1 => plain.clone(),
                _ => {
                    let end = format!("-{number}");
                    let room = MAX_NAME.saturating_sub(end.len());
                    format!("{}{end}", plain.get(..room).unwrap_or(&plain))
                }
            };
            match self.names.entry((kind, short.clone())) {
                Entry::Occupied(taken) if taken.get() != name => {}
                entry => {
                    entry.or_insert_with(|| name.to_owned());
                    return short;
                }
            }
        }
        plain
    }

    /// Which group is asked for names at and below `zone`: it is returned. In view `views`; none: in all.
    pub(crate) fn forward(
        &mut self,
        zone: &str,
        servers: Vec<Upstream>,
        views: &[String],
        origin: &Origin,
    ) -> String {
        if let Err(error) = wire_name(zone) {
            self.draft.decisive(origin, error.to_string());
            return DEFAULT_GROUP.to_owned();
        }
        let is_root = zone == "." && views.is_empty();
        let full = [zone.trim_end_matches('.').to_ascii_lowercase(), views.join(" ")].join(" ");
        let wanted = match is_root {
            true => DEFAULT_GROUP.to_owned(),
            false => self.short("group", full.trim_end()),
        };
        let group = self.group(&wanted, servers);
        if !(is_root && group == DEFAULT_GROUP) {
            self.ask(zone, &group, views, origin);
        }
        group
    }

    /// A zone whose group is known.
    pub(crate) fn ask(&mut self, zone: &str, group: &str, views: &[String], origin: &Origin) {
        let forward = self.draft.add("forward", Some(origin.clone()));
        forward.set("zone", zone, Some(origin.clone()));
        forward.set("group", group, Some(origin.clone()));
        forward.in_views(views, origin);
    }

    /// The group of these servers: `wanted`, if they are not in another one already.
    pub(crate) fn group(&mut self, wanted: &str, servers: Vec<Upstream>) -> String {
        let known = servers.first().and_then(|first| self.groups.get(&first.address).cloned());
        if let Some(group) = known {
            let in_group = self.groups.iter().filter(|(_, other)| **other == group);
            let members: Vec<&String> = in_group.map(|(address, _)| address).collect();
            let mut ours: Vec<&String> = servers.iter().map(|one| &one.address).collect();
            ours.sort_unstable();
            ours.dedup();
            if members == ours {
                servers.iter().for_each(|server| self.draft.read(&server.origin));
                return group;
            }
        }
        let mut group = None;
        for server in servers {
            if let Some(other) = self.groups.get(&server.address).cloned() {
                // Named twice in one list, it is there once.
                if other != wanted {
                    let why = format!("an upstream is in one group, and this one is in `{other}`");
                    self.draft.decisive(&server.origin, why);
                } else {
                    self.draft.read(&server.origin);
                }
                group.get_or_insert(other);
                continue;
            }
            self.groups.insert(server.address.clone(), wanted.to_owned());
            let origin = Some(server.origin);
            let table = self.draft.add("upstream", origin.clone());
            table.set("address", server.address, origin.clone());
            if wanted != DEFAULT_GROUP {
                table.set("group", wanted, origin.clone());
            }
            for (key, value) in server.keys {
                table.set(key, value, origin.clone());
            }
            group = Some(wanted.to_owned());
        }
        group.unwrap_or_else(|| wanted.to_owned())
    }

    /// A record that is answered here. It has to fit those that are there: ours are refused together if they do not.
    pub(crate) fn local(&mut self, record: LocalData<'_>, views: &[String], origin: &Origin) {
        let LocalData { name, rtype, ttl, data } = record;
        if let Err(error) = LocalRecord::new(name, rtype, ttl, data) {
            return self.draft.unmapped(origin, error.to_string());
        }
        let key = name.trim_end_matches('.').to_ascii_lowercase();
        let rtype = rtype.to_ascii_uppercase();
        let of_name = self.records.entry(key).or_default();
        let is_here = |one: &&ImportedRecord| {
            let both = |view: &String| one.views.contains(view);
            one.views.is_empty() || views.is_empty() || views.iter().any(both)
        };
        let is_same =
            |one: &ImportedRecord| one.rtype == rtype && one.data == data && one.views == views;
        if of_name.iter().any(is_same) {
            return self.draft.read(origin);
        }
        let is_alone = |rtype: &str| ["CNAME", "SOA"].contains(&rtype);
        let beside = |rtype: &str| !["RRSIG", "NSEC"].contains(&rtype);
        for one in of_name.iter().filter(is_here) {
            let is_twice = one.rtype == rtype && is_alone(&rtype);
            let is_alias = (one.rtype == "CNAME") != (rtype == "CNAME")
                && beside(&one.rtype)
                && beside(&rtype);
            if is_twice || is_alias {
                let why = format!(
                    "the name has a record of type {} already, which stands alone",
                    one.rtype
                );
                return self.draft.unmapped(origin, why);
            }
        }
        let before = of_name.iter().filter(is_here).find(|one| one.rtype == rtype);
        let same_ttl = before.map_or(ttl, |one| one.ttl);
        let (views, data) = (views.to_vec(), data.to_owned());
        let record = ImportedRecord { views, rtype, ttl: same_ttl, data };
        if same_ttl != ttl {
            let why =
                "records of one name and type have the same TTL, that of the first (RFC 2181)";
            self.draft.unmapped(origin, why);
        }
        let local = self.draft.add("local", Some(origin.clone()));
        local.set("name", name, Some(origin.clone()));
        local.set("type", &*record.rtype, Some(origin.clone()));
        local.set("ttl", u64::from(same_ttl), Some(origin.clone()));
        local.set("data", &*record.data, Some(origin.clone()));
        local.in_views(&record.views, origin);
        of_name.push(record);
    }

    /// A record of a name, and of all below it.
    pub(crate) fn local_below(&mut self, record: LocalData<'_>, views: &[String], origin: &Origin) {
        self.local(record, views, origin);
        let below = format!("*.{}", record.name.trim_start_matches('.'));
        self.local(LocalData { name: &below, ..record }, views, origin);
    }

    /// A zone without names, apart from local records in it.
    pub(crate) fn empty_zone(&mut self, name: &str, views: &[String], origin: &Origin) {
        let data = "localhost nobody.invalid 1 3600 1200 604800 10800";
        self.local(LocalData { name, rtype: "SOA", ttl: 3600, data }, views, origin);
    }

    /// A name that is NXDOMAIN, with everything below it.
    pub(crate) fn block(&mut self, name: &str, views: &[String], origin: &Origin) {
        let name = name.strip_prefix("*.").unwrap_or(name);
        if !views.is_empty() {
            // `[block]` has no views; an empty zone answers the same, but for the name itself.
            let why = "in these views the name itself is NOERROR without records; names below it are NXDOMAIN";
            self.draft.unmapped(origin, why);
            return self.empty_zone(name, views, origin);
        }
        match wire_name(name) {
            Ok(_) => self.draft.push("block", "names", name, origin),
            Err(error) => self.draft.unmapped(origin, error.to_string()),
        }
    }

    /// A name that no list blocks, with everything below it.
    pub(crate) fn except(&mut self, name: &str, origin: &Origin) {
        match wire_name(name) {
            Ok(_) => self.draft.push("block", "except", name, origin),
            Err(error) => self.draft.unmapped(origin, error.to_string()),
        }
    }

    /// Sets a key to the number that `text` is.
    pub(crate) fn number(
        &mut self,
        table: &'static str,
        key: &'static str,
        text: &str,
        origin: &Origin,
    ) {
        match text.parse::<u32>() {
            Ok(number) => self.draft.set(table, key, u64::from(number), origin),
            Err(_) => self.draft.unmapped(origin, "this is not a number"),
        }
    }

    /// Sets a key to the yes or no that `text` is.
    pub(crate) fn switch(
        &mut self,
        table: &'static str,
        key: &'static str,
        text: &str,
        origin: &Origin,
    ) {
        match truth(text) {
            Some(switch) => self.draft.set(table, key, switch, origin),
            None => self.draft.unmapped(origin, "this is neither yes nor no"),
        }
    }

    /// Sets the size of the cache.
    pub(crate) fn cache_size(&mut self, bytes: u64, origin: &Origin) {
        let mebibytes = bytes.div_ceil(1 << 20);
        self.draft.set("cache", "size", format!("{mebibytes}MiB"), origin);
    }
}

/// Whether `text` means yes.
pub(crate) fn truth(text: &str) -> Option<bool> {
    match text {
        "yes" | "true" | "1" => Some(true),
        "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// A number of bytes with the unit k, m or g, as in `64m`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix('b').unwrap_or(&lower);
    let (digits, shift) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) => {
            let shift = match lower.as_bytes().last() {
                Some(b'k') => 10,
                Some(b'm') => 20,
                _ => 30,
            };
            (digits, shift)
        }
        None => (lower, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A network, with any bits behind its length.
pub(crate) fn network(text: &str) -> Option<Prefix> {
    let InterfaceAddress { address, length } = text.parse().ok()?;
    let text = format!("{address}/{length}");
    match text.parse::<Prefix>() {
        Ok(prefix) => Some(prefix),
        Err(pmdns_config::PrefixError::HostBits { network, .. }) => Some(network),
        Err(_) => None,
    }
}

/// A short name made of a longer one.
pub(crate) fn plain_name(text: &str) -> String {
    let trimmed = text.trim_matches('.');
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = trimmed.chars().map(plain).take(MAX_NAME - 2).collect();
    match &*name {
        "" => "all".to_owned(),
        // Other tables mean something by this name.
        DEFAULT_GROUP => "default-".to_owned(),
        _ => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("64m"), Some(64 << 20));
        assert_eq!(bytes("4GB"), Some(4 << 30));
        assert_eq!(bytes("17"), Some(17));
        assert_eq!(bytes("90%"), None);
        assert_eq!(bytes("99999999999999999g"), None);
    }

    #[test]
    fn networks_may_have_bits_behind_their_length() {
        assert_eq!(
            network("192.0.2.7/24").map(|prefix| prefix.to_string()).as_deref(),
            Some("192.0.2.0/24")
        );
        assert_eq!(network("example"), None);
    }
}
