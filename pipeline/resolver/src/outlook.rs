//! Requests of people about a question, and the resolver's replies.

use pmdns_stages::cache::Head;
use pmdns_stages::wire::edns::ExtendedError;

/// A question that is asked about.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The name in wire format and lower case.
    pub name: Box<[u8]>,
    /// The type.
    pub qtype: u16,
    /// The class.
    pub qclass: u16,
    /// The flags of the cache key.
    pub flags: u8,
    /// The policy zone whose rule exempts the client, as in [`Ruleset::exemption`](pmdns_stages::policy::Ruleset::exemption).
    pub exempt: Option<u8>,
}

/// The outcome of a miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Recent hits of the cached answer; `None`: there is none, or hits are not reported.
    pub hits: Option<u32>,
    /// The answer that an NXDOMAIN in the cache for a name above gives (RFC 8020), if there is one.
    pub denial: Option<Head>,
    /// The question has failed a moment ago, for this reason, so it is not asked.
    pub failed: Option<ExtendedError>,
    /// Whether there is an expired answer that may be served.
    pub has_stale: bool,
    /// Whether that answer is served at once, because the upstreams have failed.
    pub is_resting: bool,
    /// The upstreams that would be asked, in this order.
    pub upstreams: Vec<UpstreamOutlook>,
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
