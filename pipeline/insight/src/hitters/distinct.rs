//! About how many different names there were: HyperLogLog with 256 registers (Flajolet et al. 2007).
//!
//! The standard error is 1.04 / sqrt(256) = 6.5 %. Few names are counted by empty registers, which is closer.

use pmdns_config::narrow::floor_u64;

/// Registers: as many as the first byte of a hash has values.
const REGISTERS: usize = 256;
const INDEX_BITS: u32 = REGISTERS.trailing_zeros();

/// A count of different hashes.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    registers: [u8; REGISTERS],
}

impl Default for Distinct {
    fn default() -> Self {
        Self { registers: [0; REGISTERS] }
    }
}

impl Distinct {
    /// Notes a hash, all of whose bits are random.
    pub(super) fn add(&mut self, hash: u64) {
        let index = usize::from(hash.to_be_bytes()[0]);
        let rank = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() + 1;
        let register = &mut self.registers[index];
        *register = (*register).max(u8::try_from(rank).unwrap_or(u8::MAX));
    }

    /// About how many different ones there were.
    pub(super) fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|rank| 0.5_f64.powi(i32::from(*rank))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        let estimate = match empty {
            1.. if raw <= 2.5 * registers => registers * (registers / empty as f64).ln(),
            _ => raw,
        };
        floor_u64(estimate.round())
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher as _;

    use siphasher::sip::SipHasher13;

    use super::*;

    #[test]
    fn estimates_are_close_to_exact_counts() {
        for seed in 0..20 {
            let mut distinct = Distinct::default();
            let mut exact = 0;
            for at in [1_u64, 10, 100, 1000, 10_000, 200_000] {
                while exact < at {
                    let mut hasher = SipHasher13::new_with_keys(seed, 7);
                    hasher.write_u64(exact);
                    // Repetitions count for nothing.
                    (0..2).for_each(|_| distinct.add(hasher.finish()));
                    exact += 1;
                }
                // Four standard errors.
                let allowed = at as f64 * 0.26;
                let estimate = distinct.estimate();
                assert!(estimate.abs_diff(at) as f64 <= allowed + 0.5, "{estimate} for {at}");
            }
        }
    }

    #[test]
    fn none_are_none() {
        assert_eq!(Distinct::default().estimate(), 0);
    }
}
