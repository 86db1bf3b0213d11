//! How limits on the misses of zones get to the data cores.
//!
//! They are lent as rules are ([`rules`](crate::rules)), apart from those: a limit changes no answer, so no cached answer has to
//! be judged again.

use std::sync::Arc;

use pmdns_stages::zone_limits::ZoneLimits;

use crate::lending::{Lender, RulesInbox, lend};

/// Where a data core gets limits from.
pub type LimitsInbox = RulesInbox<Arc<ZoneLimits>>;

/// Lends limits to all data cores.
pub struct LimitsLender(Vec<Lender<Arc<ZoneLimits>>>);

impl LimitsLender {
    /// A lender to so many cores, and the cores' ends.
    pub fn new(cores: usize) -> (Self, Vec<LimitsInbox>) {
        let (lenders, inboxes) = (0..cores).map(|_| lend()).unzip();
        (Self(lenders), inboxes)
    }

    /// Frees what has come back. Returns whether something has not.
    pub fn collect(&mut self) -> bool {
        self.0.iter_mut().fold(false, |any, lender| lender.collect() | any)
    }

    /// Lends these. Nothing may be on its way.
    pub fn lend(&mut self, limits: &Arc<ZoneLimits>) {
        self.0.iter_mut().for_each(|lender| lender.lend(Arc::clone(limits)));
    }
}
