//! Where queries go in: a ring to each data core.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_nics::{Frame, FramePool, Sleeper};
use rtrb::Producer;

use crate::counters::AllCounters;
use crate::lock::lock;
use crate::prefix::{ClientPrefix, PrefixLengths};

/// Where queries go in: the rings to the data cores, and what all doors share.
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
        let entrance = &self.queues[prefix.queue(&self.seed, self.queues.len())];
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
