//! The answer a client would get, and why: the question, and a value for programs with its text for people.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The question of a lookup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LookupRequest {
    /// The name that is asked for.
    #[param(example = "example.com")]
    pub name: String,
    /// The record type; absent: A.
    pub r#type: Option<String>,
    /// The address of the client; absent: any client in no view.
    pub client: Option<String>,
}

/// The answer that a client would get, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LookupReport {
    /// The name that is asked for.
    pub name: String,
    /// The type.
    pub record_type: String,
    /// The client; absent: any client in no view.
    #[schema(value_type = Option<String>)]
    pub client: Option<IpAddr>,
    /// Its view.
    pub view: String,
    /// The part that decides.
    pub decided_by: DecidedBy,
    /// That no query over UDP comes from this client.
    pub note: Option<String>,
    /// The rcode of the answer; absent: the query is dropped, or the answer is not known yet.
    pub rcode: Option<String>,
    /// Whether the answer has TC=1, so that the client asks again over TCP.
    pub truncated: bool,
    /// The records of the answer.
    pub records: Vec<String>,
    /// The rule that decides, or lets the query pass.
    pub rule: Option<RuleReport>,
    /// The cached answer, even if it is not given.
    pub cached: Option<CachedReport>,
    /// The upstreams, if the cache has no answer that may be given.
    pub upstream: Option<GroupReport>,
}

/// The part that decides on a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// `[acl]`: the client is refused or dropped.
    AccessList,
    /// A name or a record of run time.
    RunTime,
    /// Local records.
    LocalRecords,
    /// A policy zone.
    PolicyZone,
    /// A block list, or `block.names`.
    BlockList,
    /// `answers.minimal_any`.
    MinimalAny,
    /// An answer in the cache.
    Cache,
    /// NXDOMAIN in the cache for a name above.
    CachedNxdomain,
    /// A `[[redirect]]`: the name does not exist.
    Redirect,
    /// An expired answer, because the upstreams have failed.
    StaleAnswer,
    /// A failure a moment ago, which is remembered.
    RecentFailure,
    /// The upstreams.
    #[default]
    Upstreams,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleReport {
    /// Its file; absent: the configuration itself.
    pub file: Option<String>,
    /// The line of the file as it is now.
    pub line: Option<u64>,
    /// The name that the rule is about, if it is known.
    pub listed: Option<String>,
    /// More that people may want to know.
    pub note: Option<String>,
}

/// An answer in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedReport {
    /// Seconds until it expires; 0: it has expired.
    pub ttl_left_seconds: u32,
    /// Seconds since it came.
    pub age_seconds: u32,
    /// Whether it has expired.
    pub is_stale: bool,
    /// Recent hits; absent: hits are not reported (neither prefetch nor eviction needs them).
    pub recent_hits: Option<u32>,
    /// Its DNSSEC state.
    pub validation: ValidationState,
    /// Whether a rule has changed it.
    pub rewritten: bool,
}

/// The state of an answer's signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValidationState {
    /// They are right.
    Secure,
    /// It was validated, and its zone is not signed.
    Insecure,
    /// The upstream says that they are right; they were not validated here.
    SecureByUpstream,
    /// They were not validated.
    NotValidated,
}

/// The upstreams that would be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupReport {
    /// Their group.
    pub group: String,
    /// In the order in which they would be asked now.
    pub upstreams: Vec<CandidateUpstream>,
    /// Whether the client gets an expired answer if they do not answer in time.
    pub has_stale_answer: bool,
}

/// An upstream that would be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = UpstreamReport)]
pub struct CandidateUpstream {
    /// Its address.
    pub address: String,
    /// Whether it rests after failures.
    pub is_resting: bool,
    /// Its smoothed round-trip time, if it was measured lately.
    pub srtt_us: Option<u64>,
}

impl fmt::Display for LookupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, record_type, view, .. } = self;
        let client = self.client.map(|client| format!(", client {client}")).unwrap_or_default();
        writeln!(f, "{name} {record_type}{client}, view {view}")?;
        let answer = match (&self.rcode, self.decided_by) {
            (Some(rcode), _) => {
                format!("{rcode}{}", if self.truncated { ", truncated" } else { "" })
            }
            (None, DecidedBy::Upstreams) => "not known yet".to_owned(),
            (None, _) => "none, the query is dropped".to_owned(),
        };
        writeln!(f, "answer: {answer}\nreason: {}", self.decided_by)?;
        if let Some(note) = &self.note {
            writeln!(f, "note: {note}")?;
        }
        if let Some(rule) = &self.rule {
            writeln!(f, "rule: {rule}")?;
        }
        if let Some(cached) = &self.cached {
            writeln!(f, "cache: {cached}")?;
        }
        if let Some(upstream) = &self.upstream {
            write!(f, "{upstream}")?;
        }
        self.records.iter().try_for_each(|record| writeln!(f, "  {record}"))
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AccessList => "the access list ([acl])",
            Self::RunTime => "a name or record of run time (`pmdns entries`, `pmdns local list`)",
            Self::LocalRecords => "local records",
            Self::PolicyZone => "a policy zone",
            Self::BlockList => "the name is blocked",
            Self::MinimalAny => "queries of type ANY are answered here (answers.minimal_any)",
            Self::Cache => "it is in the cache",
            Self::CachedNxdomain => {
                "NXDOMAIN for a name above is in the cache (cache.nxdomain_cut)"
            }
            Self::Redirect => "the name does not exist, and is redirected ([[redirect]])",
            Self::StaleAnswer => "the upstreams have failed, so an expired answer is given",
            Self::RecentFailure => "the question has failed a moment ago",
            Self::Upstreams => "the upstreams are asked",
        })
    }
}

impl fmt::Display for RuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.file.iter().cloned().collect();
        parts.extend(self.line.map(|line| format!("line {line}")));
        parts.extend(self.listed.iter().cloned());
        parts.extend(self.note.iter().cloned());
        f.write_str(&parts.join(", "))
    }
}

impl fmt::Display for CachedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ttl_left_seconds, age_seconds, .. } = self;
        match self.is_stale {
            true => write!(f, "expired, age {age_seconds} s")?,
            false => write!(f, "TTL left {ttl_left_seconds} s, age {age_seconds} s")?,
        }
        if let Some(hits) = self.recent_hits {
            write!(f, ", {hits} recent hits")?;
        }
        f.write_str(match self.validation {
            ValidationState::Secure => ", validated: secure",
            ValidationState::Insecure => ", validated: insecure",
            ValidationState::SecureByUpstream => ", secure says the upstream",
            ValidationState::NotValidated => ", not validated",
        })?;
        f.write_str(if self.rewritten { ", rewritten by a rule" } else { "" })
    }
}

impl fmt::Display for GroupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "upstreams of group {}, in this order:", self.group)?;
        for CandidateUpstream { address, is_resting, srtt_us } in &self.upstreams {
            let rtt = srtt_us.map(|us| format!(", {us} µs")).unwrap_or_default();
            let rests = if *is_resting { ", rests after failures" } else { "" };
            writeln!(f, "  {address}{rtt}{rests}")?;
        }
        match self.has_stale_answer {
            true => writeln!(f, "  an expired answer is given if they do not answer in time"),
            false => Ok(()),
        }
    }
}
