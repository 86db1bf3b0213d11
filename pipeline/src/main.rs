//! The command line of pmdns.

mod failure;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pmdns::arguments::{
    self, Arguments, Command, ConfigFile, ImportFormat, Instance, LocalCommand, PacketFilter,
};
use pmdns::capture::{TraceReport, client};
use pmdns::control::print;
use pmdns::control::profile;
use pmdns::control::reload::{self, Written};
use pmdns::control::report::Report;
use pmdns::control::socket::{self, ANSWER_PATIENCE, ORDER_PATIENCE};
use pmdns::control::top;
use pmdns::doctor;
use pmdns::health::{State, drain, watch};
use pmdns::log;
use pmdns::lookup::LookupReport;
use pmdns::machine::{Finding, Machine};
use pmdns::query_log::find;
use pmdns::replay;
#[cfg(feature = "dpdk")]
use pmdns::run;
use pmdns::slowpath::Anchors;
use pmdns::snapshot::{self, SnapshotError};
use pmdns_config::files::open_regular;
use pmdns_config::import::{self, Format, Import};
use pmdns_config::{Config, ConfigError, ConfigText, Pin, Streams};
use pmdns_control::answers::{Configuration, Difference};
#[cfg(feature = "dpdk")]
use pmdns_nics::dpdk;
use pmdns_stages::policy::Ruleset;
use pmdns_stages::wire::name::Seed;
use pmdns_streams::encrypted::Encryption;
use pmdns_streams::tls::CertificateError;

use serde::de::DeserializeOwned;

use failure::Failure;

fn main() -> ExitCode {
    let done = set_up_log().and_then(|()| execute(Arguments::parse().command));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "pmdns: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn set_up_log() -> Result<(), Failure> {
    Ok(log::set_up(|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))?)
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { file: ConfigFile { config }, counters, json } => {
            let text = ConfigText::read(&config)?;
            let written = Written::of(&text);
            let settings = text.into_config()?;
            #[cfg(feature = "dpdk")]
            {
                let report = run::run(&settings, written, &config)?;
                if counters || json {
                    return print_report(&report, json);
                }
                Ok(print::summary(&report, &mut io::stdout().lock())?)
            }
            #[cfg(not(feature = "dpdk"))]
            {
                let _ = (settings, written, counters, json);
                Err(Failure::NoDpdk)
            }
        }
        Command::Check { file, elsewhere } => check(&file.config, elsewhere),
        Command::Import { file, format, output } => import(&file, format, output.as_deref()),
        Command::Doctor { config, json } => {
            examine(arguments::config_file(config).as_deref(), json)
        }
        Command::Replay { input, output, file, json } => {
            let config = Config::load(&file.config)?;
            print_report(&replay::replay(&config, &input, output.as_deref())?, json)
        }
        Command::Health { file, watch: true, .. } => Ok(watch::run(&Config::load(&file.config)?)?),
        Command::Health { instance, json, .. } => health(&instance, json),
        Command::Drain { wait, instance } => {
            print_done(&instance, "drain", None)?;
            match wait.map(|seconds| drain::wait(&instance.socket, seconds)).transpose()? {
                Some(Err(queries)) => Err(Failure::Traffic(queries)),
                _ => Ok(()),
            }
        }
        Command::Resume { instance } => print_done(&instance, "resume", None),
        Command::Reload { instance } => {
            let done = order(&instance, "reload", None, Failure::Reload)?;
            Ok(writeln!(io::stdout(), "reloaded: {done}")?)
        }
        Command::Stats { instance, json } => {
            let text = socket::ask(&instance.socket, "stats", ANSWER_PATIENCE)?;
            print_json(&serde_json::from_str(&text)?, json)
        }
        Command::Purge { name, suffix, record_type, instance } => {
            let suffix = if suffix { " suffix" } else { "" };
            let record_type = record_type.map(|text| format!(" type {text}")).unwrap_or_default();
            print_done(&instance, &format!("purge {name}{suffix}{record_type}"), None)
        }
        Command::Block { name, suffix, action, instance } => {
            let suffix = if suffix { " suffix" } else { "" };
            print_done(&instance, &format!("block {name} {action}{suffix}"), None)
        }
        Command::Allow { name, suffix, instance } => {
            let suffix = if suffix { " suffix" } else { "" };
            print_done(&instance, &format!("allow {name}{suffix}"), None)
        }
        Command::Unblock { name, instance } => {
            print_done(&instance, &format!("unblock {name}"), None)
        }
        Command::Entries { after, instance } => {
            print_asked(&instance, &format!("entries {}", after.unwrap_or_default()))
        }
        Command::Local { command } => local(command),
        Command::Config { diff, instance, .. } => show_config(&instance, diff),
        Command::Dump { file, instance } => dump(&instance, &file),
        Command::Load { file, instance } => {
            let failed = |source| SnapshotError::Read { path: file.clone(), source };
            let opened = open_regular(&file).map_err(failed)?;
            print_done(&instance, &file_request("load", &file)?, Some(&opened))
        }
        Command::Lookup { name, record_type, client, instance, json } => {
            let client = client.map(|client| format!(" client {client}")).unwrap_or_default();
            let request = format!("lookup {name} {record_type}{client}");
            print_text::<LookupReport>(&order(&instance, &request, None, Failure::Refused)?, json)
        }
        Command::Capture { write, filter, count, answers, instance } => {
            let count = count.map(|count| format!(" count {count}")).unwrap_or_default();
            let answers = if answers { " answers" } else { "" };
            let request = format!("capture{}{count}{answers}", filter.words());
            let answer = client::capture(&instance.socket, &request, &write)?;
            Ok(writeln!(io::stderr(), "{}", done(&answer, Failure::Refused)?)?)
        }
        Command::Log { search } => Ok(find::run(&search, &mut io::stdout().lock())?),
        Command::Trace { count, port, client, name, instance, json } => {
            let filter = PacketFilter { port, client, name, stage: None, reason: None };
            let request = format!("trace{} count {count}", filter.words());
            let answer = client::ask(&instance.socket, &request, None, || false)?;
            print_text::<TraceReport>(&done(&answer, Failure::Refused)?, json)
        }
        Command::Top { instance: Instance { socket }, interval, once: true } => {
            Ok(top::print_once(&socket, interval, &mut io::stdout().lock())?)
        }
        Command::Top { instance, interval, once: false } => {
            Ok(top::run(&instance.socket, interval)?)
        }
        Command::Profile { seconds, output, instance } => {
            Ok(profile::run(&instance.socket, Duration::from_secs(seconds), &output)?)
        }
        Command::Version => {
            writeln!(io::stdout(), "pmdns {}", env!("CARGO_PKG_VERSION"))?;
            Ok(())
        }
    }
}

