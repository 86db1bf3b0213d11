//! The share of a shard that answers of one kind may take: negative ones, or long ones.
//!
//! A flood of random names brings an NXDOMAIN for each, and every one of them may be cached. Answers of the kind that live
//! are counted in lines of the log, by the span of time in which they expire. An expired answer takes no room
//! from anybody, for it is the next to be overwritten.

use pmdns_config::narrow::to_u32;

/// Spans of time that expiries are told apart by.
const SPANS: usize = 256;

/// Lines that live answers of the kind take, and may take.
#[derive(Debug)]
pub(super) struct Share {
    limit: u64,
    lines: u64,
    by_span: Box<[u64; SPANS]>,
    /// Seconds of a span; all of them together are longer than any such answer lives.
    span: u32,
    /// The present span: what expires in an earlier one has been taken away.
    present: u32,
}

impl Share {
    /// No answers, of which at most `limit` lines may live, for at most `max_ttl` seconds each.
    pub(super) fn new(limit: u64, max_ttl: u32) -> Self {
        let span = max_ttl / (to_u32(SPANS) - 1) + 1;
        Self { limit, lines: 0, by_span: Box::new([0; SPANS]), span, present: 0 }
    }

    /// Whether so many lines more may live at second `now`.
    pub(super) fn has_room(&mut self, lines: u64, now: u32) -> bool {
        self.pass_to(now / self.span);
        self.lines + lines <= self.limit
    }

    /// Counts an answer.
    pub(super) fn add(&mut self, lines: u64, expires: u32) {
        if let Some(place) = self.place(expires) {
            self.by_span[place] += lines;
            self.lines += lines;
        }
    }

    /// An answer that was counted is lost before it expires.
    pub(super) fn take_away(&mut self, lines: u64, expires: u32) {
        if let Some(place) = self.place(expires) {
            let lines = lines.min(self.by_span[place]);
            self.by_span[place] -= lines;
            self.lines -= lines;
        }
    }

    /// Where an answer is counted; `None` once its span is over.
    fn place(&self, expires: u32) -> Option<usize> {
        let span = expires / self.span;
        // What claims to live longer than anything does is counted with what lives longest.
        let ahead = span.checked_sub(self.present)?.min(to_u32(SPANS) - 1);
        Some(self.present.wrapping_add(ahead) as usize % SPANS)
    }

    fn pass_to(&mut self, span: u32) {
        for _ in 0..span.saturating_sub(self.present).min(to_u32(SPANS)) {
            let over = std::mem::take(&mut self.by_span[self.present as usize % SPANS]);
            self.lines -= over;
            self.present += 1;
        }
        self.present = self.present.max(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_makes_room() {
        let mut share = Share::new(10, 300);
        assert!(share.has_room(10, 0));
        share.add(6, 100);
        share.add(4, 300);
        assert!(!share.has_room(1, 99));
        assert!(share.has_room(6, 103) && !share.has_room(7, 103));
        assert!(share.has_room(10, 302));
        assert!(share.has_room(10, u32::MAX), "time may leap");
        assert_eq!(share.lines, 0);
    }

    #[test]
    fn what_is_lost_makes_room_once() {
        let mut share = Share::new(10, 86_400);
        share.add(10, 500);
        share.take_away(4, 500);
        assert!(share.has_room(4, 0) && !share.has_room(5, 0));
        assert!(share.has_room(10, 2000));
        share.take_away(6, 500);
        assert!(share.has_room(10, 2000) && !share.has_room(11, 2000));
    }

    #[test]
    fn no_lifetime_is_beyond_the_spans() {
        for max_ttl in [0, 1, 254, 255, 256, 300, 86_400, i32::MAX as u32] {
            for now in [0, 1, 77, 1_000_000] {
                let mut share = Share::new(1, max_ttl);
                share.has_room(0, now);
                share.add(1, now + max_ttl);
                assert!(!share.has_room(1, now + max_ttl), "{max_ttl}");
                assert!(share.has_room(1, now + max_ttl + share.span), "{max_ttl}");
            }
        }
    }
}
