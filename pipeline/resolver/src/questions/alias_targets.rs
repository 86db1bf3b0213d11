//! Questions that wait for the targets of their aliases.

use std::rc::Rc;

use pmdns_stages::cache::Alias;

use super::hashed::HashedMap;
use super::pending::Ticket;
use super::question::Question;

/// The questions that wait for each target, each with its alias. Their number is bounded by the pending table.
#[derive(Debug, Default)]
pub(crate) struct AliasTargets(HashedMap<Rc<Question>, Vec<(Ticket, Alias)>>);

impl AliasTargets {
    /// Lets the question of `ticket` wait for `target`, to which this alias leads.
    pub(crate) fn wait(&mut self, target: Question, ticket: Ticket, alias: Alias) {
        self.0.entry(Rc::new(target)).or_default().push((ticket, alias));
    }

    /// Takes out those that wait for `target`.
    pub(crate) fn take(&mut self, target: &Question) -> Vec<(Ticket, Alias)> {
        // Nearly always nothing waits, and `remove` would search.
        if self.0.is_empty() { Vec::new() } else { self.0.remove(target).unwrap_or_default() }
    }
}
