//! The query log: its queries, its form of client addresses, and its destinations.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use crate::cookies::{CookieSecret, read_secret};
use crate::problem::BrokenRule;
use crate::size::ByteSize;

/// `[query_log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryLogSettings {
    /// The dnstap reader that pmdns connects to.
    pub dnstap: Option<DnstapReader>,
    /// The identity that the reader is told; absent: the name of the host.
    pub dnstap_identity: Option<String>,
    /// The file of JSON lines.
    pub json: Option<PathBuf>,
    /// The size at which the file gets another name and a new one begins.
    pub json_size: ByteSize,
    /// Files of JSON lines with other names that are kept.
    pub json_files: u32,
    /// The SQLite database.
    pub sqlite: Option<PathBuf>,
    /// Days for which the database keeps a query.
    pub sqlite_days: u32,
    /// Queries that the database keeps.
    pub sqlite_rows: u64,
    /// One in so many queries is logged, by chance.
    pub sample: u32,
    /// Bits of a client's IPv4 address that are logged.
    pub ipv4_prefix: u8,
    /// Bits of a client's IPv6 address that are logged.
    pub ipv6_prefix: u8,
    /// The file with the secret by which addresses are hashed; absent: they are not hashed.
    pub client_secret_file: Option<PathBuf>,
    /// Slots of 64 bytes in a core's ring of records.
    pub ring: u32,
}

impl Default for QueryLogSettings {
    fn default() -> Self {
        Self {
            dnstap: None,
            dnstap_identity: None,
            json: None,
            json_size: ByteSize::mebibytes(64),
            json_files: 8,
            sqlite: None,
            sqlite_days: 7,
            sqlite_rows: 10_000_000,
            sample: 1,
            ipv4_prefix: 32,
            ipv6_prefix: 128,
            client_secret_file: None,
            ring: 65_536,
        }
    }
}

impl QueryLogSettings {
    /// Whether queries are logged.
    pub fn is_on(&self) -> bool {
        self.dnstap.is_some() || self.json.is_some() || self.sqlite.is_some()
    }

    /// The secret by which clients' addresses are hashed, if they are.
    ///
    /// # Errors
    ///
    /// What is wrong with its file.
    pub fn client_secret(&self) -> Result<Option<CookieSecret>, BrokenRule> {
        let Some(path) = &self.client_secret_file else { return Ok(None) };
        let text = read_secret(path)?;
        let secret = CookieSecret::try_from(text.trim().to_owned());
        secret.map(Some).map_err(|_| {
            BrokenRule::secret_file(path, "it has 32 hexadecimal digits: `openssl rand -hex 16`")
        })
    }
}

/// Where a dnstap reader listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnstapReader {
    /// At a unix socket.
    Unix(PathBuf),
    /// Over TCP.
    Tcp(SocketAddr),
}

impl FromStr for DnstapReader {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is neither a path nor an address with a port, as in \"/run/dnstap.sock\" or \"192.0.2.1:6000\""
            )
        })
    }
}
