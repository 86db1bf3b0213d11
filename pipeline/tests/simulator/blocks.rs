//! Names that the operator blocks while clients ask for them, and what clients may be told because of that.
//!
//! A list is a file that a reload reads; entries of run time go without one. Each has versions. From the moment a
//! change is over, only its last version holds: no client gets an answer that it refuses, whenever the client asked.

use std::collections::BTreeSet;
use std::time::Duration;

use pmdns_hierarchy::{Message, Name, Rng};

use crate::truth::NXDOMAIN;

/// Names that are blocked and not by turns: `a0.test` to `a7.test`. Each is the target of an alias, `c0.test` to `c7.test`.
const NAMES: usize = 8;

/// The names that a list or the entries of run time block.
pub(crate) type Blocked = BTreeSet<usize>;

/// The versions of a list, or of the entries of run time.
struct Versions {
    /// The oldest first, with the time from which none holds that is older than the next. The last holds until there
    /// is a next.
    all: Vec<(Blocked, Option<Duration>)>,
}

/// What is blocked.
pub(crate) struct Blocks {
    list: Versions,
    entries: Versions,
}

/// A name that may be blocked.
pub(crate) fn name(number: usize) -> Name {
    Name::new(&format!("a{number}.test"))
}

/// Some names.
pub(crate) fn some(chance: &mut Rng) -> Blocked {
    (0..NAMES).filter(|_| chance.below(3) == 0).collect()
}

impl Versions {
    fn new() -> Self {
        Self { all: vec![(Blocked::new(), None)] }
    }

    /// Those that may hold now.
    fn holding(&self) -> impl Iterator<Item = &Blocked> {
        self.all.iter().filter(|(_, until)| until.is_none()).map(|(blocked, _)| blocked)
    }

    /// Those that may have held at some time since then.
    fn since(&self, then: Duration) -> impl Iterator<Item = &Blocked> {
        let held = move |until: &Option<Duration>| until.is_none_or(|until| until >= then);
        self.all.iter().filter(move |(_, until)| held(until)).map(|(blocked, _)| blocked)
    }

    fn end_all_but_the_last(&mut self, now: Duration) {
        let last = self.all.len() - 1;
        for (_, until) in self.all[..last].iter_mut().filter(|(_, until)| until.is_none()) {
            *until = Some(now);
        }
    }
}

impl Blocks {
    /// Nothing is blocked.
    pub(crate) fn new() -> Self {
        Self { list: Versions::new(), entries: Versions::new() }
    }

    /// A version of the list is written.
    pub(crate) fn write_list(&mut self, blocked: Blocked) {
        self.list.all.push((blocked, None));
    }

    /// Entries are changed. What they were before.
    pub(crate) fn change_entries(&mut self, blocked: Blocked) -> Blocked {
        let before = self.entries.all.last().map(|(before, _)| before.clone());
        self.entries.all.push((blocked, None));
        before.unwrap_or_default()
    }

    /// A reload is over that has read the list, or one that has taken over the entries.
    pub(crate) fn are_over(&mut self, (list, entries): (bool, bool), now: Duration) {
        if list {
            self.list.end_all_but_the_last(now);
        }
        if entries {
            self.entries.end_all_but_the_last(now);
        }
    }

    /// Whether clients may be told that there is no such name, who asked then.
    pub(crate) fn may_refuse(&self, asked: &Name, then: Duration) -> bool {
        let is_meant = |blocked: &Blocked| {
            blocked.iter().any(|number| {
                asked.is_within(&name(*number)) || *asked == Name::new(&format!("c{number}.test"))
            })
        };
        self.list.since(then).chain(self.entries.since(then)).any(is_meant)
    }

    /// Whether a client may get this answer now, as far as names are blocked.
    pub(crate) fn check(&self, answer: &Message) -> Result<(), String> {
        let (asked, _, _) = &answer.question;
        let owners = answer.sections[0].iter().map(|record| &record.owner);
        let is_denied = answer.rcode() == NXDOMAIN;
        let named = (!is_denied).then_some(asked).into_iter().chain(owners);
        for named in named {
            let is_meant =
                |blocked: &Blocked| blocked.iter().any(|number| named.is_within(&name(*number)));
            if self.list.holding().all(is_meant) {
                return Err(format!("gets {named}, which the list blocks"));
            }
            if self.entries.holding().all(is_meant) {
                return Err(format!("gets {named}, which entries of run time block"));
            }
        }
        Ok(())
    }
}
