//! Limits on the misses of zones, as operators and floods make them. Those of operators are kept over a restart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pmdns_changes::{Author, JournalLine, OperatorChange, Refused, Subject, What, ZoneLimitKept};
use pmdns_config::limits::{MAX_LIMIT_SECONDS, MAX_ZONE_LIMITS, MAX_ZONE_RATE};
use pmdns_config::{LimitAnswer, wire_name};
use pmdns_control::hitters::{LimitRow, LimitTable};
use pmdns_control::{Call, LimitOrder, Refusal};
use pmdns_engine::lending::LimitsLender;
use pmdns_stages::ratelimit::ClientPrefixes;
use pmdns_stages::zone_limits::{ZoneLimit, ZoneLimits};

use crate::runtime::unix_time;

/// Limits that floods may make. A flood of many zones leaves room for the limits of operators.
const MAX_FLOOD_LIMITS: usize = MAX_ZONE_LIMITS / 4 * 3;
/// Who makes these.
const FLOOD: &str = "flood";

/// A limit, and who wants it for how long.
struct Made {
    /// The zone in wire format, in lower case.
    zone: Box<[u8]>,
    text: String,
    rate: u32,
    until: Option<Instant>,
    /// The same, in seconds since 1970.
    ends: Option<u64>,
    /// Whether an earlier process has made it, so that `until` depends on the clock of this start.
    is_of_before: bool,
    author: Author,
    /// Misses a second of the flood it is for.
    misses: u64,
    limit: Arc<ZoneLimit>,
}

/// The limits of an instance.
pub struct ZoneLimiter {
    lender: LimitsLender,
    answer: LimitAnswer,
    /// Clients that count as one.
    prefixes: ClientPrefixes,
    ticks_per_second: u64,
    made: Vec<Made>,
    /// Whether cores have others.
    is_changed: bool,
    /// Misses refused by limits that have ended.
    refused_before: u64,
}

impl Made {
    fn change(&self) -> OperatorChange {
        let limit = ZoneLimitKept { zone: self.text.clone(), rate: self.rate, until: self.ends };
        OperatorChange { what: What::Limit(limit), author: self.author.clone() }
    }
}

impl ZoneLimiter {
    /// Without limits. Clients over one will get `answer`.
    pub fn new(
        lender: LimitsLender,
        answer: LimitAnswer,
        prefixes: ClientPrefixes,
        ticks_per_second: u64,
    ) -> Self {
        let (made, is_changed, refused_before) = Default::default();
        Self { lender, answer, prefixes, ticks_per_second, made, is_changed, refused_before }
    }

    /// Makes a change of limits, once `keep` has taken the line that keeps it. `is_kept` says whether the file has a limit of the
    /// zone. Returns what it does, and what `keep` gave.
    ///
    /// # Errors
    ///
    /// It cannot be made or kept, and the text says why.
    pub fn change<T>(
        &mut self,
        call: &Call,
        (author, is_kept): (&Author, bool),
        now: Instant,
        keep: impl FnOnce(JournalLine) -> Result<T, Refused>,
    ) -> Result<(String, T), Refused> {
        match call {
            // A limit that it has is replaced, and what that has counted begins anew.
            Call::Limit(order) => self.make(order, (author.clone(), 0), now, |made| {
                keep(JournalLine::Set(Box::new(made.change())))
            }),
            Call::Unlimit(text) => {
                let zone = zone_of(text)?;
                if !is_kept && !self.made.iter().any(|made| made.zone == zone) {
                    return Err((Refusal::Unknown, format!("`{text}` has no limit")));
                }
                let kept = keep(unset(text))?;
                self.remove(|made| made.zone == zone);
                Ok((format!("{text} has no limit any more"), kept))
            }
            _ => Err((Refusal::Unable, "this is no change of limits".to_owned())),
        }
    }

