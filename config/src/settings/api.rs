//! The HTTP API, and who may use it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

/// `[api]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Api {
    /// Address and port of the API; absent: not over TCP.
    pub listen: Option<SocketAddr>,
    /// The unix socket of the API; absent: none.
    pub socket: Option<PathBuf>,
    /// The PEM file of its certificate and those that lead to its issuer.
    pub certificate: Option<PathBuf>,
    /// The PEM file of the certificate's private key.
    pub key: Option<PathBuf>,
    /// The PEM file of the authorities that sign clients' certificates; absent: clients need none.
    pub client_ca: Option<PathBuf>,
    /// Names by which the API is asked, besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Requests a second that one token may make.
    pub requests_per_second: u32,
    /// Whether the web console is served over TCP.
    pub console: bool,
}

impl Api {
    /// Whether it is asked anywhere.
    pub fn is_configured(&self) -> bool {
        self.listen.is_some() || self.socket.is_some()
    }
}

impl Default for Api {
    fn default() -> Self {
        Self {
            listen: None,
            socket: None,
            certificate: None,
            key: None,
            client_ca: None,
            hosts: Vec::new(),
            requests_per_second: 100,
            console: true,
        }
    }
}

/// `[[token]]`: what a client of the API shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name, for the log.
    pub name: String,
    /// Its role.
    #[serde(default)]
    pub role: Role,
    /// The file that has the token in it.
    pub secret_file: Option<PathBuf>,
    /// The token's SHA-256 instead, in hexadecimal digits.
    pub sha256: Option<String>,
}

/// The role of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// To see counters: no name that clients ask for, and no address of theirs.
    Figures,
    /// To see everything.
    #[default]
    Read,
    /// To change what can be changed, too.
    Operate,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Figures => "figures",
            Self::Read => "read",
            Self::Operate => "operate",
        })
    }
}
