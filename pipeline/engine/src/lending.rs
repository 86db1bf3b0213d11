//! What is lent to a thread that frees and allocates nothing: it takes new rules from a ring, and gives old ones back by another.

use pmdns_stages::zone_limits::ZoneLimits;

use crate::ring::{RingReceiver, RingSender, ring};

/// The end that a thread takes rules from and gives rules back to.
pub struct RulesInbox<T> {
    fresh: RingReceiver<Box<T>>,
    used: RingSender<Box<T>>,
    /// Old rules that go back later.
    held: Option<Box<T>>,
}

/// The publisher's end.
pub(crate) struct Lender<T> {
    fresh: RingSender<Box<T>>,
    used: RingReceiver<Box<T>>,
    lent: bool,
}

pub(crate) fn lend<T>() -> (Lender<T>, RulesInbox<T>) {
    let (fresh, taken) = ring(1);
    let (given_back, used) = ring(1);
    let lender = Lender { fresh, used, lent: false };
    (lender, RulesInbox { fresh: taken, used: given_back, held: None })
}

impl<T> RulesInbox<T> {
    /// If there are new rules, `swap` swaps them for those in use, which are then given back.
    #[inline]
    pub fn poll(&mut self, swap: impl FnOnce(&mut T)) {
        if let Some(mut rules) = self.take() {
            swap(&mut rules);
            self.give_back(rules);
        }
    }

    /// The new rules, if there are any.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Box<T>> {
        self.fresh.pop()
    }

    /// Gives old rules back.
    pub(crate) fn give_back(&mut self, rules: Box<T>) {
        let given_back = self.used.push(rules).is_ok();
        debug_assert!(given_back, "no rules are lent before the last ones are back");
    }

    /// Keeps old rules, which go back later.
    pub(crate) fn hold(&mut self, rules: Box<T>) {
        debug_assert!(self.held.is_none(), "no rules are lent before the last ones are back");
        self.held = Some(rules);
    }

    /// Whether it keeps some.
    #[inline]
    pub(crate) fn holds_some(&self) -> bool {
        self.held.is_some()
    }

    /// Gives back the ones that it keeps.
    pub(crate) fn give_back_held(&mut self) {
        if let Some(rules) = self.held.take() {
            self.give_back(rules);
        }
    }
}

impl<T> Lender<T> {
    pub(crate) fn lend(&mut self, rules: T) {
        self.lent = self.fresh.push(Box::new(rules)).is_ok();
        debug_assert!(self.lent, "the ring is empty");
    }

    /// Frees the rules that have come back. Returns whether some have not.
    pub(crate) fn collect(&mut self) -> bool {
        if self.used.pop().is_some() {
            self.lent = false;
        }
        self.lent
    }
}

/// Where a data core gets limits from.
pub type LimitsInbox = RulesInbox<ZoneLimits>;

/// Lends limits to all data cores, apart from rules: a limit changes no answer, so no cached answer has to be judged again.
pub struct LimitsLender(Vec<Lender<ZoneLimits>>);

impl LimitsLender {
    /// A lender to so many cores, and the cores' ends.
    pub fn new(cores: usize) -> (Self, Vec<LimitsInbox>) {
        let (lenders, inboxes) = (0..cores).map(|_| lend()).unzip();
        (Self(lenders), inboxes)
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.0.len()
    }

    /// Frees what has come back. Returns whether something has not.
    pub fn collect(&mut self) -> bool {
        self.0.iter_mut().fold(false, |any, lender| lender.collect() | any)
    }

    /// Lends these to each core. Nothing may be on its way.
    pub fn lend(&mut self, limits: &ZoneLimits) {
        let lenders = self.0.iter_mut().enumerate();
        lenders.for_each(|(core, lender)| lender.lend(limits.for_core(core)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_lent_comes_back_and_is_freed_by_the_lender() {
        let (mut lender, mut inbox) = lend::<Arc<u32>>();
        let (mut old, new) = (Arc::new(1), Arc::new(2));
        let watched = Arc::clone(&old);
        inbox.poll(|_| panic!("there is nothing yet"));
        lender.lend(Arc::clone(&new));
        assert!(lender.collect(), "not taken yet");
        inbox.poll(|rules| std::mem::swap(rules, &mut old));
        assert_eq!((*old, Arc::strong_count(&watched)), (2, 2), "given back, not freed");
        assert!(!lender.collect());
        assert_eq!(Arc::strong_count(&watched), 1);
        inbox.poll(|_| panic!("once is enough"));
        lender.lend(new);
        inbox.poll(|_| {});
        assert!(!lender.collect(), "and again");
    }
}