    /// Has limits in force that an earlier process has kept, at this time in seconds since 1970.
    pub fn take_kept(&mut self, kept: &[OperatorChange], (now, unix_time): (Instant, u64)) {
        for OperatorChange { what, author } in kept {
            let What::Limit(ZoneLimitKept { zone, rate, until }) = what else { continue };
            // The clock may be wrong: no limit lasts longer than it was to.
            let left = until.map(|until| {
                let whole = until.saturating_sub(author.since).min(MAX_LIMIT_SECONDS.into());
                until.saturating_sub(unix_time).min(whole)
            });
            let seconds = left.map(|left| u32::try_from(left).unwrap_or(u32::MAX));
            let order = LimitOrder { zone: zone.clone(), rate: *rate, seconds };
            match self.make(&order, (author.clone(), 0), now, |_| Ok(())) {
                // The clock may have been wrong when it was made.
                Ok(_) => self.made.last_mut().into_iter().for_each(|made| {
                    (made.ends, made.is_of_before) = (*until, true);
                }),
                Err((_, why)) => tracing::warn!("the limit of {zone} is not in force: {why}"),
            }
        }
    }

    fn make<T>(
        &mut self,
        order: &LimitOrder,
        (author, misses): (Author, u64),
        now: Instant,
        keep: impl FnOnce(&Made) -> Result<T, Refused>,
    ) -> Result<(String, T), Refused> {
        let LimitOrder { zone: text, rate, seconds } = order;
        let zone = zone_of(text)?;
        if *rate > MAX_ZONE_RATE {
            return Err(wrong(format!("the rate is {rate}; allowed: 0 to {MAX_ZONE_RATE}")));
        }
        if let Some(seconds) = seconds.filter(|one| !(1..=MAX_LIMIT_SECONDS).contains(one)) {
            return Err(wrong(format!(
                "the time is {seconds} s; allowed: 1 to {MAX_LIMIT_SECONDS}"
            )));
        }
        let is_new = self.made.iter().all(|made| made.zone != zone);
        if is_new && self.made.len() >= MAX_ZONE_LIMITS {
            let why = format!("{MAX_ZONE_LIMITS} zones are limited already; lift a limit first");
            return Err((Refusal::Unable, why));
        }
        let cores = self.lender.cores();
        let limit = Arc::new(ZoneLimit::new(&zone, *rate, self.ticks_per_second, cores));
        let until = seconds.map(|seconds| now + Duration::from_secs(seconds.into()));
        let ends = seconds.map(|seconds| author.since.saturating_add(seconds.into()));
        let text = text.trim_end_matches('.').to_ascii_lowercase();
        let end = seconds.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
        let done = format!("{text} is limited to {rate} misses a second{end}");
        let (rate, is_of_before) = (*rate, false);
        let made = Made { zone, text, rate, until, ends, is_of_before, author, misses, limit };
        let kept = keep(&made)?;
        self.remove(|other| other.zone == made.zone);
        self.made.push(made);
        self.is_changed = true;
        Ok((done, kept))
    }

    /// Limits a zone that is flooded with so many misses a second, in the place of that with fewest if there is no room.
    /// `None`: it has a limit, and what an operator has said stays.
    pub fn limit_flood(
        &mut self,
        order: &LimitOrder,
        misses: u64,
        now: Instant,
    ) -> Result<Option<String>, Refused> {
        let zone = zone_of(&order.zone)?;
        if self.made.iter().any(|made| made.zone == zone) {
            return Ok(None);
        }
        let floods = || self.made.iter().filter(|made| made.author.by == FLOOD);
        if floods().count() >= MAX_FLOOD_LIMITS {
            let smallest = floods().min_by_key(|made| made.misses);
            let Some(smaller) = smallest.filter(|made| made.misses < misses) else {
                let why = format!("{MAX_FLOOD_LIMITS} larger floods are limited already");
                return Err((Refusal::Unable, why));
            };
            let zone = smaller.zone.clone();
            self.remove(|made| made.zone == zone);
        }
        let author = Author { by: FLOOD.to_owned(), since: unix_time(), until_restart: true };
        let made = self.make(order, (author, misses), now, |_| Ok(()))?;
        Ok(Some(made.0))
    }

