//! The writer of a shard: inserts, replaces, and makes room.

use std::sync::Arc;

use pmdns_config::narrow::{floor_u64, to_u16, to_u32};
use pmdns_config::{Config, Eviction};
use pmdns_nics::sync::{AtomicU64, Ordering};

use super::entry::{Entry, Head, PASSED_AT, with_passed};
use super::geometry::{LINE_BYTES, LINE_WORDS};
use super::hits::Hit;
use super::index::{Put, tag};
use super::log::Span;
use super::popularity::{Popularity, Standing};
use super::share::Share;
use super::stores::store;
use super::{Cache, EntryRef, EntryView};

/// The result of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is in the cache, and no entry was there for its key.
    New,
    /// It is in the cache instead of the entry that was there for its key.
    Replaced,
    /// It is larger than the shard's whole log and was not inserted.
    TooLong,
    /// It is negative, and those have their share of the shard already. It was not inserted.
    TooManyNegative,
    /// It is too long for UDP, and such answers have their share of the shard already. It was not inserted.
    TooManyLong,
    /// Nothing is written, because another process takes over. It was not inserted.
    Frozen,
}

impl Inserted {
    /// Whether the entry is in the cache.
    pub fn is_kept(self) -> bool {
        matches!(self, Self::New | Self::Replaced)
    }
}

/// The answers to keep, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// The share of a shard that live negative answers may take, 0 to 1.
    pub max_negative_share: f64,
    /// The longest a negative answer lives, in seconds.
    pub max_negative_ttl: u32,
    /// The share of a shard that live answers may take that are too long for UDP, 0 to 1.
    pub max_long_share: f64,
    /// The longest an answer lives, in seconds.
    pub max_ttl: u32,
    /// The longest body of an answer over UDP, in bytes.
    pub max_udp_body: usize,
    /// The choice of entries to keep when there is no room for all.
    pub eviction: Eviction,
    /// Whether hits are credited even if eviction does not ask for them.
    pub counts_hits: bool,
    /// Hits fade after so many seconds.
    pub access_window: u32,
}

impl Retention {
    /// The settings of the config.
    pub fn of(config: &Config) -> Self {
        Self {
            max_negative_share: config.cache.max_negative_share,
            max_negative_ttl: config.cache.max_negative_ttl,
            max_long_share: config.cache.max_long_share,
            max_ttl: config.cache.max_ttl,
            max_udp_body: config.answers.max_udp_size.into(),
            eviction: config.cache.eviction,
            counts_hits: config.prefetch.enabled,
            access_window: config.prefetch.cache_access_window_seconds,
        }
    }

    /// Whether data cores have to hand over their hits.
    pub fn needs_hits(&self) -> bool {
        self.counts_hits || self.eviction != Eviction::Fifo
    }
}

impl Default for Retention {
    /// First in, first out, and no limits.
    fn default() -> Self {
        Self {
            max_negative_share: 1.0,
            max_negative_ttl: u32::MAX,
            max_long_share: 1.0,
            max_ttl: u32::MAX,
            max_udp_body: usize::MAX,
            eviction: Eviction::Fifo,
            counts_hits: false,
            access_window: u32::MAX,
        }
    }
}

/// The contents of a shard, and its events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries that can be found.
    pub entries: u64,
    /// Bytes in use: tail, index, and the log as far as it is filled.
    pub bytes_used: u64,
    /// Bytes of the shard.
    pub bytes_total: u64,
    /// Entries inserted, replacements among them.
    pub inserted: u64,
    /// Entries that another for the same key replaced.
    pub replaced: u64,
    /// Entries lost at the end of the log, to make room.
    pub evicted: u64,
    /// Entries appended again there, because they were worth keeping.
    pub kept: u64,
    /// Entries lost because both buckets they could be found by were full.
    pub index_evicted: u64,
    /// Entries that were larger than the log.
    pub too_long: u64,
    /// Negative entries refused, because those have their share of the shard already.
    pub negative_refused: u64,
    /// Long entries refused, because those have their share of the shard already.
    pub long_refused: u64,
}

/// The one who may write to a shard.
#[derive(Debug)]
pub struct Writer {
    pub(super) cache: Arc<Cache>,
    pub(super) shard: usize,
    pub(super) span: Span,
    /// The tail's word as it was last stored.
    pub(super) published: u64,
    /// The word that says where the log ends.
    end_at: usize,
    /// The number of the writer that it is; zero: it has never written.
    pub(super) turn: u64,
    negative: Share,
    long: Share,
    max_udp_body: usize,
    pub(super) popularity: Option<Popularity>,
    /// The latest time anybody has told, in seconds.
    pub(super) now: u32,
    pub(super) stats: CacheStats,
    /// The most lines of an entry. None: nothing is written, because another process does, or may.
    pub(super) longest: u32,
}

