//! Work on the cache that nobody waits for: purge, dump, load, judging again, refreshing.

pub(crate) mod jobs;
pub(crate) mod prefetch;
