//! How an arena is split, and where in it a hash belongs.
//!
//! ```text
//! arena:  shard 0 | shard 1 | ...
//! shard:  tail and end, each alone on a cache line | index | log
//! ```
//!
//! The index takes an eighth. A typical answer, one or two A records under a name of twenty letters, is
//! 11 to 13 words: two lines of log, 128 bytes. To that belong 128 / 7 = 18 bytes of index, 2.3 slots, so
//! buckets are less than half full and one in a thousand spills. If every entry took one line, the least
//! it can, buckets would be 7/8 full on average. The index would still hold nearly all of them. A million
//! typical answers take 146 MB.

use pmdns_config::narrow::{low_u32, to_u32};

use super::index::BUCKET_SLOTS;
use super::log::Laps;

/// Words in a cache line: the log's unit, and a bucket.
pub(super) const LINE_WORDS: usize = 8;

/// Bytes in a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// Hardware prefetches lines in pairs: tail and end, which only writers read, are one, and buckets come in pairs.
const PAIR: usize = 2;

/// One part in so many of a shard is its index.
const INDEX_PART: usize = 8;

/// A shard has at least so many lines: the tail, two buckets, and a log of four lines.
const MIN_SHARD_LINES: usize = 8;

/// A shard has at most so many lines, 16 GiB.
const MAX_SHARD_LINES: usize = 1 << 28;

/// There are at most so many shards; each needs its writing thread.
pub(super) const MAX_SHARDS: usize = 64;

/// A log is written over at least so many times before a position comes again.
const MIN_LAPS: usize = 16;

const _: () = assert!(LINE_WORDS == BUCKET_SLOTS, "a bucket is one cache line");
const _: () = assert!(MAX_SHARD_LINES * MIN_LAPS <= 1 << 32, "positions have 32 bits");
const _: () =
    assert!(MAX_SHARDS * MAX_SHARD_LINES / INDEX_PART <= 1 << 32, "32 bits reach all buckets");

/// Why there can be no such cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// Not 1 to 64 shards.
    #[error("the cache cannot have {0} shards: choose 1 to {MAX_SHARDS}")]
    Shards(usize),
    /// A shard that was taken over is not as a writer leaves it.
    #[error("the cache that was taken over is not sound in shard {0}, which begins empty")]
    Unsound(usize),
    /// The arena has too little room for so many shards.
    #[error(
        "{bytes} bytes are too little for a cache of {shards} shards: give it at least {needed} \
         bytes, or fewer shards"
    )]
    TooSmall {
        /// Bytes of the arena.
        bytes: usize,
        /// Shards asked for.
        shards: usize,
        /// Bytes it takes at least.
        needed: usize,
    },
    /// The arena is larger than so many shards can use.
    #[error(
        "{bytes} bytes are too much for a cache of {shards} shards: give it at most {limit} bytes, \
         or more shards"
    )]
    TooLarge {
        /// Bytes of the arena.
        bytes: usize,
        /// Shards asked for.
        shards: usize,
        /// Bytes it can use at most.
        limit: usize,
    },
}

/// Where the parts of each shard are. Ranges count in words of the arena.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// Shards.
    shards: usize,
    /// Lines of one shard.
    shard_lines: usize,
    /// Lines of its index, one bucket each; an even number.
    index_lines: usize,
    /// Positions in its log.
    pub(super) laps: Laps,
}

/// Where in the index a hash belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HomeBucket {
    /// Whose index.
    pub(super) shard: usize,
    /// Which line of the arena is its bucket.
    pub(super) bucket: usize,
}

impl Geometry {
    /// Splits an arena of so many words among so many shards.
    pub(super) fn split(words: usize, shards: usize) -> Result<Self, CacheError> {
        if shards == 0 || shards > MAX_SHARDS {
            return Err(CacheError::Shards(shards));
        }
        let bytes = words * size_of::<u64>();
        let shard_lines = words / LINE_WORDS / shards / PAIR * PAIR;
        if shard_lines < MIN_SHARD_LINES {
            let needed = MIN_SHARD_LINES * LINE_BYTES * shards;
            return Err(CacheError::TooSmall { bytes, shards, needed });
        }
        if shard_lines > MAX_SHARD_LINES {
            let limit = MAX_SHARD_LINES * LINE_BYTES * shards;
            return Err(CacheError::TooLarge { bytes, shards, limit });
        }
        let index_lines = (shard_lines / INDEX_PART / PAIR * PAIR).max(PAIR);
        let log_lines = shard_lines - PAIR - index_lines;
        Ok(Self { shards, shard_lines, index_lines, laps: Laps::of(to_u32(log_lines)) })
    }

