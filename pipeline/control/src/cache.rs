//! Answers in the cache.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Answers that are shown at most.
pub const MAX_SHOWN: u32 = 10_000;

/// Which answers are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CacheSearch {
    /// Only those for this name and names below it.
    #[param(example = "example.com")]
    pub name: Option<String>,
    /// Only those of this record type.
    pub r#type: Option<String>,
    /// How many at most.
    #[param(required = false, minimum = 1, maximum = 10000, default = 100)]
    pub limit: u32,
}

impl Default for CacheSearch {
    fn default() -> Self {
        Self { name: None, r#type: None, limit: 100 }
    }
}

/// Answers in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachePage {
    /// In no order.
    pub answers: Vec<CachedAnswer>,
    /// Whether there are others for which there was no room.
    pub has_more: bool,
}

/// An answer in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedAnswer {
    /// The name that is asked for.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The scope whose clients get it; 0: clients in no view.
    pub scope: u16,
    /// Its rcode.
    pub rcode: String,
    /// Seconds until it expires; 0: it has expired.
    pub ttl_left_seconds: u32,
    /// Its records.
    pub records: Vec<String>,
}

impl fmt::Display for CachePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CachedAnswer { name, record_type, scope, rcode, ttl_left_seconds, records } in
            &self.answers
        {
            writeln!(
                f,
                "{name} {record_type}, scope {scope}: {rcode}, TTL left {ttl_left_seconds} s"
            )?;
            records.iter().try_for_each(|record| writeln!(f, "  {record}"))?;
        }
        if self.has_more {
            writeln!(f, "there are more; narrow it, or raise --limit")
        } else {
            Ok(())
        }
    }
}
