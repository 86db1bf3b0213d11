//! The command line. The manual pages and the shells' completions are made from it (`pipeline/examples/manual.rs`).

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::control::{profile, top};
use crate::health::drain;

mod clients;
mod instance;
mod line;
mod lists;
mod local;
mod request;
mod searches;
mod traffic;
mod upstreams;

pub use self::clients::ClientCommand;
pub use self::instance::{ConfigFile, Instance, config_file};
pub use self::line::{Line, WordError};
pub use self::lists::ListCommand;
pub use self::local::LocalCommand;
pub use self::request::{AskedFor, Listed, Printed, shown};
pub use self::searches::{LogArguments, PacketFilter, TraceArguments};
pub use self::traffic::{HitterArguments, LimitArguments};
pub use self::upstreams::UpstreamCommand;

/// A poll-mode DNS caching forwarder.
#[derive(Parser)]
#[command(name = "pmdns", version, arg_required_else_help = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of pmdns.
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
    /// Check whether this machine suits pmdns, with its NICs, CPUs and memory. Give a command for each problem.
    Doctor {
        /// The config file; without it the default one, if there is one.
        #[arg(short, long)]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a configuration of another server's: unbound.conf, dnsdist.conf (Lua) or named.conf.
    Import {
        /// The other server's configuration; files that it includes are read too.
        file: PathBuf,
        /// Which server it is for.
        #[arg(long, value_enum, default_value_t)]
        format: ImportFormat,
        /// The file to write; without it the configuration is printed.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// Write it also if settings are lost that decide who may ask, what they are told, or whom we ask.
        #[arg(long)]
        partial: bool,
    },
    /// Run a capture through the line, as an ordinary user, and print the counters.
    Replay {
        /// The capture: pcap or pcapng, Ethernet.
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
    /// Have a running instance read its configuration anew: rules, lists, upstreams, rates. Say what needs a restart.
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
    /// Block a name on a running instance, whatever lists and policy zones say.
    ///
    /// There is one entry for each name and view. The entry of a client's view stands before the one of all views. The
    /// answer says which entry is replaced. Example: pmdns block ads.example.com --suffix --view kids
    Block {
        /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
        name: String,
        /// Also block names below it; without it the name alone.
        #[arg(long)]
        suffix: bool,
        /// The answer to clients: nxdomain, nodata, refused, null or drop.
        #[arg(long, default_value = "nxdomain")]
        action: String,
        /// A view in which it holds, and no other; may be given again.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Let a name pass on a running instance, whatever lists and policy zones say.
    ///
    /// There is one entry for each name and view. An exception in one view lifts no block in another. Example:
    /// pmdns allow good.ads.example.com --view kids
    Allow {
        /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
        name: String,
        /// Also let names below it pass; without it the name alone.
        #[arg(long)]
        suffix: bool,
        /// A view in which it holds, and no other; may be given again.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Remove the entry of a name on a running instance, whether it blocks or allows. The answer says which it was.
    ///
    /// Example: pmdns unblock ads.example.com --view kids
    Unblock {
        /// The name.
        name: String,
        /// The view of the entry; without it the entry of all views is removed.
        #[arg(long, value_name = "VIEW")]
        view: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the names that are blocked and allowed on a running instance, at most 1,000.
    Entries {
        /// Begin after this name.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listed,
    },
    /// Add, remove or list local records of a running instance.
    Local {
        /// The command.
        #[command(subcommand)]
        command: LocalCommand,
    },
    /// Put clients of a running instance into views, by prefix.
    Client {
        /// The command.
        #[command(subcommand)]
        command: ClientCommand,
    },
    /// Add, remove or drain upstreams of a running instance, until it stops.
    Upstream {
        /// The command.
        #[command(subcommand)]
        command: UpstreamCommand,
    },
    /// Show the block lists of a running instance, and add or remove some until it stops.
    List {
        /// The command.
        #[command(subcommand)]
        command: ListCommand,
    },
    /// Print the configuration that a running instance uses, or where its file differs.
    Config {
        /// Print what is in use, without secrets.
        #[arg(long, required_unless_present = "diff", conflicts_with = "diff")]
        running: bool,
        /// Print where the file differs from it.
        #[arg(long)]
        diff: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Have a running instance fetch a block list by its URL now.
    Refresh {
        /// The last part of the name of the list's file.
        name: String,
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
    /// Show answers in the cache of a running instance.
    Cache {
        /// Only those for this name and names below it.
        name: Option<String>,
        /// Only those of this record type.
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        /// So many, 1 to 10000.
        #[arg(long, default_value_t = 100)]
        limit: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Load the answers of a dump into the cache of a running instance.
    Load {
        /// The file.
        file: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Say which answer a client of a running instance would get, and why. No upstream is asked, nothing is counted.
    Lookup {
        /// The name.
        name: String,
        /// The record type.
        #[arg(default_value = "A", value_name = "TYPE")]
        record_type: String,
        /// The address of the client, which decides on access, view and rules; without it: a client in no view.
        #[arg(long, value_name = "IP")]
        client: Option<IpAddr>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write packets that pass a running instance to a capture (pcapng), until Ctrl-C, `--count`, or an hour is over.
    Capture {
        /// The file to write; `-`: standard output, for `tshark -r -` and `wireshark -k -i -`.
        #[arg(short, long, value_name = "FILE")]
        write: PathBuf,
        /// Which packets.
        #[command(flatten)]
        filter: PacketFilter,
        /// End after so many packets.
        #[arg(long)]
        count: Option<u64>,
        /// Also write the answers to these clients and names, as they leave.
        #[arg(long)]
        answers: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Follow packets through the stages of a running instance, with the cycles of each, until Ctrl-C or `-n` packets.
    Trace {
        /// Which packets.
        #[command(flatten)]
        search: TraceArguments,
    },
    /// Search the database of the query log, the newest entries first.
    Log {
        /// The search and its place.
        #[command(flatten)]
        search: LogArguments,
    },
    /// Print names, clients and zones that come most to a running instance.
    Hitters {
        /// What is printed.
        #[command(flatten)]
        search: HitterArguments,
    },
    /// Print the zones that are flooded with random names.
    Floods {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Limit the misses of a zone on a running instance, or print the limits. Cached answers are not limited.
    Limit {
        /// The limit.
        #[command(flatten)]
        limit: LimitArguments,
    },
    /// Lift the limit of a zone on a running instance.
    Unlimit {
        /// The zone.
        zone: String,
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

/// The server whose configuration is imported.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum ImportFormat {
    /// What the file's text says.
    #[default]
    Auto,
    /// unbound.conf.
    Unbound,
    /// dnsdist.conf, in Lua.
    Dnsdist,
    /// named.conf of BIND.
    Named,
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
