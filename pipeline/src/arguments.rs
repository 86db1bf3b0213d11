//! The command line. The manual pages and the shells' completions are made from it (`pipeline/examples/manual.rs`).

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use pmdns_control::RuleAction;
use pmdns_control::cache::MAX_SHOWN;

use crate::control::{profile, top};
use crate::health::drain;

mod asked;
mod clients;
mod instance;
mod lists;
mod local;
mod request;
mod searches;
#[cfg(test)]
mod tests;
mod traffic;
mod upstreams;

pub use self::clients::ClientCommand;
pub use self::instance::{ConfigFile, ImportFormat, Instance, config_file};
pub use self::lists::ListCommand;
pub use self::local::LocalCommand;
pub use self::request::{AskedFor, Changing, Listing, Printed};
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
    #[command(after_help = "Example: pmdns run --config /etc/pmdns/pmdns.toml")]
    Run {
        /// Its configuration.
        #[command(flatten)]
        file: ConfigFile,
        /// Print all counters at the end, not a summary.
        #[arg(long)]
        counters: bool,
        /// Print the counters as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check a config file, and whether this machine has what it asks for. Say what to change.
    #[command(after_help = "Example: pmdns check --elsewhere --config node2.toml")]
    Check {
        /// Its configuration.
        #[command(flatten)]
        file: ConfigFile,
        /// Do not check this machine: the config is for another one.
        #[arg(long)]
        elsewhere: bool,
    },
    /// Check whether this machine suits pmdns, with its NICs, CPUs and memory. Give a command for each problem.
    #[command(after_help = "Example: pmdns doctor --config /etc/pmdns/pmdns.toml")]
    Doctor {
        /// The config file; without it the default one, if there is one.
        #[arg(short, long)]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a configuration of another server's: unbound.conf, dnsdist.conf (Lua) or named.conf.
    #[command(after_help = "Example: pmdns import /etc/unbound/unbound.conf --output pmdns.toml")]
    Import {
        /// The other server's configuration; files that it includes are read too.
        file: PathBuf,
        /// The kind of the other server.
        #[arg(long, value_enum, default_value_t)]
        format: ImportFormat,
        /// The file to write; without it the configuration is printed.
        #[arg(short, long)]
        output: Option<PathBuf>,
        /// Write the configuration even if it loses settings that decide which clients may ask, or which upstreams are asked.
        #[arg(long)]
        partial: bool,
    },
    /// Run a capture through the line, as an ordinary user, and print the counters.
    #[command(
        after_help = "Example: pmdns replay queries.pcap --output answers.pcap --config replay.toml"
    )]
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
    #[command(after_help = "Example: pmdns health --json")]
    Health {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Check again and again. While the instance is fit, there is the `anycast.interface`, which routing daemons announce.
        #[arg(long, conflicts_with_all = ["json", "socket", "api"])]
        watch: bool,
        /// The config file, for `--watch`, which finds the instance's socket there.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Report a running instance as drained: it answers, but routes to it are withdrawn.
    #[command(after_help = "Example: pmdns drain --wait 60")]
    Drain {
        /// Wait until no more queries come, at most this many seconds.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(drain::SECONDS))]
        wait: Option<u64>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Undo `drain`: routes to a running instance are announced again.
    #[command(after_help = "Example: pmdns resume")]
    Resume {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Have a running instance read its configuration anew: rules, lists, upstreams, rates. Say what needs a restart.
    #[command(after_help = "Example: pmdns reload")]
    Reload {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Print the counters of a running instance.
    #[command(after_help = "Example: pmdns stats --json")]
    Stats {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take answers out of the cache of a running instance.
    #[command(after_help = "Example: pmdns purge example.com --suffix")]
    Purge {
        /// The name whose answers are taken out.
        name: String,
        /// Also take out answers for names below this one.
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
    /// answer says which entry is replaced.
    #[command(after_help = "Example: pmdns block ads.example.com --suffix --view kids")]
    Block {
        /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
        name: String,
        /// Also block the names below this one; without `--suffix` the name alone.
        #[arg(long)]
        suffix: bool,
        /// The answer to clients: nxdomain, nodata, refused, null or drop.
        #[arg(long, default_value_t)]
        action: RuleAction,
        /// A view in which the entry holds, and no other; may be given again.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Let a name pass on a running instance, whatever lists and policy zones say.
    ///
    /// There is one entry for each name and view. An exception in one view lifts no block in another.
    #[command(after_help = "Example: pmdns allow good.ads.example.com --view kids")]
    Allow {
        /// The name; `*.ads.example.com` is `ads.example.com --suffix`.
        name: String,
        /// Also let the names below this one pass; without `--suffix` the name alone.
        #[arg(long)]
        suffix: bool,
        /// A view in which the entry holds, and no other; may be given again.
        #[arg(long = "view", value_name = "VIEW")]
        views: Vec<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Remove the entry of a name on a running instance, whether it blocks or allows. The answer says which it was.
    #[command(after_help = "Example: pmdns unblock ads.example.com --view kids")]
    Unblock {
        /// The name.
        name: String,
        /// The view of the entry; without it the entry of all views is removed.
        #[arg(long, value_name = "VIEW")]
        view: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Print the names that are blocked and allowed on a running instance, at most 1,000.
    #[command(after_help = "Example: pmdns entries ads.example.com --json")]
    Entries {
        /// Begin after this name.
        after: Option<String>,
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
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
    #[command(after_help = "Example: pmdns config --diff")]
    Config {
        /// Print the configuration in use, without secrets.
        #[arg(long, required_unless_present = "diff", conflicts_with = "diff")]
        running: bool,
        /// Print where the file differs from the configuration in use.
        #[arg(long)]
        diff: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Have a running instance fetch a block list by its URL now.
    #[command(after_help = "Example: pmdns refresh ads.txt")]
    Refresh {
        /// The last part of the name of the list's file.
        name: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Write the cache of a running instance to a file.
    #[command(after_help = "Example: pmdns dump /var/lib/pmdns/cache.dump")]
    Dump {
        /// The file.
        file: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Show answers in the cache of a running instance.
    #[command(after_help = "Example: pmdns cache example.com --type AAAA --limit 20")]
    Cache {
        /// Show only answers for this name and names below it.
        name: Option<String>,
        /// Show only answers of this record type.
        #[arg(long = "type", value_name = "TYPE")]
        record_type: Option<String>,
        /// How many answers, 1 to 10000.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHOWN)))]
        limit: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Load the answers of a dump into the cache of a running instance.
    #[command(after_help = "Example: pmdns load /var/lib/pmdns/cache.dump")]
    Load {
        /// The file.
        file: PathBuf,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Say which answer a client of a running instance would get, and why. No upstream is asked, nothing is counted.
    #[command(after_help = "Example: pmdns lookup www.example.com AAAA --client 192.0.2.7")]
    Lookup {
        /// The name.
        name: String,
        /// The record type.
        #[arg(default_value = "A", value_name = "TYPE")]
        record_type: String,
        /// The address of the client, which decides on access, view and rules; without `--client` a client in no view.
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
    ///
    /// With `--api` it ends after five minutes.
    #[command(
        after_help = "Example: pmdns capture --write packets.pcapng --client 192.0.2.0/24 --count 1000"
    )]
    Capture {
        /// The file to write; `-`: standard output, for `tshark -r -` and `wireshark -k -i -`.
        #[arg(short, long, value_name = "FILE")]
        write: PathBuf,
        /// Which packets.
        #[command(flatten)]
        filter: PacketFilter,
        /// End after so many packets.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        count: Option<u32>,
        /// Also write the answers to these clients and names, as they leave.
        #[arg(long)]
        answers: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Follow packets through the stages of a running instance, with the cycles of each, until Ctrl-C or `-n` packets.
    #[command(after_help = "Example: pmdns trace -n 2 --name example.com")]
    Trace {
        /// Which packets.
        #[command(flatten)]
        search: TraceArguments,
    },
    /// Search the database of the query log, the newest entries first.
    #[command(after_help = "Example: pmdns log --since 10m --client 192.0.2.7 --blocked")]
    Log {
        /// The search and its place.
        #[command(flatten)]
        search: LogArguments,
    },
    /// Print names, clients and zones that come most to a running instance.
    #[command(after_help = "Example: pmdns hitters clients --window 1h -n 50")]
    Hitters {
        /// What is printed.
        #[command(flatten)]
        search: HitterArguments,
    },
    /// Print the zones that are flooded with random names.
    #[command(after_help = "Example: pmdns floods --json")]
    Floods {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Limit the misses of a zone on a running instance, or print the limits. Cached answers are not limited.
    #[command(after_help = "Example: pmdns limit example.com --rate 50 --for 10m")]
    Limit {
        /// The limit.
        #[command(flatten)]
        limit: LimitArguments,
    },
    /// Lift the limit of a zone on a running instance.
    #[command(after_help = "Example: pmdns unlimit example.com")]
    Unlimit {
        /// The zone.
        zone: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Show a running instance on the terminal, second by second; q quits, space pauses.
    #[command(after_help = "Example: pmdns top --once")]
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
    #[command(after_help = "Example: pmdns profile --seconds 30 --output profile.html")]
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
    #[command(after_help = "Example: pmdns version")]
    Version,
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
