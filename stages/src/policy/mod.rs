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

use arrayvec::ArrayVec;

use crate::packet::{Batch, MAX_BATCH, Packet};
use crate::step::{Exits, Run, Step};
use crate::{Context, Stage, StageName};
use filter::Glance;
pub use local::LocalError;
pub use rpz::{RpzError, check_policy_zone};
pub use ruleset::{Digest, LocalRef, Ruleset, RulesetError};

/// Names that a core remembers the rules to say nothing about: 256 KiB of its own cache.
const CLEARED: usize = 1 << 15;
/// Where a packet goes that no rule is about.
const GO_ON: Step = Step::at(StageName::Lookup);

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

    /// What can be said of a packet without waiting for memory.
    #[inline(always)]
    fn begin(&mut self, packet: &mut Packet) -> Begun {
        if self.idle {
            return Begun::Settled(GO_ON);
        }
        if self.rules.concerns_client(packet) {
            return Begun::Settled(self.rules.judge(packet));
        }
        let name = packet.query().name();
        match self.rules.filter.glance(name) {
            Glance::Clear => Begun::Settled(GO_ON),
            // What becomes of a query without an answer here depends on nothing but its name and view.
            _ if self.cleared.has(cleared_hash(packet)) => Begun::Settled(GO_ON),
            Glance::Search => Begun::Settled(self.search(packet)),
            Glance::Ask => Begun::Asks(self.rules.filter.hash(name)),
        }
    }

    /// Where a packet goes, having asked the filter.
    #[inline(always)]
    fn ask(&mut self, packet: &mut Packet, hash: u64) -> Step {
        if self.rules.filter.may_have(hash) {
            return self.search(packet);
        }
        self.cleared.add(cleared_hash(packet));
        GO_ON
    }

    /// Where a packet goes, having searched the tables.
    fn search(&mut self, packet: &mut Packet) -> Step {
        let step = self.rules.judge(packet);
        if step == GO_ON {
            self.cleared.add(cleared_hash(packet));
        }
        step
    }
}

/// How far a packet has come at first sight.
enum Begun {
    /// It goes there.
    Settled(Step),
    /// The filter has to be asked, by this hash.
    Asks(u64),
}

/// What a name and a view are remembered by. It differs from view to view in the lower bits, so that a name has a place
/// for each.
#[inline(always)]
fn cleared_hash(packet: &Packet) -> u64 {
    packet.key ^ u64::from(packet.layout.view)
}

impl Stage for Policy {
    const NAME: StageName = StageName::Policy;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.idle
    }

    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        match self.begin(packet) {
            Begun::Settled(step) => step,
            Begun::Asks(hash) => self.ask(packet, hash),
        }
    }

    /// The filter of many names is in no near cache: it is asked about a whole batch at a time.
    #[inline]
    fn process(&mut self, batch: &mut Batch, _context: &Context, exits: &mut Exits) {
        let here = Step::at(Self::NAME);
        let mut run = Run::new(exits);
        let mut asked: ArrayVec<(u8, u64), MAX_BATCH> = ArrayVec::new();
        for (at, packet) in (0..).zip(batch.iter_mut()).filter(|(_, packet)| packet.step == here) {
            match self.begin(packet) {
                Begun::Settled(step) => {
                    debug_assert!(step.is_below(Self::NAME), "steps only go down the line");
                    packet.step = step;
                    run.count(step);
                }
                Begun::Asks(hash) => asked.push((at, hash)),
            }
        }
        for (at, hash) in asked {
            let packet = &mut batch[usize::from(at)];
            packet.step = self.ask(packet, hash);
            debug_assert!(packet.step.is_below(Self::NAME), "steps only go down the line");
            run.count(packet.step);
        }
    }
}

/// Names that the rules say nothing about, as far as this core remembers, by their hash.
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
