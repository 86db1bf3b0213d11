//! Stage: an answer from the cache, or a miss.
//!
//! A lookup waits for memory twice, for the bucket and for the entry. So the batch is walked three times:
//! ask for every bucket, ask for every entry, then compare. This is the one stage with a loop of its own.

use std::sync::Arc;

use crate::cache::{Cache, EntryRef, Head, Key, Probe, Sampler, Words, answers};
use crate::fixed::{Fixed, FixedAnswers};
use crate::packet::{Answer, Batch, MAX_BATCH, Packet};
use crate::ratelimit::{Limiter, Verdict};
use crate::step::{Exits, Reason, Run, Step};
use crate::wire::dns::rtype;
use crate::{Context, Stage, StageName};

/// The stage that finds cached answers.
#[derive(Clone, Debug)]
pub struct Lookup {
    cache: Arc<Cache>,
    /// Whether queries of type ANY are answered here, and never asked upstream.
    minimal_any: bool,
    /// How fast one client may miss.
    limiter: Limiter,
    /// Notes of hits, if anybody wants them.
    sampler: Option<Sampler>,
}

impl Lookup {
    /// A lookup stage over `cache`.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self { limiter: Limiter::off(cache.seed()), minimal_any: false, sampler: None, cache }
    }

    /// The same stage, which answers ANY if `fixed` has an answer to it.
    pub fn answering_any(self, fixed: &FixedAnswers) -> Self {
        Self { minimal_any: fixed.has_any(), ..self }
    }

    /// The same, with a limit on misses.
    pub fn limited(self, limiter: Limiter) -> Self {
        Self { limiter, ..self }
    }

    /// The same, which takes notes of hits if anybody `wants` them.
    pub fn sampling(self, wants: bool) -> Self {
        Self { sampler: wants.then(Sampler::new), ..self }
    }

    /// What it counts misses with.
    pub fn limiter(&mut self) -> &mut Limiter {
        &mut self.limiter
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
    fn decide(&self, packet: &Packet, found: EntryRef, context: &Context) -> Step {
        let entry = self.cache.view(found);
        let matches = answers(&entry, &Key::of(packet.query()));
        let head = Head::read(&entry);
        if matches && head.expires > context.seconds && entry.is_valid() {
            Step::at(StageName::Encode)
        } else {
            Step::SLOW_PATH
        }
    }

    /// The first half of a lookup: what the index says.
    #[inline(always)]
    fn find(&self, packet: &mut Packet, probe: Probe) {
        if let Some(entry) = self.cache.look(probe) {
            self.cache.prefetch_entry(entry);
            packet.answer = Answer::Cached(entry);
        }
    }

    /// Where a packet goes that is a miss. What one client's queries for ever new names would cost others is most of
    /// all room in the rings, so the limit is here and not behind them.
    #[cold]
    #[inline(never)]
    fn miss(&mut self, packet: &mut Packet, context: &Context) -> Step {
        if packet.refuse_unless_recursive() {
            return Step::at(StageName::Encode);
        }
        if self.minimal_any && packet.layout.qtype == rtype::ANY {
            packet.answer = Answer::Fixed(Fixed::Any);
            return Step::at(StageName::Encode);
        }
        packet.answer = Answer::None;
        if self.limiter.is_off() {
            return Step::SLOW_PATH;
        }
        match self.limiter.judge(packet, context.now) {
            Verdict::Pass => Step::SLOW_PATH,
            Verdict::Drop => Step::drop(Reason::MissRateLimited),
            Verdict::Slip => {
                packet.answer = Answer::Truncated;
                Step::at(StageName::Encode)
            }
        }
    }

    /// The second half: what the entry says.
    #[inline(always)]
    fn settle(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let step = match packet.answer {
            Answer::Cached(found) => self.decide(packet, found, context),
            _ => Step::SLOW_PATH,
        };
        if step == Step::SLOW_PATH {
            return self.miss(packet, context);
        }
        step
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
            for packet in batch.iter().filter(|packet| packet.step == Step::at(StageName::Encode)) {
                if let Answer::Cached(found) = packet.answer {
                    // The first word of an entry that was read just now; torn, it is nobody's hash.
                    sampler.hit(|| self.cache.view(found).word(0));
                }
            }
        }
    }
}
