//! Heavy hitters: names, clients and zones that come most, and floods of random names.
//!
//! ```text
//!  recorder on each data core ─ ring of cells ─► thread: sketches by window, floods ─► calls of operators
//! ```
//!
//! A data core copies client and question of a packet into its ring, and waits for nobody. A full ring loses the record and
//! counts it. One thread counts. See docs/adr/0054-heavy-hitters.md.

mod distinct;
mod floods;
mod sketch;
mod tables;
mod windows;
mod zone;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_config::Config;
use pmdns_control::HittersQuery;
use pmdns_control::hitters::{Floods as FloodList, HitterTable};
use pmdns_counters::counters;
use pmdns_engine::clock::Clock;
use pmdns_engine::engine::random_seed;
use pmdns_engine::observe::{ObserverLender, TooManyObservers};
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::threads::{join_within, nap, pin};

use self::floods::News;
use self::tables::Tables;
use crate::records::{Core, NAP, Recording, Rings, lost, readable, records};

/// Slots of a core's ring: 1 MiB. A record has two or three.
const RING: usize = 16_384;
/// How long it may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// Floods whose limits wait for the main thread.
const MAX_NEWS: usize = floods::MAX_FLOODS;
/// Lines that the log gets of floods in a minute, at most.
const LINES: u32 = 20;

/// Why nothing is counted.
#[derive(Debug, thiserror::Error)]
pub enum HittersError {
    /// The data cores have no room for it.
    #[error(transparent)]
    Observers(#[from] TooManyObservers),
    /// The thread could not be started.
    #[error("cannot start the thread of heavy hitters: {0}")]
    Thread(#[from] std::io::Error),
}

counters! {
    /// The counters of heavy hitters, floods and limits.
    HitterCounters,
    /// The same, read at one time.
    HitterSnapshot {
        /// Records counted for heavy hitters.
        records: counter,
        /// Records lost, because the thread that counts them got no CPU.
        lost: counter,
        /// Floods of random names that have begun.
        floods: counter,
        /// Zones that are flooded now.
        flooded: gauge,
        /// Zones that are limited now.
        limited: gauge,
        /// Misses refused, because their zone was over its limit.
        refused: counter,
    }
}

/// The heavy hitters of a running instance. Dropping it ends its thread.
pub struct HeavyHitters {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<HitterTables>,
}

struct HitterTables {
    tables: Mutex<Tables>,
    /// Zones whose flood has begun, for automatic limits.
    begun: Mutex<Vec<FloodBegun>>,
    counters: Arc<HitterCounters>,
}

/// A zone whose flood has begun.
#[derive(Clone, Debug)]
pub struct FloodBegun {
    /// Its name.
    pub zone: String,
    /// Misses in its last second.
    pub misses: u64,
    /// Whether the log has room for more of it.
    pub is_told: bool,
}

/// Lends a recorder of heavy hitters to each data core.
pub fn lend(
    config: &Config,
    lender: &ObserverLender,
) -> Result<Rings<HitterCounters>, TooManyObservers> {
    let sample = config.hitters.sample;
    Rings::lend(Recording { slots: RING, sample, whole: false, every_miss: true }, lender)
}

impl HeavyHitters {
    /// Lends recorders to the data cores, and starts the thread, pinned to the CPU `core` if one is given. `None`: it is not
    /// configured.
    pub fn start(
        config: &Config,
        lender: &ObserverLender,
        rules: RuleNames,
        clock: Clock,
        core: Option<usize>,
    ) -> Result<Option<Self>, HittersError> {
        if !config.hitters.enabled {
            return Ok(None);
        }
        let Rings { cores, counters } = lend(config, lender)?;
        let seed = random_seed()
            .map_err(|error| HittersError::Thread(std::io::Error::other(error.to_string())))?;
        let tables = Mutex::new(Tables::new(config, rules, seed));
        let shared = Arc::new(HitterTables { tables, begun: Mutex::default(), counters });
        let stop = Arc::new(AtomicBool::new(false));
        let counter = Counter { cores, shared: Arc::clone(&shared), clock, lines: (0, 0) };
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("hitters".to_owned()).spawn(move || {
            pin(core);
            counter.run(&stopping);
        })?;
        Ok(Some(Self { stop, thread: Some(thread), shared }))
    }

    /// The counts.
    pub fn counters(&self) -> HitterSnapshot {
        self.shared.counters.snapshot()
    }

    /// The zones whose floods have begun since the last call.
    pub fn begun(&self) -> Vec<FloodBegun> {
        std::mem::take(&mut *locked(&self.shared.begun))
    }

    /// Those that come most.
    pub fn top(&self, query: &HittersQuery) -> HitterTable {
        locked(&self.shared.tables).top(query)
    }

    /// The flooded zones.
    pub fn floods(&self) -> FloodList {
        locked(&self.shared.tables).floods()
    }
}

impl Drop for HeavyHitters {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && !join_within(thread, STOP_PATIENCE)
        {
            tracing::warn!("the thread of heavy hitters has not ended after {STOP_PATIENCE:?}");
        }
    }
}

/// The thread that counts.
struct Counter {
    cores: Vec<Core>,
    shared: Arc<HitterTables>,
    clock: Clock,
    /// The minute under way, and the lines that the log has of it.
    lines: (u64, u32),
}

impl Counter {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let second = self.clock.duration_of(self.clock.now()).as_secs();
            if self.turn(second) == 0 {
                nap(NAP);
            }
        }
    }

    /// Counts what the rings have. Returns how many records there were.
    fn turn(&mut self, second: u64) -> u64 {
        let mut cells = Vec::new();
        self.cores.iter_mut().for_each(|core| core.take(&mut cells));
        let mut tables = locked(&self.shared.tables);
        let news = tables.set_second(second);
        let mut count = 0;
        for record in records(&cells) {
            tables.take(&record);
            count += 1;
        }
        let flooded = tables.flooded();
        drop(tables);
        let counters = &self.shared.counters;
        counters.lost.store(lost(&self.cores), Ordering::Relaxed);
        counters.records.fetch_add(count, Ordering::Relaxed);
        counters.flooded.store(flooded, Ordering::Relaxed);
        news.iter().for_each(|news| self.report_flood(news, second));
        count
    }

    /// Logs what became of a flood, and has it limited.
    fn report_flood(&mut self, news: &News, second: u64) {
        let (minute, lines) = &mut self.lines;
        if *minute != second / 60 {
            (*minute, *lines) = (second / 60, 0);
        }
        *lines += 1;
        let is_told = *lines <= LINES;
        match news {
            News::Began(zone, flood) => {
                self.shared.counters.floods.fetch_add(1, Ordering::Relaxed);
                let zone = readable(zone);
                if is_told {
                    // The attacker chose the zone's name. It is no part of a command that may be copied to a shell.
                    tracing::warn!(
                        "{zone} is flooded: about {} different names a second miss; {} of {} misses have an answer; \
                         `pmdns limit ZONE --rate 50` limits it",
                        flood.names,
                        flood.answered,
                        flood.misses,
                    );
                }
                let mut begun = locked(&self.shared.begun);
                if begun.len() < MAX_NEWS {
                    begun.push(FloodBegun { zone, misses: flood.misses, is_told });
                }
            }
            News::Ended(zone) if is_told => {
                tracing::info!("{} is not flooded any more", readable(zone));
            }
            News::Ended(_) => {}
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
