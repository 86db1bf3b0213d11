//! The cache: its memory passes, and with it who writes.

use std::hash::Hasher as _;
use std::io;
use std::os::fd::OwnedFd;

use pmdns_config::Config;
use pmdns_engine::clock::Clock;
use pmdns_engine::engine::PassedMemory;
use pmdns_engine::snapshot::{CacheJobs, WriterSwitch};
use pmdns_handover::PassedCache;
use pmdns_nics::hugepage::Arena;
use pmdns_stages::cache::LAYOUT;
use pmdns_stages::wire::name::Seed;
use siphasher::sip::SipHasher24;

use crate::supervisor::{CACHE, EMPTY};

/// Who writes to the cache: the threads of this process, or another one.
#[derive(Debug)]
pub(crate) struct CacheWriting {
    jobs: CacheJobs,
    /// The [settings](Config::cache_basis) of its memory and answers. A reload changes none of them.
    basis: String,
    /// Threads that are about to go on, or to stop.
    under_way: Option<WriterSwitch>,
    /// What the log has said of a failure.
    told: Option<String>,
}

impl CacheWriting {
    /// The threads write.
    pub(crate) fn new(jobs: CacheJobs, config: &Config) -> Self {
        Self { jobs, basis: config.cache_basis(), under_way: None, told: None }
    }

    pub(super) fn jobs(&self) -> &CacheJobs {
        &self.jobs
    }

    /// What another process has to know, and a copy of the memory's descriptor. `config` is in use, with its views. `None`: it
    /// cannot pass.
    pub(super) fn passed(&self, config: &Config) -> io::Result<Option<(PassedCache, OwnedFd)>> {
        let cache = self.jobs.cache();
        let Some(memory) = cache.arena().descriptor() else { return Ok(None) };
        let facts = PassedCache {
            layout: LAYOUT,
            seed: cache.seed().numbers(),
            clock: self.jobs.clock().numbers(),
            settings: digest(&self.basis, config, cache.seed()),
        };
        Ok(Some((facts, memory.try_clone_to_owned()?)))
    }

    /// Has every thread write no more, and gives the lock up. `true`: that is done. If it fails, it is tried again.
    pub(super) fn has_stopped(&mut self) -> bool {
        let outcome = self.stop();
        self.is_done(outcome)
    }

    /// Takes the lock, and has every thread go on. `true`: that is done. If it fails, it is tried again.
    pub(super) fn goes_on(&mut self) -> bool {
        let outcome = self.go_on();
        self.is_done(outcome)
    }

    fn is_done(&mut self, outcome: io::Result<bool>) -> bool {
        outcome.unwrap_or_else(|error| {
            let why = Some(error.to_string());
            if self.told != why {
                tracing::error!("the cache is not written to: {error}");
                self.told = why;
            }
            false
        })
    }

    fn stop(&mut self) -> io::Result<bool> {
        let is_over = self.set_writing(false)?;
        if is_over {
            self.jobs.cache().arena().unlock()?;
        }
        Ok(is_over)
    }

    fn go_on(&mut self) -> io::Result<bool> {
        Ok(self.jobs.cache().arena().lock()? && self.set_writing(true)?)
    }

    fn set_writing(&mut self, is_on: bool) -> io::Result<bool> {
        let jobs = &self.jobs;
        let pending = self.under_way.get_or_insert_with(|| jobs.set_writing(is_on));
        let is_over = pending.is_over().map_err(io::Error::other)?;
        if is_over {
            self.under_way = None;
        }
        Ok(is_over)
    }
}

/// The cache of the process before, if this configuration can go on with it. Else the log says why not.
pub(crate) fn adopted(
    config: &Config,
    passed: Option<(PassedCache, OwnedFd)>,
) -> Option<PassedMemory> {
    let is_left = |why: &str| tracing::info!("the memory of the cache is not taken over: {why}");
    let Some((facts, memory)) = passed else {
        is_left(match std::env::var_os(CACHE).is_some_and(|cache| cache == EMPTY) {
            true => "processes have crashed again and again, and it may be the cause",
            false => "that of the process before cannot pass (`cache.pages`)",
        });
        return None;
    };
    if facts.layout != LAYOUT {
        is_left("that of the running process is laid out otherwise");
        return None;
    }
    let seed = Seed::of(facts.seed);
    if facts.settings != digest(&config.cache_basis(), config, seed) {
        is_left("that of the running process is of other settings");
        return None;
    }
    let Some(clock) = Clock::following(facts.clock) else {
        is_left("this process cannot have the seconds of the running one");
        return None;
    };
    let adopted = Arena::adopt(memory).inspect_err(|error| is_left(&error.to_string()));
    let (arena, report) = adopted.ok()?;
    Some(PassedMemory { arena, report, seed, clock })
}

/// Of what the answers in the cache depend on.
fn digest(basis: &str, config: &Config, seed: Seed) -> u64 {
    let [first, second] = seed.numbers();
    let mut hasher = SipHasher24::new_with_keys(first, second);
    hasher.write(basis.as_bytes());
    hasher.write(config.scope_map().as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn memory_of_another_version_or_of_other_settings_is_left_alone() {
        let (config, seed) = (Config::default(), Seed::new([7; 16]));
        let settings = digest(&config.cache_basis(), &config, seed);
        let own = PassedCache { layout: LAYOUT, seed: seed.numbers(), clock: [0; 3], settings };
        let others = [
            PassedCache { layout: LAYOUT + 1, ..own },
            PassedCache { settings: settings ^ 1, ..own },
            PassedCache { seed: [8; 2], ..own },
            // It is of this version, but the file behind it is no memory that was sealed.
            own,
        ];
        for facts in others {
            let told = format!("{facts:?}");
            let memory = File::open("/dev/null").unwrap().into();
            assert!(adopted(&config, Some((facts, memory))).is_none(), "{told}");
        }
        assert!(adopted(&config, None).is_none());
    }
}
