//! What is counted while queries are under way. Times are ticks; `report` makes figures of them.

use hdrhistogram::Histogram;

use super::check::{AnswerClass, VERDICTS};
use super::figures::UpstreamCounts;
use super::mix::{KINDS, Kind};

/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;
/// The longest latency that is told apart, in seconds.
const MAX_LATENCY_SECONDS: u64 = 60;

/// A stretch of time, for plots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// Queries that left.
    pub sent: u64,
    /// Queries the port did not take.
    pub refused: u64,
    /// Right answers.
    pub good: u64,
}

/// The counts of one run.
#[derive(Debug)]
pub struct Tally {
    /// When the offer began.
    pub start: u64,
    /// When the offer ended.
    pub end: u64,
    /// When the last answer came.
    pub last_answer: u64,
    /// Queries the schedule had.
    pub planned: u64,
    /// Queries that left, by kind.
    pub sent: [u64; KINDS],
    /// Queries the port did not take, by kind: its ring was full.
    pub refused: [u64; KINDS],
    /// Queries left out because the generator had fallen behind.
    pub withheld: u64,
    /// Answers by verdict, those to malformed queries apart.
    pub verdicts: [u64; VERDICTS],
    /// Right answers by kind.
    pub good: [u64; KINDS],
    /// Queries without an answer, by kind. Silence is a right answer to a malformed query.
    pub lost: [u64; KINDS],
    /// Answers to no query under way: late, double, or strange.
    pub unexpected: u64,
    /// Frames that were no answers at all.
    pub strays: u64,
    /// What the upstreams did that are played here.
    pub upstream: Option<UpstreamCounts>,
    /// Time from the intended sending to the right answer, by kind.
    pub latency: [Histogram<u64>; KINDS],
    /// How long after its intended time the first query of each burst left.
    pub lateness: Histogram<u64>,
    /// Stretches of time, in order.
    pub slices: Vec<Slice>,
    slice_ticks: u64,
    slice: usize,
    slice_end: u64,
    /// Queries under way, added up over the ticks: counted, without looking at any query's time.
    area: u128,
    area_at: u64,
    /// How much later than intended queries left, added up.
    late: u128,
    /// Time under way of queries that ended without a right answer, added up.
    other_time: u128,
}

impl Tally {
    /// Nothing counted yet, from tick `start` on, for about `ticks`.
    pub fn new(start: u64, ticks: u64, slice_ticks: u64, ticks_per_second: u64) -> Self {
        let max = ticks_per_second.saturating_mul(MAX_LATENCY_SECONDS).max(2);
        let histogram =
            Histogram::new_with_max(max, DIGITS).expect("three digits up to a minute are lawful");
        let slice_ticks = slice_ticks.max(1);
        // Room for the drain as well; what comes later is counted in the last slice.
        let slices = usize::try_from(ticks / slice_ticks).unwrap_or(0) + 2;
        Self {
            start,
            end: start,
            last_answer: start,
            planned: 0,
            sent: [0; KINDS],
            refused: [0; KINDS],
            withheld: 0,
            verdicts: [0; VERDICTS],
            good: [0; KINDS],
            lost: [0; KINDS],
            unexpected: 0,
            strays: 0,
            upstream: None,
            latency: std::array::from_fn(|_| histogram.clone()),
            lateness: histogram,
            slices: vec![Slice::default(); slices],
            slice_ticks,
            slice: 0,
            slice_end: start + slice_ticks,
            area: 0,
            area_at: start,
            late: 0,
            other_time: 0,
        }
    }

    /// A turn at `now`, since whose predecessor `under_way` queries were under way.
    #[inline]
    pub fn turn(&mut self, now: u64, under_way: usize) {
        self.area += u128::from(now.saturating_sub(self.area_at)) * under_way as u128;
        self.area_at = now;
        while now >= self.slice_end && self.slice + 1 < self.slices.len() {
            self.slice += 1;
            self.slice_end += self.slice_ticks;
        }
    }

    /// Queries of one burst that left at `now`, by kind and intended time.
    #[inline]
    pub fn left(&mut self, now: u64, queries: impl Iterator<Item = (Kind, u64)>) {
        let (mut count, mut first) = (0, None);
        for (kind, intended) in queries {
            let late = now.saturating_sub(intended);
            first = first.or(Some(late));
            self.late += u128::from(late);
            self.sent[kind.index()] += 1;
            count += 1;
        }
        if let Some(late) = first {
            self.lateness.saturating_record(late);
        }
        self.slices[self.slice].sent += count;
    }

