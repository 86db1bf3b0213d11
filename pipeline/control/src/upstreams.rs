//! Changes of upstreams at run time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An upstream to add, asked over UDP and TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUpstream {
    /// Its address and port.
    #[schema(example = "192.0.2.53:53")]
    pub address: String,
    /// Its group; absent: `default`, or the group that the file has it in.
    pub group: Option<String>,
}

/// An upstream's share of new questions. Absent fields stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamState {
    /// Whether it gets none. What is under way to it ends as usual.
    pub drained: Option<bool>,
    /// Its share, in proportion to those of others of its group, which has the strategy `round_robin`.
    #[schema(minimum = 1, maximum = 100)]
    pub weight: Option<u32>,
}
