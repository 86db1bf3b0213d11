//! Stage: an answer from the cache.
//!
//! No rule is passed by: each entry of the cache bears the generation of the ruleset that lets its question pass. If
//! that is not ours, or a rule is about the client, the rules are asked here.
//!
//! A lookup waits for memory twice, for the bucket and for the entry. So the batch is walked three times:
//! ask for every bucket, ask for every entry, then compare.

use std::sync::Arc;

use crate::answer::Answer;
use crate::cache::{Cache, EntryRef, Head, Key, Probe, Sampler, Words};
use crate::packet::{Batch, MAX_BATCH, Packet};
use crate::policy::Ruleset;
use crate::step::{Exits, Reason, Run, Step};
use crate::wire::dns::Rcode;
use crate::wire::layout::Who;
use crate::{Context, Stage, StageName};

/// The stage that finds cached answers.
#[derive(Clone, Debug)]
pub struct Lookup {
    cache: Arc<Cache>,
    rules: Arc<Ruleset>,
    /// Notes of hits, if anybody wants them.
    sampler: Option<Sampler>,
}

impl Lookup {
    /// A lookup stage over `cache`, which gives what `rules` let pass.
    pub fn new(cache: Arc<Cache>, rules: Arc<Ruleset>) -> Self {
        Self { cache, rules, sampler: None }
    }

    /// Keeps to these rules from now on, and gives back those it had.
    pub fn swap_rules(&mut self, rules: &mut Arc<Ruleset>) {
        std::mem::swap(&mut self.rules, rules);
    }

    /// The same stage, which takes notes of hits if anybody `wants` them.
    pub fn with_samples(self, wants: bool) -> Self {
        Self { sampler: wants.then(Sampler::new), ..self }
    }

    /// The notes it has taken.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.sampler.as_mut()
    }

    #[inline(always)]
    fn probe(&self, packet: &Packet) -> Probe {
        let hash = Key::of(packet.query()).hash(self.cache.seed(), packet.key);
        self.cache.probe(hash)
    }

    /// Where a packet goes whose answer would be `found`.
    #[inline(always)]
    fn decide(&self, packet: &mut Packet, found: EntryRef, context: &Context) -> Step {
        let entry = self.cache.view(found);
        let Some(head) = entry.read(&Key::of(packet.query()), context.seconds) else {
            packet.answer = Answer::None;
            return Self::CONTINUE;
        };
        if head.passed == self.rules.generation() && !packet.layout.who.is(Who::RULED) {
            return Step::ANSWER;
        }
        self.ask_rules(packet, found, head.flags, head.rcode)
    }

    /// Where a packet goes for which there is an answer, if the rules let it pass. What they answer instead is no hit, and
    /// what other rules made of an answer is none either.
    #[cold]
    #[inline(never)]
    fn ask_rules(&self, packet: &mut Packet, found: EntryRef, flags: u8, rcode: Rcode) -> Step {
        let is_rewritten = flags & Head::REWRITTEN != 0;
        match self.rules.judge(packet) {
            None if is_rewritten && self.is_exempt(packet) => {
                packet.answer = Answer::None;
                Self::CONTINUE
            }
            None if rcode == Head::SILENT => Step::drop(Reason::Blocked),
            None => self.rules.instead(packet, &self.cache.view(found)).unwrap_or(Step::ANSWER),
            Some(Step::SLOW_PATH) => Self::CONTINUE,
            Some(step) if step == Step::ANSWER => Self::CONTINUE,
            Some(step) => step,
        }
    }

    fn is_exempt(&self, packet: &Packet) -> bool {
        let client = packet.layout.client(packet.frame.bytes());
        self.rules.exemption(client, packet.layout.who).is_some()
    }

    /// The first half of a lookup: what the index says.
    #[inline(always)]
    fn find(&self, packet: &mut Packet, probe: Probe) {
        if let Some(entry) = self.cache.look(probe) {
            self.cache.prefetch_entry(entry);
            packet.answer = Answer::Cached(entry);
        }
    }

    /// The second half: what the entry says.
    #[inline(always)]
    fn settle(&mut self, packet: &mut Packet, context: &Context) -> Step {
        match packet.answer {
            Answer::Cached(found) => self.decide(packet, found, context),
            _ => Self::CONTINUE,
        }
    }
}

impl Stage for Lookup {
    const NAME: StageName = StageName::Lookup;

    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let probe = self.probe(packet);
        self.find(packet, probe);
        self.settle(packet, context)
    }

    #[inline]
    fn process(&mut self, batch: &mut Batch, context: &Context, exits: &mut Exits) {
        let here = Step::at(Self::NAME);
        let mut probes = [Probe::default(); MAX_BATCH];
        for (packet, probe) in batch.iter().zip(&mut probes) {
            if packet.step == here {
                *probe = self.probe(packet);
            }
        }
        for (packet, probe) in batch.iter_mut().zip(&probes) {
            if packet.step == here {
                self.find(packet, *probe);
            }
        }
        let mut run = Run::new(exits);
        for packet in batch.iter_mut().filter(|packet| packet.step == here) {
            packet.step = self.settle(packet, context);
            debug_assert!(packet.step.is_below(Self::NAME), "steps only go down the line");
            run.count(packet.step);
        }
        if let Some(sampler) = &mut self.sampler {
            for packet in batch.iter().filter(|packet| packet.step == Step::ANSWER) {
                if let Answer::Cached(found) = packet.answer {
                    // The first word of an entry that was read just now; torn, it is nobody's hash.
                    sampler.hit(|| self.cache.view(found).word(0));
                }
            }
        }
    }
}