/// Reports all errors of a config file and of the files that it names, and all that this machine does not have.
fn check(file: &Path, elsewhere: bool) -> Result<(), Failure> {
    let read = ConfigText::read(file)?;
    let settings = &read.config;
    let mut wrong: Vec<String> =
        read.error.iter().flat_map(ConfigError::mistakes).map(ToString::to_string).collect();
    let mut warnings = settings.warnings();
    let (mut rules, mut pin) = (None, None);
    if wrong.is_empty() {
        // No queries come here, so the hash of names needs no secret seed.
        match Ruleset::load(settings, Seed::new([0; 16]), 1) {
            Ok((_, digest)) => {
                warnings.extend(digest.warnings.iter().cloned());
                rules = Some(reload::describe(&digest));
            }
            Err(error) => wrong.push(error.to_string()),
        }
        wrong.extend(Anchors::load(&settings.dnssec).err().map(|error| error.to_string()));
        match spki_pin(&settings.streams) {
            Ok(found) => pin = found,
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let findings = match elsewhere {
        true => Vec::new(),
        false => Machine::this().findings(settings),
    };
    for Finding { key, problem, is_fatal } in findings {
        let told = read.of_machine(&key, problem).to_string();
        if is_fatal { &mut wrong } else { &mut warnings }.push(told);
    }
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

/// Writes what another server's configuration becomes, and lists the settings that are lost.
fn import(file: &Path, format: ImportFormat, output: Option<&Path>) -> Result<(), Failure> {
    let format = match format {
        ImportFormat::Auto => None,
        ImportFormat::Unbound => Some(Format::Unbound),
        ImportFormat::Dnsdist => Some(Format::Dnsdist),
        ImportFormat::Named => Some(Format::Named),
    };
    let Import { toml, unmapped, unneeded } = import::import(file, format, &import::Disk)?;
    match output {
        Some(output) => {
            let failed = |source| Failure::Write { path: output.to_owned(), source };
            // An existing file may be in use, and be changed by hand.
            let mut created = File::create_new(output).map_err(failed)?;
            created.write_all(toml.as_bytes()).map_err(failed)?;
        }
        None => io::stdout().lock().write_all(toml.as_bytes())?,
    }
    let mut told = io::stderr().lock();
    for one in &unmapped {
        writeln!(told, "{one}")?;
    }
    writeln!(
        told,
        "{} settings were not taken over or differ; {unneeded} need nothing",
        unmapped.len()
    )?;
    if unmapped.is_empty() { Ok(()) } else { Err(Failure::Incomplete) }
}

/// The pin of the certificate that encrypted clients get, if there is one.
fn spki_pin(streams: &Streams) -> Result<Option<Pin>, CertificateError> {
    let encryption = Encryption::load(streams)?;
    encryption.map(|encryption| encryption.certificate().spki_pin()).transpose()
}

/// Prints what suits pmdns here and what does not. The exit code tells the worst.
fn examine(file: Option<&Path>, json: bool) -> Result<(), Failure> {
    let read = file.map(ConfigText::read).transpose()?;
    #[cfg(feature = "dpdk")]
    let dpdk = Some(doctor::Dpdk { version: dpdk::version(), drivers: dpdk::driver_folder() });
    #[cfg(not(feature = "dpdk"))]
    let dpdk = None;
    let findings =
        doctor::examine(read.as_ref().map(|text| (&text.config, text.error.as_ref())), dpdk);
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

/// Prints the result of a check. The exit code tells it as well.
fn health(instance: &Instance, json: bool) -> Result<(), Failure> {
    let health = watch::check(&instance.socket, ANSWER_PATIENCE)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&health)?)?;
    } else {
        writeln!(out, "{}", health.state)?;
        health.problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
    }
    match health.state {
        State::Drained => Err(Failure::Drained),
        State::Serving if health.healthy => Ok(()),
        State::Serving => Err(Failure::Unhealthy),
    }
}

/// Sends a request to a running instance, and returns its answer.
fn order(
    instance: &Instance,
    request: &str,
    file: Option<&File>,
    refused: fn(String) -> Failure,
) -> Result<String, Failure> {
    done(&socket::ask_with(&instance.socket, request, file, ORDER_PATIENCE)?, refused)
}

/// What an instance says that it has done.
fn done(answer: &str, refused: fn(String) -> Failure) -> Result<String, Failure> {
    match answer.trim().split_once(' ') {
        Some(("ok", done)) => Ok(done.to_owned()),
        Some(("error:", why)) => Err(refused(why.to_owned())),
        _ => Err(refused("the instance went away, or does not know this request".to_owned())),
    }
}

/// The same, and prints the answer.
fn print_done(instance: &Instance, request: &str, file: Option<&File>) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", order(instance, request, file, Failure::Refused)?)?)
}

