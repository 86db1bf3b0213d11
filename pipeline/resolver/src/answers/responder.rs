//! The way back to the client. A miss becomes a packet again, and encode answers it. Its frame waits at an outlet until the
//! driver takes it to a core that transmits.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pmdns_nics::FramePool;
use pmdns_stages::cache::{Entry, Head};
use pmdns_stages::encode::Encode;
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::dns::Rcode;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Answer, Context, Packet, Reason, Stage, Step};

use super::late::Given;
use super::outlets::{OutgoingAnswer, Outlets};
use crate::counters::{Counters, count};
use crate::origin::Origin;
use crate::questions::pending::Waiter;

/// Answers clients. Every miss that is not shed earlier is counted here exactly once.
pub(crate) struct Responder {
    /// Writes the answers.
    pub(crate) encode: Encode,
    /// Gives the frames for them.
    pub(crate) pool: FramePool,
    /// Gives them for clients over streams, whose port has this number.
    pub(crate) stream_pool: Option<(u8, FramePool)>,
    /// Where they wait until the driver takes them.
    pub(crate) outlets: Outlets,
    /// Where answers are counted.
    pub(crate) counters: Arc<Counters>,
}

/// The fate of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is on its way: its outlet has room for it.
    Sent,
    /// The cache entry was evicted before it was read.
    Evicted,
    /// The pool has no frame for it.
    NoFrame,
    /// Its outlet is full.
    OutletFull,
    /// It does not fit a frame.
    TooLong,
    /// Rules of the client's view drop it.
    Silenced,
}

impl Responder {
    /// Answers with what all clients of a question get.
    pub(crate) fn give(&mut self, waiter: Waiter<'_>, given: &Given<'_>, context: &Context) {
        match given {
            Given::Entry { entry, scope, origin } => {
                self.entry(waiter, entry, *scope, *origin, context, |counters| match origin {
                    Origin::Stale => &counters.stale,
                    _ => &counters.answered,
                });
            }
            Given::Failure(why) => self.servfail(waiter, *why, context),
        }
    }

    /// Answers with SERVFAIL, and with the reason.
    pub(crate) fn servfail(&mut self, waiter: Waiter<'_>, why: ExtendedError, context: &Context) {
        let answer = Answer::Rcode(Rcode::SERVFAIL);
        let fate = self.answer_staged(waiter, answer, Some(why), Origin::Failure, context);
        count(self.counter(fate, |counters| &counters.servfail));
    }

    /// Answers with an entry, which need not be in the cache. `scope` is the length of the network it is for; 0:
    /// everybody. `origin` says where it came from, and `sent` chooses the counter. An expired entry gets an extended error.
    pub(crate) fn entry(
        &mut self,
        waiter: Waiter<'_>,
        entry: &Entry,
        scope: u8,
        origin: Origin,
        context: &Context,
        sent: impl Fn(&Counters) -> &AtomicU64,
    ) {
        if entry.head().rcode == Head::SILENT {
            if waiter.miss.is_from_stream()
                && let Some(packet) = self.packet(waiter.miss, Answer::None)
            {
                self.notify_dropped(packet, waiter.outlet);
            }
            return count(&self.counters.silenced);
        }
        let fate = match self.packet(waiter.miss, Answer::None) {
            Some(mut packet) => {
                packet.extended_error = why_stale(&entry.head());
                packet.set_scope(scope);
                let step = self.encode.answer_with(&mut packet, entry, context);
                self.hand_over(packet, step, origin, waiter.outlet)
            }
            None => Fate::NoFrame,
        };
        count(self.counter(fate, sent));
    }

