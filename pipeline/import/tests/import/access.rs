//! No client that the source server refuses gets an answer, a zone or a record here: generated configurations are compared
//! with a small model of each server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use pmdns_config::{Config, Prefix, wire_name};
use pmdns_import::ServerKind;
use proptest::prelude::*;

use crate::one;

/// The clients that are asked about: two that no network has, and 16 others.
fn clients() -> impl Iterator<Item = IpAddr> {
    let others = (0..16).map(|last| Ipv4Addr::new(10, 0, 0, last));
    [Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(198, 51, 100, 1)]
        .into_iter()
        .chain(others)
        .map(IpAddr::V4)
}

fn network() -> impl Strategy<Value = Prefix> {
    (0_u8..16, 27_u8..=32)
        .prop_map(|(last, length)| Prefix::of(Ipv4Addr::new(10, 0, 0, last).into(), length))
}

/// Whether pmdns answers a client, and the client's view.
fn ours(config: &Config, client: IpAddr) -> (bool, String) {
    let longest = |prefixes: &[Prefix]| {
        prefixes.iter().filter(|one| one.contains(client)).map(|one| i16::from(one.length)).max()
    };
    let (allow, refuse, drop) =
        (longest(&config.acl.allow), longest(&config.acl.refuse), longest(&config.acl.drop));
    let is_allowed = allow > refuse && allow > drop;
    let views = config.views.iter().filter_map(|view| Some((longest(&view.clients)?, &view.name)));
    let view = views.max().map_or_else(|| "default".to_owned(), |(_, name)| name.clone());
    (is_allowed, view)
}

fn holds(views: &[String], view: &str) -> bool {
    views.is_empty() || views.iter().any(|one| one == view)
}

/// An element of an address match list.
#[derive(Clone, Debug)]
enum Element {
    Network(Prefix),
    Any,
    None,
    /// A list with a name, or in braces.
    Named(Vec<(bool, Element)>),
    Braces(Vec<(bool, Element)>),
    /// Something that an address does not tell.
    Localnets,
    Key,
}

type List = Vec<(bool, Element)>;

fn list() -> impl Strategy<Value = List> {
    let leaf = prop_oneof![
        6 => network().prop_map(Element::Network),
        2 => Just(Element::Any),
        1 => Just(Element::None),
        1 => Just(Element::Localnets),
        1 => Just(Element::Key),
    ];
    let inner = leaf.prop_recursive(2, 12, 4, |inner| {
        let list = prop::collection::vec((any::<bool>(), inner), 0..4);
        prop_oneof![list.clone().prop_map(Element::Named), list.prop_map(Element::Braces)]
    });
    prop::collection::vec((prop::bool::weighted(0.3), inner), 0..5)
}

/// Whether a list matches a client (BIND 9 Administrator Reference Manual, "Address Match Lists"). `is_unknown`: what is
/// taken for elements that an address does not tell.
fn matches(list: &List, client: IpAddr, is_unknown: bool) -> Option<bool> {
    list.iter().find_map(|(negated, element)| {
        let is_match = match element {
            Element::Network(network) => network.contains(client),
            Element::Any => true,
            // It is `!any`.
            Element::None => return Some(*negated),
            Element::Named(list) | Element::Braces(list) => {
                matches(list, client, is_unknown) == Some(true)
            }
            Element::Localnets | Element::Key => is_unknown,
        };
        is_match.then_some(!negated)
    })
}

/// A configuration of named.
#[derive(Clone, Debug)]
struct Named {
    /// `allow-query`, `allow-recursion`, `allow-query-cache`, `blackhole`.
    options: [Option<List>; 4],
    views: Vec<View>,
    separator: &'static str,
}

/// A view with a zone.
#[derive(Clone, Debug)]
struct View {
    clients: List,
    /// `allow-query`, `allow-recursion`, `allow-query-cache`.
    access: [Option<List>; 3],
    zone_access: Option<List>,
    recursion: bool,
}

const ACCESS: [&str; 4] = ["allow-query", "allow-recursion", "allow-query-cache", "blackhole"];

fn named() -> impl Strategy<Value = Named> {
    let maybe = || prop::option::of(list());
    let view = (list(), [maybe(), maybe(), maybe()], maybe(), prop::bool::weighted(0.9)).prop_map(
        |(clients, access, zone_access, recursion)| View {
            clients,
            access,
            zone_access,
            recursion,
        },
    );
    (
        [maybe(), maybe(), maybe(), prop::option::weighted(0.2, list())],
        prop::collection::vec(view, 0..4),
        prop::sample::select(&[" ", "\n"][..]),
    )
        .prop_map(|(options, views, separator)| Named { options, views, separator })
}

