//! `zone "NAME" { ... }`.

use super::access::{self, Clients, Unknown};
use super::names::Names;
use super::options::{FIRST, all_of, is_asked};
use super::scope::{Difference, Scope, is_internet};
use super::servers::{primaries, upstreams};
use super::statement::Statement;
use super::{kinds, map::Keys};
use crate::meaning::Forwarder;
use crate::special;

/// Statements of a zone that are read with its type.
const READ: [&str; 9] = [
    "type",
    "file",
    "forwarders",
    "forward",
    "server-addresses",
    "primaries",
    "masters",
    "allow-query",
    "in-view",
];
/// Why a zone that comes from elsewhere is lost.
const COPIED: &str = "zones are not transferred, but for `[[rpz]]`; its names are asked upstream";

/// A zone, and what it is read with.
pub(super) struct Zones<'z, 's> {
    pub(super) statements: &'s [Statement],
    pub(super) names: &'z Names<'s>,
    /// Keys that transfers are signed with.
    pub(super) keys: &'z mut Keys,
    /// Who may ask for zones without a list of their own.
    pub(super) usual: Difference,
}

impl<'s> Zones<'_, 's> {
    pub(super) fn zone(&mut self, one: &Statement, scope: &Scope<'_>, forwarder: &mut Forwarder) {
        if !is_internet(one) {
            forwarder.draft.unneeded(&one.origin());
            return one.note_read(&mut forwarder.draft);
        }
        let mut options = one;
        if let Some(other) = one.find("in-view") {
            forwarder.draft.read(&other.origin());
            let Some(zone) = self.of_view(other.word(1), one.word(1)) else {
                return forwarder
                    .draft
                    .decisive(&one.origin(), "there is no such zone in that view");
            };
            options = zone;
        }
        for part in options.block() {
            match READ.contains(&part.word(0)) {
                true => part.note_read(&mut forwarder.draft),
                false if part.word(0) == "dnssec-policy" && part.word(1) == "none" => {
                    forwarder.draft.unneeded(&part.origin());
                }
                false => kinds::list(part, forwarder),
            }
        }
        self.mapped(one, options, scope, forwarder);
    }

    /// The zone of this name in a view.
    fn of_view(&self, view: &str, name: &str) -> Option<&'s Statement> {
        let views = self.statements.iter().filter(|one| one.word(0) == "view");
        let zones = views.filter(|one| one.word(1) == view).flat_map(Statement::block);
        let is_same = |one: &&Statement| one.word(0) == "zone" && same_name(one.word(1), name);
        zones.filter(is_same).find(|one| one.find("in-view").is_none())
    }

    fn mapped(
        &mut self,
        one: &Statement,
        options: &Statement,
        scope: &Scope<'_>,
        forwarder: &mut Forwarder,
    ) {
        let (name, origin) = (one.word(1), one.origin());
        let kind = options.find("type").map_or("", |it| it.word(1));
        if is_policy(name, scope) {
            return self.policy_zone(one, options, scope, forwarder);
        }
        match kind {
            "hint" => forwarder.draft.unneeded(&origin),
            "forward" if !is_only(options) && has_empty_zone(name, scope) => {
                let why = "named answers these names itself (an empty zone), except with `forward only`, \
                           so these servers are not asked";
                forwarder.draft.unmapped(&origin, why);
            }
            "forward" => self.forward(one, options, scope, forwarder),
            "stub" | "static-stub" => self.stub(one, options, scope, forwarder),
            "primary" | "master" => self.primary(one, options, scope, forwarder),
            "mirror" if name == "." => forwarder.draft.unneeded(&origin),
            "redirect" => {
                forwarder.draft.unmapped(&origin, "write its addresses into a `[[redirect]]`");
            }
            "delegation-only" => forwarder.draft.unneeded(&origin),
            _ => forwarder.draft.decisive(&origin, COPIED),
        }
    }

    /// A zone whose names are asked of some servers.
    fn forward(
        &mut self,
        one: &Statement,
        options: &Statement,
        scope: &Scope<'_>,
        forwarder: &mut Forwarder,
    ) {
        let (name, origin) = (one.word(1), one.origin());
        let servers = options.find("forwarders");
        let servers = servers.map_or_else(Vec::new, |list| upstreams(list, self.names, forwarder));
        if servers.is_empty() {
            let why = "names without forwarders are not resolved from the root";
            return forwarder.draft.decisive(&origin, why);
        }
        if !is_only(options) {
            forwarder.draft.unmapped(&origin, FIRST);
        }
        forwarder.forward(name, servers, &scope.views, &origin);
    }

    /// A zone whose names are asked of its own servers, unless there are forwarders for them.
    fn stub(
        &mut self,
        one: &Statement,
        options: &Statement,
        scope: &Scope<'_>,
        forwarder: &mut Forwarder,
    ) {
        let origin = one.origin();
        match options.find("forwarders").or_else(|| scope.find("forwarders")) {
            Some(_) if options.find("forwarders").is_some_and(|list| !list.block().is_empty()) => {
                return self.forward(one, options, scope, forwarder);
            }
            Some(list) if !list.block().is_empty() => {
                let why = "named asks the forwarders for these names, except with `forwarders { }` \
                           in the zone, so its servers are not asked";
                return forwarder.draft.unmapped(&origin, why);
            }
            _ => {}
        }
        let lists = ["server-addresses", "primaries", "masters"];
        let servers = lists.iter().find_map(|word| options.find(word));
        let servers = servers.map_or_else(Vec::new, |list| upstreams(list, self.names, forwarder));
        if servers.is_empty() {
            let why = "it has no server that could be taken over";
            return forwarder.draft.decisive(&origin, why);
        }
        forwarder.forward(one.word(1), servers, &scope.views, &origin);
        let why = "these servers have to answer as resolvers do, with RA; servers of the zone alone do not";
        forwarder.draft.unmapped(&origin, why);
    }

    /// A zone of our own, if those may ask for it that may ask at all.
    fn primary(
        &mut self,
        one: &Statement,
        options: &Statement,
        scope: &Scope<'_>,
        forwarder: &mut Forwarder,
    ) {
        let (name, origin) = (one.word(1), one.origin());
        let Some(file) = options.find("file") else {
            return forwarder.draft.decisive(&origin, "it has no file");
        };
        let difference = match options.find("allow-query") {
            None => self.usual,
            Some(list) => {
                let asked = access::clients(list, self.names, Unknown::NoMatch, forwarder);
                scope.compare(Some(&asked))
            }
        };
        let is_special = special::zone_of(name).is_some();
        match difference {
            Difference::Wider => {
                let why = "`allow-query` hides it from clients that may ask here, so it is not \
                           served; its names are asked upstream";
                return forwarder.draft.decisive(&origin, why);
            }
            Difference::Narrower if !is_special => {
                let why = "clients that may ask for this zone alone are refused: `[acl]` holds for all names";
                forwarder.draft.decisive(&origin, why);
            }
            Difference::Narrower | Difference::None => {}
        }
        if let Some(list) = options.find("forwarders") {
            let why = "names that it delegates are asked upstream, as all others";
            match list.block().is_empty() {
                true => forwarder.draft.unmapped(&origin, why),
                false => forwarder.draft.decisive(&origin, why),
            }
        }
        let file = self.names.path(file.word(1), &origin, forwarder);
        let table = forwarder.draft.add("zone", Some(origin.clone()));
        table.set("file", file, Some(origin.clone()));
        table.set("origin", name, Some(origin.clone()));
        table.in_views(&scope.views, &origin);
    }

    /// The zone of a policy: its file, and where it comes from.
    fn policy_zone(
        &mut self,
        one: &Statement,
        options: &Statement,
        scope: &Scope<'_>,
        forwarder: &mut Forwarder,
    ) {
        let (name, origin) = (one.word(1).to_owned(), one.origin());
        let mut primaries = primaries(options, self.names, forwarder);
        // A zone has one key.
        let key = primaries.first().and_then(|first| first.key.clone());
        primaries.retain(|one| {
            let is_same = one.key == key;
            if !is_same {
                let why = "all primaries of a policy zone have the same key; this one is left out";
                forwarder.draft.decisive(&one.origin, why);
            }
            is_same
        });
        forwarder.draft.read(&origin);
        self.keys.extend(key.clone());
        let file = options.find("file");
        let file = file.map(|file| self.names.path(file.word(1), &origin, forwarder));
        let tables = forwarder.draft.tables.iter_mut().filter(|table| {
            let views = table.texts("views");
            table.name == "rpz"
                && table.text("zone").is_some_and(|zone| same_name(zone, &name))
                && views == scope.views
        });
        for table in tables {
            if let Some(file) = &file {
                table.set("file", &**file, Some(origin.clone()));
            }
            if primaries.is_empty() {
                table.entries.retain(|entry| entry.key != "zone");
                table.set("origin", &*name, Some(origin.clone()));
            }
            for primary in &primaries {
                let socket = primary.socket.to_string();
                table.push("primaries", socket, Some(primary.origin.clone()));
            }
            if let Some(key) = &key {
                table.set("tsig", &**key, Some(origin.clone()));
            }
        }
    }
}

