//! Stage: names that are answered here, names that are not answered, and misses.
//!
//! Local records, special-use names and block lists are made into one [`Ruleset`] at load. Almost no query is about a
//! name that a rule is about. So the stage is a filter that says no quickly, and then a search. It stands behind the
//! cache, where few packets come: [lookup](crate::lookup) lets by what the ruleset has let pass before.

mod builtin;
pub mod dns64;
mod filter;
mod list_number;
mod lists;
mod local;
mod local_error;
mod names;
mod reasons;
mod rebinding;
mod redirect;
mod rpz;
mod ruleset;
mod runtime;
mod sources;
mod zone;
mod zone_files;

use std::sync::Arc;

use crate::answer::Answer;
use crate::answer::Fixed;
use crate::fixed::FixedAnswers;
use crate::packet::Packet;
use crate::ratelimit::{LimitDecision, Limiter};
use crate::step::{Reason, Step};
use crate::wire::dns::rtype;
use crate::wire::name::Seed;
use crate::zone_limits::ZoneLimits;
use crate::{Context, Stage, StageName};
pub use list_number::ListNumber;
pub use local_error::LocalDataError;
pub use rpz::{RpzError, check_policy_zone};
pub use ruleset::{Digest, Explained, MissVerdict, RuleOutcome, RuleSource, Ruleset, RulesetError};
pub use runtime::{RuntimeEntry, RuntimeNames};

/// The stage that answers for local and blocked names.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Arc<Ruleset>,
    /// Whether queries of type ANY are answered here, and never asked upstream.
    minimal_any: bool,
    /// How fast one client may miss.
    limiter: Limiter,
    /// How fast zones may miss.
    zone_limits: ZoneLimits,
}

impl Policy {
    /// A stage that judges by `rules`.
    pub fn new(rules: Arc<Ruleset>, seed: Seed) -> Self {
        let zone_limits = ZoneLimits::default();
        Self { rules, minimal_any: false, limiter: Limiter::off(seed), zone_limits }
    }

    /// The same stage, which answers ANY if `fixed` has an answer to it.
    pub fn with_fixed_answers(self, fixed: &FixedAnswers) -> Self {
        Self { minimal_any: fixed.has_any(), ..self }
    }

    /// The same, with a limit on misses.
    pub fn with_limit(self, limiter: Limiter) -> Self {
        Self { limiter, ..self }
    }

    /// Judges by these rules from now on, and gives back those it had.
    pub fn swap_rules(&mut self, rules: &mut Arc<Ruleset>) {
        std::mem::swap(&mut self.rules, rules);
    }

    /// The generation of the rules it judges by.
    #[inline]
    pub fn generation(&self) -> u16 {
        self.rules.generation()
    }

    /// Limits zones so from now on, and gives back the limits it had.
    pub fn swap_zone_limits(&mut self, limits: &mut ZoneLimits) {
        std::mem::swap(&mut self.zone_limits, limits);
    }

    /// The limiter of misses.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.limiter
    }

    /// Where a packet goes that is a miss. One client's queries for ever new names would cost others room in the
    /// rings most of all. So the limit is here and not behind the rings.
    fn miss(&mut self, packet: &mut Packet, context: &Context) -> Step {
        if packet.refuse_unless_recursive() {
            return Step::ANSWER;
        }
        if self.minimal_any && packet.layout.qtype == rtype::ANY {
            packet.answer = Answer::Fixed(Fixed::Any);
            return Step::ANSWER;
        }
        if !self.limiter.is_off() {
            match self.limiter.judge(packet, self.limiter.client(packet), context.now) {
                LimitDecision::Pass => {}
                LimitDecision::Drop => return Step::drop(Reason::MissRateLimited),
                LimitDecision::Slip => {
                    packet.answer = Answer::Truncated;
                    return Step::ANSWER;
                }
            }
        }
        if self.zone_limits.are_none() {
            return Step::SLOW_PATH;
        }
        self.zone_limits.judge(packet, context.now)
    }
}

impl Stage for Policy {
    const NAME: StageName = StageName::Policy;

    #[inline]
    fn hint(&self, packet: &Packet) {
        self.rules.prefetch(packet);
    }

    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        // Lookup has asked the rules, if there is an answer in the cache.
        let decided = match packet.answer {
            Answer::None => self.rules.judge(packet),
            Answer::Local(found) if packet.wants_recursion() && self.rules.leads_on(found) => {
                Some(Step::SLOW_PATH)
            }
            _ => Some(Step::ANSWER),
        };
        match decided {
            None | Some(Step::SLOW_PATH) => self.miss(packet, context),
            Some(step) => step,
        }
    }
}

#[cfg(test)]
mod tests;
