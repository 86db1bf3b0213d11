//! Views over reloads. The cache, questions under way and the client table know a view by its number and its scope. So both
//! mean the same as long as the process runs.

use crate::limits::MAX_VIEWS;
use crate::settings::{Config, Dns64Settings, Rebinding, Rpz, View};
use crate::views::{group_of, view_at, view_name};

/// Why a reload cannot take views over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewsError {
    /// No numbers are left.
    #[error(
        "there have been {0} views since the start, and {MAX_VIEWS} have room; another process begins without those that are gone"
    )]
    TooMany(usize),
    /// Queries under way would be answered by upstreams of another view.
    #[error(
        "the view `{0}` has shared answers with others, which would go on without it, and it is resolved in another way now; that \
         needs another process"
    )]
    Parted(String),
}

impl View {
    /// Whether the view is gone, and only its number is left.
    pub fn is_gone(&self) -> bool {
        self.name.is_empty()
    }
}

impl Config {
    /// This configuration, for a process in which `before` is in use.
    ///
    /// A view keeps its number. No other view ever gets the number of one that is gone, for answers in the cache still bear it.
    /// Views that no longer resolve alike part. But no view joins a scope in the same process: its answers may be
    /// what the view was never allowed to see.
    ///
    /// # Errors
    ///
    /// The views cannot be taken over.
    pub fn following(mut self, before: &Self) -> Result<Self, ViewsError> {
        let mut fresh = std::mem::take(&mut self.views);
        let stays = |old: &View| {
            let index = fresh.iter().position(|view| !old.is_gone() && view.name == old.name);
            // Questions under way go on as they began.
            let gone = || View { group: old.group.clone(), ..View::default() };
            index.map(|index| fresh.remove(index)).unwrap_or_else(gone)
        };
        self.views = before.views.iter().map(stays).collect();
        self.views.append(&mut fresh);
        if self.views.len() > MAX_VIEWS {
            return Err(ViewsError::TooMany(self.views.len()));
        }
        self.scopes = self.scopes_after(before);
        self.check_parted(before)?;
        Ok(self)
    }

    /// This configuration without the places of views that are gone, as a file has it.
    pub fn without_gone(&self) -> Self {
        let mut this = Self { scopes: Vec::new(), ..self.clone() };
        this.views.retain(|view| !view.is_gone());
        this
    }

    /// The scope of each view by that rule.
    fn scopes_after(&self, before: &Self) -> Vec<u8> {
        let (alike, old) = (self.alike_upstream(), before.scopes());
        let mut scopes: Vec<u8> = Vec::new();
        for view in self.view_numbers() {
            let may_share = |other: u8| {
                let (one, two) = (usize::from(view), usize::from(other));
                // Two that are new had none.
                let shared = old.get(one) == old.get(two) && alike[one] == alike[two];
                shared && !self.is_gone(view) && !self.is_gone(other)
            };
            let first = (0..view).find(|other| may_share(*other));
            scopes.push(first.map_or(view, |first| scopes[usize::from(first)]));
        }
        scopes
    }

    /// Queries under way bear the scope that their view had. If it has another one now, they are resolved as the first view of the
    /// old scope is. So that one must be resolved as before.
    fn check_parted(&self, before: &Self) -> Result<(), ViewsError> {
        for ((view, first), scope) in before.view_numbers().zip(before.scopes()).zip(&self.scopes) {
            let parts = *scope != first && !self.is_gone(view);
            if parts && self.ways_of(first) != before.ways_of(first) {
                return Err(ViewsError::Parted(view_name(first, &before.views).to_owned()));
            }
        }
        Ok(())
    }

    /// What upstreams answer a view by.
    fn ways_of(&self, view: u8) -> Vec<String> {
        let is_meant = |names: &[String]| self.view_set(names).has(view);
        let forwards = self.forwards.iter().filter(|one| is_meant(&one.views));
        let forwards = forwards.map(|one| format!("{} {}", one.zone, one.group));
        let zones = self.rpz.iter().filter(|one| is_meant(&one.views));
        let zones = zones.map(|one| format!("{:?}", Rpz { views: Vec::new(), ..one.clone() }));
        let dns64 = self.dns64.iter().filter(|one| is_meant(&one.views));
        let dns64 =
            dns64.map(|one| format!("{:?}", Dns64Settings { views: Vec::new(), ..one.clone() }));
        let rebindings = self.rebindings.iter().filter(|one| is_meant(&one.views));
        let rebindings =
            rebindings.map(|one| format!("{:?}", Rebinding { views: Vec::new(), ..one.clone() }));
        let group = group_of(view, &self.views);
        let members = self.upstreams.iter().filter(|one| one.group == *group);
        let members = members.map(|one| one.address.to_string());
        let group = [group.to_owned()].into_iter().chain(members);
        group.chain(forwards).chain(zones).chain(dns64).chain(rebindings).collect()
    }

