//! What a miss leads to: for the resolver, which carries it out, and for people who ask.

use pmdns_stages::cache::{Entry, EntryRef};
use pmdns_stages::miss::Miss;
use pmdns_stages::wire::edns::ExtendedError;

/// What is to be done with a miss.
pub(crate) enum Standing {
    /// There are no upstreams for its client yet: the line has rules already that this thread looks at next.
    NotReady,
    /// The cache has the answer.
    Cached(EntryRef),
    /// There is an answer for the client's network, cut to this length.
    ForSubnet(u8),
    /// The name above does not exist. This is the answer.
    Denied(Entry),
    /// The upstreams have failed. This is the expired answer.
    Stale(Entry),
    /// The question has failed a moment ago.
    Failed(ExtendedError),
    /// Upstreams are asked.
    Asked {
        /// What the client gets if they are late.
        stale: Option<Entry>,
    },
}

/// A miss that somebody asks about.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The miss.
    pub miss: Miss,
    /// Whether its client is one in particular, and so in a network that upstreams may be told.
    pub has_client: bool,
}

/// What a miss would lead to, if it came now.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// Recent hits of the cached answer; `None`: there is none, or hits are not reported.
    pub hits: Option<u32>,
    /// What its client would get.
    pub foreseen: Foreseen,
    /// Whether there is an expired answer that may be served.
    pub has_stale: bool,
    /// The upstreams that would be asked, in this order.
    pub upstreams: Vec<UpstreamOutlook>,
}

/// What the client of a miss would get.
#[derive(Clone, Debug)]
pub enum Foreseen {
    /// This answer, which is in the cache, or beside it for the client's network.
    Known(Entry),
    /// What an NXDOMAIN in the cache for a name above says (RFC 8020).
    Denied(Entry),
    /// An expired answer at once, because the upstreams have failed.
    Stale(Entry),
    /// SERVFAIL, because the question has failed a moment ago.
    Failed,
    /// Nobody can say: this thread has other rules than the line, as the rules are being replaced.
    OtherRules,
    /// What upstreams say.
    Asked,
}

/// An upstream that would be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamOutlook {
    /// Its slot.
    pub number: usize,
    /// Whether it rests after failures.
    pub is_resting: bool,
    /// Its smoothed round-trip time in microseconds, if it is known and not old.
    pub srtt_us: Option<u64>,
}