    /// Answers from the cache or by the rules in use. `sent` chooses the counter. `false`: nothing was sent, because the
    /// entry has been evicted, or the rules have changed and let the query pass.
    pub(crate) fn staged(
        &mut self,
        waiter: Waiter<'_>,
        answer: Answer,
        context: &Context,
        sent: impl Fn(&Counters) -> &AtomicU64,
    ) -> bool {
        let origin = match answer {
            Answer::Cached(_) => Origin::Cache,
            _ => Origin::Rules,
        };
        let fate = self.answer_staged(waiter, answer, None, origin, context);
        if fate != Fate::Evicted {
            count(self.counter(fate, sent));
        }
        fate != Fate::Evicted
    }

    /// Answers by the rules in use, or has the miss dropped if they say so. `false`: they let it pass.
    pub(crate) fn by_rules(&mut self, waiter: Waiter<'_>, context: &Context) -> bool {
        let Some(mut packet) = self.packet(waiter.miss, Answer::None) else {
            count(self.counter(Fate::NoFrame, |counters| &counters.answered));
            return true;
        };
        let step = match self.encode.rules().judge(&mut packet) {
            None | Some(Step::SLOW_PATH) => return false,
            Some(Step::ANSWER) => self.encode.act(&mut packet, context),
            Some(dropped) => dropped,
        };
        let fate = self.hand_over(packet, step, Origin::Rules, waiter.outlet);
        count(self.counter(fate, |counters| &counters.answered));
        true
    }

    fn answer_staged(
        &mut self,
        Waiter { miss, outlet }: Waiter<'_>,
        answer: Answer,
        why: Option<ExtendedError>,
        origin: Origin,
        context: &Context,
    ) -> Fate {
        let Some(mut packet) = self.packet(miss, answer) else { return Fate::NoFrame };
        packet.extended_error = why;
        let step = self.encode.answer_found(&mut packet, context);
        self.hand_over(packet, step, origin, outlet)
    }

    /// The packet of a miss, in a frame of the port that it leaves by.
    fn packet(&self, miss: &Miss, answer: Answer) -> Option<Packet> {
        let stream_pool = self.stream_pool.as_ref().filter(|(port, _)| *port == miss.port());
        miss.packet(stream_pool.map_or(&self.pool, |(_, pool)| pool), answer)
    }

    fn hand_over(&mut self, packet: Packet, step: Step, origin: Origin, outlet: usize) -> Fate {
        match step {
            Step::TRANSMIT => {
                match self.outlets.push(outlet, OutgoingAnswer::new(packet, origin)) {
                    true => Fate::Sent,
                    // The newest answer is dropped. The client asks again and hits the cache.
                    false => Fate::OutletFull,
                }
            }
            Step::SLOW_PATH => Fate::Evicted,
            step => {
                if packet.layout.is_stream() {
                    self.notify_dropped(packet, outlet);
                }
                let is_by_rule = step == Step::drop(Reason::Blocked);
                if is_by_rule { Fate::Silenced } else { Fate::TooLong }
            }
        }
    }

    /// Tells a stream client's connection that no answer follows. If that finds no room, it waits for its deadline.
    fn notify_dropped(&mut self, packet: Packet, outlet: usize) {
        self.outlets.push(outlet, OutgoingAnswer::new(packet.into_dropped_note(), Origin::Silence));
    }

    /// The counter for an answer: the one that `sent` chooses, or the reason why it was not sent.
    fn counter(&self, fate: Fate, sent: impl Fn(&Counters) -> &AtomicU64) -> &AtomicU64 {
        match fate {
            Fate::Sent => sent(&self.counters),
            Fate::NoFrame => &self.counters.shed_no_frame,
            Fate::OutletFull => &self.counters.shed_ring_full,
            Fate::TooLong | Fate::Evicted => &self.counters.shed_too_long,
            Fate::Silenced => &self.counters.silenced,
        }
    }
}

/// The extended error for an expired answer.
fn why_stale(answer: &Head) -> Option<ExtendedError> {
    let is_stale = answer.flags & Head::STALE != 0;
    is_stale.then_some(match answer.rcode {
        Rcode::NXDOMAIN => ExtendedError::STALE_NXDOMAIN,
        _ => ExtendedError::STALE_ANSWER,
    })
}
