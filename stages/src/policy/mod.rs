//! Stage: names that are answered here, and names that are not answered.
//!
//! Local records, special-use names and block lists are made into one [`Ruleset`] at load. Almost no query is
//! about a name that a rule is about, so the stage is a filter that says no quickly, and then a search; and
//! what is asked for again and again is remembered to be nobody's business here.

mod builtin;
mod filter;
mod lists;
mod local;
mod names;
mod rpz;
mod ruleset;
mod sources;
mod zone;

use std::sync::Arc;

use crate::packet::Packet;
use crate::step::Step;
use crate::{Context, Stage, StageName};
pub use local::LocalError;
pub use rpz::{RpzError, check_policy_zone};
pub use ruleset::{Digest, LocalRef, Ruleset, RulesetError};

/// Names that a core remembers the rules to say nothing about: 64 KiB of its own cache.
const CLEARED: usize = 1 << 13;

/// The stage that answers for local and blocked names.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Arc<Ruleset>,
    idle: bool,
    cleared: Cleared,
}

impl Policy {
    /// A stage that judges by `rules`.
    pub fn new(rules: Arc<Ruleset>) -> Self {
        let idle = rules.is_empty();
        Self { rules, idle, cleared: Cleared::new() }
    }
}

impl Stage for Policy {
    const NAME: StageName = StageName::Policy;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.idle
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        const GO_ON: Step = Step::at(StageName::Lookup);
        if self.idle {
            return GO_ON;
        }
        if self.rules.concerns_client(packet) {
            return self.rules.judge(packet);
        }
        // What becomes of any other client's query without an answer here depends on nothing but its name and view.
        let hash = packet.key ^ u64::from(packet.layout.view);
        if self.cleared.has(hash) {
            return GO_ON;
        }
        let step = self.rules.decide(packet);
        if step == GO_ON {
            self.cleared.add(hash);
        }
        step
    }
}

/// Names that the rules say nothing about, as far as this core remembers, by their hash. That of a name differs from view to
/// view, in its lower bits, so that a name has a place for each.
///
/// A hash is all that is compared: that a name is taken for another one has odds of one to 2^64 for each pair of
/// names, and nobody who does not know the seed can choose such a pair.
#[derive(Clone, Debug)]
struct Cleared(Box<[u64; CLEARED]>);

impl Cleared {
    fn new() -> Self {
        // A hash whose lower bits lead elsewhere is nobody's who looks here.
        Self(Box::new(std::array::from_fn(|slot| !(slot as u64))))
    }

    #[inline(always)]
    fn has(&self, hash: u64) -> bool {
        self.0[hash as usize % CLEARED] == hash
    }

    #[inline(always)]
    fn add(&mut self, hash: u64) {
        self.0[hash as usize % CLEARED] = hash;
    }
}

#[cfg(test)]
mod tests;
