//! Zones that come from a primary: with which keys, and where it tells of news.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::tsig::TsigSecret;

/// `[[tsig]]`: a key that messages to and from a primary are signed with (RFC 8945).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tsig {
    /// Its name, which both sides use.
    pub name: String,
    /// How messages are signed with it.
    #[serde(default)]
    pub algorithm: TsigAlgorithm,
    /// The key that they are signed with.
    pub secret: Option<TsigSecret>,
    /// The file that has the secret instead.
    pub secret_file: Option<PathBuf>,
}

/// How messages are signed (RFC 8945 section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TsigAlgorithm {
    /// HMAC-SHA-1, for primaries that know no other.
    HmacSha1,
    /// HMAC-SHA-256.
    #[default]
    HmacSha256,
    /// HMAC-SHA-384.
    HmacSha384,
    /// HMAC-SHA-512.
    HmacSha512,
}

/// `[transfer]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transfer {
    /// Address and port, of the kernel's, that primaries notify of new versions; absent: they are only asked.
    pub listen: Option<SocketAddr>,
}