impl Named {
    /// As named.conf; lists with names stand before.
    fn written(&self) -> String {
        let mut lists = String::new();
        let mut count = 0;
        let mut text = format!("options {{{}", self.separator);
        for (name, list) in ACCESS.iter().zip(&self.options) {
            if let Some(list) = list {
                let list = self.list(list, &mut lists, &mut count);
                let _ = write!(text, "{name} {{ {list} }};{}", self.separator);
            }
        }
        let _ = write!(text, "forwarders {{ 192.0.2.1; }}; forward only; }};{}", self.separator);
        for (number, view) in self.views.iter().enumerate() {
            let clients = self.list(&view.clients, &mut lists, &mut count);
            let _ =
                write!(text, "view v{number} {{ match-clients {{ {clients} }};{}", self.separator);
            for (name, list) in ACCESS.iter().zip(&view.access) {
                if let Some(list) = list {
                    let list = self.list(list, &mut lists, &mut count);
                    let _ = write!(text, "{name} {{ {list} }};{}", self.separator);
                }
            }
            if !view.recursion {
                text.push_str("recursion no; ");
            }
            let access = view.zone_access.as_ref().map_or(String::new(), |list| {
                let list = self.list(list, &mut lists, &mut count);
                format!("allow-query {{ {list} }};")
            });
            let _ = write!(
                text,
                "zone \"z.example\" {{ type primary; file \"v{number}\"; {access} }}; }};{}",
                self.separator
            );
        }
        lists + &text
    }

    fn list(&self, list: &List, lists: &mut String, count: &mut usize) -> String {
        let mut text = String::new();
        for (negated, element) in list {
            text.push_str(if *negated { "!" } else { "" });
            let element = match element {
                Element::Network(network) => network.to_string(),
                Element::Any => "any".to_owned(),
                Element::None => "none".to_owned(),
                Element::Localnets => "localnets".to_owned(),
                Element::Key => "key k".to_owned(),
                Element::Braces(inner) => format!("{{ {} }}", self.list(inner, lists, count)),
                Element::Named(inner) => {
                    let inner = self.list(inner, lists, count);
                    *count += 1;
                    let _ = write!(lists, "acl a{count} {{ {inner} }};{}", self.separator);
                    format!("a{count}")
                }
            };
            let _ = write!(text, "{element};{}", self.separator);
        }
        text
    }

    /// Whether named resolves for a client, and the view whose zone the client gets.
    fn answers(&self, client: IpAddr, is_unknown: bool) -> (bool, Option<usize>) {
        let is_in = |list: &List| matches(list, client, is_unknown) == Some(true);
        if self.options[3].as_ref().is_some_and(is_in) {
            return (false, None);
        }
        let view = self.views.iter().position(|view| is_in(&view.clients));
        if view.is_none() && !self.views.is_empty() {
            return (false, None);
        }
        let own = |at: usize| view.and_then(|view| self.views[view].access[at].as_ref());
        let [query, recursion, cache] = [0, 1, 2].map(|at| own(at).or(self.options[at].as_ref()));
        let first = recursion.or(cache).or(query);
        let second = cache.or(recursion).or(query);
        let is_on = view.is_none_or(|view| self.views[view].recursion);
        let resolves = is_on && first.is_some_and(is_in) && second.is_some_and(is_in);
        let zone =
            view.filter(|view| self.views[*view].zone_access.as_ref().or(query).is_none_or(is_in));
        (resolves, zone)
    }
}

