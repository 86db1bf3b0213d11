//! The command line of pmdns.

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.

mod failure;
mod files;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use pmdns::arguments::{
    self, Arguments, AskedFor, Command, Instance, PacketFilter, Printed, TraceArguments,
};
use pmdns::capture::client;
use pmdns::control::print;
use pmdns::control::profile;
#[cfg(feature = "dpdk")]
use pmdns::control::reload::Written;
use pmdns::control::report::Report;
use pmdns::control::top;
use pmdns::health::{NodeHealth, NodeState, drain, watch};
use pmdns::log;
use pmdns::query_log::find;
use pmdns::replay;
#[cfg(feature = "dpdk")]
use pmdns::run;
use pmdns_config::files::open_regular;
use pmdns_config::{Config, ConfigText};
use pmdns_control::Call;
use pmdns_control::answers::ConfigDifference;
use pmdns_control::client::{ANSWER_PATIENCE, ApiClient, ClientError, printable};
use pmdns_control::trace::{MAX_SECONDS, MAX_SECONDS_OF_USERS, PacketSearch, TraceReport};
use pmdns_engine::snapshot::{self, SnapshotError};

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
    let command = match command.asked() {
        Ok(asked) => return print_asked(asked),
        Err(command) => command,
    };
    match command {
        Command::Run { file, counters, json } => run(&file.config, counters, json),
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
        Command::Drain { wait, instance } => drain(&instance.client()?, wait),
        Command::Reload { instance } => match instance.client()?.done(&Call::Reload) {
            Ok(done) => Ok(writeln!(io::stdout(), "reloaded: {done}")?),
            Err(ClientError::Refused(why)) => Err(Failure::Reload(why)),
            Err(error) => Err(error.into()),
        },
        Command::Stats { instance, json } => {
            let report = instance.client()?.get_within(&Call::Stats, ANSWER_PATIENCE)?;
            print_json(&report, json)
        }
        Command::Config { instance, json, .. } => show_difference(&instance.client()?, json),
        Command::Dump { file, instance } => dump(&instance.client()?, &file),
        Command::Load { file, instance } => {
            let failed = |source| SnapshotError::Read { path: file.clone(), source };
            let mut opened = open_regular(&file).map_err(failed)?;
            // Before anything of it is taken in.
            snapshot::check(&opened, &file)?;
            let done = instance.client()?.upload(&Call::CacheLoad, &mut opened)?;
            Ok(writeln!(io::stdout(), "{done}")?)
        }
        Command::Capture { write, filter, count, answers, instance } => {
            let (client, search) = (instance.client()?, filter.search(longest_watch(&instance)));
            let count = Some(count.unwrap_or(u32::MAX));
            let call = Call::Capture(PacketSearch { count, answers, ..search });
            let done = client::capture(&client, &call, &write)?;
            Ok(writeln!(io::stderr(), "{done}")?)
        }
        Command::Log { search } => Ok(find::run(&search, &mut io::stdout().lock())?),
        Command::Trace { search } => trace(search),
        Command::Top { instance, interval, once: true } => {
            Ok(top::print_once(&instance.client()?, interval, &mut io::stdout().lock())?)
        }
        Command::Top { instance, interval, once: false } => {
            Ok(top::run(&instance.client()?, interval)?)
        }
        Command::Profile { seconds, output, instance } => {
            Ok(profile::run(&instance.client()?, Duration::from_secs(seconds), &output)?)
        }
        Command::Version => version(),
        _ => unreachable!("it is one call"),
    }
}

#[cfg(feature = "dpdk")]
fn run(config: &Path, counters: bool, json: bool) -> Result<(), Failure> {
    let text = ConfigText::read(config)?;
    let written = Written::of(&text);
    files::require(&text)?;
    let report = run::run(&text.into_config()?, written, config)?;
    if counters || json {
        return print_report(&report, json);
    }
    Ok(print::summary(&report, &mut io::stdout().lock())?)
}

#[cfg(not(feature = "dpdk"))]
fn run(config: &Path, _: bool, _: bool) -> Result<(), Failure> {
    let text = ConfigText::read(config)?;
    files::require(&text)?;
    text.into_config()?;
    Err(Failure::NoDpdk)
}

