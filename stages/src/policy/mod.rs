//! Stage: names that are answered here, and names that are not answered.
//!
//! Local records, special-use names and block lists are made into one [`Ruleset`] at load. Almost no query is
//! about a name that a rule is about, so the stage is a filter that says no quickly, and then a search.

mod builtin;
mod filter;
mod lists;
mod local;
mod names;
mod rpz;
mod ruleset;
mod zone;

use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::packet::{Batch, MAX_BATCH, Packet};
use crate::step::{Exits, Run, Step};
use crate::{Context, Stage, StageName};
use filter::Glance;
pub use local::LocalError;
pub use rpz::RpzError;
pub use ruleset::{Digest, LocalRef, Ruleset, RulesetError};

/// The stage that answers for local and blocked names.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Arc<Ruleset>,
    idle: bool,
}

impl Policy {
    /// A stage that judges by `rules`.
    pub fn new(rules: Arc<Ruleset>) -> Self {
        let idle = rules.is_empty();
        Self { rules, idle }
    }

    /// Judges by these rules from now on, and gives back those it had.
    pub fn exchange(&mut self, rules: &mut Arc<Ruleset>) {
        std::mem::swap(&mut self.rules, rules);
        self.idle = self.rules.is_empty();
    }
}

impl Stage for Policy {
    const NAME: StageName = StageName::Policy;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.idle
    }

    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        let glance = self.rules.glance(packet);
        self.rules.decide(packet, glance)
    }

    /// Packets that a first look does not settle wait until all have had theirs: meanwhile what the second look
    /// reads is loaded.
    #[inline]
    fn process(&mut self, batch: &mut Batch, _context: &Context, exits: &mut Exits) {
        let here = Step::at(Self::NAME);
        let mut run = Run::new(exits);
        let mut waiting: ArrayVec<(u8, Glance), MAX_BATCH> = ArrayVec::new();
        for (number, packet) in (0..).zip(batch.iter_mut()) {
            if packet.step != here {
                continue;
            }
            match if self.idle { Glance::No } else { self.rules.glance(packet) } {
                Glance::No => {
                    packet.step = Step::at(StageName::Lookup);
                    run.count(packet.step);
                }
                glance => waiting.push((number, glance)),
            }
        }
        for (number, glance) in &waiting {
            let packet = &mut batch[usize::from(*number)];
            packet.step = self.rules.decide(packet, *glance);
            debug_assert!(packet.step.is_below(Self::NAME), "steps only go down the line");
            run.count(packet.step);
        }
    }
}

#[cfg(test)]
mod tests;
