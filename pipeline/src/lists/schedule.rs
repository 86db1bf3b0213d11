//! When a list is fetched next.

use std::time::Duration;

use pmdns_engine::clock::back_off;

/// The pause after the first failure, which doubles with each further one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The time from now until a list is fetched that is `age` old (`None`: there is none) and has failed so often in a row.
pub(super) fn pause(interval: Duration, age: Option<Duration>, failures: u64) -> Duration {
    match (age, failures) {
        (None, 0) => Duration::ZERO,
        (Some(age), 0) => interval.saturating_sub(age),
        (_, failures) => back_off(FIRST_PAUSE, failures - 1, LONGEST_PAUSE.min(interval)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_fetched_when_it_is_old_and_again_after_a_failure() {
        let seconds = Duration::from_secs;
        let day = seconds(86_400);
        assert_eq!(pause(day, None, 0), seconds(0));
        assert_eq!(pause(day, Some(seconds(400)), 0), seconds(86_000));
        assert_eq!(pause(day, Some(2 * day), 0), seconds(0));
        assert_eq!(
            [1, 2, 7, 99].map(|failures| pause(day, None, failures).as_secs()),
            [60, 120, 3600, 3600]
        );
        assert_eq!(pause(seconds(90), Some(day), 9), seconds(90));
    }
}
