//! The way back: a miss becomes a packet again, encode answers it, and a ring takes its frame to a core
//! that transmits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pmdns_nics::{Frame, FramePool};
use pmdns_stages::answer::LocalRef;
use pmdns_stages::cache::{Entry, EntryRef, Head};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Answer, Context, Packet, Stage, Step, Tick};

use crate::counters::{Counters, count};
use crate::questions::pending::Waiter;

/// An answer on its way to the core that transmits it.
#[derive(Debug)]
pub struct Answered {
    /// The whole answer.
    pub frame: Frame,
    /// When its query came.
    pub received: Tick,
}

/// Takes an answer to a miss of this worker on its way. If there is no room for it, it comes back.
pub type Deliver = Box<dyn FnMut(usize, Answered) -> Result<(), Answered>>;

/// What is needed to answer clients. Every miss that is not shed earlier is counted here, once.
pub(crate) struct Responder {
    /// Writes the answers.
    pub(crate) encode: Encode,
    /// Gives the frames for them.
    pub(crate) pool: FramePool,
    /// Takes them to a core that transmits.
    pub(crate) deliver: Deliver,
    /// Where answers are counted.
    pub(crate) counters: Arc<Counters>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is on its way.
    Sent,
    /// The cache entry was evicted before it was read.
    Evicted,
    /// The pool has no frame for it.
    NoFrame,
    /// The ring to the transmitting core is full.
    RingFull,
    /// It does not fit a frame.
    TooLong,
}

impl Responder {
    /// Answers that there is no answer, and why.
    pub(crate) fn servfail(&mut self, waiter: &Waiter, why: ExtendedError, context: &Context) {
        let Waiter { miss, worker } = waiter;
        let answer = Answer::Rcode(Rcode::SERVFAIL);
        let fate = self.answer_staged(miss, *worker, answer, Some(why), context);
        count(self.counter(fate, |counters| &counters.servfail));
    }

    /// Answers with an entry that need not be in the cache and is for a network of length `scope`, 0 for everybody,
    /// and counts that as `sent` says. That it has expired is explained.
    pub(crate) fn entry(
        &mut self,
        waiter: &Waiter,
        entry: &Entry,
        scope: u8,
        context: &Context,
        sent: impl Fn(&Counters) -> &AtomicU64,
    ) {
        if entry.head().rcode == Head::SILENT {
            return count(&self.counters.silenced);
        }
        let fate = match waiter.miss.packet(&self.pool, Answer::None) {
            Some(mut packet) => {
                packet.extended_error = why_stale(&entry.head());
                packet.set_scope(scope);
                let step = self.encode.answer_with(&mut packet, entry, context);
                self.hand_over(packet, step, waiter.worker)
            }
            None => Fate::NoFrame,
        };
        count(self.counter(fate, sent));
    }

    /// Answers from the cache; `false`: the entry has gone, and nothing was done.
    pub(crate) fn cached(
        &mut self,
        miss: &Miss,
        worker: usize,
        entry: EntryRef,
        context: &Context,
    ) -> bool {
        let fate = self.answer_staged(miss, worker, Answer::Cached(entry), None, context);
        if fate != Fate::Evicted {
            count(self.counter(fate, |counters| &counters.answered_from_cache_late));
        }
        fate != Fate::Evicted
    }

    /// Answers by the rules in use, which are others than those by which the miss was one; `false`: they let it pass, and
    /// nothing was done.
    pub(crate) fn anew(
        &mut self,
        miss: &Miss,
        worker: usize,
        found: LocalRef,
        context: &Context,
    ) -> bool {
        let fate = self.answer_staged(miss, worker, Answer::Local(found), None, context);
        if fate != Fate::Evicted {
            count(self.counter(fate, |counters| &counters.answered));
        }
        fate != Fate::Evicted
    }

    fn answer_staged(
        &mut self,
        miss: &Miss,
        worker: usize,
        answer: Answer,
        why: Option<ExtendedError>,
        context: &Context,
    ) -> Fate {
        let Some(mut packet) = miss.packet(&self.pool, answer) else { return Fate::NoFrame };
        packet.extended_error = why;
        let step = self.encode.act(&mut packet, context);
        self.hand_over(packet, step, worker)
    }

    fn hand_over(&mut self, packet: Packet, step: Step, worker: usize) -> Fate {
        let answered = Answered { received: packet.received, frame: packet.frame };
        match step {
            Step::TRANSMIT => match (self.deliver)(worker, answered) {
                Ok(()) => Fate::Sent,
                // Full means drop the newest: the client will ask again, and then hit the cache.
                Err(_answered) => Fate::RingFull,
            },
            Step::SLOW_PATH => Fate::Evicted,
            _ => Fate::TooLong,
        }
    }

    /// Where an answer is counted: as `sent` says, unless it was not.
    fn counter(&self, fate: Fate, sent: impl Fn(&Counters) -> &AtomicU64) -> &AtomicU64 {
        match fate {
            Fate::Sent => sent(&self.counters),
            Fate::NoFrame => &self.counters.shed_no_frame,
            Fate::RingFull => &self.counters.shed_ring_full,
            Fate::TooLong | Fate::Evicted => &self.counters.shed_too_long,
        }
    }
}

/// Why a client gets an answer that has expired.
fn why_stale(answer: &Head) -> Option<ExtendedError> {
    let is_stale = answer.flags & Head::STALE != 0;
    is_stale.then_some(match answer.rcode {
        Rcode::NXDOMAIN => ExtendedError::STALE_NXDOMAIN,
        _ => ExtendedError::STALE_ANSWER,
    })
}
