//! Who may ask, and which clients are in which view: `access-control` and its kin.

use std::collections::{BTreeMap, BTreeSet};

use pmdns_config::Prefix;

use super::clause::{Conf, Setting};
use crate::clients::{ByClient, SettingValue};
use crate::meaning::{AccessAction, Forwarder, network, truth};
use crate::source::Origin;

/// Clients for whom the same views and tags hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    /// The view of pmdns.
    pub(super) name: String,
    /// Their view in unbound.conf.
    view: Option<String>,
    tags: BTreeSet<String>,
    /// Whether local zones of the server hold for them too.
    sees_server: bool,
}

/// All clients, in groups. The first is of those with neither view nor tags.
pub(super) struct Groups(Vec<Group>);

/// Settings of one network. Unbound takes all of them from the longest that contains the client.
#[derive(Default)]
struct Node<'c> {
    answer: Option<(AccessAction, &'c Origin)>,
    view: Option<(&'c str, &'c Origin)>,
    tags: Option<(BTreeSet<String>, &'c Origin)>,
}

impl Groups {
    /// The views in which tables hold for these groups; `None`: there are none; an empty list: all.
    pub(super) fn views(&self, holds: impl Fn(&Group) -> bool) -> Option<Vec<String>> {
        let named: Vec<String> =
            self.0.iter().filter(|group| holds(group)).map(|group| group.name.clone()).collect();
        match named.len() {
            0 => None,
            all if all == self.0.len() => Some(Vec::new()),
            _ => Some(named),
        }
    }
}

impl Group {
    pub(super) fn is_in(&self, view: &str) -> bool {
        self.view.as_deref() == Some(view)
    }

    /// Whether a local zone of the server with these tags holds for its clients; none: it holds for all.
    pub(super) fn sees(&self, tags: Option<&BTreeSet<String>>) -> bool {
        self.sees_server && tags.is_none_or(|tags| !tags.is_disjoint(&self.tags))
    }

    /// Whether it has one of these tags.
    pub(super) fn has_tag(&self, tags: &BTreeSet<String>) -> bool {
        !tags.is_disjoint(&self.tags)
    }
}

/// The tags in a value, which may be several words.
pub(super) fn tags_of(setting: &Setting, from: usize) -> BTreeSet<String> {
    let values = setting.values.iter().skip(from);
    values.flat_map(|value| value.split_whitespace()).map(str::to_owned).collect()
}

/// Writes the access list and the `[[view]]` tables.
pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) -> Groups {
    let nodes = nodes(conf, forwarder);
    let refused = SettingValue::by_default("refuse");
    let (mut answers, mut member) =
        (ByClient::all(refused), ByClient::all(SettingValue::by_default(0)));
    let mut groups =
        vec![Group { name: "default".to_owned(), sees_server: true, ..Group::default() }];
    for (network, node) in &nodes {
        // A view or tags alone allow the clients.
        let named = node.view.as_ref().map(|(_, origin)| *origin);
        let named = named.or_else(|| node.tags.as_ref().map(|(_, origin)| *origin));
        let answer = node.answer.or_else(|| named.map(|origin| ("allow", origin)));
        if let Some((answer, origin)) = answer {
            answers.set(*network, SettingValue::by(answer, origin));
        }
        let number = group_of(node, conf, &mut groups, forwarder);
        let origin = named.or_else(|| node.answer.map(|(_, origin)| origin)).cloned();
        member.set(*network, SettingValue { value: number, origin });
    }
    for one in nodes.values() {
        let named = [one.view.as_ref().map(|it| it.1), one.tags.as_ref().map(|it| it.1)];
        let all = named.into_iter().flatten().chain(one.answer.map(|it| it.1));
        all.for_each(|origin| forwarder.draft.read(origin));
    }
    forwarder.access(&answers, &conf.server.origin);
    let member = member.plain();
    match member.without(|said| said.value == 0) {
        Some(pieces) => {
            for (number, group) in groups.iter().enumerate().skip(1) {
                let own = pieces.iter().filter(|(_, said)| said.value == number);
                let own: Vec<_> =
                    own.map(|(network, said)| (*network, said.origin.clone())).collect();
                let first = own.first().and_then(|(_, origin)| origin.clone()).unwrap_or_default();
                if !own.is_empty() {
                    forwarder.view(&group.name, own, &first);
                }
            }
        }
        None => {
            let why = "its views have too many networks";
            forwarder.draft.decisive(&conf.server.origin, why);
        }
    }
    Groups(groups)
}

