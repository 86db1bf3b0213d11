//! The command line of pmdns.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
#[cfg(feature = "dpdk")]
use pmdns::control::metrics::server::MetricsError;
use pmdns::control::print;
use pmdns::control::profile::{self, ProfileError};
use pmdns::control::reload;
use pmdns::control::report::{self, Report};
use pmdns::control::socket::{self, ANSWER_PATIENCE, ORDER_PATIENCE};
use pmdns::control::top::{self, TopError};
#[cfg(feature = "dpdk")]
use pmdns::engine::EngineError;
use pmdns::replay::{self, ReplayError};
#[cfg(feature = "dpdk")]
use pmdns::run::{self, RunError};
use pmdns::slowpath::{AnchorError, Anchors};
use pmdns::snapshot::{self, SnapshotError};
#[cfg(feature = "dpdk")]
use pmdns::transfer::TransferError;
use pmdns_config::files::open_regular;
use pmdns_config::{Config, ConfigError};
use pmdns_nics::device;
use pmdns_stages::policy::{Ruleset, RulesetError};
use pmdns_stages::wire::name::Seed;
use tracing_subscriber::EnvFilter;

/// A poll-mode DNS caching forwarder.
#[derive(Parser)]
#[command(name = "pmdns", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until SIGINT or SIGTERM.
    Run {
        /// The config file.
        #[arg(short, long)]
        config: PathBuf,
        /// Print the final counters as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say whether a config file is right, and if not, what to change.
    Check {
        /// The config file.
        #[arg(short, long)]
        config: PathBuf,
    },
    /// Run a capture through the line, as an ordinary user, and print the counters.
    Replay {
        /// The capture: classic pcap, Ethernet.
        input: PathBuf,
        /// Where the answers go.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// The config file.
        #[arg(short, long)]
        config: PathBuf,
        /// Print the counters as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Have a running instance read its rules anew: access, rate limits, local records, zones, blocked names.
    Reload {
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Print the counters of a running instance.
    Stats {
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take answers out of the cache of a running instance.
    Purge {
        /// The name they are for.
        name: String,
        /// Those for names below it too.
        #[arg(long)]
        suffix: bool,
        /// Only those of this record type.
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Write the cache of a running instance to a file.
    Dump {
        /// The file.
        file: PathBuf,
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Put the answers of such a file into the cache of a running instance.
    Load {
        /// The file.
        file: PathBuf,
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Show a running instance on the terminal, second by second; q quits, space pauses.
    Top {
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
        /// Seconds between two looks, 0.1 to 3600.
        #[arg(long, default_value = "1", value_parser = interval)]
        interval: Duration,
        /// Print one frame as text, for files and pipes.
        #[arg(long)]
        once: bool,
    },
    /// Watch a running instance for some time and write a page with plots.
    Profile {
        /// How long, 1 to 3600.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(profile::SECONDS))]
        seconds: u64,
        /// The page: one HTML file that needs nothing else.
        #[arg(short, long)]
        output: PathBuf,
        /// Its control socket [default: that of a config without `control.socket`].
        #[arg(long)]
        socket: Option<PathBuf>,
    },
    /// Print the version.
    Version,
}

/// Seconds between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = top::INTERVALS;
    let seconds =
        text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| (least..=most).contains(seconds))
        .ok_or_else(|| format!("write seconds, {} to {}", least.as_secs_f64(), most.as_secs()))
}

/// What went wrong, and so what the process exits with.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Rules(#[from] RulesetError),
    #[error(transparent)]
    Anchors(#[from] AnchorError),
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Run(#[from] RunError),
    #[cfg(not(feature = "dpdk"))]
    #[error("this pmdns was built without DPDK: `replay` and `check` work, `run` does not")]
    NoDpdk,
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Socket(#[from] socket::SocketError),
    #[error("the instance sent no report: {0}")]
    Report(#[from] serde_json::Error),
    #[error(transparent)]
    Top(#[from] TopError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("not reloaded, the rules in use stay: {0}")]
    Reload(String),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failure {
    /// Exit codes are documented in docs/operations.md.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Rules(_) | Self::Anchors(_) => 2,
            #[cfg(feature = "dpdk")]
            Self::Run(error) => match error {
                RunError::Topology(_)
                | RunError::Engine(EngineError::Rules(_) | EngineError::Anchors(_))
                | RunError::Transfer(TransferError::Key(_) | TransferError::Name(_)) => 2,
                RunError::Eal(_) | RunError::Pool(_) => 3,
                RunError::Port(_) | RunError::NoPortLeft => 4,
                RunError::Socket(_)
                | RunError::Metrics(MetricsError::Listen { .. })
                | RunError::Transfer(TransferError::Listen { .. }) => 5,
                RunError::Engine(_)
                | RunError::Metrics(MetricsError::Thread(_))
                | RunError::Transfer(TransferError::Thread(_))
                | RunError::Signal(_)
                | RunError::ThreadEnded => 1,
            },
            #[cfg(not(feature = "dpdk"))]
            Self::NoDpdk => 3,
            Self::Replay(ReplayError::Topology(_)) | Self::Reload(_) => 2,
            Self::Socket(_)
            | Self::Top(TopError::Socket(_))
            | Self::Profile(ProfileError::Ask(TopError::Socket(_))) => 5,
            Self::Top(TopError::NoTerminal) => 2,
            Self::Top(_) | Self::Profile(_) => 1,
            Self::Replay(_) | Self::Report(_) => 1,
            Self::Refused(_) | Self::File(_) | Self::Print(_) => 1,
        }
    }
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("PMDNS_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_target(false)
        .init();
    match execute(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "pmdns: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { config, json } => {
            let settings = Config::load(&config)?;
            #[cfg(feature = "dpdk")]
            return print_report(&run::run(&settings, &config)?, json);
            #[cfg(not(feature = "dpdk"))]
            {
                let _ = (settings, json);
                Err(Failure::NoDpdk)
            }
        }
        Command::Check { config } => {
            let settings = Config::load(&config)?;
            // The files it names are part of it. Names are hashed with a secret, but nobody asks for these.
            let (_, digest) = Ruleset::load(&settings, Seed::new([0; 16]), 1)?;
            Anchors::load(&settings.dnssec)?;
            let mut out = io::stdout().lock();
            let doubts = settings.ports.iter().filter_map(|port| {
                let doubt = device::doubt(Path::new(device::SYS), &port.device)?;
                Some(format!("port {}: {doubt}", port.name))
            });
            let warnings = settings.warnings().into_iter().chain(digest.warnings.iter().cloned());
            for warning in warnings.chain(doubts) {
                writeln!(out, "warning: {warning}")?;
            }
            let (summary, rules) = (report::summary(&settings), reload::describe(&digest));
            writeln!(out, "{}: {summary}, {rules}", config.display())?;
            Ok(())
        }
        Command::Replay { input, output, config, json } => {
            let config = Config::load(&config)?;
            print_report(&replay::replay(&config, &input, output.as_deref())?, json)
        }
        Command::Reload { socket } => {
            let done = order(socket, "reload", None, Failure::Reload)?;
            Ok(writeln!(io::stdout(), "reloaded: {done}")?)
        }
        Command::Stats { socket, json } => {
            let text = socket::ask(&path_of(socket), "stats", ANSWER_PATIENCE)?;
            print_json(&serde_json::from_str(&text)?, json)
        }
        Command::Purge { name, suffix, record_type, socket } => {
            let suffix = if suffix { " suffix" } else { "" };
            let record_type = record_type.map(|text| format!(" type {text}")).unwrap_or_default();
            print_done(socket, &format!("purge {name}{suffix}{record_type}"), None)
        }
        Command::Dump { file, socket } => dump(socket, &file),
        Command::Load { file, socket } => {
            let failed = |source| SnapshotError::Read { path: file.clone(), source };
            let opened = open_regular(&file).map_err(failed)?;
            print_done(socket, &file_request("load", &file)?, Some(&opened))
        }
        Command::Top { socket, interval, once: true } => {
            Ok(top::print_once(&path_of(socket), interval, &mut io::stdout().lock())?)
        }
        Command::Top { socket, interval, once: false } => Ok(top::run(&path_of(socket), interval)?),
        Command::Profile { seconds, output, socket } => {
            Ok(profile::run(&path_of(socket), Duration::from_secs(seconds), &output)?)
        }
        Command::Version => {
            writeln!(io::stdout(), "pmdns {}", env!("CARGO_PKG_VERSION"))?;
            Ok(())
        }
    }
}

/// Has a running instance do something, and gives what it says of it.
fn order(
    socket: Option<PathBuf>,
    request: &str,
    file: Option<&File>,
    refused: fn(String) -> Failure,
) -> Result<String, Failure> {
    let answer = socket::ask_with(&path_of(socket), request, file, ORDER_PATIENCE)?;
    match answer.trim().split_once(' ') {
        Some(("ok", done)) => Ok(done.to_owned()),
        Some(("error:", why)) => Err(refused(why.to_owned())),
        _ => Err(refused("the instance went away, or does not know this request".to_owned())),
    }
}

/// The same, for what is printed as it is said.
fn print_done(socket: Option<PathBuf>, request: &str, file: Option<&File>) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", order(socket, request, file, Failure::Refused)?)?)
}

/// Makes a file with our own rights, has the instance write it, and gives it its name when that is done.
fn dump(socket: Option<PathBuf>, file: &Path) -> Result<(), Failure> {
    let failed = |source| SnapshotError::Write { path: file.to_owned(), source };
    let whole = snapshot::create(file).map_err(failed)?;
    let request = file_request("dump", file)?;
    let done = order(socket, &request, Some(whole.file()), Failure::Refused)?;
    whole.finish().map_err(failed)?;
    Ok(writeln!(io::stdout(), "{done}")?)
}

/// A request with the name of the file that goes with it, for the log and for errors.
fn file_request(word: &str, file: &Path) -> Result<String, Failure> {
    Ok(format!("{word} {}", std::path::absolute(file)?.display()))
}

/// The control socket to ask.
fn path_of(socket: Option<PathBuf>) -> PathBuf {
    socket.unwrap_or_else(|| pmdns_config::Control::default().socket)
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
