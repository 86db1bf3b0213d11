//! The command line of pmdns.

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.

mod failure;
mod files;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use pmdns::arguments::{
    self, Arguments, AskedFor, Command, ConfigFile, HitterArguments, Instance, LimitArguments,
    Line, PacketFilter, Printed, TraceArguments, shown,
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
use pmdns_config::files::open_regular;
use pmdns_config::{Config, ConfigText};
use pmdns_control::answers::{Configuration, Difference, EntryPage};
use pmdns_control::cache::CachePage;
use pmdns_control::hitters::{Floods, Hitters, Limits};
use pmdns_engine::snapshot::{self, SnapshotError};

use serde::de::DeserializeOwned;

use failure::Failure;
use files::{check, examine, import};

fn main() -> ExitCode {
    let done = outlive_limits().and_then(|()| set_up_log());
    match done.and_then(|()| execute(Arguments::parse().command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "pmdns: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// A file that may grow no longer (SIGXFSZ) is refused like one on a full disk. It ends nothing, nor does a log in such a file.
fn outlive_limits() -> Result<(), Failure> {
    let noticed = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGXFSZ, noticed).map(|_| ()).map_err(Failure::Signal)
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
            print_done(&instance, Line::new("drain"), None)?;
            match wait.map(|seconds| drain::wait(&instance.socket, seconds)).transpose()? {
                Some(Err(queries)) => Err(Failure::Traffic(queries)),
                _ => Ok(()),
            }
        }
        Command::Resume { instance } => print_done(&instance, Line::new("resume"), None),
        Command::Reload { instance } => {
            let done = order(&instance, Line::new("reload"), None, Failure::Reload)?;
            Ok(writeln!(io::stdout(), "reloaded: {done}")?)
        }
        Command::Stats { instance, json } => {
            let text = socket::ask(&instance.socket, "stats", ANSWER_PATIENCE)?;
            print_json(&serde_json::from_str(&text)?, json)
        }
        Command::Purge { name, suffix, record_type, instance } => {
            let line = Line::new("purge").word(name).flag("suffix", suffix);
            print_done(&instance, line.option("type", record_type), None)
        }
        Command::Block { name, suffix, action, views, instance } => {
            let line = Line::new("block").word(name).word(action).flag("suffix", suffix);
            print_done(&instance, line.each("view", &views), None)
        }
        Command::Allow { name, suffix, views, instance } => {
            let line = Line::new("allow").word(name).flag("suffix", suffix);
            print_done(&instance, line.each("view", &views), None)
        }
        Command::Unblock { name, view, instance } => {
            print_done(&instance, Line::new("unblock").word(name).option("view", view), None)
        }
        Command::Refresh { name, instance } => {
            print_done(&instance, Line::new("refresh").word(name), None)
        }
        Command::Entries { after, listed } => print_asked(AskedFor::list(
            Line::new("entries").maybe(after),
            listed,
            shown::<EntryPage>,
        )),
        Command::Local { command } => print_asked(command.request()),
        Command::Client { command } => print_asked(command.request()),
        Command::List { command } => print_asked(command.request()),
        Command::Upstream { command } => print_asked(command.request()),
        Command::Config { diff, instance, .. } => show_config(&instance, diff),
        Command::Dump { file, instance } => dump(&instance, &file),
        Command::Cache { name, record_type, limit, instance, json } => {
            let line = Line::new("cache limit").word(limit).option("name", name);
            let request = line.option("type", record_type).text()?;
            let answer = socket::ask(&instance.socket, &request, ORDER_PATIENCE)?;
            print_text::<CachePage>(&told(&answer)?, json)
        }
        Command::Load { file, instance } => {
            let failed = |source| SnapshotError::Read { path: file.clone(), source };
            let opened = open_regular(&file).map_err(failed)?;
            print_done(&instance, file_request("load", &file)?, Some(&opened))
        }
        Command::Lookup { name, record_type, client, instance, json } => {
            let line = Line::new("lookup").word(name).word(record_type);
            let request = line.option("client", client).text()?;
            print_text::<LookupReport>(
                &told(&socket::ask(&instance.socket, &request, ORDER_PATIENCE)?)?,
                json,
            )
        }
        Command::Capture { write, filter, count, answers, instance } => {
            let line = filter.of(Line::new("capture")).option("count", count);
            let request = line.flag("answers", answers).text()?;
            let answer = client::capture(&instance.socket, &request, &write)?;
            Ok(writeln!(io::stderr(), "{}", done(&answer, Failure::Refused)?)?)
        }
        Command::Log { search } => Ok(find::run(&search, &mut io::stdout().lock())?),
        Command::Trace { search: TraceArguments { count, port, client, name, instance, json } } => {
            let filter = PacketFilter { port, client, name, stage: None, reason: None };
            let request = filter.of(Line::new("trace")).option("count", Some(count)).text()?;
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
                let line = Line::new("limit").word(zone).word(rate.unwrap_or_default());
                print_done(&instance, line.maybe(time.map(|time| time.0.as_secs())), None)
            }
            None => print_text::<Limits>(&asked(&instance, "limits")?, json),
        },
        Command::Unlimit { zone, instance } => {
            print_done(&instance, Line::new("unlimit").word(zone), None)
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
            let commit = option_env!("PMDNS_COMMIT").unwrap_or("not said by the build");
            writeln!(io::stdout(), "pmdns {}", env!("CARGO_PKG_VERSION"))?;
            writeln!(io::stdout(), "commit: {commit}")?;
            #[cfg(feature = "dpdk")]
            writeln!(io::stdout(), "{}", pmdns_nics::dpdk::version())?;
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
    line: Line,
    file: Option<&File>,
    refused: fn(String) -> Failure,
) -> Result<String, Failure> {
    done(&socket::ask_with(&instance.socket, &line.text()?, file, ORDER_PATIENCE)?, refused)
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
fn print_done(instance: &Instance, line: Line, file: Option<&File>) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", order(instance, line, file, Failure::Refused)?)?)
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

/// Sends a request, and prints what is wanted of its answer.
fn print_asked(AskedFor { line, instance, printed }: AskedFor) -> Result<(), Failure> {
    let show = match printed {
        Printed::Done => return print_done(&instance, line, None),
        Printed::Json => None,
        Printed::Text(show) => Some(show),
    };
    let json = asked(&instance, &line.text()?)?;
    let mut out = io::stdout().lock();
    match show {
        Some(show) => Ok(write!(out, "{}", show(&json)?)?),
        None => Ok(writeln!(out, "{json}")?),
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
    let done = order(instance, request, Some(whole.file()), Failure::Refused)?;
    whole.finish().map_err(failed)?;
    Ok(writeln!(io::stdout(), "{done}")?)
}

/// A request with the name of its file, which the instance uses for its log and errors.
fn file_request(word: &str, file: &Path) -> Result<Line, Failure> {
    Ok(Line::new(word).rest(std::path::absolute(file)?.display()))
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