/// A configuration of Unbound: who may ask, views, and tags.
#[derive(Clone, Debug)]
struct Unbound {
    access: Vec<(Prefix, &'static str)>,
    views: Vec<(Prefix, usize)>,
    tags: Vec<(Prefix, usize)>,
    /// Of each view: `view-first`, and whether it has local data.
    kinds: [(bool, bool); 2],
    /// The tags of the tagged zone, in several settings, and the servers of a zone that is there several times.
    zone_tags: Vec<usize>,
    servers: Vec<u8>,
    /// Which clauses the settings stand in.
    is_split: bool,
}

fn unbound() -> impl Strategy<Value = Unbound> {
    const ACTIONS: &[&str] =
        &["allow", "refuse", "deny", "allow_snoop", "refuse_non_local", "allow_cookie"];
    let pair = (any::<bool>(), any::<bool>());
    (
        prop::collection::vec((network(), prop::sample::select(ACTIONS)), 0..6),
        prop::collection::vec((network(), 0_usize..2), 0..4),
        prop::collection::vec((network(), 0_usize..2), 0..3),
        [pair, pair],
        (prop::collection::vec(0_usize..2, 1..3), prop::collection::vec(2_u8..5, 1..4)),
        any::<bool>(),
    )
        .prop_map(|(access, views, tags, kinds, (zone_tags, servers), is_split)| Unbound {
            access,
            views,
            tags,
            kinds,
            zone_tags,
            servers,
            is_split,
        })
}

impl Unbound {
    fn written(&self) -> String {
        let mut text = "server:\n define-tag: \"t0 t1\"\n".to_owned();
        let next = if self.is_split { "server:\n" } else { "" };
        for (network, action) in &self.access {
            let _ = writeln!(text, " access-control: {network} {action}");
        }
        text.push_str(next);
        for (network, view) in &self.views {
            let _ = writeln!(text, " access-control-view: {network} v{view}");
        }
        for (network, tag) in &self.tags {
            let _ = writeln!(text, " access-control-tag: {network} \"t{tag}\"");
        }
        text.push_str(
            " local-data: \"all.example. TXT x\"\n local-zone: tagged.example. static\n \
             local-data: \"tagged.example. TXT x\"\n",
        );
        text.push_str(next);
        for tag in &self.zone_tags {
            let _ = writeln!(text, " local-zone-tag: tagged.example. \"t{tag}\"");
        }
        for (number, (is_first, has_data)) in self.kinds.iter().enumerate() {
            let first = if *is_first { "yes" } else { "no" };
            let _ = writeln!(text, "view:\n name: v{number}\n view-first: {first}");
            if *has_data {
                let _ = writeln!(text, " local-data: \"v{number}.example. TXT x\"");
            }
        }
        for server in &self.servers {
            let _ =
                writeln!(text, "forward-zone:\n name: f.example\n forward-addr: 192.0.2.{server}");
        }
        text + "forward-zone:\n name: .\n forward-addr: 192.0.2.1\n"
    }

