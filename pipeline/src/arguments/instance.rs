//! Which configuration, and which running instance.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pmdns_config::{Control, Role, Token, TokenSecret};
use pmdns_control::client::{ApiClient, ClientError};

/// The config file that is read without `--config`.
const DEFAULT_CONFIG: &str = "/etc/pmdns/pmdns.toml";

/// The config file to read: the one that is named, or the default one if it is there.
pub fn config_file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(DEFAULT_CONFIG)).filter(|default| default.exists()))
}

/// Which configuration.
#[derive(Args)]
pub struct ConfigFile {
    /// The config file.
    #[arg(short, long, default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// Which running instance.
#[derive(Args)]
pub struct Instance {
    /// The control socket of the instance: `control.socket` of its config.
    #[arg(long, default_value_os_t = Control::default().socket)]
    pub socket: PathBuf,
    /// The API of an instance on another machine, instead of a socket: `https://node2.example:8053`.
    #[arg(long, value_name = "URL", requires = "token_file", conflicts_with = "socket")]
    pub api: Option<String>,
    /// The file with the token that is shown to `--api`.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub token_file: Option<PathBuf>,
    /// The file with the certificates of authorities for `--api`; without it those of the system.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub ca_file: Option<PathBuf>,
}

impl Instance {
    /// Asks this instance.
    ///
    /// # Errors
    ///
    /// The URL is none, or one of the files cannot be read.
    pub fn client(&self) -> Result<ApiClient, ClientError> {
        let (Some(url), Some(file)) = (&self.api, &self.token_file) else {
            return Ok(ApiClient::at_socket(&self.socket));
        };
        let token = Token {
            name: String::new(),
            role: Role::Figures,
            secret_file: Some(file.clone()),
            sha256: None,
        };
        match token.secret() {
            Ok(TokenSecret::Text(token)) => ApiClient::at_url(url, token, self.ca_file.as_deref()),
            Ok(TokenSecret::Digest(_)) => {
                Err(ClientError::Server("--token-file: it has no token".to_owned()))
            }
            Err(problem) => Err(ClientError::Server(format!("--token-file: {problem}"))),
        }
    }
}

/// The server whose configuration is imported.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum ImportFormat {
    /// What the file's text says.
    #[default]
    Auto,
    /// unbound.conf.
    Unbound,
    /// dnsdist.conf, in Lua.
    Dnsdist,
    /// named.conf of BIND.
    Named,
}
