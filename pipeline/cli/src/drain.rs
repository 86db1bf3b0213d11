//! `pmdns drain --wait`: waits until no more queries of clients come.

use std::ops::RangeInclusive;
use std::time::Duration;

use pmdns_control::client::ApiClient;

use crate::top::{self, TopError};
use pmdns_control::report::Report;

/// How long one may wait, in seconds.
pub(crate) const SECONDS: RangeInclusive<u64> = 1..=86_400;
/// Seconds without a query after which the traffic has ended.
const QUIET: u32 = 3;

/// Waits up to so many `seconds` until the instance gets no more queries. An error of the second kind has the
/// queries of the last second.
pub(crate) fn wait(instance: &ApiClient, seconds: u64) -> Result<Result<(), u64>, TopError> {
    let mut quiet = Quiet::since(queries(&top::read(instance)?));
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        if quiet.note(queries(&top::read(instance)?)) {
            return Ok(Ok(()));
        }
    }
    Ok(Err(quiet.last))
}

/// Clients' queries so far, over all transports: what the first stage after the checks of packets saw, without probes.
fn queries(report: &Report) -> u64 {
    let asked = report.workers.iter().filter_map(|worker| worker.stages.get("acl"));
    let probes: u64 = report.workers.iter().map(|worker| worker.counter("probes")).sum();
    asked.map(|stage| stage.packets).sum::<u64>().saturating_sub(probes)
}

/// Watches a counter of queries, second by second.
struct Quiet {
    count: u64,
    /// Queries of the last second.
    last: u64,
    seconds: u32,
}

impl Quiet {
    fn since(count: u64) -> Self {
        Self { count, last: 0, seconds: 0 }
    }

    /// A second has passed. `true`: no queries come any more.
    fn note(&mut self, count: u64) -> bool {
        self.last = count.saturating_sub(self.count);
        self.count = self.count.max(count);
        self.seconds = if self.last == 0 { self.seconds + 1 } else { 0 };
        self.seconds >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_has_ended_after_some_seconds_without_a_query() {
        let mut quiet = Quiet::since(5);
        let ended = [9, 9, 9, 10, 10, 9, 10].map(|count| quiet.note(count));
        assert_eq!(ended, [false, false, false, false, false, false, true]);
    }
}
