//! The command line. The manual pages and the shells' completions are made from it (`pipeline/examples/manual.rs`).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use pmdns_config::Control;

use crate::control::{profile, top};
use crate::health::drain;

/// The config file that is read without `--config`.
const DEFAULT_CONFIG: &str = "/etc/pmdns/pmdns.toml";

/// A poll-mode DNS caching forwarder.
#[derive(Parser)]
#[command(name = "pmdns", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// What pmdns can do.
#[derive(Subcommand)]
pub enum Command {
    /// Serve until SIGINT or SIGTERM.
    Run {
        /// Its configuration.
        #[command(flatten)]
        file: ConfigFile,
        /// Print all counters at the end, not a summary.
        #[arg(long)]
        counters: bool,
        /// Print them as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check a config file, and whether this machine has what it asks for. Say what to change.
    Check {
        /// Its configuration.
        #[command(flatten)]
        file: ConfigFile,
        /// Do not check this machine: the config is for another one.
        #[arg(long)]
        elsewhere: bool,
    },
    /// Check whether this machine suits pmdns, with its NICs, CPUs and memory. Say which command changes what does not.
    Doctor {
        /// The config file; without it the default one, if there is one.
        #[arg(short, long)]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a capture through the line, as an ordinary user, and print the counters.
    Replay {
        /// The capture: classic pcap, Ethernet.
        input: PathBuf,
        /// The capture to write, with the answers.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// Its configuration.
        #[command(flatten)]
        file: ConfigFile,
        /// Print the counters as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check whether a running instance is fit to serve; the exit code tells.
    Health {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Check again and again. While the instance is fit, there is the `anycast.interface`, which routing daemons announce.
        #[arg(long, conflicts_with_all = ["json", "socket"])]
        watch: bool,
        /// The config file, for `--watch`, which finds the instance's socket there.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Report a running instance as drained: it answers, but routes to it are withdrawn.
    Drain {
        /// Wait up to so many seconds until no more queries come.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(drain::SECONDS))]
        wait: Option<u64>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Undo `drain`: routes to a running instance are announced again.
    Resume {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Have a running instance read its rules anew: access, rate limits, local records, zones, blocked names.
    Reload {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the counters of a running instance.
    Stats {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take answers out of the cache of a running instance.
    Purge {
        /// The name whose answers are taken out.
        name: String,
        /// Also take out answers for names below it.
        #[arg(long)]
        suffix: bool,
        /// Take out only answers of this record type.
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Write the cache of a running instance to a file.
    Dump {
        /// The file.
        file: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Load the answers of a dump into the cache of a running instance.
    Load {
        /// The file.
        file: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Show a running instance on the terminal, second by second; q quits, space pauses.
    Top {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Seconds between two updates, 0.1 to 3600.
        #[arg(long, default_value = "1", value_parser = interval)]
        interval: Duration,
        /// Print one frame as text, for files and pipes.
        #[arg(long)]
        once: bool,
    },
    /// Watch a running instance for some time and write a page with plots.
    Profile {
        /// How many seconds to watch, 1 to 3600.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(profile::SECONDS))]
        seconds: u64,
        /// The page to write: one HTML file that needs no other files.
        #[arg(short, long)]
        output: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the version.
    Version,
}

/// The config file to read: the one that is named, or the default one if it is there.
pub fn config_file(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| Some(PathBuf::from(DEFAULT_CONFIG)).filter(|default| default.exists()))
}

/// Which configuration.
#[derive(Args)]
pub struct ConfigFile {
    /// The config file.
    #[arg(short, long, default_value = DEFAULT_CONFIG)]
    pub config: PathBuf,
}

/// Which running instance.
#[derive(Args)]
pub struct Instance {
    /// Its control socket: `control.socket` of its config.
    #[arg(long, default_value_os_t = Control::default().socket)]
    pub socket: PathBuf,
}

/// Seconds between two updates.
fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = top::INTERVALS;
    let seconds =
        text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| (least..=most).contains(seconds))
        .ok_or_else(|| format!("write seconds, {} to {}", least.as_secs_f64(), most.as_secs()))
}