/// The group of a network's clients.
fn group_of(
    node: &Node<'_>,
    conf: &Conf,
    groups: &mut Vec<Group>,
    forwarder: &mut Forwarder,
) -> usize {
    let view = node.view.as_ref().map(|(view, _)| (*view).to_owned());
    let tags = node.tags.as_ref().map_or_else(BTreeSet::new, |(tags, _)| tags.clone());
    let is_same = |group: &Group| group.view == view && group.tags == tags;
    if let Some(number) = groups.iter().position(is_same) {
        return number;
    }
    let words: Vec<&str> = tags.iter().map(String::as_str).collect();
    let of_tags = || format!("tags-{}", words.join(" "));
    let long = match &view {
        Some(view) if tags.is_empty() => view.clone(),
        Some(view) => format!("{view}-{}", of_tags()),
        None => of_tags(),
    };
    let name = forwarder.short("view", &long);
    // Without `view-first` the clients of a view that has local names get no others.
    let is_local = |one: &Setting| one.key.starts_with("local-");
    let of_view = || conf.all("view").filter(|clause| clause.last("name") == view.as_deref());
    let sees_server = of_view().all(|clause| {
        clause.last("view-first").and_then(truth) == Some(true)
            || !clause.settings.iter().any(is_local)
    });
    groups.push(Group { name, view, tags, sees_server });
    groups.len() - 1
}

/// The settings of each network. Of several answers to one the last counts, of several views the first.
fn nodes<'c>(conf: &'c Conf, forwarder: &mut Forwarder) -> BTreeMap<Prefix, Node<'c>> {
    let mut nodes: BTreeMap<Prefix, Node<'c>> = BTreeMap::new();
    for one in &conf.server.settings {
        let is_known =
            ["access-control", "access-control-view", "access-control-tag"].contains(&&*one.key);
        if !is_known {
            continue;
        }
        let origin = &one.origin;
        let Some(network) = network(one.value()) else {
            forwarder.draft.decisive(origin, "this is no network");
            continue;
        };
        let node = nodes.entry(network).or_default();
        match &*one.key {
            "access-control" => {
                let Some(answer) = answer(one, forwarder) else { continue };
                if let Some((_, before)) = node.answer.replace((answer, origin)) {
                    forwarder.draft.unneeded(before);
                }
            }
            "access-control-view" => match &node.view {
                None => node.view = Some((one.nth(1), origin)),
                Some((view, _)) if *view == one.nth(1) => forwarder.draft.read(origin),
                Some((view, _)) => {
                    let why = format!("a client is in one view, and these are in `{view}`");
                    forwarder.draft.decisive(origin, why);
                }
            },
            _ => match &node.tags {
                None => node.tags = Some((tags_of(one, 1), origin)),
                Some((tags, _)) if *tags == tags_of(one, 1) => forwarder.draft.read(origin),
                Some(_) => {
                    forwarder.draft.decisive(origin, "these clients have other tags already");
                }
            },
        }
    }
    nodes
}

/// What clients get by an action of `access-control`.
fn answer(one: &Setting, forwarder: &mut Forwarder) -> Option<AccessAction> {
    let draft = &mut forwarder.draft;
    let answer = match one.nth(1) {
        "allow" => "allow",
        "allow_setrd" => {
            let why = "queries of these clients without RD are answered from local data alone, as those of any others";
            draft.unmapped(&one.origin, why);
            "allow"
        }
        "allow_snoop" => {
            draft.unmapped(
                &one.origin,
                "the clients may ask as any others; nobody looks into the cache alone",
            );
            "allow"
        }
        "allow_cookie" => {
            let why = "no clients are asked for cookies that others are not (`cookies.require`), so these are refused";
            draft.decisive(&one.origin, why);
            "refuse"
        }
        "refuse" => "refuse",
        "deny" => "drop",
        other @ ("refuse_non_local" | "deny_non_local") => {
            draft.decisive(&one.origin, "the clients get no local data either");
            if other == "deny_non_local" { "drop" } else { "refuse" }
        }
        _ => {
            draft.decisive(&one.origin, "this is no action of access-control");
            return None;
        }
    };
    Some(answer)
}
