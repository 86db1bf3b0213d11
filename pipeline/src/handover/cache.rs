//! The cache: its memory passes, and with it who writes.

use std::hash::Hasher as _;
use std::io;
use std::os::fd::OwnedFd;

use pmdns_config::Config;
use pmdns_engine::clock::Clock;
use pmdns_engine::engine::PassedMemory;
use pmdns_engine::snapshot::{CacheJobs, SnapshotError, WriterSwitch};
use pmdns_handover::PassedCache;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::LAYOUT;
use pmdns_stages::wire::name::Seed;
use siphasher::sip::SipHasher24;

/// Who writes to the cache: the threads of this process, or another one.
#[derive(Debug)]
pub(crate) struct CacheWriting {
    jobs: CacheJobs,
    /// Threads that are about to go on, or to stop.
    under_way: Option<WriterSwitch>,
}

impl CacheWriting {
    /// The threads write.
    pub(crate) fn new(jobs: CacheJobs) -> Self {
        Self { jobs, under_way: None }
    }

    /// What another process has to know, and a copy of the memory's descriptor. `None`: it cannot pass.
    pub(super) fn passed(&self, config: &Config) -> io::Result<Option<(PassedCache, OwnedFd)>> {
        let cache = self.jobs.cache();
        let Some(memory) = cache.arena().descriptor() else { return Ok(None) };
        let facts = PassedCache {
            layout: LAYOUT,
            seed: cache.seed().numbers(),
            clock: self.jobs.clock().numbers(),
            settings: digest(config, cache.seed()),
        };
        Ok(Some((facts, memory.try_clone_to_owned()?)))
    }

    /// Has every thread write no more, and gives the lock up. `true`: that is done.
    pub(super) fn stop(&mut self) -> io::Result<bool> {
        let is_over = self.set_writing(false)?;
        if is_over {
            self.jobs.cache().arena().unlock()?;
        }
        Ok(is_over)
    }

    /// Takes the lock, and has every thread go on. `true`: that is done.
    pub(super) fn go_on(&mut self) -> io::Result<bool> {
        Ok(self.jobs.cache().arena().lock()? && self.set_writing(true)?)
    }

    fn set_writing(&mut self, is_on: bool) -> io::Result<bool> {
        let pending = match &mut self.under_way {
            Some(pending) => pending,
            none => none.insert(self.jobs.set_writing(is_on).map_err(to_io)?),
        };
        let is_over = pending.is_over();
        if is_over {
            self.under_way = None;
        }
        Ok(is_over)
    }
}

fn to_io(error: SnapshotError) -> io::Error {
    io::Error::other(error.to_string())
}

/// The cache of the process before, if this configuration can go on with it.
pub(crate) fn adopted(
    config: &Config,
    passed: Option<(PassedCache, OwnedFd)>,
) -> Option<PassedMemory> {
    let (facts, memory) = passed?;
    let begins_empty = |why: &str| tracing::info!("the cache begins empty: {why}");
    if facts.layout != LAYOUT {
        begins_empty("that of the running process is laid out otherwise");
        return None;
    }
    let seed = Seed::of(facts.seed);
    if facts.settings != digest(config, seed) {
        begins_empty("that of the running process is of other settings");
        return None;
    }
    let clock = Clock::following(facts.clock)?;
    let adopted = Arena::adopt(memory).inspect_err(|error| begins_empty(&error.to_string()));
    let (arena, report) = adopted.ok()?;
    Some(PassedMemory { arena, report, seed, clock })
}

/// Of what the answers in the cache depend on.
fn digest(config: &Config, seed: Seed) -> u64 {
    let [first, second] = seed.numbers();
    let mut hasher = SipHasher24::new_with_keys(first, second);
    hasher.write(config.cache_basis().as_bytes());
    hasher.finish()
}
