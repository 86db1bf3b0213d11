//! Counters: a core counts in memory of its own and now and then publishes the whole table, which
//! anybody may read. A packet never touches memory that another core reads.

use std::sync::atomic::{AtomicU64, Ordering};

use pmdns_config::StageName;
use pmdns_stages::{Exits, Step};

use crate::line::Line;
use crate::station::Meter;

/// Declares [`Tally`] and the order its fields are published in.
macro_rules! tally {
    ($($(#[doc = $text:literal])* $field:ident,)*) => {
        /// What one worker has counted besides its stations.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Tally { $($(#[doc = $text])* pub $field: u64,)* }

        impl Tally {
            /// How many counters there are.
            const COUNT: usize = [$(stringify!($field)),*].len();

            /// The counters in order, with their names and meanings.
            pub fn named(&self) -> [(&'static str, u64, &'static str); Self::COUNT] {
                [$((stringify!($field), self.$field, concat!($($text,)*)),)*]
            }

            fn from_values(mut values: impl Iterator<Item = u64>) -> Self {
                Self { $($field: values.next().unwrap_or(0),)* }
            }
        }
    };
}

tally! {
    /// Frames taken from RX queues.
    received,
    /// Frames the slow path made for answers.
    made,
    /// Frames given to TX queues.
    transmitted,
    /// Packets that went to the slow path.
    slow_path,
    /// Frames for this host but not for us.
    exceptions,
    /// Packets dropped by a stage, whatever the reason.
    dropped,
    /// Frames dropped because the TX queue was full.
    tx_full,
    /// Packets dropped because the ring to the next core was full.
    ring_full,
    /// Packets dropped because the ring to the slow path was full.
    miss_full,
    /// Packets taken from rings.
    ring_in,
    /// Packets put into rings.
    ring_out,
    /// Poll-loop turns that found work.
    busy_turns,
    /// Poll-loop turns that found none.
    idle_turns,
    /// Ticks spent in turns that found work.
    busy_ticks,
    /// Ticks spent in turns that found none.
    idle_ticks,
}

/// Values of one station in a published table.
const METER_VALUES: usize = 2 + Step::COUNT;
/// Values of a whole published table.
const VALUES: usize = Tally::COUNT + StageName::COUNT * METER_VALUES;

/// A worker's counters as last published.
#[derive(Debug)]
pub struct Published {
    values: [AtomicU64; VALUES],
}

/// A worker's counters, read at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Everything but the stations.
    pub tally: Tally,
    /// The stations, in line order.
    pub meters: [Meter; StageName::COUNT],
}

impl Published {
    /// A table of zeros.
    pub fn new() -> Self {
        Self { values: [const { AtomicU64::new(0) }; VALUES] }
    }

    /// Publishes the counters of one core. Only that core may call it.
    pub fn publish(&self, tally: &Tally, line: &Line) {
        let tally = tally.named().map(|(_, value, _)| value);
        let meters = line.meters();
        let meters = meters.iter().flat_map(|meter| {
            [meter.batches, meter.ticks].into_iter().chain(*meter.exits.counts())
        });
        for (slot, value) in self.values.iter().zip(tally.into_iter().chain(meters)) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// The counters as last published.
    pub fn read(&self) -> Counters {
        let mut values = self.values.iter().map(|value| value.load(Ordering::Relaxed));
        let tally = Tally::from_values(values.by_ref().take(Tally::COUNT));
        let meters = std::array::from_fn(|_| {
            let mut next = || values.next().unwrap_or(0);
            let (batches, ticks) = (next(), next());
            Meter { batches, ticks, exits: Exits::from_counts(std::array::from_fn(|_| next())) }
        });
        Counters { tally, meters }
    }
}

impl Default for Published {
    fn default() -> Self {
        Self::new()
    }
}