fn is_only(zone: &Statement) -> bool {
    zone.find("forward").is_some_and(|one| one.word(1) == "only")
}

/// Whether named has an empty zone at or above a name.
fn has_empty_zone(name: &str, scope: &Scope<'_>) -> bool {
    let Some(zone) = special::zone_of(name) else { return false };
    let disabled = all_of(scope, "disable-empty-zone").any(|one| same_name(one.word(1), &zone));
    (special::is_reverse(&zone) || zone == "home.arpa") && !disabled && !is_asked(scope)
}

/// Whether two texts are the same name.
fn same_name(one: &str, other: &str) -> bool {
    one.trim_end_matches('.').eq_ignore_ascii_case(other.trim_end_matches('.'))
}

/// Whether a zone has the rules of a policy.
fn is_policy(name: &str, scope: &Scope<'_>) -> bool {
    let policy = scope.find("response-policy");
    let zones =
        policy.iter().flat_map(|policy| policy.block()).filter_map(|one| one.behind("zone"));
    zones.into_iter().any(|zone| same_name(zone, name))
}

/// Who may ask for zones of a scope that have no list of their own.
pub(super) fn usual(scope: &Scope<'_>, names: &Names<'_>, forwarder: &mut Forwarder) -> Difference {
    let list: Option<Clients> = scope
        .find("allow-query")
        .map(|list| access::clients(list, names, Unknown::NoMatch, forwarder));
    scope.compare(list.as_ref())
}
