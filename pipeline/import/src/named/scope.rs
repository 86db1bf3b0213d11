//! Views: which clients are in which, and who may ask in it. The options alone are one view for all.

use super::access::{self, Clients, Unknown};
use super::names::Names;
use super::statement::Statement;
use crate::clients::{ByClient, SettingValue};
use crate::meaning::{AccessAction, Forwarder, truth};
use crate::source::Origin;

/// The clients that share options and zones.
pub(super) struct Scope<'s> {
    /// The view; none: there are no views.
    pub(super) view: Option<&'s Statement>,
    pub(super) options: Option<&'s Statement>,
    /// The views of pmdns that its tables hold in; none: all.
    pub(super) views: Vec<String>,
    /// Clients, and whether they are in it.
    members: ByClient<bool>,
    /// What its clients get.
    answers: ByClient<SettingValue<AccessAction>>,
    /// Whether a list says who may ask.
    pub(super) is_listed: bool,
    /// Nobody is in the view, or nobody whom we could tell by an address.
    pub(super) is_empty: bool,
}

impl<'s> Scope<'s> {
    /// The statement of the view, or else of the options.
    pub(super) fn find(&self, word: &str) -> Option<&'s Statement> {
        let own = self.view.and_then(|view| view.find(word));
        own.or_else(|| self.options.and_then(|options| options.find(word)))
    }

    /// Whether an option is on.
    pub(super) fn is_on(&self, word: &str, usual: bool) -> bool {
        self.find(word).and_then(|one| truth(one.word(1))).unwrap_or(usual)
    }

    /// How the answers to its clients differ from those of a zone that `queries` says who may ask for.
    pub(super) fn compare(&self, queries: Option<&Clients>) -> Difference {
        let any = ByClient::all(SettingValue::by_default(Some(true)));
        let asked = queries.unwrap_or(&any);
        let differences =
            self.members.join(&self.answers, |is_in, said| is_in.then_some(said.value));
        let differences = differences.join(asked, |answer, asked| match (answer, asked.value) {
            (Some("allow"), Some(true)) | (None | Some("drop"), _) => Difference::None,
            (Some("allow"), _) => Difference::Wider,
            (Some(_), Some(true)) if self.is_listed => Difference::Narrower,
            _ => Difference::None,
        });
        let worst = differences.values().copied().max();
        worst.unwrap_or(Difference::None)
    }
}

/// How access to a zone differs if all may ask for it that may ask at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    None,
    /// Clients that may ask for the zone alone may not ask.
    Narrower,
    /// Clients get it that may not.
    Wider,
}

/// The views in their order, or the options alone. Writes the access list and the `[[view]]` tables.
pub(super) fn scopes<'s>(
    statements: &'s [Statement],
    names: &Names<'s>,
    forwarder: &mut Forwarder,
) -> Vec<Scope<'s>> {
    let options = statements.iter().rfind(|one| one.word(0) == "options");
    let views = statements.iter().filter(|one| one.word(0) == "view" && is_internet(one));
    let views: Vec<&Statement> = views.collect();
    let all = ByClient::all(SettingValue::by_default(true));
    let Some(place) = views.first().or(options.as_ref()).map(|one| one.origin()) else {
        return vec![scope(None, None, all.join(&all, |_, _| true), names, forwarder)];
    };
    if views.is_empty() {
        let scope = scope(None, options, all.join(&all, |_, _| true), names, forwarder);
        write_access(&scope.answers, options, names, &place, forwarder);
        return vec![scope];
    }
    let mut member = ByClient::all(SettingValue::<Option<usize>>::by_default(None));
    let mut has_match = vec![false; views.len()];
    // The clients that may be in each view, for what an address does not tell.
    let mut possible = Vec::new();
    for (number, view) in views.iter().enumerate() {
        let maybe = matching(view, names, Unknown::Match, forwarder);
        let maybe = maybe.unwrap_or_else(|| ByClient::all(SettingValue::by_default(Some(true))));
        // Those of an earlier view are in no other.
        possible
            .push(maybe.join(&member, |here, earlier| {
                here.value == Some(true) && earlier.value.is_none()
            }));
        let Some(matching) = matching(view, names, Unknown::NoMatch, forwarder) else { continue };
        has_match[number] = matching.values().any(|said| said.value == Some(true));
        member = member.join(&matching, |earlier, here| match (earlier.value, here.value) {
            (None, Some(true)) => SettingValue { value: Some(number), origin: here.origin.clone() },
            _ => earlier.clone(),
        });
    }
    let mut scopes = Vec::new();
    let mut answers = ByClient::all(SettingValue::by_default("refuse"));
    for (number, view) in views.iter().enumerate() {
        let members = member.join(&all, |one, _| one.value == Some(number));
        let scope = scope(Some(view), options, members, names, forwarder);
        let own = scope.members.join(&scope.answers, |is_in, said| is_in.then(|| said.clone()));
        answers = answers.join(&own, |others, own| own.as_ref().unwrap_or(others).clone());
        scopes.push(scope);
    }
    // Who may be in a view without us knowing it gets no more than that view has.
    for (scope, possible) in scopes.iter().zip(&possible) {
        let own = possible.join(&scope.answers, |is_in, said| is_in.then(|| said.clone()));
        answers = answers.join(&own, |said, own| match own {
            Some(own) if own.value != "allow" => own.clone(),
            _ => said.clone(),
        });
    }
    write_access(&answers, options, names, &place, forwarder);
    write_views(&member, &has_match, &mut scopes, forwarder);
    scopes
}

/// Whether a view or zone is of the class of all others.
pub(super) fn is_internet(one: &Statement) -> bool {
    ["", "in"].contains(&&*one.word(2).to_ascii_lowercase())
}