/// Prints the result of a check. The exit code tells it as well.
fn health(instance: &Instance, json: bool) -> Result<(), Failure> {
    let health: NodeHealth = instance.client()?.get_within(&Call::Health, ANSWER_PATIENCE)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&health)?)?;
    } else {
        write!(out, "{}", printable(&health.to_string()))?;
    }
    match health.state {
        NodeState::Drained => Err(Failure::Drained),
        NodeState::Serving if health.healthy => Ok(()),
        NodeState::Serving => Err(Failure::Unhealthy),
    }
}

fn drain(instance: &ApiClient, wait: Option<u64>) -> Result<(), Failure> {
    writeln!(io::stdout(), "{}", instance.done(&Call::Drain)?)?;
    match wait.map(|seconds| drain::wait(instance, seconds)).transpose()? {
        Some(Err(queries)) => Err(Failure::Traffic(queries)),
        _ => Ok(()),
    }
}

/// Makes a call, and prints what is wanted of its answer.
fn print_asked(asked: AskedFor) -> Result<(), Failure> {
    let AskedFor { call, instance, until_restart, printed } = asked;
    let client = instance.client()?.until_restart(until_restart);
    let mut out = io::stdout().lock();
    match printed {
        Printed::Done => Ok(writeln!(out, "{}", client.done(&call)?)?),
        Printed::Json => Ok(writeln!(out, "{}", client.ask(&call)?)?),
        Printed::Text(show) => Ok(write!(out, "{}", printable(&show(&client.ask(&call)?)?))?),
    }
}

/// Prints where the file differs from the configuration in use.
fn show_difference(instance: &ApiClient, json: bool) -> Result<(), Failure> {
    let shown: ConfigDifference = instance.get(&Call::ConfigDiff)?;
    match json {
        true => writeln!(io::stdout(), "{}", serde_json::to_string(&shown)?)?,
        false => write!(io::stdout(), "{}", printable(&shown.to_string()))?,
    }
    shown.error.map_or(Ok(()), |error| Err(ClientError::Refused(error).into()))
}

/// Writes the cache of an instance into a file with the user's own rights, which gets its name at the end.
fn dump(instance: &ApiClient, file: &Path) -> Result<(), Failure> {
    let failed = |source| SnapshotError::Write { path: file.to_owned(), source };
    let whole = snapshot::create(file).map_err(failed)?;
    let done = instance.download(&Call::CacheDump, &mut whole.file(), || false);
    let done = done.map_err(|error| match error {
        ClientError::File(source) => failed(source).into(),
        error => Failure::from(error),
    })?;
    whole.finish().map_err(failed)?;
    Ok(writeln!(io::stdout(), "{done}")?)
}

fn trace(search: TraceArguments) -> Result<(), Failure> {
    let TraceArguments { count, port, client, name, instance, json } = search;
    let filter = PacketFilter { port, client, name, stage: None, reason: None };
    let search = PacketSearch { count: Some(count), ..filter.search(longest_watch(&instance)) };
    let told = client::told_to_end().map_err(Failure::Signal)?;
    let text =
        instance.client()?.ask_until(&Call::Trace(search), || told.load(Ordering::Relaxed))?;
    let mut out = io::stdout().lock();
    match json {
        true => Ok(writeln!(out, "{text}")?),
        false => {
            let report: TraceReport = serde_json::from_str(&text)?;
            Ok(write!(out, "{}", printable(&report.to_string()))?)
        }
    }
}

/// For how many seconds packets of an instance may be watched.
fn longest_watch(instance: &Instance) -> u32 {
    if instance.api.is_some() { MAX_SECONDS } else { MAX_SECONDS_OF_USERS }
}

fn version() -> Result<(), Failure> {
    let commit = option_env!("PMDNS_COMMIT").unwrap_or("not said by the build");
    writeln!(io::stdout(), "pmdns {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(io::stdout(), "commit: {commit}")?;
    #[cfg(feature = "dpdk")]
    writeln!(io::stdout(), "{}", pmdns_nics::dpdk::version())?;
    Ok(())
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
