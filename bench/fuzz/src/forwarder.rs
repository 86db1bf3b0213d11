//! A whole line on the memory driver, and its slow path, which nobody runs: targets answer misses themselves.

use pmdns_counters::Totals;
use pmdns_engine::testing::{Rig, config};
use pmdns_nics::{Burst, Verified};
use pmdns_stages::miss::Miss;

/// The longest frame that is handed over: what Ethernet carries, and some.
pub(crate) const MAX_FRAME: usize = 1600;

/// What became of a frame.
pub(crate) struct Fate {
    /// Frames that were sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// Questions for the slow path.
    pub(crate) misses: Vec<Miss>,
}

/// A line that stays from one input to the next, as a real one does.
pub(crate) struct Forwarder {
    /// The rig behind it.
    pub(crate) rig: Rig,
    totals: Totals,
}

impl Forwarder {
    /// A line on one core, with `more` in its config.
    pub(crate) fn new(more: &str) -> Self {
        Self { rig: Rig::new(&config(more)), totals: Totals::default() }
    }

    /// Hands a frame to the port and lets the line work. The frame must be in exactly one counter afterwards, and no buffer
    /// may be missing.
    pub(crate) fn hand(&mut self, bytes: &[u8], verified: Verified) -> Fate {
        let mut frame = self.rig.frame(&bytes[..bytes.len().min(MAX_FRAME)]);
        frame.set_verified(verified);
        self.rig.offer(0, &mut Burst::from_iter([frame]));
        self.rig.settle();
        let sent: Vec<_> = self.rig.sent().iter().map(|frame| frame.bytes().to_vec()).collect();
        let mut misses = Vec::new();
        while let Some(miss) = self.rig.slow_path[0].inlets.misses[0].pop() {
            misses.push(miss);
        }
        let counters: Vec<_> = self.rig.workers.iter().map(|worker| worker.counters()).collect();
        let after = pmdns_engine::counters::totals(&counters);
        let before = std::mem::replace(&mut self.totals, after);
        assert_eq!(after.received, before.received + 1);
        assert!(after.balance(), "{after:?}");
        assert_eq!(after.transmitted - before.transmitted, sent.len() as u64);
        assert_eq!(after.slow_path - before.slow_path, misses.len() as u64);
        assert!(sent.len() + misses.len() <= 1, "one frame has one fate");
        assert_eq!(self.rig.pool.in_use(), 0, "every frame came back");
        Fate { sent, misses }
    }

    /// The time in seconds, as entries have it.
    pub(crate) fn seconds(&self) -> u32 {
        let clock = self.rig.gauges.clock;
        clock.context(clock.now()).seconds
    }
}