impl Writer {
    /// The writer of `shard`, which must be the only one, and whose log has this span.
    pub(super) fn new(cache: Arc<Cache>, shard: usize, span: Span) -> Self {
        let longest = to_u32(cache.geometry.laps.lines());
        Self {
            end_at: cache.geometry.end(shard),
            turn: 0,
            cache,
            shard,
            span,
            published: span.tail_word(),
            negative: Share::new(u64::MAX, u32::MAX),
            long: Share::new(u64::MAX, u32::MAX),
            max_udp_body: usize::MAX,
            popularity: None,
            now: 0,
            stats: CacheStats::default(),
            longest,
        }
    }

    /// Stores where the log is, and that no other writer has had the shard since.
    pub(super) fn publish_span(&mut self) {
        let turn = self.cache.turn(self.shard);
        self.turn = turn.load(Ordering::Relaxed).wrapping_add(1).max(1);
        store(turn, self.turn, Ordering::Relaxed);
        self.published = self.span.tail_word();
        store(self.cache.tail(self.shard), self.published, Ordering::Release);
        self.publish_end();
    }

    /// Stores where the log ends, behind what was stored there.
    #[inline]
    pub(super) fn publish_end(&self) {
        let end = &self.cache.arena.words()[self.end_at];
        store(end, self.span.head().into(), Ordering::Release);
    }

    /// The writer of a shard that is still empty, told what to keep.
    pub fn with_retention(mut self, retention: &Retention) -> Self {
        self.set_retention(retention);
        self
    }

    /// The same. Nothing that is kept is counted yet.
    pub(super) fn set_retention(&mut self, retention: &Retention) {
        let lines = self.cache.geometry.laps.lines();
        self.set_shares(retention);
        self.max_udp_body = retention.max_udp_body;
        // First the old accounts go: there is not always room for both.
        self.popularity = None;
        self.popularity = retention
            .needs_hits()
            .then(|| Popularity::new(lines, retention.eviction, retention.access_window));
    }

    /// Changes the shares that negative and long answers may take, and how long these live. What is kept already is not counted.
    #[cold]
    #[inline(never)]
    pub fn set_shares(&mut self, retention: &Retention) {
        let lines = self.cache.geometry.laps.lines();
        let limit =
            |share: f64| if share < 1.0 { floor_u64(lines as f64 * share) } else { u64::MAX };
        let negative = limit(retention.max_negative_share);
        self.negative = Share::new(negative, retention.max_negative_ttl);
        self.long = Share::new(limit(retention.max_long_share), retention.max_ttl);
    }

    /// Whether entries with this hash belong to the shard.
    pub fn owns(&self, hash: u64) -> bool {
        self.cache.shard_of(hash) == self.shard
    }

    /// Inserts an entry in place of the one for the same key, if any. It costs the same however full the
    /// cache is: entries are evicted from the log's end as needed.
    ///
    /// The entry's hash must belong to this shard ([`Cache::shard_of`]).
    pub fn insert(&mut self, entry: &Entry) -> Inserted {
        let (words, head) = (entry.words(), entry.head());
        debug_assert_eq!(
            self.cache.shard_of(head.hash),
            self.shard,
            "the entry is another shard's"
        );
        let lines = lines_of(&head);
        if lines > self.longest {
            return self.refuse_long();
        }
        self.now = self.now.max(head.learnt);
        let is_negative = head.flags & Head::NEGATIVE != 0;
        if is_negative && !self.negative.has_room(lines.into(), head.learnt) {
            self.stats.negative_refused += 1;
            return Inserted::TooManyNegative;
        }
        let is_long = self.is_long(&head);
        if is_long && !self.long.has_room(lines.into(), head.learnt) {
            self.stats.long_refused += 1;
            return Inserted::TooManyLong;
        }
        let position = self.reserve(lines);
        self.write(position, words);
        self.publish_end();
        self.stats.inserted += 1;
        self.account_for(&head);
        let bucket = self.cache.geometry.place(head.hash).bucket;
        let put = self.cache.index().put(bucket, tag(head.hash), position, self.span.tail());
        self.open_account(position, put);
        match put {
            Put::New => self.stats.entries += 1,
            Put::Replaced(before) => {
                self.stats.replaced += 1;
                self.discount(&Head::read(&self.view(before)));
                return Inserted::Replaced;
            }
            Put::Displaced(before) => {
                self.stats.index_evicted += 1;
                self.discount(&Head::read(&self.view(before)));
            }
        }
        Inserted::New
    }

    #[cold]
    fn refuse_long(&mut self) -> Inserted {
        if self.is_frozen() {
            return Inserted::Frozen;
        }
        self.stats.too_long += 1;
        Inserted::TooLong
    }

    /// Whether nothing is written.
    pub fn is_frozen(&self) -> bool {
        self.longest == 0
    }

    /// Whether an entry is kept only for clients over streams.
    pub fn is_long(&self, entry: &Head) -> bool {
        usize::from(entry.body_len) > self.max_udp_body
    }

    /// Takes the entry of this hash out of the cache, and says whether there was one.
    pub fn remove(&mut self, hash: u64) -> bool {
        let Some(entry) = self.cache.find(hash) else { return false };
        let is_it = !self.is_frozen()
            && usize::from(entry.shard) == self.shard
            && Head::read(&self.cache.view(entry)).hash == hash;
        is_it && self.forget(&Head::read(&self.cache.view(entry)), entry.position)
    }

