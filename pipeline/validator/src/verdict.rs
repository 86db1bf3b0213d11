//! What a validator is asked, and what it says.

/// The question of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// Wire format, in any letters.
    pub name: &'q [u8],
    /// Its type.
    pub qtype: u16,
    /// Its class.
    pub qclass: u16,
}

/// The verdict on a reply (RFC 4033 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityStatus {
    /// Signed, all the way from a trust anchor.
    Secure,
    /// Provably not signed, or excluded by a negative trust anchor.
    Insecure,
    /// No trust anchor is above it.
    Indeterminate,
    /// Forged or broken; the INFO-CODE of an extended DNS error (RFC 8914 section 4) says how.
    Bogus(u16),
    /// Its validation costs more than [`ValidatorLimits`](crate::ValidatorLimits) allow; with an INFO-CODE as well.
    OverBudget(u16),
}

/// A verdict with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: SecurityStatus,
    /// How long it may be kept, in seconds: at most the original TTL, and at most as long as
    /// its signatures are valid (RFC 4035 section 5.3.3).
    pub max_ttl: u32,
    /// For each record after the question, in order: whether it may be passed on. Records of a secure reply without a
    /// good signature may not, nor answers to another question. Empty: every record may.
    pub keep: Vec<bool>,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: others first, then [`Validator::step`](crate::Validator::step) again.
    Working,
    /// These records are needed: ask an upstream with DO=1 and CD=1, class IN. The name is in wire format and lower case.
    /// A job that steps without them says the same again.
    Fetch {
        /// Whose records.
        name: Box<[u8]>,
        /// DS (43) or DNSKEY (48).
        qtype: u16,
    },
    /// The end: further steps say the same.
    Done(Judgement),
}
