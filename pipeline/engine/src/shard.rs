//! Which of several cores with the same stages gets a packet.

use pmdns_config::narrow::to_usize;

/// Which of `shards` cores handles a key. All bits of the hash count, and no division is needed.
#[inline]
pub(crate) fn shard_of(key: u64, shards: usize) -> usize {
    to_usize(((u128::from(key) * shards as u128) >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_all_shards() {
        for shards in 1..5 {
            let mut seen = vec![0; shards];
            for key in 0..1000u64 {
                seen[shard_of(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), shards)] += 1;
            }
            assert!(seen.iter().all(|count| *count > 1000 / shards / 2), "{seen:?}");
        }
    }
}