    /// Credits a hit, of which a data core told, to its entry, and says how that stands at second `now`. `None`
    /// if it is not there any more, or nobody wants to know.
    pub fn credit(&mut self, hit: Hit, now: u32) -> Option<Standing> {
        self.now = self.now.max(now);
        let line = self.line_of(hit.hash)?;
        Some(self.popularity.as_mut()?.credit(line, hit.weight, now))
    }

    /// How the entry of this hash stands at second `now`.
    pub fn standing(&self, hash: u64, now: u32) -> Option<Standing> {
        let line = self.line_of(hash)?;
        Some(self.popularity.as_ref()?.standing(line, now))
    }

    /// Notes that the refresh of this hash's entry is planned.
    pub fn plan(&mut self, hash: u64) {
        if let Some(line) = self.line_of(hash)
            && let Some(popularity) = &mut self.popularity
        {
            popularity.plan(line);
        }
    }

    /// The line where the entry of this hash starts.
    fn line_of(&self, hash: u64) -> Option<usize> {
        let found = self.cache.find(hash)?;
        // A note taken from an entry that was being overwritten may name anything.
        let is_ours = usize::from(found.shard) == self.shard;
        is_ours.then(|| self.cache.geometry.laps.line(found.position))
    }

    fn open_account(&mut self, position: u32, put: Put) {
        let laps = self.cache.geometry.laps;
        let Some(popularity) = &mut self.popularity else { return };
        match put {
            Put::Replaced(before) => popularity.take_over(laps.line(before), laps.line(position)),
            Put::New | Put::Displaced(_) => popularity.open(laps.line(position)),
        }
    }

    /// The contents of the shard, and its events.
    pub fn stats(&self) -> CacheStats {
        let geometry = &self.cache.geometry;
        let free = geometry.log_bytes() - self.span.lines_used() * LINE_BYTES;
        CacheStats {
            bytes_used: (geometry.shard_bytes() - free) as u64,
            bytes_total: geometry.shard_bytes() as u64,
            ..self.stats
        }
    }

    /// Clears the slot of the entry at `position`, unless another has taken it over.
    #[inline]
    pub(super) fn forget(&mut self, entry: &Head, position: u32) -> bool {
        let bucket = self.cache.geometry.place(entry.hash).bucket;
        let cleared = self.cache.index().clear(bucket, tag(entry.hash), position);
        if cleared {
            self.stats.entries -= 1;
            self.discount(entry);
        }
        cleared
    }

    /// An entry that can be found is there.
    #[inline]
    pub(super) fn account_for(&mut self, entry: &Head) {
        if entry.flags & Head::NEGATIVE != 0 {
            self.negative.add(lines_of(entry).into(), entry.expires);
        }
        if self.is_long(entry) {
            self.long.add(lines_of(entry).into(), entry.expires);
        }
    }

    /// It is second `now`.
    pub(super) fn pass_to(&mut self, now: u32) {
        self.now = self.now.max(now);
        self.negative.has_room(0, now);
        self.long.has_room(0, now);
    }

    /// Notes in the entry at `position` which ruleset lets its question pass. Readers take the word as a whole, and either
    /// is true of the same answer.
    pub(super) fn set_passed(&self, position: u32, ruleset: u16) {
        let at = self.cache.geometry.entry(self.shard, position) + PASSED_AT;
        let word = &self.cache.arena.words()[at];
        store(word, with_passed(word.load(Ordering::Relaxed), ruleset), Ordering::Relaxed);
    }

    /// An entry that could be found is lost.
    fn discount(&mut self, entry: &Head) {
        if entry.flags & Head::NEGATIVE != 0 {
            self.negative.take_away(lines_of(entry).into(), entry.expires);
        }
        if self.is_long(entry) {
            self.long.take_away(lines_of(entry).into(), entry.expires);
        }
    }

    fn write(&self, position: u32, words: &[u64]) {
        let start = self.cache.geometry.entry(self.shard, position);
        let log = &self.cache.arena.words()[start..start + words.len()];
        let store = |(shared, word): (&AtomicU64, &u64)| store(shared, *word, Ordering::Relaxed);
        // Whole lines, in which nothing is counted, and the rest.
        let (lines, last) = words.as_chunks::<LINE_WORDS>();
        let (log_lines, log_last) = log.as_chunks::<LINE_WORDS>();
        for (log, line) in log_lines.iter().zip(lines) {
            log.iter().zip(line).for_each(store);
        }
        log_last.iter().zip(last).for_each(store);
    }

    pub(super) fn view(&self, position: u32) -> EntryView<'_> {
        self.cache.view(EntryRef { shard: to_u16(self.shard), position })
    }
}

/// Lines of the log that an entry takes. Its words are counted in 15 bits, so nothing overflows; `div_ceil` would check that.
#[inline]
pub(super) fn lines_of(entry: &Head) -> u32 {
    to_u32((entry.words() + LINE_WORDS - 1) >> LINE_WORDS.ilog2())
}