    /// Where a hash belongs. Its low half, taken as a fraction of one, chooses the shard, and the
    /// rest of the fraction chooses the bucket. The tag is in its high half.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> HomeBucket {
        let of_shards = u64::from(low_u32(hash)) * self.shards as u64;
        let of_buckets = u64::from(low_u32(of_shards)) * self.index_lines as u64;
        let shard = (of_shards >> 32) as usize;
        HomeBucket { shard, bucket: self.index_start(shard) + (of_buckets >> 32) as usize }
    }

    /// The place of a bucket among those of its shard.
    pub(super) fn place_in_shard(&self, home: HomeBucket) -> usize {
        home.bucket - self.index_start(home.shard)
    }

    /// The word that holds a shard's tail.
    #[inline]
    pub(super) fn tail(&self, shard: usize) -> usize {
        shard * self.shard_lines * LINE_WORDS
    }

    /// The word that holds where a shard's log ends.
    #[inline]
    pub(super) fn end(&self, shard: usize) -> usize {
        self.tail(shard) + LINE_WORDS
    }

    /// The word that holds which writer a shard has had last.
    pub(super) fn turn(&self, shard: usize) -> usize {
        self.end(shard) + 1
    }

    /// The first line of a shard's index, behind the tail's pair.
    #[inline(always)]
    fn index_start(&self, shard: usize) -> usize {
        shard * self.shard_lines + PAIR
    }

    /// The word where the entry at a position of a shard's log starts.
    #[inline]
    pub(super) fn entry(&self, shard: usize, position: u32) -> usize {
        let log = self.index_start(shard) + self.index_lines;
        (log + self.laps.line(position)) * LINE_WORDS
    }

    /// The lines of a shard's index, which is followed by its log.
    pub(super) fn index(&self, shard: usize) -> std::ops::Range<usize> {
        let start = self.index_start(shard);
        start..start + self.index_lines
    }

    /// Bytes of one shard: tail, index and log.
    pub(super) fn shard_bytes(&self) -> usize {
        self.shard_lines * LINE_BYTES
    }

    /// Bytes of one shard's log.
    pub(super) fn log_bytes(&self) -> usize {
        self.laps.lines() * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_the_arena_and_do_not_overlap() {
        for (words, shards) in [(64, 1), (1000, 3), (1 << 17, 1), (1 << 20, 7), (12_345_678, 64)] {
            let geometry = Geometry::split(words, shards).unwrap();
            let mut end = 0;
            for shard in 0..shards {
                assert_eq!(geometry.tail(shard), end);
                let index = geometry.index(shard);
                assert_eq!(index.start * LINE_WORDS, end + 2 * LINE_WORDS);
                assert_eq!(geometry.entry(shard, 0), index.end * LINE_WORDS);
                end = geometry.entry(shard, 0) + geometry.laps.lines() * LINE_WORDS;
            }
            assert_eq!(end * 8, geometry.shard_bytes() * shards);
            assert!(end <= words && words - end < 2 * LINE_WORDS * (shards + 1), "{words}");
        }
    }

    #[test]
    fn every_bucket_is_reached_and_evenly() {
        let geometry = Geometry::split(1 << 16, 3).unwrap();
        let buckets = geometry.index_lines;
        let mut hits = vec![0u32; 3 * buckets];
        for number in 0..hits.len() as u64 * 100 {
            let place = geometry.place(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
            let bucket = place.bucket - geometry.index(place.shard).start;
            assert_eq!(geometry.place_in_shard(place), bucket);
            hits[place.shard * buckets + bucket] += 1;
        }
        assert!(hits.iter().all(|hits| (40..200).contains(hits)), "{hits:?}");
        let last = geometry.place(u64::MAX);
        assert_eq!(last, HomeBucket { shard: 2, bucket: geometry.index(2).end - 1 });
    }

    #[test]
    fn errors_say_what_to_change() {
        let error = |words, shards| Geometry::split(words, shards).unwrap_err().to_string();
        assert_eq!(error(1 << 20, 0), "the cache cannot have 0 shards: choose 1 to 64");
        assert_eq!(
            error(127, 2),
            "1016 bytes are too little for a cache of 2 shards: give it at least 1024 bytes, or fewer \
             shards"
        );
        assert!(Geometry::split(128, 2).is_ok());
        assert_eq!(
            error(1 << 33, 2),
            "68719476736 bytes are too much for a cache of 2 shards: give it at most 34359738368 \
             bytes, or more shards"
        );
    }
}
