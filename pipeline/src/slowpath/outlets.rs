//! The way back: a miss becomes a packet again, encode answers it, and a ring takes its frame to a core
//! that transmits.

use pmdns_nics::{Frame, FramePool};
use pmdns_stages::cache::{Entry, EntryRef};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::{Answer, Context, Stage, Step};

use super::pending::Waiter;
use crate::ring::RingSender;

/// What is needed to answer clients.
pub(super) struct Outlets {
    /// Writes the answers.
    pub(super) encode: Encode,
    /// Gives the frames for them.
    pub(super) pool: FramePool,
    /// Rings to the cores that transmit.
    pub(super) rings: Vec<RingSender<Frame>>,
    /// Which of the rings answers a worker's misses.
    pub(super) answers_to: Vec<usize>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
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

impl Outlets {
    /// Answers with nothing but an rcode.
    pub(super) fn answer_rcode(
        &mut self,
        waiter: &Waiter,
        rcode: Rcode,
        context: &Context,
    ) -> Fate {
        self.answer_staged(&waiter.miss, waiter.worker, Answer::Rcode(rcode), context)
    }

    /// Answers from the cache.
    pub(super) fn answer_cached(
        &mut self,
        miss: &Miss,
        worker: usize,
        entry: EntryRef,
        context: &Context,
    ) -> Fate {
        self.answer_staged(miss, worker, Answer::Cached(entry), context)
    }

    /// Answers with an entry that need not be in the cache.
    pub(super) fn answer_fresh(
        &mut self,
        waiter: &Waiter,
        entry: &Entry,
        context: &Context,
    ) -> Fate {
        let Some(mut packet) = waiter.miss.packet(&self.pool, Answer::None) else {
            return Fate::NoFrame;
        };
        let step = self.encode.answer_with(&mut packet, entry, context);
        self.hand_over(packet.frame, step, waiter.worker)
    }

    fn answer_staged(
        &mut self,
        miss: &Miss,
        worker: usize,
        answer: Answer,
        context: &Context,
    ) -> Fate {
        let Some(mut packet) = miss.packet(&self.pool, answer) else { return Fate::NoFrame };
        let step = self.encode.act(&mut packet, context);
        self.hand_over(packet.frame, step, worker)
    }

    fn hand_over(&mut self, frame: Frame, step: Step, worker: usize) -> Fate {
        match step {
            Step::Transmit => match self.rings[self.answers_to[worker]].push(frame) {
                Ok(()) => Fate::Sent,
                // Full means drop the newest: the client will ask again, and then hit the cache.
                Err(_frame) => Fate::RingFull,
            },
            Step::SlowPath => Fate::Evicted,
            _ => Fate::TooLong,
        }
    }
}
