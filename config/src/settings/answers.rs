//! The form of answers.

use std::path::PathBuf;

use serde::Deserialize;

use crate::cookies::CookieSecret;

/// `[answers]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerSettings {
    /// The largest UDP answer we send, and the size our OPT record announces, in bytes (RFC 6891).
    pub max_udp_size: u16,
    /// Queries of type ANY get one HINFO record, and are never asked upstream (RFC 8482).
    pub minimal_any: bool,
    /// The name given to clients that ask for it in their OPT record (RFC 5001); absent: none.
    pub nsid: Option<String>,
    /// The answer to `id.server` and `hostname.bind`, class CH (RFC 4892); absent: REFUSED.
    pub identity: Option<String>,
    /// The answer to `version.server` and `version.bind`, class CH; absent: REFUSED.
    pub version: Option<String>,
}

impl Default for AnswerSettings {
    fn default() -> Self {
        Self { max_udp_size: 1232, minimal_any: true, nsid: None, identity: None, version: None }
    }
}

/// `[cookies]`: DNS cookies (RFC 7873, RFC 9018).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CookieSettings {
    /// Answer clients that send a cookie with one of ours.
    pub enabled: bool,
    /// The secret that makes cookies; absent: drawn at start. Servers behind one address need the same.
    pub secret: Option<CookieSecret>,
    /// A secret whose cookies are right as well: the one before, or the one to come.
    pub accepted_secret: Option<CookieSecret>,
    /// A file with the secret on its first line, and the accepted one on its second.
    pub secret_file: Option<PathBuf>,
    /// Clients that send a cookie get BADCOOKIE until it is a right one.
    pub require: bool,
}

impl Default for CookieSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            secret: None,
            accepted_secret: None,
            secret_file: None,
            require: false,
        }
    }
}

/// `[client_subnet]`: which network an answer is for (RFC 7871).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSubnet {
    /// The policy for it.
    pub policy: SubnetPolicy,
    /// The most bits of an IPv4 network that are sent upstream.
    pub ipv4_prefix: u8,
    /// The same of an IPv6 network.
    pub ipv6_prefix: u8,
    /// Answers kept at once that are for one network only.
    pub max_answers: usize,
}

impl Default for ClientSubnet {
    fn default() -> Self {
        Self { policy: SubnetPolicy::Strip, ipv4_prefix: 24, ipv6_prefix: 56, max_answers: 16_384 }
    }
}

/// How a client's subnet is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubnetPolicy {
    /// It is not there: neither read nor sent.
    Strip,
    /// What the client sends of it goes on.
    Forward,
    /// If the client sends none, its address is sent.
    Add,
}
