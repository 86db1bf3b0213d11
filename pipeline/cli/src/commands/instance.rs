//! Which configuration, and which running instance; calls to it whose reply is printed.

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pmdns_config::{ConfigText, Role, Token, TokenSecret};
use pmdns_control::answers::Done;
use pmdns_control::client::{ApiClient, ClientError};
use pmdns_control::{Ask, Call, MAX_PAGE, Page};

use crate::failure::Failure;
use crate::output::output;

/// The config file that is read without `--config`.
const DEFAULT_CONFIG: &str = "/etc/pmdns/pmdns.toml";

/// The config file to read: the one that is named, or the default one if it is there.
pub(super) fn config_file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(DEFAULT_CONFIG)).filter(|default| default.exists()))
}

/// The control socket that a config file names, or the default one if the file says nothing of it or cannot be read.
fn socket_of(config: Option<&Path>) -> PathBuf {
    let text = config.and_then(|file| ConfigText::read(file).ok());
    text.map(|text| text.config.control).unwrap_or_default().socket
}

/// Which configuration.
#[derive(Args)]
pub(super) struct ConfigFile {
    /// The config file.
    #[arg(short, long, default_value = DEFAULT_CONFIG)]
    pub(super) config: PathBuf,
}

/// Which running instance.
#[derive(Args)]
pub(super) struct Instance {
    /// The control socket of the instance. Without it, that of the config file: /run/pmdns/control.sock by default.
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// The API of an instance on another machine, instead of a socket: `https://node2.example:8053`.
    #[arg(long, value_name = "URL", requires = "token_file", conflicts_with = "socket")]
    pub(super) api: Option<String>,
    /// The file with the token that is shown to `--api`.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub(super) token_file: Option<PathBuf>,
    /// The file with the certificates of authorities for `--api`; without it those of the system.
    #[arg(long, value_name = "FILE", requires = "api")]
    pub(super) ca_file: Option<PathBuf>,
}

impl Instance {
    /// Asks this instance. It is an error if the URL is none, or one of the files cannot be read.
    pub(super) fn client(&self) -> Result<ApiClient, ClientError> {
        self.client_of(Some(Path::new(DEFAULT_CONFIG)))
    }

    /// The same. If nothing else is said, it is the one of this config file.
    pub(super) fn client_of(&self, config: Option<&Path>) -> Result<ApiClient, ClientError> {
        let (Some(url), Some(file)) = (&self.api, &self.token_file) else {
            let socket = self.socket.clone().unwrap_or_else(|| socket_of(config));
            return Ok(ApiClient::at_socket(&socket));
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

    /// Has the instance do something, and prints the sentence that says what was done.
    pub(super) fn has_done<A: Ask<Reply: Into<Done>>>(&self, asked: A) -> Result<(), Failure> {
        print_done(&self.client()?, asked)
    }

    /// Prints the reply to a call: for people, or the JSON that came.
    pub(super) fn show<A: Ask<Reply: Display>>(&self, asked: A, json: bool) -> Result<(), Failure> {
        print_reply::<A>(&self.client()?.ask(&asked.into())?, json)
    }
}

/// An instance that is changed, and for how long.
#[derive(Args)]
pub(super) struct Changing {
    /// The instance that is asked.
    #[command(flatten)]
    pub(super) instance: Instance,
    /// End the change with the process; without it the change is kept over a restart.
    #[arg(long)]
    until_restart: bool,
}

impl Changing {
    /// Has the instance make a change, and prints the sentence that says what was done.
    pub(super) fn has_done<A: Ask<Reply: Into<Done>>>(&self, asked: A) -> Result<(), Failure> {
        let call: Call = asked.clone().into();
        debug_assert!(call.route().is_kept, "its command would ignore --until-restart: {call:?}");
        print_done(&self.instance.client()?.until_restart(self.until_restart), asked)
    }
}

/// Makes a call, and prints the sentence that says what was done.
fn print_done<A: Ask<Reply: Into<Done>>>(client: &ApiClient, asked: A) -> Result<(), Failure> {
    Ok(writeln!(output(), "{}", client.done(asked)?)?)
}

/// Prints the JSON of a reply to this call: for people, or as it is.
pub(super) fn print_reply<A: Ask<Reply: Display>>(reply: &str, json: bool) -> Result<(), Failure> {
    let mut out = output();
    match json {
        true => Ok(writeln!(out, "{reply}")?),
        false => {
            let reply: A::Reply = serde_json::from_str(reply)?;
            Ok(write!(out, "{reply}")?)
        }
    }
}

/// A listing: which instance is asked, and how it is printed.
#[derive(Args)]
pub(super) struct Listing {
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Listing {
    /// Prints the reply to a call.
    pub(super) fn show<A: Ask<Reply: Display>>(&self, asked: A) -> Result<(), Failure> {
        self.instance.show(asked, self.json)
    }
}

/// The first page of a list, after this name or prefix.
pub(super) fn first_page(after: Option<String>) -> Page {
    Page { after, limit: MAX_PAGE }
}
