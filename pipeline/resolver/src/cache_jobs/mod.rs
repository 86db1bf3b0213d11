//! Work on the cache that no client waits for: purge, dump, load, judging again, prefetch.

pub(crate) mod jobs;
pub(crate) mod prefetch;
