//! Where the slow path's answers come from, for those who observe them.

/// Where an answer of the slow path came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From an upstream, by its slot.
    Upstream(u16),
    /// From the cache, or made of an answer there.
    Cache,
    /// From the cache, after it had expired.
    Stale,
    /// From the rules.
    Rules,
    /// There was no answer, so it is SERVFAIL.
    Failure,
    /// The client gets none. Its connection is told so.
    Silence,
}

impl Origin {
    /// From the upstream in this slot.
    pub(crate) fn upstream(index: usize) -> Self {
        u16::try_from(index).map_or(Self::Cache, Self::Upstream)
    }
}
