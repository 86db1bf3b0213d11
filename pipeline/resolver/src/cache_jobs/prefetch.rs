//! Asking for popular answers again before they expire.
//!
//! Data cores report hits, and each hit is credited to its answer. An answer is popular if it has enough hits, at a
//! high enough rate, and the last one is recent. Its refresh is planned for the time when enough of its TTL has passed.
//! Then its popularity is checked again, and the upstreams are asked as for a miss, but no client waits. The cache is
//! not read first: it still has the answer. Refreshes have a budget, and get at most half of the pending table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use pmdns_config::Prefetch as Settings;
use pmdns_config::narrow::floor_u64;
use pmdns_stages::cache::{Head, Hit, Key, Standing};

use crate::answers::Answers;
use crate::counters::count;
use crate::questions::question::Question;

/// Refreshes that may be planned at once; 16 bytes each.
const MAX_PLANNED: usize = 1 << 16;
/// Plans looked at in one turn.
pub(crate) const MAX_DUE: usize = 256;
/// Seconds from a refresh that has failed to the next attempt.
const RETRY: u32 = 10;

/// The plan and its budget.
#[derive(Debug)]
pub(crate) struct Prefetch {
    settings: Settings,
    /// By the second it is due: hashes of keys.
    planned: BinaryHeap<Reverse<(u32, u64)>>,
    /// Queries per second of this thread.
    rate: f64,
    /// Queries that may leave at once.
    burst: f64,
    /// Queries that may leave now, as of `counted`.
    allowed: f64,
    counted: Duration,
}

impl Prefetch {
    /// Nothing planned yet. All `threads` share the budget.
    pub(crate) fn new(settings: Settings, threads: usize) -> Self {
        let rate = f64::from(settings.queries_per_second) / threads.max(1) as f64;
        let burst = (rate * Duration::from_millis(settings.pace_ms).as_secs_f64()).max(1.0);
        let planned = BinaryHeap::new();
        Self { settings, planned, rate, burst, allowed: burst, counted: Duration::ZERO }
    }

    /// Whether an answer with this record of hits is worth refreshing at second `now`.
    fn is_worth(&self, standing: &Standing, now: u32) -> bool {
        let settings = &self.settings;
        let counted_for = now.saturating_sub(standing.since).max(1);
        let per_minute = f64::from(standing.hits) * 60.0 / f64::from(counted_for);
        settings.enabled
            && standing.hits >= settings.cache_min_frequency
            && per_minute >= settings.cache_min_hits_per_minute
            && now.saturating_sub(standing.last) <= settings.cache_access_window_seconds
    }

    /// When an answer is to be refreshed.
    fn due(&self, answer: &Head) -> u32 {
        let lives = f64::from(answer.expires.saturating_sub(answer.learnt));
        let after = floor_u64((lives * self.settings.cache_refresh_threshold).ceil());
        answer.learnt + u32::try_from(after).unwrap_or(u32::MAX)
    }

    /// Plans the refresh of an answer; `false`: too many are planned.
    fn plan(&mut self, answer: &Head) -> bool {
        self.plan_for(self.due(answer), answer.hash)
    }

    /// Plans it for this second.
    fn plan_for(&mut self, due: u32, hash: u64) -> bool {
        let has_room = self.planned.len() < MAX_PLANNED;
        if has_room {
            self.planned.push(Reverse((due, hash)));
        }
        has_room
    }

    /// The next answer that is due in this `second`, if the budget allows another query at `now`. The two times have
    /// different epochs.
    pub(crate) fn next(&mut self, second: u32, now: Duration) -> Option<u64> {
        let earned = now.saturating_sub(self.counted).as_secs_f64() * self.rate;
        self.allowed = (self.allowed + earned).min(self.burst);
        self.counted = now;
        let Reverse((due, hash)) = self.planned.peek().copied()?;
        if self.allowed < 1.0 || due > second {
            return None;
        }
        self.planned.pop();
        Some(hash)
    }

