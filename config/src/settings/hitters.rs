//! Heavy hitters: the names, clients and zones that come most, floods of random names, and limits on zones.

use serde::Deserialize;

/// `[hitters]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HitterSettings {
    /// Whether names, clients and zones are counted.
    pub enabled: bool,
    /// One in so many answered packets is counted, by chance. All misses and their answers are.
    pub sample: u32,
    /// Keys that a table keeps; no count is more than a `keys`th of all too high.
    pub keys: u32,
    /// Bits of a client's IPv4 address that are kept.
    pub ipv4_prefix: u8,
    /// Bits of a client's IPv6 address that are kept.
    pub ipv6_prefix: u8,
    /// Different names a second that miss in a flooded zone.
    pub flood_names: u32,
    /// Misses in a flooded zone that have no answer, in percent.
    pub flood_share: u8,
    /// Misses a second that a flooded zone is limited to; 0: it is only reported.
    pub auto_limit: u32,
    /// How long such a limit holds.
    pub limit_seconds: u32,
    /// The answer to misses over the limit of a zone.
    pub limit_answer: LimitAnswer,
}

/// The answer to misses over the limit of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitAnswer {
    /// SERVFAIL.
    #[default]
    Servfail,
    /// REFUSED.
    Refused,
    /// Nothing.
    Drop,
}

impl Default for HitterSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            sample: 16,
            keys: 1024,
            ipv4_prefix: 32,
            ipv6_prefix: 128,
            flood_names: 200,
            flood_share: 80,
            auto_limit: 0,
            limit_seconds: 600,
            limit_answer: LimitAnswer::Servfail,
        }
    }
}