/// The clients that a view matches; `None`: they are not told apart by their addresses.
fn matching(
    view: &Statement,
    names: &Names<'_>,
    unknown: Unknown,
    forwarder: &mut Forwarder,
) -> Option<Clients> {
    if view.find("match-recursive-only").is_some_and(|one| truth(one.word(1)) != Some(false)) {
        return None;
    }
    if let Some(list) = view.find("match-destinations") {
        let is_any = |one: &Statement| one.word(0) == "any";
        if !list.block().first().is_some_and(is_any) {
            return None;
        }
        list.note_read(&mut forwarder.draft);
    }
    match view.find("match-clients") {
        None => Some(ByClient::all(SettingValue::by_default(Some(true)))),
        Some(list) => Some(access::clients(list, names, unknown, forwarder)),
    }
}

/// Who may ask: the clients that both lists about recursion let through.
fn scope<'s>(
    view: Option<&'s Statement>,
    options: Option<&'s Statement>,
    members: ByClient<bool>,
    names: &Names<'s>,
    forwarder: &mut Forwarder,
) -> Scope<'s> {
    let answers = ByClient::all(SettingValue::by_default("refuse"));
    let views = Vec::new();
    let mut scope =
        Scope { view, options, views, members, answers, is_listed: false, is_empty: false };
    let lists = [
        ["allow-recursion", "allow-query-cache", "allow-query"],
        ["allow-query-cache", "allow-recursion", "allow-query"],
    ];
    let lists = lists.map(|words| words.into_iter().find_map(|word| scope.find(word)));
    let origin = view.or(options).map(Statement::origin).unwrap_or_default();
    if !scope.is_on("recursion", true) {
        scope.is_listed = true;
        let why = "pmdns forwards for all clients that it answers, so it answers none of these";
        let recursion = scope.find("recursion").map_or(origin, Statement::origin);
        forwarder.draft.decisive(&recursion, why);
        return scope;
    }
    let [Some(first), Some(second)] = lists else {
        let why = "without a list named answers the networks of its interfaces; write them into `acl.allow`";
        forwarder.draft.unmapped(&origin, why);
        return scope;
    };
    scope.is_listed = true;
    let mut read = |list| {
        let clients = access::clients(list, names, Unknown::NoMatch, forwarder);
        let answer = |one: &SettingValue<Option<bool>>| match one.value {
            Some(true) => "allow",
            _ => "refuse",
        };
        let as_answer = |one: &SettingValue<Option<bool>>, _: &SettingValue<bool>| SettingValue {
            value: answer(one),
            origin: one.origin.clone(),
        };
        clients.join(&ByClient::all(SettingValue::by_default(true)), as_answer)
    };
    scope.answers = read(first);
    if first.place != second.place {
        let second = read(second);
        let strictest = |one: &SettingValue<AccessAction>, other: &SettingValue<AccessAction>| {
            match one.value {
                "allow" => other.clone(),
                _ => one.clone(),
            }
        };
        scope.answers = scope.answers.join(&second, strictest);
    }
    scope
}

/// Writes who may ask, but for those in `blackhole`.
fn write_access(
    answers: &ByClient<SettingValue<AccessAction>>,
    options: Option<&Statement>,
    names: &Names<'_>,
    origin: &Origin,
    forwarder: &mut Forwarder,
) {
    let dropped = options.and_then(|options| options.find("blackhole"));
    let answers = match dropped {
        None => answers.clone(),
        Some(list) => {
            let dropped = access::clients(list, names, Unknown::Match, forwarder);
            answers.join(&dropped, |said, dropped| match dropped.value {
                Some(true) => SettingValue { value: "drop", origin: dropped.origin.clone() },
                _ => said.clone(),
            })
        }
    };
    forwarder.access(&answers, origin);
}

/// Writes the `[[view]]` tables. The clients of the view that has most others are those in no view.
fn write_views(
    member: &ByClient<SettingValue<Option<usize>>>,
    has_match: &[bool],
    scopes: &mut [Scope<'_>],
    forwarder: &mut Forwarder,
) {
    let rest = member.networks().find(|(network, _)| network.length == 0);
    let rest = rest.and_then(|(_, said)| said.value);
    let pieces = member.without(|said| said.value.is_none() || said.value == rest);
    for (number, scope) in scopes.iter_mut().enumerate() {
        let Some(view) = scope.view else { continue };
        if rest == Some(number) {
            scope.views = vec!["default".to_owned()];
            continue;
        }
        let own = pieces.iter().flatten().filter(|(_, said)| said.value == Some(number));
        let own: Vec<_> = own.map(|(network, said)| (*network, said.origin.clone())).collect();
        let name = forwarder.short("view", view.word(1));
        scope.views = vec![name.clone()];
        scope.is_empty = own.is_empty();
        let is_hidden = has_match.get(number) == Some(&true) || is_empty(view);
        match scope.is_empty {
            false => {
                forwarder.view(&name, own, &view.origin());
                continue;
            }
            // Earlier views have all its clients, or it has none by its own words.
            true if pieces.is_some() && is_hidden => forwarder.draft.unneeded(&view.origin()),
            true => {
                let why = "no client is known to be in this view by its address, so nothing of it is taken over";
                forwarder.draft.decisive(&view.origin(), why);
            }
        }
        view.note_read(&mut forwarder.draft);
    }
}

/// Whether a view has no clients by its own words.
fn is_empty(view: &Statement) -> bool {
    let list = view.find("match-clients");
    list.is_some_and(|list| list.block().first().is_some_and(|one| one.word(0) == "none"))
}