/// Sends a request that is answered with JSON.
fn asked(instance: &Instance, request: &str) -> Result<String, Failure> {
    let answer = socket::ask(&instance.socket, request, ANSWER_PATIENCE)?;
    match answer.strip_prefix("error: ") {
        Some(why) => Err(Failure::Refused(why.trim_end().to_owned())),
        None => Ok(answer),
    }
}

fn print_asked(instance: &Instance, request: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", asked(instance, request)?)?)
}

fn local(command: LocalCommand) -> Result<(), Failure> {
    match command {
        LocalCommand::Add { name, record_type, data, ttl, instance } => {
            print_done(&instance, &format!("local add {name} {record_type} {ttl} {data}"), None)
        }
        LocalCommand::Remove { name, record_type, instance } => {
            let record_type = record_type.unwrap_or_default();
            print_done(&instance, &format!("local remove {name} {record_type}"), None)
        }
        LocalCommand::List { after, instance } => {
            print_asked(&instance, &format!("local list {}", after.unwrap_or_default()))
        }
    }
}

/// Prints the configuration in use, or where the file differs from it.
fn show_config(instance: &Instance, diff: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if !diff {
        let shown: Configuration = serde_json::from_str(&asked(instance, "config")?)?;
        write!(out, "{}", shown.toml)?;
        let (entries, records) = (shown.entries.len(), shown.records.len());
        writeln!(
            out,
            "# {entries} names and {records} local records of run time: `pmdns entries`, `pmdns local list`"
        )?;
        return Ok(());
    }
    let shown: Difference = serde_json::from_str(&asked(instance, "config diff")?)?;
    for key in &shown.keys {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
        let how = if key.needs_restart { "restart" } else { "reload" };
        writeln!(
            out,
            "{}: {} in use, {} in the file ({how})",
            key.key,
            value(&key.running),
            value(&key.file)
        )?;
    }
    writeln!(
        out,
        "{} keys differ; {} names and {} local records of run time are in no file of configuration",
        shown.keys.len(),
        shown.entries,
        shown.records
    )?;
    match shown.error {
        Some(error) => Err(Failure::Refused(error)),
        None => Ok(()),
    }
}

/// Prints a report that came as JSON.
fn print_text<R: DeserializeOwned + Display>(text: &str, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match json {
        true => Ok(writeln!(out, "{text}")?),
        false => Ok(write!(out, "{}", serde_json::from_str::<R>(text)?)?),
    }
}

/// Creates a file with the user's own rights, has the instance write it, and gives it its name at the end.
fn dump(instance: &Instance, file: &Path) -> Result<(), Failure> {
    let failed = |source| SnapshotError::Write { path: file.to_owned(), source };
    let whole = snapshot::create(file).map_err(failed)?;
    let request = file_request("dump", file)?;
    let done = order(instance, &request, Some(whole.file()), Failure::Refused)?;
    whole.finish().map_err(failed)?;
    Ok(writeln!(io::stdout(), "{done}")?)
}

/// A request with the name of its file, which the instance uses for its log and errors.
fn file_request(word: &str, file: &Path) -> Result<String, Failure> {
    Ok(format!("{word} {}", std::path::absolute(file)?.display()))
}

fn print_report(report: &Report, json: bool) -> Result<(), Failure> {
    print_json(&serde_json::to_value(report)?, json)
}

fn print_json(report: &serde_json::Value, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{report}")?;
    } else {
        print::print_for_people(report, &mut out)?;
    }
    Ok(())
}
