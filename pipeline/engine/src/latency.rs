//! Latency: how long packets take from the RX burst to the TX queue, by the part that answered them.
//!
//! A packet costs a comparison and an addition. Packets that arrived together are one *run*. At the end of a turn each
//! run is recorded once, with the clock reading that ends the turn anyway.

use arrayvec::ArrayVec;
use pmdns_stages::{Answer, Tick};

use crate::clock::Clock;
use pmdns_counters::{Histogram, PublishedHistogram};

/// The most runs of a turn; further ones are recorded at once. A batch of misses may need one for each.
const RUNS: usize = 64;

/// The part that answered a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The cache.
    Hit,
    /// The slow path.
    Miss,
    /// A rule: local data, a blocked name.
    Local,
    /// Anything else: a refusal, an ARP reply.
    Other,
}

/// The latencies of one worker.
#[derive(Debug, Default)]
pub struct Latency {
    histograms: Latencies,
    runs: ArrayVec<Run, RUNS>,
    refused: u64,
}

/// Packets of this turn that arrived at the same time.
#[derive(Clone, Copy, Debug)]
struct Run {
    received: Tick,
    counts: [u32; Class::COUNT],
}

/// Latencies in ticks, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies([Histogram; Class::COUNT]);

/// The latencies last published by their worker.
#[derive(Debug, Default)]
pub struct PublishedLatencies([PublishedHistogram; Class::COUNT]);

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = Self::ALL.len();
    /// Every class, in the order of the histograms.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Local, Self::Other];

    /// The class of a packet that the line answers with `answer`.
    #[inline]
    pub fn of(answer: Answer) -> Self {
        match answer {
            Answer::Cached(_) => Self::Hit,
            Answer::Local(_) | Answer::Fixed(_) => Self::Local,
            Answer::None | Answer::Rcode(_) | Answer::Truncated => Self::Other,
        }
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Local => "local",
            Self::Other => "other",
        }
    }
}

impl Latency {
    /// Notes a packet that arrived at `received` and is sent in this turn.
    #[inline]
    pub fn note(&mut self, class: Class, received: Tick, clock: &Clock) {
        if let Some(run) = self.runs.last_mut()
            && run.received == received
        {
            run.counts[class as usize] += 1;
            return;
        }
        if self.runs.is_full() {
            self.settle(clock.now(), self.refused);
        }
        let mut counts = [0; Class::COUNT];
        counts[class as usize] = 1;
        self.runs.push(Run { received, counts });
    }

    /// Records all noted packets, as sent at `now`. `refused` counts all frames that TX queues ever refused. Those of
    /// this turn are assumed to be the last ones noted. If a queue was full in the middle of the turn, the number is
    /// right, but the times are those of neighbouring frames.
    #[inline]
    pub fn settle(&mut self, now: Tick, refused: u64) {
        let mut lost = refused - self.refused;
        self.refused = refused;
        for run in self.runs.drain(..).rev() {
            let waited = now.saturating_sub(run.received);
            for (histogram, count) in self.histograms.0.iter_mut().zip(run.counts) {
                let gone = u64::from(count).saturating_sub(lost);
                lost -= u64::from(count) - gone;
                if gone > 0 {
                    histogram.record(waited, gone);
                }
            }
        }
    }
}

impl Latencies {
    /// The histogram of a class.
    pub fn of(&self, class: Class) -> &Histogram {
        &self.0[class as usize]
    }

    /// Adds the latencies of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

impl PublishedLatencies {
    /// Publishes. Only the worker that owns `latency` may call this.
    pub fn publish(&self, latency: &Latency) {
        let histograms = self.0.iter().zip(&latency.histograms.0);
        histograms.for_each(|(published, histogram)| published.publish(histogram));
    }

    /// The latencies as last published.
    pub fn read(&self) -> Latencies {
        Latencies(std::array::from_fn(|class| self.0[class].read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(latency: &Latency) -> [u64; Class::COUNT] {
        Class::ALL.map(|class| latency.histograms.of(class).count())
    }

    #[test]
    fn packets_that_arrived_together_are_one_run() {
        let (mut latency, clock) = (Latency::default(), Clock::start());
        for class in [Class::Hit, Class::Other, Class::Hit] {
            latency.note(class, 100, &clock);
        }
        latency.note(Class::Miss, 40, &clock);
        assert_eq!(latency.runs.len(), 2);
        latency.settle(140, 0);
        assert_eq!(counts(&latency), [2, 1, 0, 1]);
        assert_eq!(latency.histograms.of(Class::Hit).sum(), 80);
        assert_eq!(latency.histograms.of(Class::Miss).max(), 100);
        latency.settle(999, 0);
        assert_eq!(counts(&latency), [2, 1, 0, 1], "recorded once");
    }

    #[test]
    fn what_the_port_refused_did_not_leave() {
        let (mut latency, clock) = (Latency::default(), Clock::start());
        (0..5).for_each(|_| latency.note(Class::Hit, 10, &clock));
        (0..3).for_each(|_| latency.note(Class::Miss, 20, &clock));
        latency.settle(50, 4);
        assert_eq!(counts(&latency), [4, 0, 0, 0], "the newest were refused");
        latency.note(Class::Hit, 60, &clock);
        latency.settle(70, 4);
        assert_eq!(counts(&latency), [5, 0, 0, 0], "each refusal counts once");
    }

    #[test]
    fn more_runs_than_there_is_room_for_are_all_recorded() {
        let (mut latency, clock) = (Latency::default(), Clock::start());
        (0..200).for_each(|tick| latency.note(Class::Miss, tick, &clock));
        latency.settle(clock.now(), 0);
        assert_eq!(counts(&latency), [0, 200, 0, 0]);
    }
}
