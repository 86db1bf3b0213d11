//! A bound on lines about what may change at any rate, as with a link that flaps. What is left out is counted, and told when
//! there is room again.

use std::time::{Duration, Instant};

/// Lines in each period.
pub const LINES: u32 = 20;
/// The period.
pub const PERIOD: Duration = Duration::from_secs(60);

/// The lines of one subject.
#[derive(Debug, Default)]
pub struct LineBudget {
    /// When the period began, and the lines in it.
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LineBudget {
    /// Begins a new period if the last one is over. Returns how many lines were left out since that was told, if any were.
    pub fn turn(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_some_and(|began| now.saturating_duration_since(began) < PERIOD) {
            return None;
        }
        (self.began, self.lines) = (Some(now), 0);
        Some(std::mem::take(&mut self.left_out)).filter(|left_out| *left_out > 0)
    }

    /// Whether there is room for a line, which takes it. Else the line is counted.
    pub fn has_room(&mut self) -> bool {
        let has_room = self.lines < LINES;
        match has_room {
            true => self.lines += 1,
            false => self.left_out += 1,
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_so_many_lines_and_the_next_one_tells_of_the_others() {
        let (mut budget, now) = (LineBudget::default(), Instant::now());
        let mut lines_in = |start: Instant| {
            let left_out = budget.turn(start);
            (left_out, (0..1000).filter(|_| budget.has_room()).count())
        };
        assert_eq!(lines_in(now), (None, 20));
        assert_eq!(lines_in(now + PERIOD / 2), (None, 0), "the same period");
        assert_eq!(lines_in(now + PERIOD), (Some(1980), 20));
        assert_eq!(lines_in(now + 2 * PERIOD), (Some(980), 20));
    }
}
