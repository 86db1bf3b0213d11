//! How expired answers are served while the upstreams fail (RFC 8767).
//!
//! An answer that has expired stays in the cache until it is overwritten. Data cores take it for a miss; a client
//! gets it, with a short TTL, when the upstreams have failed or its patience is over, and never before they were
//! asked. Asking goes on without the client. Where that does not help either, the question rests: for some seconds
//! clients get the expired answer at once, and nobody is asked.

use std::time::Duration;

use pmdns_config::Cache as Settings;
use pmdns_stages::Tick;

/// How expired answers are served.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) is_served: bool,
    /// Seconds after it has expired that an answer may be served.
    window: u32,
    /// Their TTL, in seconds.
    pub(crate) ttl: u32,
    /// Ticks that a client waits for better.
    pub(crate) patience: Tick,
}

impl Stale {
    /// As the settings say; clients wait no longer than `deadline`. A duration is so many `ticks`.
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

    /// Until when an answer that expires then may be of use.
    pub(crate) fn usable_until(&self, expires: u32) -> u32 {
        expires.saturating_add(if self.is_served { self.window } else { 0 })
    }
}
