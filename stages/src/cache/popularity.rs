//! Who is asked for: an account for every entry, in memory of the writer's own beside the log.
//!
//! Data cores hand over notes of their hits ([`super::hits`]); the writer credits them. From that prefetch
//! knows what is worth refreshing, and eviction what at the log's end is worth appending again. An entry
//! takes two lines at least, but for very few, so that two lines share an account.

use pmdns_config::Eviction;

/// The latest hits whose times an account knows: the K of LFU-K.
const STAMPS: usize = 4;

/// Lines of log to an account.
const LINES: usize = 2;

/// The worth of a hit in an account's credit. It shrinks by a quarter whenever the entry is appended again.
const HIT_CREDIT: u32 = 8;

/// Of what is asked for, at most about this share is kept; the rest makes room.
const MOST_KEPT: f32 = 2.0 / 3.0;
/// How fast the bar follows: so much at each judgement.
const BAR_STEP: f32 = 0.02;
/// Where the bar cannot go below or beyond. No score but zero is lower.
const BAR_RANGE: (f32, f32) = (1e-7, 1e7);

/// How much an entry is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its hits since `since`; older ones have faded.
    pub hits: u32,
    /// Seconds since the process started, as all times here.
    pub since: u32,
    /// When the last hit was.
    pub last: u32,
    /// Whether its refresh is planned.
    pub is_planned: bool,
}

/// How much each entry of a shard is asked for.
#[derive(Debug)]
pub(super) struct Popularity {
    accounts: Vec<Account>,
    strategy: Eviction,
    /// Hits fade after so many seconds.
    window: u32,
    /// The least score that is worth keeping.
    bar: f32,
}

/// One account.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    hits: u32,
    since: u32,
    /// Hits since the entry was appended, and what is left of those before, in [`HIT_CREDIT`].
    credit: u16,
    is_planned: bool,
    /// When the latest hits were, the last one first; one second late, so that 0 is none.
    stamps: [u32; STAMPS],
}

const _: () = assert!(size_of::<Account>() == 28, "14 bytes for each line of 64");

impl Popularity {
    /// Popularity for a log of so many lines.
    pub(super) fn new(lines: usize, strategy: Eviction, window: u32) -> Self {
        let accounts = vec![Account::default(); lines.div_ceil(LINES)];
        Self { accounts, strategy, window, bar: BAR_RANGE.0 }
    }

    /// The entry that starts at this line is new.
    pub(super) fn open(&mut self, line: usize) {
        *self.of(line) = Account::default();
    }

    /// The entry that starts at line `to` takes over from the one at `from`: a newer answer to the same question.
    pub(super) fn take_over(&mut self, from: usize, to: usize) {
        *self.of(to) = Account { is_planned: false, ..*self.of(from) };
    }

    /// The entry at `from` has been appended again, at `to`.
    pub(super) fn carry(&mut self, from: usize, to: usize) {
        let credit = match self.strategy {
            Eviction::Lru => 0,
            _ => self.of(from).credit - self.of(from).credit.div_ceil(4),
        };
        *self.of(to) = Account { credit, ..*self.of(from) };
    }

    /// Credits `weight` hits to the entry that starts at this line.
    pub(super) fn credit(&mut self, line: usize, weight: u32, now: u32) -> Standing {
        let window = self.window;
        let account = self.of(line);
        account.fade(now, window);
        account.hits = account.hits.saturating_add(weight);
        let credit = u16::try_from(weight.saturating_mul(HIT_CREDIT)).unwrap_or(u16::MAX);
        account.credit = account.credit.saturating_add(credit);
        let newest = (weight as usize).min(STAMPS);
        account.stamps.copy_within(..STAMPS - newest, newest);
        account.stamps[..newest].fill(now.saturating_add(1));
        account.standing()
    }

    /// How the entry that starts at this line stands.
    pub(super) fn standing(&self, line: usize, now: u32) -> Standing {
        let mut account = self.accounts[line / LINES];
        account.fade(now, self.window);
        account.standing()
    }

    /// The refresh of the entry that starts at this line is planned.
    pub(super) fn plan(&mut self, line: usize) {
        self.of(line).is_planned = true;
    }

    /// Whether there is any strategy but to lose what is oldest.
    pub(super) fn keep_any(&self) -> bool {
        self.strategy != Eviction::Fifo
    }

    /// Whether the oldest entry, which starts at this line, is worth appending again instead of losing it.
    /// Where many are, the bar rises until no more than [`MOST_KEPT`] of them are.
    pub(super) fn is_worth_keeping(&mut self, line: usize, now: u32) -> bool {
        let account = *self.of(line);
        let score = match self.strategy {
            Eviction::Fifo => return false,
            // It was asked for since it was last appended. A list that moves it to the front at every hit
            // would have the same order, up to one lap of the log.
            Eviction::Lru => return account.credit > 0,
            Eviction::Lfu => f32::from(account.credit),
            Eviction::HitRate => account.rate(now),
        };
        let is_kept = score > 0.0 && score >= self.bar;
        let step = if is_kept { 1.0 - MOST_KEPT } else { -MOST_KEPT };
        self.bar = (self.bar * (1.0 + BAR_STEP * step)).clamp(BAR_RANGE.0, BAR_RANGE.1);
        is_kept
    }

    fn of(&mut self, line: usize) -> &mut Account {
        &mut self.accounts[line / LINES]
    }
}

impl Account {
    /// Forgets hits that are too old to count. What is left of those before the window counts by half.
    fn fade(&mut self, now: u32, window: u32) {
        let idle = now.saturating_add(1).saturating_sub(self.stamps[0]);
        if self.hits == 0 || idle > window {
            (self.hits, self.since) = (0, now);
        }
        let elapsed = now.saturating_sub(self.since);
        if elapsed > window {
            self.hits /= 2;
            self.since = now - elapsed / 2;
        }
    }

    fn standing(&self) -> Standing {
        Standing {
            hits: self.hits,
            since: self.since,
            last: self.stamps[0].saturating_sub(1),
            is_planned: self.is_planned,
        }
    }

    /// Hits per second over the time of the last K: as many stamps as there are, over the time since the
    /// oldest of them.
    fn rate(&self, now: u32) -> f32 {
        let known = self.stamps.iter().filter(|stamp| **stamp > 0);
        let oldest = known.clone().min().map_or(0, |stamp| stamp - 1);
        known.count() as f32 / (now.saturating_sub(oldest) as f32 + 1.0)
    }
}
