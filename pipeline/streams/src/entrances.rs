//! Where queries go in: a ring to each data core.

use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::{ClientPrefix, PrefixLengths};
use pmdns_nics::{Frame, FramePool, Sleeper};
use rtrb::Producer;
use siphasher::sip::SipHasher13;

use crate::counters::AllCounters;
use crate::lock::lock;

/// Where queries go in: the rings to the data cores, and what all senders of queries share.
pub(crate) struct Entrances {
    pub(crate) pool: FramePool,
    pub(crate) lengths: PrefixLengths,
    pub(crate) patience: Duration,
    pub(crate) counters: AllCounters,
    pub(crate) queues: Box<[Entrance]>,
    pub(crate) seed: [u8; 16],
}

/// The ring to one data core.
pub(crate) struct Entrance {
    /// Threads that serve clients share it. The data core does not use the lock.
    pub(crate) ring: Mutex<Producer<Frame>>,
    pub(crate) bell: Arc<Bell>,
}

/// How a data core that sleeps is woken.
#[derive(Default)]
pub(crate) struct Bell {
    pub(crate) sleeper: Mutex<Option<Arc<Sleeper>>>,
    pub(crate) is_armed: AtomicBool,
}

impl Entrances {
    /// Puts a query into the ring of its client's data core. `None`: the core has gone.
    pub(crate) fn push(&self, prefix: &ClientPrefix, frame: Frame) -> Option<()> {
        let entrance = &self.queues[queue_of(prefix, &self.seed, self.queues.len())];
        lock(&entrance.ring).push(frame).ok()?;
        // The core arms itself before it looks into the ring for the last time.
        fence(Ordering::SeqCst);
        if entrance.bell.is_armed.swap(false, Ordering::Relaxed)
            && let Some(sleeper) = &*lock(&entrance.bell.sleeper)
        {
            sleeper.wake();
        }
        Some(())
    }
}

/// Which of `count` queues takes the queries of these clients. With another `seed` it is another one.
fn queue_of(prefix: &ClientPrefix, seed: &[u8; 16], count: usize) -> usize {
    let mut hasher = SipHasher13::new_with_key(seed);
    prefix.hash(&mut hasher);
    usize::try_from(hasher.finish() % count.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prefix;

    #[test]
    fn a_client_stays_on_its_queue_and_clients_spread() {
        let mut seen = [0; 4];
        for host in 0..=255 {
            let prefix = prefix(host);
            assert_eq!(queue_of(&prefix, &[1; 16], 4), queue_of(&prefix, &[1; 16], 4));
            seen[queue_of(&prefix, &[1; 16], 4)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    }
}
