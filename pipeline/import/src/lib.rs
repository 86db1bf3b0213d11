//! Configurations of other servers, as far as pmdns has the same: `pmdns import`.
//!
//! A parser of each format gives statements with their lines. What they mean goes into a draft of tables
//! (`draft.rs`). `finish.rs` checks the draft as any configuration, and takes out what is not lawful, so the result always loads.

mod clients;
mod dnsdist;
mod draft;
mod finish;
mod kinds;
mod limits;
mod meaning;
mod named;
mod query_log;
mod source;
mod special;
mod unbound;

use std::path::Path;

use pmdns_config::ConfigError;

pub use source::{Disk, Files};

/// The server that a configuration file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// unbound.conf.
    Unbound,
    /// dnsdist.conf, in Lua.
    Dnsdist,
    /// named.conf.
    Named,
}

impl ServerKind {
    /// The server's name.
    fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Dnsdist => "dnsdist",
            Self::Named => "named",
        }
    }
}

/// The result of an import.
#[derive(Debug)]
pub struct Import {
    /// A configuration that loads, with comments.
    pub toml: String,
    /// The settings that it lacks or has in another form, each with its place and the reason.
    pub unmapped: Vec<String>,
    /// Those of them that decide who may ask, what they are told, or whom we ask. With any of these the file is no
    /// replacement yet.
    pub decisive: Vec<String>,
    /// How many settings pmdns needs no counterpart of.
    pub unneeded: usize,
}

/// Why nothing could be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Nothing shows whose configuration it is.
    #[error(
        "{0}: it is not clear whose configuration this is; write --format unbound, dnsdist or named"
    )]
    Unknown(String),
    /// dnsdist 2 also reads YAML.
    #[error("{0}: this is YAML; import reads dnsdist's Lua form, as in `newServer({{...}})`")]
    Yaml(String),
    /// What was made of it does not load, and nothing can be taken out.
    #[error("what the import made does not load; please report this: {0}")]
    Unlawful(#[source] Box<ConfigError>),
    /// Too much had to be taken out.
    #[error("too many settings cannot be taken over; import a smaller file")]
    TooManyMistakes,
}

/// Makes a configuration of the file at `path`, and of those that it includes. Without a `format` the file's text decides.
///
/// # Errors
///
/// An [`ImportError`] if the file cannot be read. Settings that do not fit are no error.
pub fn import(
    path: &Path,
    format: Option<ServerKind>,
    files: &dyn Files,
) -> Result<Import, ImportError> {
    let mut sources = source::Sources::new(files);
    let text = sources.open(path).map_err(ImportError::Unreadable)?;
    let format = match format {
        Some(format) => format,
        None => recognize(path, &text.text)?,
    };
    let draft = match format {
        ServerKind::Unbound => unbound::import(&text, &mut sources),
        ServerKind::Dnsdist => dnsdist::import(&text, &mut sources),
        ServerKind::Named => named::import(&text, &mut sources),
    };
    finish::finish(draft, &sources, format.name())
}

/// Whose configuration a text is: by its own words, then by the name of its file.
fn recognize(path: &Path, text: &str) -> Result<ServerKind, ImportError> {
    let shown = || path.display().to_string();
    let clauses = [
        "server:",
        "forward-zone:",
        "stub-zone:",
        "remote-control:",
        "view:",
        "include:",
        "include-toplevel:",
    ];
    let calls = [
        "newServer(",
        "newServer{",
        "setLocal(",
        "addLocal(",
        "setACL(",
        "addACL(",
        "addAction(",
        "setSecurityPollSuffix(",
    ];
    let blocks = ["options", "zone ", "acl ", "include \"", "view ", "logging", "controls", "key "];
    let yaml = ["binds:", "backends:", "packet_caches:", "query_rules:"];
    for line in text.lines().map(str::trim_start) {
        let begins = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
        // `view:addr(` is a call in Lua, of Knot Resolver.
        let is_clause = |word: &&str| {
            line.strip_prefix(word).is_some_and(|rest| {
                rest.is_empty()
                    || rest.starts_with(|c: char| c.is_whitespace() || "#\"'".contains(c))
            })
        };
        match () {
            () if begins(&calls) => return Ok(ServerKind::Dnsdist),
            () if begins(&yaml) => return Err(ImportError::Yaml(shown())),
            () if clauses.iter().any(is_clause) => return Ok(ServerKind::Unbound),
            () if begins(&blocks)
                && (line.contains('{') || line.trim_end().ends_with(['"', ';', 's'])) =>
            {
                return Ok(ServerKind::Named);
            }
            () => {}
        }
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let formats = [ServerKind::Unbound, ServerKind::Dnsdist, ServerKind::Named];
    let named = formats.into_iter().find(|format| name.contains(format.name()));
    named.ok_or_else(|| ImportError::Unknown(shown()))
}