    /// A query has left.
    pub(crate) fn spend(&mut self) {
        self.allowed -= 1.0;
    }

    /// Credits a hit that a data core reported to its answer. If the answer is popular, plans its refresh.
    pub(crate) fn credit(&mut self, hit: Hit, answers: &mut Answers) {
        let (store, now) = (&mut answers.store, answers.context.seconds);
        let Some(standing) = store.writer.credit(hit, now) else { return };
        if standing.is_planned || !self.is_worth(&standing, now) {
            return;
        }
        let found = store.cache.get_by_hash(hit.hash).filter(|found| found.is_fresh(now));
        let Some(head) = found.map(|found| found.head) else { return };
        if self.plan(&head) {
            store.writer.plan(hit.hash);
        } else {
            count(&answers.counters.prefetch_shed);
        }
    }

    /// A question has failed. If it was a refresh, another attempt is planned while the answer lives.
    pub(crate) fn try_again(&mut self, question: &Question, answers: &mut Answers) {
        let Some(found) = answers.store.get(question) else { return };
        let (head, again) = (found.head, answers.context.seconds.saturating_add(RETRY));
        let standing = answers.store.writer.standing(head.hash, answers.context.seconds);
        if again >= head.expires || !standing.is_some_and(|standing| standing.is_planned) {
            return;
        }
        if !self.plan_for(again, head.hash) {
            count(&answers.counters.prefetch_shed);
        }
    }