    /// The limits.
    pub fn list(&self, now: Instant) -> LimitTable {
        let row = |made: &Made| {
            let (passed, refused) = made.limit.counts();
            let seconds_left =
                made.until.map(|until| until.saturating_duration_since(now).as_secs());
            let (zone, by) = (made.text.clone(), made.author.by.clone());
            let until_restart = made.author.until_restart;
            LimitRow { zone, rate: made.rate, seconds_left, passed, refused, by, until_restart }
        };
        LimitTable { limits: self.made.iter().map(row).collect() }
    }

    /// The limits of operators and floods, as changes.
    pub fn changes(&self) -> impl Iterator<Item = OperatorChange> {
        self.made.iter().map(Made::change)
    }

    /// How many zones are limited, and how many misses were refused since the start.
    pub fn counts(&self) -> (u64, u64) {
        let refused: u64 = self.made.iter().map(|made| made.limit.counts().1).sum();
        (self.made.len() as u64, self.refused_before + refused)
    }

    /// Lifts limits whose time is over, and lends the others to the cores if they have changed. Returns the lines by which the file
    /// forgets those that it has. It is told the time in seconds since 1970 too: the clock may have been wrong at the start.
    pub fn turn(&mut self, (now, unix_time): (Instant, u64)) -> Vec<JournalLine> {
        let is_over = |made: &Made| {
            made.until.is_some_and(|until| until <= now)
                || made.is_of_before && made.ends.is_some_and(|ends| ends <= unix_time)
        };
        let kept = self.made.iter().filter(|made| is_over(made) && !made.author.until_restart);
        let over = kept.map(|made| unset(&made.text)).collect();
        self.remove(is_over);
        self.lend();
        over
    }

    fn lend(&mut self) {
        if self.lender.collect() || !self.is_changed {
            return;
        }
        let limits = self.made.iter().map(|made| Arc::clone(&made.limit)).collect();
        self.lender.lend(&ZoneLimits::new(limits, self.answer, self.prefixes));
        self.is_changed = false;
    }

    fn remove(&mut self, ends: impl Fn(&Made) -> bool) {
        let before = self.made.len();
        for made in self.made.extract_if(.., |made| ends(made)) {
            let (passed, refused) = made.limit.counts();
            self.refused_before += refused;
            let Made { text, author: Author { by, .. }, .. } = made;
            tracing::info!(
                "the limit of {text} by {by} has ended: {passed} misses passed, {refused} were refused"
            );
        }
        self.is_changed |= self.made.len() < before;
    }
}

/// The line by which the file forgets the limit of a zone.
fn unset(zone: &str) -> JournalLine {
    JournalLine::Unset(Subject::Limit(zone.to_owned()))
}

fn zone_of(text: &str) -> Result<Box<[u8]>, Refused> {
    let mut zone = wire_name(text).map_err(|error| wrong(error.to_string()))?;
    zone.make_ascii_lowercase();
    match *zone {
        [0] => Err(wrong("the root is every name; name a zone".to_owned())),
        _ => Ok(zone),
    }
}

fn wrong(why: String) -> Refused {
    (Refusal::Wrong, why)
}

#[cfg(test)]
mod tests {
    use pmdns_stages::wire::name::Seed;

    use super::*;

    fn limiter(lender: LimitsLender) -> ZoneLimiter {
        let settings = pmdns_config::RateLimitSettings::default();
        let prefixes = ClientPrefixes::new(&settings, Seed::new([3; 16]));
        ZoneLimiter::new(lender, LimitAnswer::Drop, prefixes, 1000)
    }

    fn author() -> Author {
        Author { by: "test".to_owned(), since: 1000, until_restart: false }
    }

