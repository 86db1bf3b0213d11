//! Positions in the log: 32-bit line numbers that only grow, and wrap round.
//!
//! A log has any number of lines; a lap of positions is that number rounded up to a power of two. A
//! position is then a lap and a line, and finding the line is one mask. Positions of a lap that have no
//! line are passed over. So are lines at its end that an entry did not fit in: entries are never split.

use pmdns_config::narrow::{low_u32, to_u32};

/// The tail moves this many lines beyond what is needed at once, so that readers' copies of it are seldom
/// invalidated.
pub(super) const STEP_LINES: u32 = 64;

/// A log's lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Laps {
    /// Lines of the log.
    lines: u32,
    /// Positions from one lap to the next, less one: all ones.
    mask: u32,
}

impl Laps {
    /// The laps of a log of so many lines, at most 2^28.
    pub(super) fn of(lines: u32) -> Self {
        Self { lines, mask: lines.next_power_of_two() - 1 }
    }

    /// Lines of the log.
    pub(super) fn lines(self) -> usize {
        self.lines as usize
    }

    /// The line of the log at a position.
    #[inline]
    pub(super) fn line(self, position: u32) -> usize {
        (position & self.mask) as usize
    }

    /// Whether a position that was written is not behind the tail. Ahead of the tail are only the rest of
    /// its lap and as much of the next.
    #[inline]
    pub(super) fn is_whole(self, position: u32, tail: u32) -> bool {
        position.wrapping_sub(tail) <= self.mask
    }

    /// The start of a position's lap.
    pub(super) fn start_of(self, position: u32) -> u32 {
        position & !self.mask
    }

    /// The start of a lap so far on that nothing is whole any more that was so while the tail was at `tail`.
    pub(super) fn beyond(self, tail: u32) -> u32 {
        self.next(self.next(tail))
    }

    /// The start of the next lap.
    fn next(self, position: u32) -> u32 {
        (position | self.mask).wrapping_add(1)
    }
}

/// The contents of the log: the writer's own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    laps: Laps,
    /// Where the next entry goes.
    head: u32,
    /// The oldest entry, or the head.
    tail: u32,
    /// Where the tail's lap ends and the head's begins, if they are not the same.
    lap_end: Option<u32>,
}

impl Span {
    /// An empty log whose first entry goes to `start`, the start of a lap.
    pub(super) fn new(laps: Laps, start: u32) -> Self {
        Self { laps, head: start, tail: start, lap_end: None }
    }

    /// The log that another writer has left: its [`Span::tail_word`], and where its next entry would go. It may have ended
    /// between any two stores. `None`: no writer leaves such a log.
    pub(super) fn resumed(laps: Laps, tail_word: u64, head: u32) -> Option<Self> {
        let (tail, lap_end) = (low_u32(tail_word), (tail_word >> 32) as u32);
        // It ended after it had turned, and before its next entry was whole: the turn is undone.
        let lap_end = (lap_end != tail && lap_end != head).then_some(lap_end);
        // The same, and for that entry all others were given up.
        let head = if laps.next(head) == tail { tail } else { head };
        let has_line = |position| laps.line(position) <= laps.lines();
        let is_right = match lap_end {
            Some(end) => {
                let is_ahead = laps.start_of(end) == laps.start_of(tail) && end > tail;
                is_ahead && has_line(end) && laps.start_of(head) == laps.next(tail)
            }
            // A lap without a position too many needs no turn.
            None => laps.start_of(head) == laps.start_of(tail) || laps.lines == laps.mask + 1,
        };
        let fits = head.wrapping_sub(tail) <= laps.mask + 1;
        (is_right && fits && has_line(tail) && has_line(head)).then_some(Self {
            laps,
            head,
            tail,
            lap_end,
        })
    }

    /// The word that readers, and the next writer, know the tail by. Its low half is the tail. Its high half is where the
    /// tail's lap ends, or again the tail.
    pub(super) fn tail_word(&self) -> u64 {
        u64::from(self.tail) | u64::from(self.lap_end.unwrap_or(self.tail)) << 32
    }

    /// Lines from a position in the log to where its lap, or the log, ends.
    pub(super) fn left_at(&self, position: u32) -> u32 {
        let is_here = |end: &u32| self.laps.start_of(*end) == self.laps.start_of(position);
        let end = self.lap_end.filter(is_here).unwrap_or(self.head);
        end.wrapping_sub(position).min(self.laps.lines - to_u32(self.laps.line(position)))
    }

    /// The oldest entry's position.
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Where the next entry goes.
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Where the entry is that follows the one of so many lines at `position`.
    pub(super) fn after(&self, position: u32, lines: u32) -> u32 {
        let next = position.wrapping_add(lines);
        if self.lap_end == Some(next) { self.laps.next(next) } else { next }
    }

    /// Whether nothing is in the log.
    pub(super) fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Lines from tail to head.
    pub(super) fn lines_used(&self) -> usize {
        let (tail, head) = (self.laps.line(self.tail), self.laps.line(self.head));
        if self.laps.start_of(self.tail) == self.laps.start_of(self.head) {
            head - tail
        } else {
            self.laps.lines() - tail + head
        }
    }

    /// Whether so many lines do not fit in what is left of the head's lap.
    pub(super) fn must_turn(&self, lines: u32) -> bool {
        self.laps.line(self.head) + lines as usize > self.laps.lines()
    }

    /// What is left of the head's lap.
    pub(super) fn left_in_lap(&self) -> u32 {
        self.laps.lines - to_u32(self.laps.line(self.head))
    }

