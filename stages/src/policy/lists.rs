//! Blocked names.
//!
//! A rule joins all that lists say of a name: actions for it alone and with all below it, and whether
//! it is an exception. An exception of any list beats the blocks of all. Otherwise the longest listed
//! name decides, and its rule for the name alone comes before the one with everything below it. Of
//! several lists that have the same name the first decides.
//!
//! A list may hold in some views only, so a name may have another rule in each. Few of these combinations are
//! different ones: a name has the number of its own, and the list of them is short.

use std::collections::HashMap;

use pmdns_config::files::{ListedName, Scope};
use pmdns_config::narrow::{to_u8, to_u32};
use pmdns_config::{BlockAction, ViewSet};

use super::filter::Candidate;
use super::names::{Listing, Names};
use crate::wire::name::Seed;

/// Bits of an action.
const ACTION: u32 = 0b111;
/// The actions, by their bits.
const ACTIONS: [Option<BlockAction>; 6] = [
    None,
    Some(BlockAction::Nxdomain),
    Some(BlockAction::Nodata),
    Some(BlockAction::Refused),
    Some(BlockAction::Null),
    Some(BlockAction::Drop),
];
/// Where the action for a name and everything below it stands.
const BELOW: u32 = 3;
/// The name and everything below it is not blocked.
const EXCEPT: u32 = 1 << 6;
/// The name alone is not blocked.
const EXCEPT_EXACT: u32 = 1 << 23;
/// Each of the four comes before all that is not important: what is blocked for the name alone and with everything
/// below it, and the two exceptions.
const IMPORTANT: u32 = 1 << 24;
const IMPORTANT_BELOW: u32 = 1 << 25;
const IMPORTANT_EXCEPT: u32 = 1 << 26;
const IMPORTANT_EXCEPT_EXACT: u32 = 1 << 27;
/// The bits of a rule that hold if one of several lists sets them.
const SHARED: u32 =
    EXCEPT | EXCEPT_EXACT | IMPORTANT | IMPORTANT_BELOW | IMPORTANT_EXCEPT | IMPORTANT_EXCEPT_EXACT;
/// Where the number of the list stands that an action is from; that for everything below is behind it.
const LIST: u32 = 7;
/// Bits of such a number.
const LIST_BITS: u32 = 8;
const LIST_MASK: u32 = (1 << LIST_BITS) - 1;

/// The number of the list that `policy.doh_canary` is; `[block]` has 0.
pub(super) const CANARY: u8 = 1;
/// The number of the first block list.
pub(super) const FIRST_LIST: u8 = 2;

/// Rules for views; no view has two.
type Rules = Box<[(ViewSet, u32)]>;

/// Blocked names, not yet ready to be looked up.
#[derive(Debug, Default)]
pub(super) struct Lists {
    names: Listing,
    combinations: Combinations,
}

/// Blocked names.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    /// The value of a name is the number of its rules.
    pub(super) names: Names,
    rules: Box<[Rules]>,
}

/// The different rules of names, by number.
#[derive(Debug, Default)]
struct Combinations {
    list: Vec<Rules>,
    numbers: HashMap<Rules, u32>,
}

impl Lists {
    /// Adds what a list says of a name in these views; `false`: there is no room.
    pub(super) fn add(
        &mut self,
        listed: ListedName<'_>,
        action: BlockAction,
        (list, views): (u8, ViewSet),
    ) -> bool {
        let list = u32::from(list) << LIST;
        let (rule, important) = match listed.scope {
            Scope::Exact => (code(action) | list, IMPORTANT),
            Scope::Below => (code(action) << BELOW | list << LIST_BITS, IMPORTANT_BELOW),
            Scope::Except => (EXCEPT, IMPORTANT_EXCEPT),
            Scope::ExceptExact => (EXCEPT_EXACT, IMPORTANT_EXCEPT_EXACT),
        };
        let rule = if listed.is_important { rule | important } else { rule };
        let number = self.combinations.number([(views, rule)].into());
        self.names.add(listed.name, number)
    }

    /// Ready to be looked up.
    pub(super) fn build(self, seed: Seed) -> Blocked {
        let Self { names, mut combinations } = self;
        let names = names.build(seed, |earlier, later| combinations.join(earlier, later));
        Blocked { names, rules: combinations.list.into() }
    }
}

impl Combinations {
    /// The number of these rules.
    fn number(&mut self, rules: Rules) -> u32 {
        if let Some(number) = self.numbers.get(&rules) {
            return *number;
        }
        // There are no more than names, whose places have 32 bits.
        let number = to_u32(self.list.len());
        self.list.push(rules.clone());
        self.numbers.insert(rules, number);
        number
    }