    fn order(zone: &str, rate: u32, seconds: Option<u32>) -> LimitOrder {
        LimitOrder { zone: zone.to_owned(), rate, seconds }
    }

    fn limit(
        limiter: &mut ZoneLimiter,
        order: &LimitOrder,
        now: Instant,
    ) -> Result<(String, JournalLine), Refused> {
        limiter.change(&Call::Limit(order.clone()), (&author(), false), now, Ok)
    }

    fn unlimit(limiter: &mut ZoneLimiter, zone: &str) -> Result<(String, JournalLine), Refused> {
        limiter.change(&Call::Unlimit(zone.to_owned()), (&author(), false), Instant::now(), Ok)
    }

    #[test]
    fn what_is_not_kept_is_not_made_and_what_is_hidden_can_be_lifted() {
        let mut limiter = limiter(LimitsLender::new(1).0);
        let now = Instant::now();
        limit(&mut limiter, &order("a.example", 5, None), now).unwrap();
        let before = limiter.list(now);
        let refuse = |_| Err::<(), _>((Refusal::Busy, "full".to_owned()));
        for call in [
            Call::Limit(order("a.example", 6, None)),
            Call::Limit(order("b.example", 6, None)),
            Call::Unlimit("a.example".to_owned()),
        ] {
            let refused = limiter.change(&call, (&author(), false), now, refuse).unwrap_err();
            assert_eq!((refused.0, limiter.list(now)), (Refusal::Busy, before.clone()));
        }
        let call = Call::Unlimit("hidden.example".to_owned());
        let (_, line) = limiter.change(&call, (&author(), true), now, Ok).unwrap();
        assert_eq!(line, unset("hidden.example"));
    }

    #[test]
    fn a_wrong_clock_at_the_start_makes_no_limit_longer() {
        let start = Instant::now();
        let mut limiter = limiter(LimitsLender::new(1).0);
        let what = ZoneLimitKept { zone: "a.example".to_owned(), rate: 5, until: Some(4600) };
        let change = OperatorChange { what: What::Limit(what), author: author() };
        // It is 1970.
        limiter.take_kept(std::slice::from_ref(&change), (start, 0));
        assert_eq!(limiter.list(start).limits[0].seconds_left, Some(3600));
        assert_eq!(limiter.turn((start + Duration::from_secs(5), 4599)), []);
        let over = limiter.turn((start + Duration::from_secs(6), 4600));
        assert_eq!(over, [unset("a.example")], "the clock is right by now");
    }

    #[test]
    fn limits_come_to_the_cores_and_end_in_time() {
        let (lender, mut cores) = LimitsLender::new(2);
        let mut limiter = limiter(lender);
        let start = Instant::now();
        let mut taken = || {
            let mut taken = 0;
            cores.iter_mut().for_each(|core| core.poll(|_| taken += 1));
            taken
        };
        limiter.turn((start, 1000));
        assert_eq!(taken(), 0, "nothing has changed");
        limit(&mut limiter, &order("Example.com.", 5, Some(60)), start).unwrap();
        limiter.turn((start, 1000));
        limit(&mut limiter, &order("example.org", 0, None), start).unwrap();
        limiter.turn((start, 1000));
        assert_eq!(taken(), 2, "the second waits until the first is taken");
        limiter.turn((start, 1000));
        assert_eq!(taken(), 2);
        let row = |zone: &str, rate, seconds_left| {
            let (zone, by) = (zone.to_owned(), "test".to_owned());
            LimitRow { zone, rate, seconds_left, by, ..LimitRow::default() }
        };
        let rows = [row("example.com", 5, Some(60)), row("example.org", 0, None)];
        assert_eq!(limiter.list(start).limits, rows);
        limiter.turn((start + Duration::from_secs(60), 1000));
        assert_eq!((taken(), limiter.counts()), (2, (1, 0)));
        assert_eq!(limiter.list(start).limits, rows[1..]);
        assert!(unlimit(&mut limiter, "EXAMPLE.org").is_ok());
        assert_eq!(unlimit(&mut limiter, "example.org").unwrap_err().0, Refusal::Unknown);
    }

