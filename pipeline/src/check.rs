//! Checks of configurations: of their files, their rules, and the machine that they are for.

use std::path::Path;

use pmdns::clients::OpenClients;
use pmdns::control::api::ApiListener;
use pmdns::control::reload;
use pmdns::machine::{self, FILES_TO_READ};
use pmdns_cli::CheckReport;
use pmdns_config::{Config, ConfigError, ConfigText, NamedPath, Pin, Streams};
use pmdns_engine::slowpath::Anchors;
use pmdns_nics::machine::{Lack, Machine, UnmetCondition};
use pmdns_stages::policy::Ruleset;
use pmdns_stages::wire::name::Seed;
use pmdns_streams::encrypted::Encryption;
use pmdns_streams::tls::CertificateError;

use crate::failure::Failure;

/// Reports all errors of a config file and of the files that it names, and all that this machine does not have.
pub(super) fn check(file: &Path, elsewhere: bool) -> CheckReport {
    let read = match ConfigText::read(file) {
        Ok(read) => read,
        Err(error) => {
            return CheckReport { lines: Vec::new(), error: Some(Failure::Config(error).into()) };
        }
    };
    let settings = &read.config;
    let mut wrong: Vec<String> =
        read.error.iter().flat_map(ConfigError::mistakes).map(ToString::to_string).collect();
    let mut warnings = settings.warnings();
    let lacks = if elsewhere { Lacks::default() } else { Lacks::of(&read) };
    let (mut rules, mut pin) = (None, None);
    // Files that cannot be read are lacks.
    if wrong.is_empty() && !lacks.has_files {
        // No queries come here, so the hash of names needs no secret seed.
        match Ruleset::load(settings, Seed::new([0; 16]), 1) {
            Ok((_, mut digest)) => {
                warnings.append(&mut digest.warnings);
                rules = Some(reload::describe(&digest));
            }
            Err(error) => wrong.push(at_key(&read, error)),
        }
        wrong.extend(OpenClients::read(settings).err().map(|error| at_key(&read, error)));
        wrong.extend(Anchors::load(&settings.dnssec).err().map(|error| at_key(&read, error)));
        wrong.extend(ApiListener::check(settings).err().map(|error| at_key(&read, error)));
        let kept = settings.control.entries.as_deref().map(pmdns_changes::read);
        wrong.extend(kept.and_then(Result::err).map(|error| at_key(&read, error)));
        match spki_pin(&settings.streams) {
            Ok(found) => pin = found,
            Err(error) => wrong.push(at_key(&read, error)),
        }
    }
    // Rules have told of secrets in files already.
    let is_told =
        |told: &[String], key: &str| told.iter().any(|one| one.contains(&format!(" `{key}` ")));
    for (key, lack) in lacks.fatal {
        if !is_told(&wrong, &key) {
            wrong.push(lack);
        }
    }
    warnings.extend(lacks.other);
    let mut lines: Vec<String> =
        warnings.into_iter().map(|warning| format!("warning: {warning}")).collect();
    let Some(rules) = rules.filter(|_| wrong.is_empty()) else {
        return CheckReport { lines, error: Some(Failure::Wrong(wrong).into()) };
    };
    lines.push(format!("{}: {}, {rules}", file.display(), summary_of(settings)));
    lines.extend(pin.map(|pin| format!("streams.certificate: its key has the pin {pin}")));
    CheckReport { lines, error: None }
}

/// A summary of a configuration.
fn summary_of(config: &Config) -> String {
    format!(
        "{} port(s), {} upstream(s), {} local record(s), {} zone file(s), {} blocked name(s), {} block \
         list(s), cache {}",
        config.ports.len(),
        config.upstreams.len(),
        config.local.len(),
        config.zones.len(),
        config.block.names.len(),
        config.blocklists.len(),
        config.cache.size,
    )
}

/// An error about a file, with the line of the key that names the file.
fn at_key(read: &ConfigText, error: impl std::fmt::Display) -> String {
    let told = error.to_string();
    let located = read.config.paths().into_iter().find_map(|NamedPath { key, path, .. }| {
        let problem = match told.strip_prefix(&format!("{key}: ")) {
            Some(problem) => problem.to_owned(),
            None => {
                let rest = told.strip_prefix(&*path.to_string_lossy())?;
                rest.starts_with([':', ',']).then(|| format!("leads to {told}"))?
            }
        };
        Some(read.of_machine(&key, problem).to_string())
    });
    located.unwrap_or(told)
}

/// What this machine lacks for a configuration, with the lines of the keys.
#[derive(Default)]
struct Lacks {
    /// With their keys.
    fatal: Vec<(String, String)>,
    other: Vec<String>,
    /// Of the first fatal one.
    exit_code: u8,
    /// Whether files are among them that the configuration needs.
    has_files: bool,
}

impl Lacks {
    fn of(read: &ConfigText) -> Self {
        let mut this = Self::default();
        let unmet = machine::unmet(&Machine::this(), &read.config);
        for UnmetCondition { lack: Lack { key, problem, is_fatal }, exit_code, condition } in unmet
        {
            let told = read.of_machine(&key, problem).to_string();
            this.has_files |= condition == FILES_TO_READ;
            if is_fatal && this.fatal.is_empty() {
                this.exit_code = exit_code;
            }
            match is_fatal {
                true => this.fatal.push((key, told)),
                false => this.other.push(told),
            }
        }
        this
    }
}

/// Refuses to start on a machine that lacks something, which `check` reports in the same words.
pub(super) fn require(read: &ConfigText) -> Result<(), Failure> {
    if read.error.is_some() {
        return Ok(());
    }
    let Lacks { fatal, other, exit_code, .. } = Lacks::of(read);
    for told in other {
        tracing::warn!("{told}");
    }
    match fatal.is_empty() {
        true => Ok(()),
        false => Err(Failure::Unmet(fatal.into_iter().map(|(_, told)| told).collect(), exit_code)),
    }
}

/// Makes the rules of an imported configuration, as `check` does. Returned is what is wrong with the files that it names,
/// which may be on another machine.
pub(super) fn trouble_of(toml: &str) -> Result<Option<String>, Failure> {
    let config = Config::from_toml(toml)?;
    let load = |config: &Config| Ruleset::load(config, Seed::new([0; 16]), 1).err();
    let Some(trouble) = load(&config) else { return Ok(None) };
    let (zones, rpz, blocklists) = (Vec::new(), Vec::new(), Vec::new());
    match load(&Config { zones, rpz, blocklists, ..config }) {
        Some(error) => Err(Failure::Unloadable(error)),
        None => Ok(Some(trouble.to_string())),
    }
}

/// The pin of the certificate that encrypted clients get, if there is one.
fn spki_pin(streams: &Streams) -> Result<Option<Pin>, CertificateError> {
    let encryption = Encryption::load(streams)?;
    encryption.map(|encryption| encryption.certificate().spki_pin()).transpose()
}
