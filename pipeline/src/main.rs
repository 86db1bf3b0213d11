//! The command line of pmdns.

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.

mod failure;
mod files;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pmdns::arguments::{
    self, Arguments, Command, ConfigFile, HitterArguments, Instance, LimitArguments, PacketFilter,
    TraceArguments,
};
use pmdns::capture::{TraceReport, client};
use pmdns::control::print;
use pmdns::control::profile;
use pmdns::control::reload::Written;
use pmdns::control::report::Report;
use pmdns::control::socket::{self, ANSWER_PATIENCE, ORDER_PATIENCE};
use pmdns::control::top;
use pmdns::health::{State, drain, watch};
use pmdns::log;
use pmdns::lookup::LookupReport;
use pmdns::query_log::find;
use pmdns::replay;
#[cfg(feature = "dpdk")]
use pmdns::run;
use pmdns::snapshot::{self, SnapshotError};
use pmdns_config::files::open_regular;
use pmdns_config::{Config, ConfigText};
use pmdns_control::answers::{Configuration, Difference};
use pmdns_control::cache::CachePage;
use pmdns_control::hitters::{Floods, Hitters, Limits};

use serde::de::DeserializeOwned;

use failure::Failure;
use files::{check, examine, import};

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
            files::require(&text)?;
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
        Command::Import { file, format, output, partial } => {
            import(&file, format, output.as_deref(), partial)
        }
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
        Command::Block { name, suffix, action, views, instance } => {
            let words = scope_words(suffix, &views);
            print_done(&instance, &format!("block {name} {action}{words}"), None)
        }
        Command::Allow { name, suffix, views, instance } => {
            let words = scope_words(suffix, &views);
            print_done(&instance, &format!("allow {name}{words}"), None)
        }
        Command::Unblock { name, instance } => {
            print_done(&instance, &format!("unblock {name}"), None)
        }
        Command::Refresh { name, instance } => {
            print_done(&instance, &format!("refresh {name}"), None)
        }
        Command::Entries { after, instance } => {
            print_asked(&instance, &format!("entries {}", after.unwrap_or_default()))
        }
        Command::Local { command } => print_either(command.request()),
        Command::Client { command } => print_either(command.request()),
        Command::List { command } => print_either(command.request()),
        Command::Upstream { command } => print_either(command.request()),
        Command::Config { diff, instance, .. } => show_config(&instance, diff),
        Command::Dump { file, instance } => dump(&instance, &file),
        Command::Cache { name, record_type, limit, instance, json } => {
            let name = name.map(|name| format!(" name {name}")).unwrap_or_default();
            let record_type = record_type.map(|text| format!(" type {text}")).unwrap_or_default();
            let request = format!("cache limit {limit}{name}{record_type}");
            let answer = socket::ask(&instance.socket, &request, ORDER_PATIENCE)?;
            print_text::<CachePage>(&told(&answer)?, json)
        }
        Command::Load { file, instance } => {
            let failed = |source| SnapshotError::Read { path: file.clone(), source };
            let opened = open_regular(&file).map_err(failed)?;
            print_done(&instance, &file_request("load", &file)?, Some(&opened))
        }
        Command::Lookup { name, record_type, client, instance, json } => {
            let client = client.map(|client| format!(" client {client}")).unwrap_or_default();
            let request = format!("lookup {name} {record_type}{client}");
            print_text::<LookupReport>(
                &told(&socket::ask(&instance.socket, &request, ORDER_PATIENCE)?)?,
                json,
            )
        }
        Command::Capture { write, filter, count, answers, instance } => {
            let count = count.map(|count| format!(" count {count}")).unwrap_or_default();
            let answers = if answers { " answers" } else { "" };
            let request = format!("capture{}{count}{answers}", filter.words());
            let answer = client::capture(&instance.socket, &request, &write)?;
            Ok(writeln!(io::stderr(), "{}", done(&answer, Failure::Refused)?)?)
        }
        Command::Log { search } => Ok(find::run(&search, &mut io::stdout().lock())?),
        Command::Trace { search: TraceArguments { count, port, client, name, instance, json } } => {
            let filter = PacketFilter { port, client, name, stage: None, reason: None };
            let request = format!("trace{} count {count}", filter.words());
            let answer = client::ask(&instance.socket, &request, None, || false)?;
            print_text::<TraceReport>(&told(&answer)?, json)
        }
        Command::Hitters { search: HitterArguments { what, window, count, json, instance } } => {
            let request = format!("hitters {what} {window} {count}");
            print_text::<Hitters>(&asked(&instance, &request)?, json)
        }
        Command::Floods { json, instance } => {
            print_text::<Floods>(&asked(&instance, "floods")?, json)
        }
        Command::Limit { limit: LimitArguments { zone, rate, time, json, instance } } => match zone
        {
            Some(zone) => {
                let seconds = time.map(|time| format!(" {}", time.0.as_secs())).unwrap_or_default();
                let rate = rate.unwrap_or_default();
                print_done(&instance, &format!("limit {zone} {rate}{seconds}"), None)
            }
            None => print_text::<Limits>(&asked(&instance, "limits")?, json),
        },
        Command::Unlimit { zone, instance } => {
            print_done(&instance, &format!("unlimit {zone}"), None)
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

/// Prints the result of a check. The exit code tells it as well.
fn health(instance: &Instance, json: bool) -> Result<(), Failure> {
    let health = watch::check(&instance.socket, ANSWER_PATIENCE)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&health)?)?;
    } else {
        write!(out, "{health}")?;
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

/// The answer of an instance about its work.
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

/// Where an entry holds, as words of a request.
fn scope_words(suffix: bool, views: &[String]) -> String {
    let suffix = if suffix { " suffix" } else { "" };
    suffix.to_owned() + &arguments::view_words(views)
}

/// Sends a request that is answered with JSON.
fn asked(instance: &Instance, request: &str) -> Result<String, Failure> {
    told(&socket::ask(&instance.socket, request, ANSWER_PATIENCE)?)
}

/// The JSON of an answer.
fn told(answer: &str) -> Result<String, Failure> {
    match answer.strip_prefix("error: ") {
        Some(why) => Err(Failure::Refused(why.trim_end().to_owned())),
        None if answer.is_empty() => Err(Failure::Refused("the instance went away".to_owned())),
        None => Ok(answer.to_owned()),
    }
}

fn print_asked(instance: &Instance, request: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", asked(instance, request)?)?)
}

/// The same if JSON is the answer; else prints what was done.
fn print_either((request, instance, is_json): (String, Instance, bool)) -> Result<(), Failure> {
    match is_json {
        true => print_asked(&instance, &request),
        false => print_done(&instance, &request, None),
    }
}

/// Prints the configuration in use, or where the file differs from it.
fn show_config(instance: &Instance, diff: bool) -> Result<(), Failure> {
    if !diff {
        return print_text::<Configuration>(&asked(instance, "config")?, false);
    }
    let shown: Difference = serde_json::from_str(&asked(instance, "config diff")?)?;
    write!(io::stdout(), "{shown}")?;
    shown.error.map_or(Ok(()), |error| Err(Failure::Refused(error)))
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
