//! Which entries are asked for: samples of hits, taken by a data core in memory of its own.
//!
//! A hit writes nothing that another core reads or writes. What prefetch and eviction need to know of hits, a
//! core therefore notes for itself and hands over now and then. It has room for so many notes between two
//! such times. While that is enough every hit is noted. Beyond it one in two is noted, or one in four, and so
//! on. A note then stands for two hits, or four. The gaps are random, so that traffic with a rhythm of its
//! own is sampled as fairly as any.

use arrayvec::ArrayVec;

/// Notes a core has room for.
pub const MAX_SAMPLES: usize = 1024;

/// One hit in at most so many is noted.
const MAX_EVERY: u32 = 1 << 16;

/// A hit of the entry with this hash, standing for `weight` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Hash of the entry's key.
    pub hash: u64,
    /// How many hits it stands for.
    pub weight: u32,
}

/// One core's notes.
#[derive(Clone, Debug)]
pub struct Sampler {
    hashes: Box<ArrayVec<u64, MAX_SAMPLES>>,
    /// One hit in so many is noted; a power of two.
    every: u32,
    /// Hits until the next one that is noted, that one included.
    gap: u32,
    random: u32,
}

impl Sampler {
    /// No notes yet.
    pub fn new() -> Self {
        Self { hashes: Box::default(), every: 1, gap: 1, random: 0x9e37_79b9 }
    }

    /// There was a hit. `hash` is asked for the hash of its key if it is to be noted.
    #[inline(always)]
    pub fn hit(&mut self, hash: impl FnOnce() -> u64) {
        self.gap -= 1;
        if self.gap == 0 {
            self.note(hash());
        }
    }

    /// Takes the notes away.
    pub fn drain(&mut self) -> impl Iterator<Item = Hit> {
        let weight = self.every;
        if self.hashes.len() < MAX_SAMPLES / 2 {
            self.every = (self.every / 2).max(1);
        }
        self.hashes.drain(..).map(move |hash| Hit { hash, weight })
    }

    #[inline]
    fn note(&mut self, hash: u64) {
        if self.hashes.is_full() {
            self.thin_out();
        }
        self.hashes.push(hash);
        self.gap = self.next_gap();
    }

    /// Every second note goes, and those that stay stand for twice as many hits.
    #[cold]
    fn thin_out(&mut self) {
        for index in 0..MAX_SAMPLES / 2 {
            self.hashes[index] = self.hashes[2 * index];
        }
        self.hashes.truncate(MAX_SAMPLES / 2);
        self.every = (self.every * 2).min(MAX_EVERY);
    }

    /// 1 to twice `every` less one; `every` on average.
    #[inline]
    fn next_gap(&mut self) -> u32 {
        // Xorshift (Marsaglia 2003): good enough not to beat in time with anything.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        1 + self.random % (2 * self.every - 1)
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits of keys 0 to 9, as often as `times` says, shuffled by a stride, and their weights as noted.
    fn noted(sampler: &mut Sampler, times: [u32; 10]) -> [u32; 10] {
        let mut left = times;
        while left.iter().any(|left| *left > 0) {
            for (key, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
                *left -= 1;
                sampler.hit(|| key as u64);
            }
        }
        let mut weights = [0; 10];
        sampler.drain().for_each(|hit| weights[hit.hash as usize] += hit.weight);
        weights
    }

    #[test]
    fn every_hit_is_noted_while_there_is_room() {
        let mut sampler = Sampler::new();
        for _ in 0..3 {
            let times = [1, 100, 3, 0, 0, 500, 7, 8, 0, 10];
            assert_eq!(noted(&mut sampler, times), times);
        }
    }

    #[test]
    fn beyond_that_notes_stand_for_many_and_come_out_right() {
        let mut sampler = Sampler::new();
        for round in 0..5 {
            let times = [50_000, 0, 20_000, 100_000, 10_000, 1000, 0, 30_000, 5000, 60_000];
            let weights = noted(&mut sampler, times);
            for (got, times) in weights.into_iter().zip(times) {
                // One note in `every`: its standard deviation is a third of this at the least.
                let tolerance = 3.5 * (f64::from(times) * f64::from(sampler.every)).sqrt();
                let error = f64::from(got) - f64::from(times);
                assert!(error.abs() <= tolerance + 1.0, "{round}: {got} of {times}");
            }
        }
        assert!(sampler.every >= 256);
    }

    #[test]
    fn when_it_is_quiet_again_every_hit_is_noted_again() {
        let mut sampler = Sampler::new();
        noted(&mut sampler, [100_000; 10]);
        for _ in 0..20 {
            noted(&mut sampler, [100; 10]);
        }
        assert_eq!(noted(&mut sampler, [20; 10]), [20; 10]);
    }

    #[test]
    fn the_rarest_notes_still_have_a_weight() {
        let mut sampler = Sampler { every: MAX_EVERY, ..Sampler::new() };
        for _ in 0..3 {
            (0..MAX_SAMPLES).for_each(|_| sampler.note(7));
            sampler.note(7);
        }
        assert!(sampler.drain().all(|hit| hit.weight == MAX_EVERY));
    }
}
