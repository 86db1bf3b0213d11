//! How fast one address or token may ask. Pure: it is told the time.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;

/// Requesters that are remembered. The one that was silent longest is forgotten first, and so has its full share again.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// How many requests a second are answered; twice as many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u32);

/// The requesters and what each has left.
#[derive(Debug)]
pub(super) struct Limit<K: Hash + Eq> {
    rate: Rate,
    left: LruCache<K, Left>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    requests: f64,
    at: Instant,
}

impl<K: Hash + Eq> Limit<K> {
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, left: LruCache::new(MAX_REMEMBERED) }
    }

    /// Whether a request of `key` is within the limit, which counts it.
    pub(super) fn admit(&mut self, key: K, now: Instant) -> bool {
        let (rate, full) = (f64::from(self.rate.0), 2.0 * f64::from(self.rate.0));
        let left = self.left.get_or_insert_mut(key, || Left { requests: full, at: now });
        let grown = now.saturating_duration_since(left.at).as_secs_f64() * rate;
        *left = Left { requests: (left.requests + grown).min(full), at: now };
        let is_within = left.requests >= 1.0;
        if is_within {
            left.requests -= 1.0;
        }
        is_within
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_requester_has_a_rate_of_its_own() {
        let start = Instant::now();
        let mut limit = Limit::new(Rate(5));
        let admitted =
            |limit: &mut Limit<u32>, key, at| (0..100).filter(|_| limit.admit(key, at)).count();
        assert_eq!(admitted(&mut limit, 1, start), 10);
        assert_eq!(admitted(&mut limit, 2, start), 10);
        assert_eq!(admitted(&mut limit, 1, start + Duration::from_secs(1)), 5);
        assert_eq!(
            admitted(&mut limit, 1, start + Duration::from_secs(1000)),
            10,
            "no more is saved up"
        );
    }

    #[test]
    fn requesters_without_end_take_no_memory() {
        let mut limit = Limit::new(Rate(1));
        (0..100_000).for_each(|key| assert!(limit.admit(key, Instant::now())));
        assert_eq!(limit.left.len(), MAX_REMEMBERED.get());
    }
}
