//! Changes of block lists at run time.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A block list to fetch by HTTPS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewList {
    /// Its name: at most 32 letters, digits, `-` and `_`.
    #[schema(example = "ads")]
    pub name: String,
    /// Where it is.
    #[schema(example = "https://lists.example/ads.txt")]
    pub url: String,
    /// The address of the server; absent: the system's resolver is asked.
    #[schema(value_type = Option<String>, example = "192.0.2.1")]
    pub address: Option<IpAddr>,
    /// How often it is fetched; absent: once a day.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub refresh_seconds: Option<u64>,
    /// The views in which it holds; none: all.
    #[serde(default)]
    pub views: Vec<String>,
}
