//! Hysteresis: one check alone decides nothing.

use pmdns_config::Anycast;

/// Follows good and bad checks.
#[derive(Debug)]
pub(super) struct Hysteresis {
    failures: u32,
    successes: u32,
    is_up: bool,
    /// Checks in a row that speak against the present state.
    against: u32,
}

impl Hysteresis {
    /// Down until the first checks were good.
    pub(super) fn new(settings: &Anycast) -> Self {
        let Anycast { failures, successes, .. } = *settings;
        Self { failures, successes, is_up: false, against: 0 }
    }

    /// Notes a check, and returns the new state if it changes.
    pub(super) fn note(&mut self, is_good: bool) -> Option<bool> {
        if is_good == self.is_up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < if is_good { self.successes } else { self.failures } {
            return None;
        }
        (self.is_up, self.against) = (is_good, 0);
        Some(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_checks_in_a_row_change_the_state() {
        let settings = Anycast { failures: 2, successes: 3, ..Anycast::default() };
        let mut hysteresis = Hysteresis::new(&settings);
        let changes: String = "--++-++++-+---++-+++"
            .bytes()
            .map(|check| match hysteresis.note(check == b'+') {
                Some(true) => 'U',
                Some(false) => 'D',
                None => '.',
            })
            .collect();
        assert_eq!(changes, ".......U....D......U");
    }
}
