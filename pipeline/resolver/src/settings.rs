//! Settings that change in a working resolver. They are built aside, and swapped in between two batches.

use std::io;
use std::time::Duration;

use pmdns_config::{CacheSettings, Config, HealthSettings};
use pmdns_stages::cache::{Lifetimes, Retention};

use crate::roster::Roster;
use crate::upstreams::groups::Groups;

/// The settings of a resolver that can be changed.
pub struct Settings {
    /// The upstreams.
    pub roster: Roster,
    pub(crate) groups: Groups,
    pub(crate) health: HealthSettings,
    /// How long a client waits. It is that of the start.
    pub(crate) deadline: Duration,
    pub(crate) queries_per_port: usize,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) retention: Retention,
    /// How expired answers are served, and what an NXDOMAIN denies.
    pub(crate) cache: CacheSettings,
}

impl Settings {
    /// The settings of a configuration, whose upstreams are in these slots. An error: a zone's name is no name.
    pub fn new(config: &Config, roster: Roster) -> io::Result<Self> {
        let groups = Groups::new(&roster, &config.groups, &config.forwards, &config.views);
        Ok(Self {
            groups: groups.map_err(io::Error::other)?,
            roster,
            health: config.health.clone(),
            deadline: Duration::from_millis(config.slowpath.deadline_ms),
            queries_per_port: config.slowpath.queries_per_port,
            lifetimes: Lifetimes::of(config),
            retention: Retention::of(config),
            cache: config.cache.clone(),
        })
    }
}
