//! How expired answers are served while the upstreams fail (RFC 8767).
//!
//! An expired answer stays in the cache until it is overwritten. Data cores treat it as a miss. A client gets it, with
//! a short TTL, when the upstreams have failed or the client timeout has passed. The upstreams are always asked first,
//! and the query to them goes on without the client. If that fails too, the question rests: for some seconds clients
//! get the expired answer at once, and no upstream is asked.

use std::time::Duration;

use pmdns_config::CacheSettings as Settings;
use pmdns_stages::Tick;

/// How expired answers are served.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) is_served: bool,
    /// How many seconds after its expiry an answer may be served.
    window: u32,
    /// The TTL of expired answers, in seconds.
    pub(crate) ttl: u32,
    /// Ticks that a client waits for a fresh answer.
    pub(crate) patience: Tick,
}

impl Stale {
    /// Reads the settings. Clients wait no longer than `deadline`. `ticks` converts a duration.
    pub(crate) fn new(
        settings: &Settings,
        ticks: impl Fn(Duration) -> Tick,
        deadline: Duration,
    ) -> Self {
        let patience = Duration::from_millis(settings.stale_client_timeout_ms).min(deadline);
        Self {
            is_served: settings.serve_stale,
            window: settings.stale_window_seconds,
            ttl: settings.stale_ttl,
            patience: ticks(patience),
        }
    }

    /// The same with other settings, where clients wait for `deadline` at most, which are so many ticks.
    pub(crate) fn apply(&mut self, settings: &Settings, deadline: Duration, ticks: Tick) {
        let scaled = |part: Duration| {
            let ticks = u128::from(ticks) * part.as_nanos() / deadline.as_nanos().max(1);
            Tick::try_from(ticks).unwrap_or(Tick::MAX)
        };
        *self = Self::new(settings, scaled, deadline);
    }

    /// Until when an answer may be served that expires at `expires`.
    pub(crate) fn usable_until(&self, expires: u32) -> u32 {
        expires.saturating_add(if self.is_served { self.window } else { 0 })
    }
}
