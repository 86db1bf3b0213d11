//! The command line of pmdns.

mod failure;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pmdns::arguments::{self, Arguments, Command, ConfigFile, Instance, PacketFilter};
use pmdns::capture::{TraceReport, client};
use pmdns::control::print;
use pmdns::control::profile;
use pmdns::control::reload;
use pmdns::control::report::{self, Report};
use pmdns::control::socket::{self, ANSWER_PATIENCE, ORDER_PATIENCE};
use pmdns::control::top;
use pmdns::doctor;
use pmdns::log;
use pmdns::lookup::LookupReport;
use pmdns::machine::{Finding, Machine};
use pmdns::replay;
#[cfg(feature = "dpdk")]
use pmdns::run;
use pmdns::slowpath::Anchors;
use pmdns::snapshot::{self, SnapshotError};
use pmdns_config::files::open_regular;
use pmdns_config::{Config, ConfigError, ConfigText, Pin, Streams};
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
            let fixed = text.fixed_keys();
            let settings = text.into_config()?;
            #[cfg(feature = "dpdk")]
            {
                let report = run::run(&settings, fixed, &config)?;
                if counters || json {
                    return print_report(&report, json);
                }
                Ok(print::summary(&report, &mut io::stdout().lock())?)
            }
            #[cfg(not(feature = "dpdk"))]
            {
                let _ = (settings, fixed, counters, json);
                Err(Failure::NoDpdk)
            }
        }
        Command::Check { file, elsewhere } => check(&file.config, elsewhere),
        Command::Doctor { config, json } => {
            examine(arguments::config_file(config).as_deref(), json)
        }
        Command::Replay { input, output, file, json } => {
            let config = Config::load(&file.config)?;
            print_report(&replay::replay(&config, &input, output.as_deref())?, json)
        }
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
            writeln!(out, "{}: {}, {rules}", file.display(), report::summary(settings))?;
            if let Some(pin) = pin {
                writeln!(out, "streams.certificate: its key has the pin {pin}")?;
            }
            Ok(())
        }
        _ => Err(Failure::Wrong(wrong)),
    }
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