    /// The number of what two lists say of a name, the earlier before the later.
    fn join(&mut self, earlier: u32, later: u32) -> u32 {
        let (earlier, later) = (&self.list[earlier as usize], &self.list[later as usize]);
        let mut joined: Vec<(ViewSet, u32)> = Vec::new();
        let mut add = |views: ViewSet, rule| match joined.iter_mut().find(|one| one.1 == rule) {
            _ if views.is_empty() => {}
            Some((all, _)) => *all = all.or(views),
            None => joined.push((views, rule)),
        };
        let without = |views, rules: &Rules| {
            rules.iter().fold(views, |rest: ViewSet, (others, _)| rest.without(*others))
        };
        for (views, rule) in earlier {
            for (others, other) in later {
                add(views.and(*others), join(*rule, *other));
            }
            add(without(*views, later), *rule);
        }
        for (views, rule) in later {
            add(without(*views, earlier), *rule);
        }
        joined.sort_unstable();
        self.number(joined.into())
    }
}

impl Blocked {
    /// What a query in `view` gets for a name whose candidates these are. The last one may be the name itself.
    pub(super) fn find(
        &self,
        name: &[u8],
        candidates: &[Candidate<'_>],
        view: u8,
    ) -> Option<BlockAction> {
        self.decide(name, candidates, view).map(|(action, _)| action)
    }

    /// The same, and the number of the list that decides.
    pub(super) fn decide(
        &self,
        name: &[u8],
        candidates: &[Candidate<'_>],
        view: u8,
    ) -> Option<(BlockAction, u8)> {
        let (mut action, mut important, mut is_exempt) = (None, None, false);
        for Candidate { hash, name: listed } in candidates {
            let Some(rule) = self.rule(*hash, listed, view) else { continue };
            let is_name = listed.len() == name.len();
            let has = |below: u32, exact: u32| rule & below != 0 || is_name && rule & exact != 0;
            if has(IMPORTANT_EXCEPT, IMPORTANT_EXCEPT_EXACT) {
                return None;
            }
            is_exempt |= has(EXCEPT, EXCEPT_EXACT);
            let list = |at: u32| to_u8((rule >> at & LIST_MASK) as usize);
            let exact = action_of(rule).filter(|_| is_name);
            let exact = exact.map(|action| (action, list(LIST)));
            let below = action_of(rule >> BELOW).map(|action| (action, list(LIST + LIST_BITS)));
            action = exact.or(below).or(action);
            let exact = exact.filter(|_| rule & IMPORTANT != 0);
            let below = below.filter(|_| rule & IMPORTANT_BELOW != 0);
            important = exact.or(below).or(important);
        }
        important.or_else(|| action.filter(|_| !is_exempt))
    }

    fn rule(&self, hash: u64, name: &[u8], view: u8) -> Option<u32> {
        let rules = self.rules.get(self.names.find(hash, name)? as usize)?;
        rules.iter().find(|(views, _)| views.has(view)).map(|(_, rule)| *rule)
    }
}

/// The rule of two, the earlier before the later.
fn join(earlier: u32, later: u32) -> u32 {
    let part = |at: u32, list: u32| {
        let decides = if earlier >> at & ACTION == 0 { later } else { earlier };
        decides & (ACTION << at | LIST_MASK << list)
    };
    part(0, LIST) | part(BELOW, LIST + LIST_BITS) | (earlier | later) & SHARED
}

fn code(action: BlockAction) -> u32 {
    to_u32(ACTIONS.iter().position(|one| *one == Some(action)).unwrap_or_default())
}

/// The action in the lowest bits.
fn action_of(rule: u32) -> Option<BlockAction> {
    ACTIONS.get((rule & ACTION) as usize).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::filter::Filter;
    use crate::testing::name_of;

    fn seed() -> Seed {
        Seed::new(*b"sixteen letters!")
    }

    struct Both {
        filter: Filter,
        blocked: Blocked,
    }

    impl Both {
        fn find(&self, text: &str) -> Option<BlockAction> {
            let name = name_of(text);
            self.blocked.find(&name, &self.filter.candidates(&name), 0)
        }
    }

    fn lists(rules: &[(&str, Scope, BlockAction)]) -> Both {
        let mut lists = Lists::default();
        for (name, scope, action) in rules {
            let list = (to_u8(lists.combinations.list.len()), ViewSet::ALL);
            let (text, is_important) = match name.strip_suffix('!') {
                Some(name) => (name, true),
                None => (*name, false),
            };
            let name = &*name_of(text);
            assert!(lists.add(ListedName { name, scope: *scope, is_important }, *action, list));
        }
        let blocked = lists.build(seed());
        let mut filter = Filter::with_capacity(rules.len(), seed());
        blocked.names.add_to(&mut filter);
        Both { filter, blocked }
    }

    #[test]
    fn every_action_is_kept_in_either_scope() {
        use BlockAction::{Drop, Nodata, Null, Nxdomain, Refused};
        for action in [Nxdomain, Nodata, Refused, Null, Drop] {
            let exact = lists(&[("a.example.", Scope::Exact, action)]);
            assert_eq!(exact.find("A.example."), Some(action));
            assert_eq!(exact.find("x.a.example."), None);
            let below = lists(&[("a.example.", Scope::Below, action)]);
            assert_eq!(below.find("a.EXAMPLE."), Some(action));
            assert_eq!(below.find("x.y.a.example."), Some(action));
            assert_eq!(below.find("b.example."), None);
            assert_eq!(below.find("ba.example."), None);
        }
    }

    #[test]
    fn the_longest_name_decides_and_then_the_first_list() {
        let lists = lists(&[
            ("example.", Scope::Below, BlockAction::Nodata),
            ("a.example.", Scope::Below, BlockAction::Drop),
            ("a.example.", Scope::Below, BlockAction::Refused),
            ("a.example.", Scope::Exact, BlockAction::Null),
        ]);
        assert_eq!(lists.find("b.example."), Some(BlockAction::Nodata));
        assert_eq!(lists.find("x.a.example."), Some(BlockAction::Drop));
        assert_eq!(lists.find("a.example."), Some(BlockAction::Null));
    }

    #[test]
    fn an_exception_beats_every_block() {
        let lists = lists(&[
            ("good.example.", Scope::Except, BlockAction::Nxdomain),
            ("example.", Scope::Below, BlockAction::Nxdomain),
            ("bad.good.example.", Scope::Below, BlockAction::Nxdomain),
        ]);
        assert_eq!(lists.find("good.example."), None);
        assert_eq!(lists.find("bad.good.example."), None);
        assert_eq!(lists.find("other.example."), Some(BlockAction::Nxdomain));
    }

    #[test]
    fn an_exception_may_be_of_one_name() {
        let lists = lists(&[
            ("good.example.", Scope::ExceptExact, BlockAction::Nxdomain),
            ("example.", Scope::Below, BlockAction::Nodata),
        ]);
        assert_eq!(lists.find("good.example."), None);
        assert_eq!(lists.find("bad.good.example."), Some(BlockAction::Nodata));
    }

    #[test]
    fn what_is_important_beats_what_is_not() {
        use BlockAction::{Nodata, Nxdomain, Refused};
        let lists = lists(&[
            ("example.", Scope::Except, Nxdomain),
            ("ads.example.!", Scope::Below, Nodata),
            ("one.example.!", Scope::Exact, Refused),
            ("x.ads.example.", Scope::Below, Nxdomain),
            ("y.ads.example.!", Scope::Except, Nxdomain),
            ("z.ads.example.!", Scope::ExceptExact, Nxdomain),
        ]);
        assert_eq!(lists.find("other.example."), None);
        assert_eq!(lists.find("ads.example."), Some(Nodata));
        assert_eq!(lists.find("x.ads.example."), Some(Nodata), "the important rule decides");
        assert_eq!(lists.find("one.example."), Some(Refused));
        assert_eq!(lists.find("a.one.example."), None);
        assert_eq!(lists.find("b.y.ads.example."), None);
        assert_eq!(lists.find("z.ads.example."), None);
        assert_eq!(lists.find("b.z.ads.example."), Some(Nodata));
    }

    #[test]
    fn the_root_and_single_labels_can_be_blocked() {
        let zip = lists(&[("zip.", Scope::Below, BlockAction::Nxdomain)]);
        assert_eq!(zip.find("a.b.zip."), Some(BlockAction::Nxdomain));
        assert_eq!(zip.find("zip."), Some(BlockAction::Nxdomain));
        assert_eq!(zip.find("unzip."), None);
        let all = lists(&[(".", Scope::Below, BlockAction::Refused)]);
        assert_eq!(all.find("a.b."), Some(BlockAction::Refused));
        assert_eq!(all.find("."), Some(BlockAction::Refused));
    }
}
