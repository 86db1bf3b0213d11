//! Whether answers are validated, and from where.

use std::path::PathBuf;

use serde::Deserialize;

/// `[dnssec]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dnssec {
    /// Whether answers from upstream are validated (RFC 4035 section 5).
    pub validate: bool,
    /// A file of DS or DNSKEY records that are trusted; absent: the root's.
    pub trust_anchor: Option<PathBuf>,
    /// Names that are not validated, nor is anything below them (RFC 7646).
    pub negative_trust_anchors: Vec<String>,
}
