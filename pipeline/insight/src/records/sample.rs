//! Which packets are recorded: one in so many, at random distances.

/// The packets that are taken.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    every: u64,
    left: u64,
    state: u64,
}

impl Sample {
    /// One in `every` packets. The seed must not be 0.
    pub(crate) fn new(every: u32, seed: u64) -> Self {
        let mut this = Self { every: every.max(1).into(), left: 1, state: seed.max(1) };
        this.left = this.distance();
        this
    }

    /// Whether the next `count` packets are not taken, and passes them by.
    #[inline]
    pub(crate) fn passes_by(&mut self, count: usize) -> bool {
        let passes = self.left > count as u64;
        if passes {
            self.left -= count as u64;
        }
        passes
    }

    #[inline]
    pub(crate) fn takes(&mut self) -> bool {
        self.left -= 1;
        let is_it = self.left == 0;
        if is_it {
            self.left = self.distance();
        }
        is_it
    }

    /// Packets to the next one: 1 to 2N - 1, which is N on average.
    #[inline]
    fn distance(&mut self) -> u64 {
        if self.every == 1 {
            return 1;
        }
        // Xorshift (Marsaglia 2003): nobody gains by guessing it.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        1 + self.state % (2 * self.every - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_one_in_so_many_whatever_the_batches_are() {
        for every in [1_u32, 10, 1000] {
            let mut sample = Sample::new(every, 7);
            let (mut taken, packets) = (0, 2_000_000_usize);
            for batch in std::iter::repeat_n(64, packets / 64) {
                if !sample.passes_by(batch) {
                    taken += (0..batch).filter(|_| sample.takes()).count();
                }
            }
            let expected = packets / every as usize;
            assert!(taken.abs_diff(expected) <= expected / 10, "{taken} of one in {every}");
        }
    }
}
