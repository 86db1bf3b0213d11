//! Eviction: the oldest entry is lost, or appended again if it is worth keeping.

use pmdns_config::narrow::{low_u32, to_u32};
use pmdns_nics::sync::Ordering;

use super::entry::Head;
use super::index::tag;
use super::log::STEP_LINES;
use super::popularity::Popularity;
use super::stores::{release_fence, store};
use super::writer::{Writer, lines_of};

/// Lines appended again to make room once. What is worth keeping beyond that is lost all the same, so that an
/// insert is never far more than an insert.
const MAX_KEPT_LINES: u32 = 4 * STEP_LINES;

impl Writer {
    /// Makes room for an entry of so many lines and says where it starts. Afterwards no reader takes what
    /// was in these lines for whole.
    #[inline]
    pub(super) fn reserve(&mut self, lines: u32) -> u32 {
        if self.span.must_turn(lines) || !self.has_room(lines) {
            self.clear_the_way(lines);
        }
        self.publish_tail();
        self.span.take(lines)
    }

    /// Evicts and turns until so many lines are free from the head on. Not every insert needs that.
    #[inline(never)]
    fn clear_the_way(&mut self, lines: u32) {
        let mut may_keep = MAX_KEPT_LINES;
        loop {
            let turns = self.span.must_turn(lines);
            self.make_room(if turns { self.span.left_in_lap() } else { lines }, &mut may_keep);
            // What was kept has moved the head: perhaps another turn is needed, perhaps none any more.
            if !self.span.must_turn(lines) {
                if self.span.has_room(lines) {
                    return;
                }
            } else if self.span.has_room(self.span.left_in_lap()) {
                self.turn();
            }
        }
    }

    /// Evicts from the tail until so many lines are free, and some more, so as not to move the tail
    /// at every insert. Of what is worth keeping at most `may_keep` lines are appended again.
    fn make_room(&mut self, lines: u32, may_keep: &mut u32) {
        if self.has_room(lines) {
            return;
        }
        let (keeps_any, enough) = (self.keeps_any(), lines + self.step_lines());
        while !self.has_room(enough) && !self.span.is_empty() {
            let position = self.span.tail();
            let oldest = Head::read(&self.view(position));
            let oldest_lines = lines_of(&oldest);
            if keeps_any && oldest_lines <= *may_keep && self.keep(position) {
                *may_keep -= oldest_lines;
            } else if self.forget(&oldest, position) {
                self.stats.evicted += 1;
            }
            self.span.give_up(oldest_lines);
        }
    }

    /// Appends the oldest entry again, if it is worth that and there is room. Readers find either copy of it.
    #[inline(never)]
    fn keep(&mut self, position: u32) -> bool {
        let oldest = Head::read(&self.view(position));
        let Some(popularity) = self.popularity.as_mut() else { return false };
        let bucket = self.cache.geometry.place(oldest.hash).bucket;
        let is_found = self.cache.index().find(bucket, tag(oldest.hash)) == Some(position);
        let laps = self.cache.geometry.laps;
        if !is_found
            || oldest.expires <= self.now
            || !popularity.is_worth_keeping(laps.line(position), self.now)
        {
            return false;
        }
        let Some(to) = self.take_spare(lines_of(&oldest)) else { return false };
        self.copy(position, to, oldest.words());
        self.publish_end();
        self.cache.index().put(bucket, tag(oldest.hash), to, self.span.tail());
        if let Some(popularity) = &mut self.popularity {
            popularity.carry(laps.line(position), laps.line(to));
        }
        self.stats.kept += 1;
        true
    }

    /// Takes so many lines that are free while the oldest entry is still where it was.
    fn take_spare(&mut self, lines: u32) -> Option<u32> {
        if self.span.must_turn(lines) {
            if !self.span.has_room(self.span.left_in_lap()) {
                return None;
            }
            self.turn();
        }
        if !self.span.has_room(lines) {
            return None;
        }
        if !self.span.has_room_before(low_u32(self.published), lines) {
            self.publish_tail();
        }
        Some(self.span.take(lines))
    }

    /// Goes on in the next lap. Where this one ends is stored before anything there is, for those who adopt the log.
    fn turn(&mut self) {
        self.span.turn();
        self.publish_tail();
    }

    /// Tells readers what is not whole any more, before it is overwritten.
    fn publish_tail(&mut self) {
        if self.published != self.span.tail_word() {
            self.published = self.span.tail_word();
            // Behind the slots of what is given up, for those who adopt the log.
            store(self.cache.tail(self.shard), self.published, Ordering::Release);
            // A reader that sees a word stored from here on also sees the new tail.
            release_fence();
        }
    }

    /// Whether any entry is worth keeping.
    #[inline]
    fn keeps_any(&self) -> bool {
        self.popularity.as_ref().is_some_and(Popularity::keep_any)
    }

    /// Lines by which the tail moves further than needed.
    fn step_lines(&self) -> u32 {
        STEP_LINES.min(to_u32(self.cache.geometry.laps.lines()) / 8)
    }

    /// Whether so many lines are free, and some to spare where entries are kept, so that these can be appended before
    /// they are given up. Those must be lines that are there also when the head turns.
    fn has_room(&self, lines: u32) -> bool {
        let free = || self.cache.geometry.laps.lines() - self.span.lines_used();
        self.span.has_room(lines)
            && (!self.keeps_any() || free() >= (lines + self.step_lines()) as usize)
    }

    fn copy(&self, from: u32, to: u32, words: usize) {
        let start = |position| self.cache.geometry.entry(self.shard, position);
        let arena = self.cache.arena.words();
        let (old, new) = (&arena[start(from)..][..words], &arena[start(to)..][..words]);
        for (old, new) in old.iter().zip(new) {
            store(new, old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