    /// Moves the head to the next lap. What is left of this one must be free.
    pub(super) fn turn(&mut self) {
        debug_assert!(self.has_room(self.left_in_lap()) && self.lap_end.is_none());
        self.lap_end = Some(self.head);
        self.head = self.laps.next(self.head);
        self.pass_lap_end();
    }

    /// Whether so many lines from the head on hold no entry.
    pub(super) fn has_room(&self, lines: u32) -> bool {
        self.has_room_before(self.tail, lines)
    }

    /// Whether so many lines from the head on held no entry when the tail was at `tail`.
    pub(super) fn has_room_before(&self, tail: u32, lines: u32) -> bool {
        self.head.wrapping_add(lines).wrapping_sub(tail) <= self.laps.mask + 1
    }

    /// Takes so many lines, which must be free, from the head on and says where they start.
    pub(super) fn take(&mut self, lines: u32) -> u32 {
        debug_assert!(!self.must_turn(lines) && self.has_room(lines));
        let position = self.head;
        self.head = self.head.wrapping_add(lines);
        position
    }

    /// Moves the tail beyond an entry of so many lines.
    pub(super) fn give_up(&mut self, lines: u32) {
        debug_assert!(!self.is_empty());
        self.tail = self.tail.wrapping_add(lines);
        self.pass_lap_end();
    }

    fn pass_lap_end(&mut self) {
        if self.lap_end.take_if(|end| *end == self.tail).is_some() {
            self.tail = self.laps.next(self.tail);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_of_a_lap_without_a_line_are_passed_over() {
        let laps = Laps::of(6);
        let mut span = Span::new(laps, laps.start_of(u32::MAX));
        assert_eq!(span.take(4), 0xffff_fff8);
        assert!(span.must_turn(3) && span.left_in_lap() == 2);
        span.turn();
        assert!(!span.has_room(3), "the first four lines are taken");
        span.give_up(4);
        assert_eq!(span.tail(), 0, "round the end of the lap, and of the numbers");
        assert!(span.is_empty());
        assert_eq!(span.take(3), 0);
        assert!(laps.is_whole(0, span.tail()));
        assert!(!laps.is_whole(0xffff_fff8, span.tail()));
    }

    #[test]
    fn only_a_log_that_a_writer_leaves_is_resumed() {
        let word = |tail: u32, lap_end: u32| u64::from(tail) | u64::from(lap_end) << 32;
        // Of six lines, in laps of eight.
        let resumes =
            |tail, lap_end, head| Span::resumed(Laps::of(6), word(tail, lap_end), head).is_some();
        assert!(resumes(2, 2, 2) && resumes(2, 2, 6) && resumes(2, 5, 10) && resumes(2, 6, 8));
        assert!(!resumes(2, 2, 1) && !resumes(2, 2, 7), "no lines");
        assert!(!resumes(7, 7, 7) && !resumes(2, 7, 8) && !resumes(2, 1, 8), "no lines");
        assert!(!resumes(2, 2, 8), "a turn that was none");
        assert!(resumes(2, 5, 5) && resumes(8, 8, 5), "a turn without an entry after it");
        assert!(!resumes(2, 6, 5) && !resumes(9, 9, 5) && !resumes(8, 13, 5), "or some other one");
        assert!(!resumes(2, 5, 11) && !resumes(2, 5, 18), "round and beyond the tail");
        let resumes = |tail, head| Span::resumed(Laps::of(8), word(tail, tail), head).is_some();
        assert!(resumes(2, 10) && !resumes(2, 11), "each position of a lap has a line");
    }

    proptest! {
        #![proptest_config(crate::cache::tests::config(512))]

        #[test]
        fn entries_never_overlap_and_are_whole_until_given_up(
            lines in 1_u32..40,
            start in prop_oneof![Just(0_u32), Just(u32::MAX - 100), any::<u32>()],
            sizes in proptest::collection::vec(1_u32..40, 0..120),
        ) {
            let laps = Laps::of(lines);
            let mut span = Span::new(laps, laps.start_of(start));
            let mut held: VecDeque<(u32, u32)> = VecDeque::new();
            let mut gone = None;
            for size in sizes.into_iter().map(|size| size.min(lines)) {
                let mut turned = false;
                loop {
                    let turns = !turned && span.must_turn(size);
                    if span.has_room(if turns { span.left_in_lap() } else { size }) {
                        if !turns {
                            break;
                        }
                        span.turn();
                        turned = true;
                    } else {
                        let (position, size) = held.pop_front().unwrap();
                        prop_assert_eq!(position, span.tail());
                        span.give_up(size);
                        gone = Some(position);
                    }
                }
                held.push_back((span.take(size), size));
                prop_assert_eq!(Span::resumed(laps, span.tail_word(), span.head()), Some(span));
                prop_assert!(held.iter().all(|(position, size)| *size <= span.left_at(*position)));
                prop_assert!(held.iter().all(|(position, _)| laps.is_whole(*position, span.tail())));
                prop_assert!(gone.is_none_or(|position| !laps.is_whole(position, span.tail())));
                let mut taken: Vec<_> = held
                    .iter()
                    .flat_map(|(position, size)| (0..*size).map(move |line| laps.line(position + line)))
                    .collect();
                prop_assert!(taken.iter().all(|line| *line < lines as usize));
                prop_assert!(taken.len() <= span.lines_used());
                prop_assert!(span.lines_used() <= lines as usize);
                taken.sort_unstable();
                prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "no line twice");
            }
        }
    }
}
