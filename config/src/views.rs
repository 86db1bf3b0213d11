//! Views: groups of clients with rules and upstreams of their own, known by number.
//!
//! Number 0 is the view of all clients that are in no other; the others are numbered from 1 in the order of the file.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::reserved::{DEFAULT_GROUP, DEFAULT_VIEW};
use crate::settings::{Config, View};

/// The views that something holds in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewSet(u32);

impl ViewSet {
    /// Every view.
    pub const ALL: Self = Self(u32::MAX);

    /// Those with these names; all, if there are no names. A checked configuration names no other views.
    pub fn of(names: &[String], views: &[View]) -> Self {
        if names.is_empty() {
            return Self::ALL;
        }
        let bit = |name: &String| number_of(name, views).map_or(0, |number| 1 << number);
        Self(names.iter().map(bit).fold(0, |set, bit| set | bit))
    }

    /// Whether a view is one of them.
    #[inline]
    pub fn has(self, view: u8) -> bool {
        u32::from(view) < u32::BITS && self.0 >> view & 1 != 0
    }

    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not of the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those of either.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any view is of both.
    pub fn meets(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The number of the view with this name, as clients and rules have it.
pub fn view_number(name: &str, views: &[View]) -> Option<u8> {
    number_of(name, views).and_then(|number| u8::try_from(number).ok())
}

/// The view with this number. `None`: it is the one of all other clients.
pub fn view_at(number: u8, views: &[View]) -> Option<&View> {
    usize::from(number).checked_sub(1).and_then(|index| views.get(index))
}

/// The name of the view with this number.
pub fn view_name(number: u8, views: &[View]) -> &str {
    view_at(number, views).map_or(DEFAULT_VIEW, |view| &view.name)
}

/// The names that a view may be called by.
pub(crate) fn view_names(views: &[View]) -> impl Iterator<Item = &str> {
    let there = views.iter().filter(|view| !view.is_gone());
    there.map(|view| &*view.name).chain([DEFAULT_VIEW])
}

/// The number of the view with this name.
pub(crate) fn number_of(name: &str, views: &[View]) -> Option<usize> {
    if name == DEFAULT_VIEW {
        return Some(0);
    }
    let is_it = |view: &View| view.name == *name && !view.is_gone();
    views.iter().position(is_it).map(|index| index + 1)
}

impl Config {
    /// The numbers of all views.
    pub fn view_numbers(&self) -> impl Iterator<Item = u8> + use<> {
        // A checked configuration has no more than fit.
        0..=u8::try_from(self.views.len()).unwrap_or(u8::MAX)
    }

    /// The views that a table with this key `views` holds in.
    pub fn view_set(&self, names: &[String]) -> ViewSet {
        ViewSet::of(names, &self.views)
    }

    /// The views in which the canary of browsers is denied, if there are any.
    pub fn canary_views(&self) -> Option<ViewSet> {
        let names = &self.policy.doh_canary;
        (!names.is_empty()).then(|| self.view_set(names))
    }

    /// For each view the first one that is in the same of these sets.
    pub fn alike(&self, sets: impl IntoIterator<Item = ViewSet>) -> Vec<u8> {
        let sets: HashSet<ViewSet> = sets.into_iter().collect();
        let same = |one: u8, other: u8| sets.iter().all(|set| set.has(one) == set.has(other));
        let first = |view| (0..view).find(|earlier| same(*earlier, view)).unwrap_or(view);
        self.view_numbers().map(first).collect()
    }

    /// The scope of each view: the first view that upstreams answer alike. That one has the same group, forward zones, policy
    /// zones, prefixes of DNS64 and tables about rebinding. Views of one scope share cached answers. What else they differ in is
    /// in the rules' verdict that a cached answer bears. After a reload it is another view at times
    /// ([`following`](Self::following)).
    pub fn scopes(&self) -> Vec<u8> {
        if self.scopes.is_empty() { self.alike_upstream() } else { self.scopes.clone() }
    }

    /// For each view the first one that upstreams answer alike.
    pub(crate) fn alike_upstream(&self) -> Vec<u8> {
        let in_group = |view: u8| {
            let members = self
                .view_numbers()
                .filter(|other| group_of(*other, &self.views) == group_of(view, &self.views));
            ViewSet(members.fold(0, |set, member| set | 1 << member))
        };
        let forwards = self.forwards.iter().map(|forward| self.view_set(&forward.views));
        let zones = self.rpz.iter().map(|zone| self.view_set(&zone.views));
        let dns64 = self.dns64.iter().map(|dns64| self.view_set(&dns64.views));
        let rebindings = self.rebindings.iter().map(|one| self.view_set(&one.views));
        let upstream = self.view_numbers().map(in_group).chain(forwards).chain(zones);
        self.alike(upstream.chain(dns64).chain(rebindings))
    }

    /// The meaning of the numbers in cache keys: a line for each view, with its name and its scope.
    pub fn scope_map(&self) -> String {
        let mut map = String::new();
        for (view, scope) in self.views.iter().zip(self.scopes().iter().skip(1)) {
            let _ = writeln!(map, "{} {scope}", view.name);
        }
        map
    }
}

/// The group that is asked for names that no forward zone claims.
pub fn group_of(view: u8, views: &[View]) -> &str {
    view_at(view, views).and_then(|view| view.group.as_deref()).unwrap_or(DEFAULT_GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Forward, Rpz};

    fn view(name: &str, group: Option<&str>) -> View {
        View { name: name.into(), group: group.map(str::to_owned), ..View::default() }
    }

    fn views(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_set_has_the_views_it_names_and_without_names_all() {
        let all = [view("a", None), view("b", None)];
        let has = |names: &[&str]| {
            let set = ViewSet::of(&views(names), &all);
            [0, 1, 2].map(|number| set.has(number))
        };
        assert_eq!(has(&[]), [true; 3]);
        assert_eq!(has(&["b"]), [false, false, true]);
        assert_eq!(has(&["default", "a"]), [true, true, false]);
        assert!(ViewSet::ALL.has(31) && !ViewSet::ALL.has(32) && !ViewSet::ALL.has(255));
    }

    #[test]
    fn views_that_resolve_alike_share_a_scope() {
        let mut config = Config {
            views: vec![view("a", None), view("b", Some("x")), view("c", Some("x"))],
            ..Config::default()
        };
        assert_eq!(config.scopes(), [0, 0, 2, 2]);
        let forward = |group: &str, names: &[&str]| Forward {
            zone: "z".into(),
            group: group.into(),
            views: views(names),
        };
        config.forwards = vec![forward("x", &[])];
        assert_eq!(config.scopes(), [0, 0, 2, 2], "it holds everywhere");
        config.forwards.push(forward("y", &["c"]));
        assert_eq!(config.scopes(), [0, 0, 2, 3]);
        config.rpz = vec![Rpz { file: "p".into(), views: views(&["a", "b"]), ..Rpz::default() }];
        assert_eq!(config.scopes(), [0, 1, 2, 3]);
        assert_eq!(config.scope_map(), "a 1\nb 2\nc 3\n");
        assert_eq!(Config::default().scope_map(), "");
    }
}
