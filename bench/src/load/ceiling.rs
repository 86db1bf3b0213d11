//! The ceiling: the highest rate a server keeps up with, found by doubling and then by halving the gap.

use serde::Serialize;

/// Steps after which a search ends, whatever it found.
const MAX_STEPS: usize = 64;
/// The lowest rate that is tried, in queries per second.
pub const MIN_RATE: u64 = 1_000;

/// What came of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The server kept up.
    Passed,
    /// The server did not keep up.
    Failed,
    /// The generator could not offer the load: nothing was learnt of the server.
    NotOffered,
}

/// Where to search.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The first rate.
    pub start: u64,
    /// The highest rate.
    pub max: u64,
    /// How close the rate that failed must come to the one that passed, as a share of it.
    pub precision: f64,
    /// How often a rate is tried before it counts as failed.
    pub tries: u32,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ceiling {
    /// The highest rate that passed; 0 if none did.
    pub rate: u64,
    /// What kept it from being higher.
    pub limited_by: Limit,
    /// The rates tried, in order.
    pub steps: Vec<(u64, Step)>,
}

/// What limits a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The server: at the next higher rate it lost too much.
    Server,
    /// The generator: the next higher rate could not be offered. The server's ceiling is higher.
    Generator,
    /// The highest rate that was allowed passed.
    Maximum,
}

/// Searches for the highest rate at which `offer` passes. It doubles the rate until one fails. If the first rate fails,
/// it halves the rate instead. Then it bisects.
pub fn search(bounds: Bounds, mut offer: impl FnMut(u64) -> Step) -> Ceiling {
    let mut steps = Vec::new();
    let mut attempt = |rate: u64| {
        let mut step = Step::Failed;
        for _ in 0..bounds.tries.max(1) {
            step = offer(rate);
            steps.push((rate, step));
            if step == Step::Passed {
                break;
            }
        }
        step
    };
    let max = bounds.max.max(MIN_RATE);
    let mut rate = bounds.start.clamp(MIN_RATE, max);
    let (mut passed, mut failed, mut limit) = (0, None, Limit::Maximum);
    for _ in 0..MAX_STEPS {
        let step = attempt(rate);
        if step == Step::Passed {
            passed = rate;
        } else {
            failed = Some(rate);
            limit = if step == Step::NotOffered { Limit::Generator } else { Limit::Server };
        }
        rate = match failed {
            None if passed >= max => break,
            None => (passed * 2).min(max),
            // Nothing passed yet: the start was too high.
            Some(failed) if passed == 0 && failed <= MIN_RATE => break,
            Some(failed) if passed == 0 => (failed / 2).max(MIN_RATE),
            Some(failed) if (failed - passed) as f64 <= passed as f64 * bounds.precision => break,
            Some(failed) => passed + (failed - passed) / 2,
        };
    }
    Ceiling { rate: passed, limited_by: limit, steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(start: u64, max: u64) -> Bounds {
        Bounds { start, max, precision: 0.05, tries: 1 }
    }

    fn up_to(limit: u64, otherwise: Step) -> impl FnMut(u64) -> Step {
        move |rate| if rate <= limit { Step::Passed } else { otherwise }
    }

    #[test]
    fn it_doubles_and_then_bisects() {
        let found = search(bounds(100_000, 10_000_000), up_to(730_000, Step::Failed));
        let rates: Vec<u64> = found.steps.iter().map(|(rate, _)| *rate).collect();
        assert_eq!(rates[..5], [100_000, 200_000, 400_000, 800_000, 600_000]);
        assert!((693_500..=730_000).contains(&found.rate), "{found:?}");
        assert_eq!(found.limited_by, Limit::Server);
    }

    #[test]
    fn it_says_when_the_generator_was_the_limit() {
        let found = search(bounds(1_000_000, 64_000_000), up_to(5_000_000, Step::NotOffered));
        assert_eq!(found.limited_by, Limit::Generator);
        assert!((4_750_000..=5_000_000).contains(&found.rate), "{found:?}");
    }

    #[test]
    fn it_ends_at_the_highest_rate() {
        let found = search(bounds(1_000, 3_000), up_to(u64::MAX, Step::Failed));
        assert_eq!((found.rate, found.limited_by), (3_000, Limit::Maximum));
    }

    #[test]
    fn a_start_too_high_is_halved() {
        let found = search(bounds(1_000_000, 2_000_000), up_to(30_000, Step::Failed));
        assert!((28_500..=30_000).contains(&found.rate), "{found:?}");
        let nothing = search(bounds(8_000, 8_000), up_to(0, Step::Failed));
        assert_eq!((nothing.rate, nothing.steps.len()), (0, 4));
    }

    #[test]
    fn one_bad_moment_does_not_end_the_search() {
        let mut first = true;
        let twice = Bounds { tries: 2, ..bounds(100_000, 400_000) };
        let found =
            search(twice, |_| if std::mem::take(&mut first) { Step::Failed } else { Step::Passed });
        assert_eq!((found.rate, found.steps.len()), (400_000, 4));
    }
}
