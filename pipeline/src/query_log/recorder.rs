//! The recorder on a data core for the query log. It puts records into the core's ring.

use std::sync::Arc;

use pmdns_engine::observe::{Observer, Sent};
use pmdns_engine::ring::RingSender;
use pmdns_resolver::Origin;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Answer, Batch, Packet, Reason, Step, Tick};

use super::counters::LogCounters;
use super::record::{Cell, Facts, Source, push};

/// The log's observer on one core.
pub(super) struct Recorder {
    ring: RingSender<Cell>,
    sample: Sample,
    /// Whether somebody wants whole messages.
    whole: bool,
    counters: Arc<LogCounters>,
}

impl Recorder {
    pub(super) fn new(
        ring: RingSender<Cell>,
        sample: Sample,
        whole: bool,
        counters: Arc<LogCounters>,
    ) -> Self {
        Self { ring, sample, whole, counters }
    }

    #[inline]
    fn note(&mut self, facts: &Facts, layout: Layout, frame: &[u8]) {
        if !push(&mut self.ring, facts, layout, frame, self.whole) {
            self.counters.lost.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl Observer for Recorder {
    fn leave(&mut self, batch: &Batch, sends: bool, now: Tick) {
        if self.sample.passes_by(batch.len()) {
            return;
        }
        for packet in batch {
            if self.sample.takes()
                && let Some(source) = source_of(packet, sends)
            {
                self.note(&Facts::of(packet, source, now), packet.layout, packet.frame.bytes());
            }
        }
    }

    fn sent(&mut self, sent: &Sent<'_>) {
        if !self.sample.takes() {
            return;
        }
        if let Some(facts) = Facts::of_sent(sent) {
            self.note(&facts, sent.layout, sent.frame.bytes());
        }
    }
}

/// Where the answer came from that a packet is, or that a rule wants no answer. `None`: it is neither, or does not leave here.
#[inline]
pub(crate) fn source_of(packet: &Packet, sends: bool) -> Option<Source> {
    if packet.step != Step::TRANSMIT {
        let is_blocked = packet.step == Step::drop(Reason::Blocked);
        return is_blocked.then_some(Source::Drop);
    }
    match packet.answer {
        _ if !sends => None,
        // It is no query: ARP, ping.
        Answer::None => None,
        Answer::Cached(_) => Some(Source::Hit),
        Answer::Local(_) | Answer::Fixed(_) => Some(Source::Local),
        Answer::Truncated => Some(Source::Truncated),
        Answer::Rcode(_) if packet.extended_error.is_some_and(ExtendedError::is_of_rules) => {
            Some(Source::Policy)
        }
        Answer::Rcode(_) => Some(match packet.extended_error {
            Some(ExtendedError::NOT_READY) => Source::Policy,
            _ => Source::Error,
        }),
    }
}

impl Facts {
    /// Of a packet that leaves the line now.
    #[inline]
    pub(crate) fn of(packet: &Packet, source: Source, now: Tick) -> Self {
        Self { received: packet.received, left: now, source, upstream: None }
    }

    /// Of an answer of the slow path. `None`: nobody is answered.
    #[inline]
    pub(crate) fn of_sent(sent: &Sent<'_>) -> Option<Self> {
        let (source, upstream) = match sent.origin {
            Origin::Upstream(index) => (Source::Forward, Some(index)),
            Origin::Cache => (Source::Late, None),
            Origin::Stale => (Source::Stale, None),
            Origin::Rules => (Source::Local, None),
            Origin::Failure => (Source::Failure, None),
            Origin::Silence => return None,
        };
        Some(Self { received: sent.received, left: sent.now, source, upstream })
    }
}

/// Which packets are taken: one in so many, at random distances.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    every: u64,
    left: u64,
    state: u64,
}

impl Sample {
    /// One in `every` packets. The seed must not be 0.
    pub(crate) fn new(every: u32, seed: u64) -> Self {
        let mut this = Self { every: every.max(1).into(), left: 1, state: seed.max(1) };
        this.left = this.distance();
        this
    }

    /// Whether the next `count` packets are not taken, and passes them by.
    #[inline]
    fn passes_by(&mut self, count: usize) -> bool {
        let passes = self.left > count as u64;
        if passes {
            self.left -= count as u64;
        }
        passes
    }

    #[inline]
    pub(crate) fn takes(&mut self) -> bool {
        self.left -= 1;
        let is_it = self.left == 0;
        if is_it {
            self.left = self.distance();
        }
        is_it
    }

    /// Packets to the next one: 1 to 2N - 1, which is N on average.
    #[inline]
    fn distance(&mut self) -> u64 {
        if self.every == 1 {
            return 1;
        }
        // Xorshift (Marsaglia 2003): nobody gains by guessing it.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        1 + self.state % (2 * self.every - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_one_in_so_many_whatever_the_batches_are() {
        for every in [1_u32, 10, 1000] {
            let mut sample = Sample::new(every, 7);
            let (mut taken, packets) = (0, 2_000_000_usize);
            for batch in std::iter::repeat_n(64, packets / 64) {
                if !sample.passes_by(batch) {
                    taken += (0..batch).filter(|_| sample.takes()).count();
                }
            }
            let expected = packets / every as usize;
            assert!(taken.abs_diff(expected) <= expected / 10, "{taken} of one in {every}");
        }
    }
}