    fn is_gone(&self, view: u8) -> bool {
        view_at(view, &self.views).is_some_and(View::is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Forward;

    /// A configuration with views of these names and groups.
    fn config(views: &[(&str, &str)]) -> Config {
        let view = |(name, group): &(&str, &str)| View {
            name: (*name).to_owned(),
            group: Some((*group).to_owned()),
            ..View::default()
        };
        Config { views: views.iter().map(view).collect(), ..Config::default() }
    }

    fn names(config: &Config) -> Vec<&str> {
        config.views.iter().map(|view| &*view.name).collect()
    }

    #[test]
    fn views_keep_their_numbers_and_no_number_is_given_twice() {
        let before = config(&[("a", "x"), ("b", "y"), ("c", "z")]);
        let without = config(&[("d", "u"), ("c", "z"), ("a", "x")]).following(&before).unwrap();
        assert_eq!(names(&without), ["a", "", "c", "d"]);
        assert_eq!(without.scopes(), [0, 1, 2, 3, 4]);
        let back = config(&[("b", "y"), ("a", "x")]).following(&without).unwrap();
        assert_eq!(names(&back), ["a", "", "", "", "b"], "it is a new one");
        assert_eq!(back.scopes(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_new_view_shares_answers_only_with_one_that_is_new_too() {
        let before = config(&[("a", "x")]);
        let more = config(&[("a", "x"), ("b", "x"), ("c", "default"), ("d", "y"), ("e", "y")]);
        let more = more.following(&before).unwrap();
        assert_eq!(more.scopes(), [0, 1, 2, 3, 4, 4]);
        // What was learned for `d` may have come from another group, which `f` never asks.
        let again = config(&[("a", "x"), ("d", "z"), ("e", "z"), ("f", "z")]);
        let again = again.following(&more).unwrap();
        assert_eq!(again.scopes(), [0, 1, 2, 3, 4, 4, 6]);
    }

    #[test]
    fn views_part_when_they_resolve_differently_but_never_join() {
        let before = config(&[("a", "x"), ("b", "x"), ("c", "x")]);
        assert_eq!(before.scopes(), [0, 1, 1, 1]);
        let parted = config(&[("a", "x"), ("b", "y"), ("c", "y")]).following(&before).unwrap();
        assert_eq!(parted.scopes(), [0, 1, 2, 2]);
        let joined = config(&[("a", "x"), ("b", "x"), ("c", "x")]).following(&parted).unwrap();
        assert_eq!(joined.scopes(), [0, 1, 2, 2]);
        let first_is_gone = config(&[("b", "x"), ("c", "x")]).following(&before).unwrap();
        assert_eq!(names(&first_is_gone), ["", "b", "c"]);
        assert_eq!(first_is_gone.scopes(), [0, 1, 2, 2]);
        let whole = first_is_gone.without_gone();
        assert_eq!((names(&whole), whole.scopes()), (vec!["b", "c"], vec![0, 1, 1]));
    }

    #[test]
    fn queries_under_way_are_never_resolved_as_those_of_another_view() {
        let before = config(&[("a", "x"), ("b", "x")]);
        let error = config(&[("a", "y"), ("b", "x")]).following(&before).unwrap_err();
        assert_eq!(error, ViewsError::Parted("a".into()));
        assert!(config(&[("a", "y"), ("b", "y")]).following(&before).is_ok(), "both go on alike");
        // A zone for the clients in no view, with whom `a` has shared answers.
        let before = config(&[("a", "default")]);
        let mut after = before.clone();
        let views = vec!["default".to_owned()];
        after.forwards = vec![Forward { zone: "corp.example".into(), group: "z".into(), views }];
        let error = after.following(&before).unwrap_err();
        assert_eq!(error, ViewsError::Parted("default".into()));
    }

    #[test]
    fn views_without_a_number_left_are_refused() {
        let mut running = config(&[]);
        for number in 0..MAX_VIEWS {
            let name = number.to_string();
            running = config(&[(&name, "x")]).following(&running).unwrap();
        }
        let error = config(&[("one more", "x")]).following(&running).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there have been 32 views since the start, and 31 have room; another process begins without those that are gone"
        );
    }
}