    #[test]
    fn a_limit_is_in_force_again_for_the_time_that_is_left() {
        let start = Instant::now();
        let mut before = limiter(LimitsLender::new(1).0);
        let mut lines = Vec::new();
        for (zone, seconds) in [("a.example", Some(60)), ("b.example", None)] {
            lines.push(limit(&mut before, &order(zone, 5, seconds), start).unwrap().1);
        }
        before.limit_flood(&order("flood.example", 1, None), 9, start).unwrap();
        let kept: Vec<OperatorChange> = lines
            .into_iter()
            .map(|line| match line {
                JournalLine::Set(change) => *change,
                JournalLine::Unset(subject) => panic!("{subject:?}"),
            })
            .collect();
        assert!(kept.iter().eq(before.changes().collect::<Vec<_>>()[..2].iter()));
        let mut after = limiter(LimitsLender::new(1).0);
        after.take_kept(&kept, (start, 1040));
        let left: Vec<_> = after.list(start).limits.iter().map(|row| row.seconds_left).collect();
        assert_eq!(left, [Some(20), None]);
        assert!(after.changes().eq(kept), "it ends when it was to end");
        assert_eq!(after.turn((start + Duration::from_secs(19), 1000)), []);
        assert_eq!(after.turn((start + Duration::from_secs(20), 1000)), [unset("a.example")]);
        assert_eq!(after.turn((start + Duration::from_secs(21), 1000)), []);
        assert_eq!(before.turn((start + Duration::from_secs(99), 1000)), [unset("a.example")]);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let mut limiter = limiter(LimitsLender::new(1).0);
        let now = Instant::now();
        let mut limit =
            |zone: &str, rate, seconds| limit(&mut limiter, &order(zone, rate, seconds), now);
        for (zone, rate, seconds) in [
            ("", 1, None),
            (".", 1, None),
            ("a..b", 1, None),
            ("a.example", MAX_ZONE_RATE + 1, None),
            ("a.example", 1, Some(0)),
            ("a.example", 1, Some(MAX_LIMIT_SECONDS + 1)),
        ] {
            assert_eq!(limit(zone, rate, seconds).unwrap_err().0, Refusal::Wrong, "{zone}");
        }
        for number in 0..MAX_ZONE_LIMITS {
            assert!(limit(&format!("zone{number}.example"), 1, None).is_ok());
        }
        assert_eq!(limit("more.example", 1, None).unwrap_err().0, Refusal::Unable);
        assert!(limit("ZONE1.example", 2, None).is_ok(), "a limit is replaced");
    }

    #[test]
    fn floods_leave_room_for_limits_of_operators_and_replace_none() {
        let mut limiter = limiter(LimitsLender::new(1).0);
        let now = Instant::now();
        limit(&mut limiter, &order("zone0.example", 7, None), now).unwrap();
        let mut flood = |number: usize| {
            let zone = format!("zone{number}.example");
            limiter.limit_flood(&order(&zone, 1, Some(60)), number as u64, now)
        };
        assert_eq!(flood(0), Ok(None));
        (1..=MAX_FLOOD_LIMITS).for_each(|number| assert!(matches!(flood(number), Ok(Some(_)))));
        assert!(
            matches!(flood(MAX_ZONE_LIMITS), Ok(Some(_))),
            "a larger one displaces the smallest"
        );
        assert_eq!(flood(1).unwrap_err().0, Refusal::Unable, "a smaller one does not");
        assert_eq!(flood(2), Ok(None));
        assert_eq!((limiter.list(now).limits[0].rate, limiter.counts().0), (7, 49));
        for number in 0..MAX_ZONE_LIMITS - MAX_FLOOD_LIMITS - 1 {
            limit(&mut limiter, &order(&format!("mine{number}.example"), 1, None), now).unwrap();
        }
    }
}