    /// Whether Unbound answers a client, and the names that it has data of for it. Settings of one network are one: the
    /// longest that contains the client decides.
    fn answers(&self, client: IpAddr) -> (bool, BTreeSet<String>) {
        let networks = self.access.iter().map(|(network, _)| *network);
        let networks =
            networks.chain(self.views.iter().chain(&self.tags).map(|(network, _)| *network));
        let Some(node) =
            networks.filter(|one| one.contains(client)).max_by_key(|network| network.length)
        else {
            return (false, BTreeSet::new());
        };
        let action = self.access.iter().rfind(|(network, _)| *network == node);
        let is_answered =
            action.is_none_or(|(_, action)| *action == "allow" || *action == "allow_snoop");
        let view = self.views.iter().find(|(network, _)| *network == node).map(|(_, view)| *view);
        let tag = self.tags.iter().find(|(network, _)| *network == node).map(|(_, tag)| *tag);
        let mut names = BTreeSet::new();
        if let Some(view) = view.filter(|view| self.kinds[*view].1) {
            names.insert(format!("v{view}.example"));
        }
        let sees_server = view.is_none_or(|view| self.kinds[view].0 || !self.kinds[view].1);
        if sees_server {
            names.insert("all.example".to_owned());
            // Of several tags of a zone, and of several servers, one setting counts: the first, and the last.
            if tag.is_some() && tag == self.zone_tags.first().copied() {
                names.insert("tagged.example".to_owned());
            }
        }
        (is_answered, names)
    }
}

/// The names of local text records that hold in a view.
fn local_names(config: &Config, view: &str) -> BTreeSet<String> {
    let names = ["all.example", "tagged.example", "v0.example", "v1.example"];
    let has = |name: &&&str| {
        let wire = wire_name(name).unwrap();
        let of_name = config.local.iter().filter(|one| *one.record.name == *wire);
        of_name.into_iter().any(|one| one.record.rtype == 16 && holds(&one.views, view))
    };
    names.iter().filter(has).map(|name| (*name).to_owned()).collect()
}

fn rule() -> impl Strategy<Value = (Vec<Prefix>, &'static str)> {
    const ACTIONS: &[&str] =
        &["DropAction()", "RCodeAction(DNSRCode.REFUSED)", "PoolAction('p')", "AllowAction()"];
    (prop::collection::vec(network(), 1..3), prop::sample::select(ACTIONS))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn named_refuses_nobody_who_is_answered_here(named in named()) {
        let text = named.written();
        let made = one(&text, ServerKind::Named);
        let config = Config::from_toml(&made.toml).unwrap();
        for client in clients() {
            let (is_allowed, view) = ours(&config, client);
            for is_unknown in [false, true] {
                let (resolves, zone) = named.answers(client, is_unknown);
                prop_assert!(resolves || !is_allowed, "{client} may ask here: {text}\n{}", made.toml);
                let shown = config.zones.iter().filter(|one| is_allowed && holds(&one.views, &view));
                for file in shown.map(|one| one.file.display().to_string()) {
                    let is_his = zone.is_some_and(|zone| file == format!("v{zone}"));
                    // A client that may be in a view by its key gets the zone of the next one, which the import says.
                    prop_assert!(is_his || !made.decisive.is_empty(), "{client} gets {file}: {text}\n{}", made.toml);
                    if !text.contains("localnets") && !text.contains("key k") {
                        prop_assert!(is_his, "{client} gets {file}: {text}\n{}", made.toml);
                    }
                }
            }
        }
    }

    #[test]
    fn unbound_answers_the_same_clients_with_the_same_local_data(unbound in unbound()) {
        let text = unbound.written();
        let made = one(&text, ServerKind::Unbound);
        let config = Config::from_toml(&made.toml).unwrap();
        let asked = format!("192.0.2.{}:53", unbound.servers.last().unwrap());
        let own = config.upstreams.iter().filter(|one| one.group == config.forwards[0].group);
        prop_assert!(own.map(|one| one.address.to_string()).eq([asked]), "{}\n{}", text, made.toml);
        for client in clients() {
            let (is_allowed, view) = ours(&config, client);
            let (is_answered, names) = unbound.answers(client);
            prop_assert_eq!(is_allowed, is_answered, "{} {}\n{}", client, text, made.toml);
            if is_allowed {
                // Of two views or tags of one network the import keeps one, and says so.
                let same = local_names(&config, &view) == names;
                prop_assert!(same || !made.decisive.is_empty(), "{client} in {view}: {text}\n{}", made.toml);
            }
        }
    }

    #[test]
    fn dnsdist_answers_the_same_clients(
        acl in prop::collection::vec((any::<bool>(), network()), 1..5),
        rules in prop::collection::vec((any::<bool>(), rule()), 0..4),
        is_mixed in any::<bool>(),
        is_one_line in any::<bool>(),
    ) {
        let end = if is_one_line { "; " } else { "\n" };
        let listed: Vec<String> = acl
            .iter()
            .map(|(is_not, network)| format!("'{}{network}'", if *is_not { "!" } else { "" }))
            .collect();
        let mut text = format!("setACL({{{}}}){end}newServer('192.0.2.1'){end}", listed.join(", "));
        for (is_not, (networks, action)) in &rules {
            let networks: Vec<String> = networks.iter().map(|one| format!("'{one}'")).collect();
            let rule = format!("NetmaskGroupRule({{{}}})", networks.join(", "));
            // With networks among them the names do not count.
            let rule = match (*is_not, is_mixed) {
                (true, _) => format!("NotRule({rule})"),
                (false, true) => format!("{{'a.example', {}}}", networks.join(", ")),
                (false, false) => rule,
            };
            let _ = write!(text, "addAction({rule}, {action}){end}");
        }
        let made = one(&text, ServerKind::Dnsdist);
        let config = Config::from_toml(&made.toml).unwrap();
        for client in clients() {
            let in_acl = acl.iter().enumerate().filter(|(_, (_, network))| network.contains(client));
            let in_acl = in_acl.max_by_key(|(place, (_, network))| (network.length, *place));
            let rule = rules.iter().find(|(is_not, (networks, _))| {
                networks.iter().any(|one| one.contains(client)) != *is_not
            });
            let is_stopped = rule.is_some_and(|(_, (_, action))| !["PoolAction('p')", "AllowAction()"].contains(action));
            let is_answered = in_acl.is_some_and(|(_, (is_not, _))| !is_not) && !is_stopped;
            prop_assert_eq!(ours(&config, client).0, is_answered, "{} {}\n{}", client, text, made.toml);
        }
    }
}
