//! How full the places are, and how long a connection lasts then that is idle, or of which first bytes are to come.
//!
//! Unbound's steps: below a half, 35 % and 20 % free places the time shrinks to 1 %, to 0.2 %, and to nothing.

use std::time::Duration;

/// A connection that has not asked yet has at least this time.
const LEAST_FIRST: Duration = Duration::from_millis(200);

/// How full the places are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// At least half are free.
    #[default]
    Low,
    /// Fewer are.
    Medium,
    /// Fewer than 35 % are.
    High,
    /// Fewer than 20 % are.
    Full,
}

impl Load {
    /// The load while `taken` of `places` are taken.
    pub(crate) fn of(taken: usize, places: usize) -> Self {
        let free = places.saturating_sub(taken) * 100;
        match free {
            free if free < places * 20 => Self::Full,
            free if free < places * 35 => Self::High,
            free if free < places * 50 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// How long an idle connection lasts that would last for `calm` under a low load.
    pub fn idle_time(self, calm: Duration) -> Duration {
        match self {
            Self::Low => calm,
            Self::Medium => calm / 100,
            Self::High => calm / 500,
            Self::Full => Duration::ZERO,
        }
    }

    /// The same for a connection that has not asked yet, or is to send the rest of a query or handshake.
    pub fn first_time(self, calm: Duration) -> Duration {
        self.idle_time(calm).max(LEAST_FIRST.min(calm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_last_the_shorter_the_fewer_places_are_free() {
        let calm = Duration::from_secs(30);
        let ms = |taken, places| Load::of(taken, places).idle_time(calm).as_millis();
        let times = [0, 50, 51, 65, 66, 80, 81, 100].map(|taken| ms(taken, 100));
        assert_eq!(times, [30_000, 30_000, 300, 300, 60, 60, 0, 0]);
        assert_eq!(Load::of(1, 1), Load::Full);
        assert_eq!(Load::Full.first_time(calm), LEAST_FIRST);
        assert_eq!(Load::Full.first_time(Duration::from_millis(5)), Duration::from_millis(5));
    }
}
