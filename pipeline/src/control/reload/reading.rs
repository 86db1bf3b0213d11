//! The work of a reload's thread: it reads the files and makes the rules.

use std::fmt::Display;
use std::path::Path;

use pmdns_config::files::read_clients;
use pmdns_config::{Config, ConfigText, FixedKeys, Prefix, WrittenConfig};
use pmdns_engine::rules::{BuildError, RulesBuilder, RulesUpdate};
use pmdns_engine::upstreams::UpstreamsUpdate;
use pmdns_stages::policy::Digest;
use pmdns_streams::tls::Certificate;

use super::ReloadError;
use super::succession::{Succession, Successor};
use crate::control::metrics::server::{MetricsError, MetricsListener};
use pmdns_changes::reload::ReloadSource;

/// The result of reading.
pub(super) struct Read {
    /// With the changes of run time.
    pub(super) config: Config,
    /// The same without them, if it was read anew.
    pub(super) base: Option<Config>,
    /// The same as it was written, with its keys that need another process.
    pub(super) text: Written,
    /// The file of clients, if it was read anew.
    pub(super) clients: Option<Vec<(Prefix, u8)>>,
    pub(super) fresh: Fresh,
    /// Who brings the other keys into use.
    pub(super) successor: Successor,
    /// Where metrics are served from now on, if that is another address.
    pub(super) metrics: Option<Option<MetricsListener>>,
}

/// The new parts for the threads.
pub(super) enum Fresh {
    All(Box<RulesUpdate>),
    Upstreams(UpstreamsUpdate),
}

/// A configuration as it was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Its keys that need another process.
    pub fixed: FixedKeys,
    /// All of it.
    pub all: WrittenConfig,
}

impl Written {
    /// That of a file that was read.
    pub fn of(text: &ConfigText) -> Self {
        Self { fixed: text.fixed_keys(), all: text.written() }
    }
}

/// Makes rules. `in_use` is the configuration in use, and `written` the same as it was written.
pub(super) fn read(
    path: &Path,
    (source, written): (ReloadSource, Written),
    succession: &Succession,
    builder: RulesBuilder,
    certificate: Option<Certificate>,
    in_use: &Config,
) -> Result<Read, ReloadError> {
    // The file is not read.
    let same_file = |config, fresh| Read {
        config,
        base: None,
        text: written,
        clients: None,
        fresh,
        successor: Successor::Next,
        metrics: None,
    };
    let (config, overlay) = match source {
        ReloadSource::Upstreams(config) => {
            let fresh = builder.make_upstreams(&config)?.ok_or(ReloadError::Upstreams)?;
            return Ok(same_file(*config, Fresh::Upstreams(fresh)));
        }
        ReloadSource::Latest(config) => {
            let fresh = builder.make(&config)?.into();
            return Ok(same_file(*config, Fresh::All(fresh)));
        }
        ReloadSource::File(overlay) => (ConfigText::read(path)?, overlay),
    };
    let mut text = config;
    text.error.take().map_or(Ok(()), Err)?;
    // Changes of these need another process.
    let (clients, control) = (in_use.clients.clone(), in_use.control.clone());
    let base = Config { clients, control, ..text.config.clone() };
    let successor = succession.to(in_use, &text.config);
    let base = base.following(in_use).map_err(|error| left(&error, &successor))?;
    let config = overlay.apply(&base).map_err(ReloadError::Overlay)?;
    let clients = Some(read_clients(&config)?);
    // With changes an upstream's place is not that in the file.
    let of_file = Some(&text).filter(|_| overlay.is_empty());
    let fresh = builder.make(&config).map_err(|error| in_file(error, of_file, &successor))?;
    let fresh = Fresh::All(fresh.into());
    let is_taken = |error: MetricsError| text.of_machine("metrics.listen", error.to_string());
    let metrics = match config.metrics.listen {
        listen if listen == in_use.metrics.listen => None,
        listen => Some(listen.map(MetricsListener::bind).transpose().map_err(is_taken)?),
    };
    certificate.map_or(Ok(()), |certificate| certificate.reload())?;
    let base = Some(base);
    Ok(Read { config, base, text: Written::of(&text), clients, fresh, successor, metrics })
}

/// An error with the file and the line of its key, if it has one.
fn in_file(error: BuildError, text: Option<&ConfigText>, successor: &Successor) -> ReloadError {
    let key = match &error {
        // There is no slot, but another process has all of them.
        BuildError::Upstreams(upstreams) => upstreams.key(),
        BuildError::Rules(_) | BuildError::Cookies(_) => None,
    };
    let Some(key) = key else { return error.into() };
    match text {
        Some(text) => left(&text.of_machine(&key, error.to_string()), successor),
        None => left(&error, successor),
    }
}

/// This process cannot take the file over, because of `error`.
fn left(error: &impl Display, successor: &Successor) -> ReloadError {
    successor.instead_of(error).map_or_else(ReloadError::Restart, ReloadError::Next)
}

/// Describes rules in one line.
pub fn describe(digest: &Digest) -> String {
    let Digest {
        local_names,
        policy_names,
        skipped_rules,
        blocked_names,
        bytes,
        lists: _,
        warnings,
    } = digest;
    let mut text = format!(
        "{local_names} local names (special-use and reverse names included), \
         {policy_names} names in policy zones, {blocked_names} blocked names \
         in {:.1} MiB",
        *bytes as f64 / f64::from(1 << 20)
    );
    if *skipped_rules > 0 {
        text += &format!(", {skipped_rules} rules of policy zones left out");
    }
    match warnings.as_slice() {
        [] => {}
        [only] => text += &format!("; warning: {only}"),
        [first, ..] => {
            text +=
                &format!("; {} warnings, which the log has, the first: {first}", warnings.len());
        }
    }
    text
}