    /// The question that refreshes the answer with this hash, if the refresh is still wanted.
    pub(crate) fn question(&self, hash: u64, answers: &mut Answers) -> Option<Question> {
        let found = answers.store.cache.get_by_hash(hash);
        let Some(entry) = found.and_then(|found| found.copy()) else {
            count(&answers.counters.prefetch_dropped);
            return None;
        };
        let (answer, now) = (entry.head(), answers.context.seconds);
        if answer.expires <= now {
            count(&answers.counters.prefetch_late);
            return None;
        }
        let standing = answers.store.writer.standing(answer.hash, now);
        let is_worth = standing.is_some_and(|standing| self.is_worth(&standing, now));
        if is_worth && now < self.due(&answer) {
            return None; // It was asked again meanwhile.
        }
        // Clients that send a client subnet get answers for their network, and a refresh has no client network. An
        // answer that a rule rewrote is made again when a client asks; one with addresses that are made, before.
        let question = Question::of_entry(&entry, answers.store.seed());
        let is_rewritten = answer.flags & Head::REWRITTEN != 0 && !answers.makes_ipv6(&question);
        if !is_worth || is_rewritten || question.key().flags & Key::SUBNET != 0 {
            count(&answers.counters.prefetch_dropped);
            return None;
        }
        Some(question)
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::{ReplyRecord, entry_of, query};
    use pmdns_stages::wire::name::Seed;

    use super::*;

    fn prefetch(change: impl FnOnce(&mut Settings)) -> Prefetch {
        let mut settings = Settings { enabled: true, ..Settings::default() };
        change(&mut settings);
        Prefetch::new(settings, 1)
    }

    /// An answer learnt at second `learnt` that lives for `ttl` seconds.
    fn answer(number: u64, learnt: u32, ttl: u32) -> Head {
        let records: [ReplyRecord; 1] = [(0, 1, ttl, vec![192, 0, 2, 1])];
        let entry = entry_of(&query("www.example. A"), &records, learnt, Seed::new([1; 16]));
        Head { hash: number, ..entry.head() }
    }

    #[test]
    fn trap_17_each_gate_gates() {
        // Twenty hits in the ten minutes up to now: two a minute.
        let standing = Standing { hits: 20, since: 1000, last: 1600, is_planned: false };
        let defaults = prefetch(|_| ());
        assert!(defaults.is_worth(&standing, 1600));
        assert!(!prefetch(|settings| settings.enabled = false).is_worth(&standing, 1600));
        for (frequency, is_open) in [(0, true), (20, true), (21, false)] {
            let gate = prefetch(|settings| settings.cache_min_frequency = frequency);
            assert_eq!(gate.is_worth(&standing, 1600), is_open, "cache_min_frequency {frequency}");
        }
        for (rate, is_open) in [(0.0, true), (2.0, true), (2.1, false)] {
            let gate = prefetch(|settings| settings.cache_min_hits_per_minute = rate);
            assert_eq!(gate.is_worth(&standing, 1600), is_open, "cache_min_hits_per_minute {rate}");
        }
        for (window, is_open) in [(400, true), (300, true), (299, false)] {
            let gate = prefetch(|settings| {
                (settings.cache_access_window_seconds, settings.cache_min_hits_per_minute) =
                    (window, 0.0);
            });
            let is_worth = gate.is_worth(&standing, 1900);
            assert_eq!(is_worth, is_open, "cache_access_window_seconds {window}");
        }
        for (threshold, due) in [(0.0, 500), (0.75, 575), (0.5, 550), (1.0, 600)] {
            let mut gate = prefetch(|settings| settings.cache_refresh_threshold = threshold);
            gate.plan(&answer(7, 500, 100));
            assert_eq!(gate.next(due - 1, Duration::ZERO), None, "{threshold}");
            assert_eq!(gate.next(due, Duration::ZERO), Some(7), "{threshold}");
        }
    }

    #[test]
    fn the_gates_are_those_of_the_document() {
        let settings = Settings::default();
        assert_eq!((settings.cache_min_frequency, settings.cache_min_hits_per_minute), (10, 2.0));
        assert_eq!(settings.cache_access_window_seconds, 43_200);
        assert_eq!(settings.cache_refresh_threshold, 0.75);
        assert!(!settings.enabled);
    }

    #[test]
    fn trap_17_ten_thousand_are_paced_and_none_starves() {
        const COUNT: u64 = 10_000;
        let mut prefetch = prefetch(|settings| {
            (settings.queries_per_second, settings.pace_ms) = (1000, 50);
        });
        // All are due in the same second, except the last hundred, which are due earlier.
        for number in 0..COUNT {
            let learnt = if number < COUNT - 100 { 1 } else { 0 };
            assert!(prefetch.plan(&answer(number, learnt, 100)));
        }
        let mut refreshed = Vec::new();
        for milliseconds in (0..11_000).step_by(5) {
            let before = refreshed.len();
            while let Some(hash) = prefetch.next(76, Duration::from_millis(milliseconds)) {
                prefetch.spend();
                refreshed.push(hash);
            }
            let allowed = if milliseconds == 0 { 50 } else { 5 };
            assert!(refreshed.len() - before <= allowed, "at {milliseconds} ms");
            let so_far = (milliseconds + 50).min(COUNT) as usize;
            assert!(refreshed.len().abs_diff(so_far) <= 1, "the whole budget is used");
        }
        assert!(refreshed[..100].iter().all(|hash| *hash >= COUNT - 100), "first things first");
        refreshed.sort_unstable();
        assert_eq!(refreshed, (0..COUNT).collect::<Vec<_>>(), "every one, once");
    }

    #[test]
    fn plans_are_bounded() {
        let mut prefetch = prefetch(|_| ());
        let refused = (0..MAX_PLANNED as u64 + 10)
            .filter(|number| !prefetch.plan(&answer(*number, 0, 100)))
            .count();
        assert_eq!((refused, prefetch.planned.len()), (10, MAX_PLANNED));
    }

    #[test]
    fn threads_share_the_budget() {
        let settings = Settings { queries_per_second: 100, ..Settings::default() };
        assert_eq!(Prefetch::new(settings.clone(), 4).rate, 25.0);
        let none = Settings { queries_per_second: 1, pace_ms: 1, ..settings };
        assert_eq!(Prefetch::new(none, 4).burst, 1.0, "one query can always leave some time");
    }
}