    /// Queries that the port did not take.
    #[inline]
    pub fn refused(&mut self, queries: impl Iterator<Item = Kind>) {
        for kind in queries {
            self.refused[kind.index()] += 1;
            self.slices[self.slice].refused += 1;
        }
    }

    /// An answer that came `time` after its query was to be sent.
    #[inline]
    pub fn answered(&mut self, kind: Kind, verdict: AnswerClass, time: u64, now: u64) {
        self.last_answer = now;
        if verdict == AnswerClass::Good && kind != Kind::Malformed {
            self.verdicts[verdict as usize] += 1;
            self.good[kind.index()] += 1;
            self.latency[kind.index()].saturating_record(time);
            self.slices[self.slice].good += 1;
            return;
        }
        self.other_time += u128::from(time);
        if kind != Kind::Malformed || verdict.is_wrong() {
            self.verdicts[verdict as usize] += 1;
        } else {
            self.good[kind.index()] += 1;
        }
    }

    /// A query given up `time` after it was to be sent.
    #[inline]
    pub fn gave_up(&mut self, kind: Kind, time: u64) {
        self.lost[kind.index()] += 1;
        self.other_time += u128::from(time);
    }

    /// The latencies of all kinds together.
    pub fn all_latencies(&self) -> Histogram<u64> {
        let mut all = self.latency[0].clone();
        for more in &self.latency[1..] {
            all.add(more).expect("all have the same bounds");
        }
        all
    }

    /// Mean number of queries under way during the offer, counted turn by turn.
    pub fn counted_under_way(&self) -> f64 {
        self.area as f64 / self.offer_ticks()
    }

    /// The same by Little's law: what queries came to, times how long each took. From the histograms
    /// and each query's own times.
    pub fn computed_under_way(&self) -> f64 {
        let answered: f64 =
            self.latency.iter().map(|latency| latency.mean() * latency.len() as f64).sum();
        (answered + self.other_time as f64 - self.late as f64) / self.offer_ticks()
    }

    fn offer_ticks(&self) -> f64 {
        self.end.saturating_sub(self.start).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten queries, one each 100 ticks, each sent 5 ticks late and answered 250 ticks after it was due.
    fn steady() -> Tally {
        let mut tally = Tally::new(0, 1000, 100, 1_000_000);
        let mut under_way = 0;
        for now in 0..=1400_u64 {
            tally.turn(now, under_way);
            if now % 100 == 5 && now < 1000 {
                tally.left(now, std::iter::once((Kind::Hit, now - 5)));
                under_way += 1;
            }
            if now % 100 == 50 && (250..1250).contains(&now) {
                tally.answered(Kind::Hit, AnswerClass::Good, 250, now);
                under_way -= 1;
            }
        }
        tally.end = 1000;
        tally
    }

    #[test]
    fn littles_law_holds_for_honest_times() {
        let tally = steady();
        assert_eq!((tally.sent[0], tally.good[0], tally.last_answer), (10, 10, 1150));
        assert!((tally.counted_under_way() - 2.45).abs() < 1e-9);
        assert!((tally.computed_under_way() - 2.45).abs() < 0.01);
    }

    #[test]
    fn littles_law_breaks_when_a_time_is_wrong() {
        let mut tally = steady();
        tally.latency[0].record(50_000).unwrap();
        assert!(tally.computed_under_way() > 2.0 * tally.counted_under_way());
    }

    #[test]
    fn slices_add_up() {
        let tally = steady();
        let (sent, good) =
            tally.slices.iter().fold((0, 0), |sum, slice| (sum.0 + slice.sent, sum.1 + slice.good));
        assert_eq!((sent, good), (10, 10));
        assert_eq!(tally.slices[0].sent, 1);
    }

    #[test]
    fn answers_to_malformed_queries_have_no_latency() {
        let mut tally = Tally::new(0, 10, 1, 1000);
        tally.answered(Kind::Malformed, AnswerClass::Good, 5, 5);
        tally.answered(Kind::Malformed, AnswerClass::WrongRecords, 5, 5);
        tally.gave_up(Kind::Malformed, 9);
        assert_eq!(tally.all_latencies().len(), 0);
        assert_eq!(tally.good[Kind::Malformed.index()], 1);
        assert_eq!(tally.verdicts[AnswerClass::WrongRecords as usize], 1);
        assert_eq!(tally.verdicts[AnswerClass::Good as usize], 0);
    }
}
