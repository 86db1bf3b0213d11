//! Tables of keys that bear their own hash. Questions and addresses are hashed with the seed once, however many tables
//! they stand in.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table of such keys.
pub(crate) type HashedMap<K, V> = HashMap<K, V, BuildHasherDefault<AsHashed>>;

/// Uses the hash that a key stores, which is seeded already.
#[derive(Debug, Default)]
pub(crate) struct AsHashed(u64);

impl Hasher for AsHashed {
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "keys hash as one number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
