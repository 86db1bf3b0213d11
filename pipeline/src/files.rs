//! Commands about files of configuration, which need no running instance: check, import, doctor.

use std::io::{self, Write as _};
use std::path::Path;

use pmdns::arguments::ImportFormat;
use pmdns::clients::OpenClients;
use pmdns::control::api::ApiListener;
use pmdns::control::print;
use pmdns::control::reload;
use pmdns::doctor;
use pmdns::machine::{FILES_TO_READ, Finding, Machine};
use pmdns_config::files::create_new;
use pmdns_config::{Config, ConfigError, ConfigText, NamedPath, Pin, Streams};
use pmdns_engine::slowpath::Anchors;
use pmdns_import::{Disk, Import, ServerKind};
#[cfg(feature = "dpdk")]
use pmdns_nics::dpdk;
use pmdns_stages::policy::{Ruleset, RulesetError};
use pmdns_stages::wire::name::Seed;
use pmdns_streams::encrypted::Encryption;
use pmdns_streams::tls::CertificateError;

use crate::failure::Failure;

/// A configuration may have secrets.
const MODE: u32 = 0o640;

/// Reports all errors of a config file and of the files that it names, and all that this machine does not have.
pub(super) fn check(file: &Path, elsewhere: bool) -> Result<(), Failure> {
    let read = ConfigText::read(file)?;
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
    let mut out = io::stdout().lock();
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    match rules {
        Some(rules) if wrong.is_empty() => {
            writeln!(out, "{}: {}, {rules}", file.display(), print::summary_of(settings))?;
            if let Some(pin) = pin {
                writeln!(out, "streams.certificate: its key has the pin {pin}")?;
            }
            Ok(())
        }
        _ => Err(Failure::Wrong(wrong)),
    }
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
        let findings = Machine::this().findings(&read.config);
        for Finding { key, problem, is_fatal, exit_code, condition } in findings {
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

/// Writes what another server's configuration becomes, and lists the settings that are lost.
pub(super) fn import(
    file: &Path,
    format: ImportFormat,
    output: Option<&Path>,
    is_partial: bool,
) -> Result<(), Failure> {
    let format = match format {
        ImportFormat::Auto => None,
        ImportFormat::Unbound => Some(ServerKind::Unbound),
        ImportFormat::Dnsdist => Some(ServerKind::Dnsdist),
        ImportFormat::Named => Some(ServerKind::Named),
    };
    let Import { toml, unmapped, decisive, unneeded } = pmdns_import::import(file, format, &Disk)?;
    let trouble = loads(&toml)?;
    let mut told = io::stderr().lock();
    if !decisive.is_empty() && !is_partial {
        for one in &decisive {
            writeln!(told, "{one}")?;
        }
        return Err(Failure::Decisive);
    }
    match output {
        Some(output) => {
            let failed = |source| Failure::Write { path: output.to_owned(), source };
            // An existing file may be in use, and be changed by hand.
            let mut created = create_new(output, MODE).map_err(failed)?;
            created.write_all(toml.as_bytes()).map_err(failed)?;
        }
        None => io::stdout().lock().write_all(toml.as_bytes())?,
    }
    for one in &unmapped {
        writeln!(told, "{one}")?;
    }
    if let Some(trouble) = trouble {
        writeln!(told, "on this machine it does not load yet: {trouble}")?;
    }
    writeln!(
        told,
        "{} settings were not taken over or differ; {unneeded} need nothing",
        unmapped.len()
    )?;
    if unmapped.is_empty() { Ok(()) } else { Err(Failure::Incomplete) }
}

/// Makes the rules of an imported configuration, as `check` does. Returned is what is wrong with the files that it names,
/// which may be on another machine.
fn loads(toml: &str) -> Result<Option<RulesetError>, Failure> {
    let config = Config::from_toml(toml)?;
    let load = |config: &Config| Ruleset::load(config, Seed::new([0; 16]), 1).err();
    let Some(trouble) = load(&config) else { return Ok(None) };
    let (zones, rpz, blocklists) = (Vec::new(), Vec::new(), Vec::new());
    match load(&Config { zones, rpz, blocklists, ..config }) {
        Some(error) => Err(Failure::Unloadable(error)),
        None => Ok(Some(trouble)),
    }
}

/// The pin of the certificate that encrypted clients get, if there is one.
fn spki_pin(streams: &Streams) -> Result<Option<Pin>, CertificateError> {
    let encryption = Encryption::load(streams)?;
    encryption.map(|encryption| encryption.certificate().spki_pin()).transpose()
}

/// Prints what suits pmdns here and what does not. The exit code tells the worst.
pub(super) fn examine(file: Option<&Path>, json: bool) -> Result<(), Failure> {
    let read = file.map(ConfigText::read).transpose()?;
    #[cfg(feature = "dpdk")]
    let dpdk = Some(doctor::Dpdk { version: dpdk::version(), drivers: dpdk::driver_folder() });
    #[cfg(not(feature = "dpdk"))]
    let dpdk = None;
    let findings = doctor::examine(read.as_ref(), dpdk);
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", doctor::json(&findings))?;
    } else {
        doctor::print(&findings, &mut out)?;
    }
    match doctor::worst(&findings) {
        doctor::Level::Ok => Ok(()),
        doctor::Level::Warn => Err(Failure::Unsuited),
        doctor::Level::Fail => Err(Failure::Unfit),
    }
}
