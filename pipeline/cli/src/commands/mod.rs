//! The command line. The manual pages and the shells' completions are made from it (`pipeline/cli/examples/manual.rs`).
//!
//! A command is a struct of its arguments, with a function that does it. One that but asks an instance has no arguments of its own.

mod cache;
mod clients;
mod files;
mod instance;
mod lists;
mod local;
mod log;
mod names;
mod node;
mod packets;
mod screens;
#[cfg(test)]
mod tests;
mod traffic;
mod upstreams;

use std::io::Write as _;

use clap::{Parser, Subcommand};
use pmdns_control::ask;

use self::instance::Instance;
use crate::failure::Failure;
use crate::output::output;
use crate::program::Program;

/// A poll-mode DNS caching forwarder.
#[derive(Parser)]
#[command(name = "pmdns", version, arg_required_else_help = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    command: Command,
}

/// The commands of pmdns.
#[derive(Subcommand)]
enum Command {
    /// Serve until SIGINT or SIGTERM.
    #[command(after_help = "Example: pmdns run --config /etc/pmdns/pmdns.toml")]
    Run(files::Run),
    /// Check a config file, and whether this machine has what it asks for. Say what to change.
    #[command(after_help = "Example: pmdns check --elsewhere --config node2.toml")]
    Check(files::Check),
    /// Check whether this machine suits pmdns, with its NICs, CPUs and memory. Give a command for each problem.
    #[command(after_help = "Example: pmdns doctor --config /etc/pmdns/pmdns.toml")]
    Doctor(files::Doctor),
    /// Make a configuration of another server's: unbound.conf, dnsdist.conf (Lua) or named.conf.
    #[command(after_help = "Example: pmdns import /etc/unbound/unbound.conf --output pmdns.toml")]
    Import(files::Import),
    /// Run a capture through the line, as an ordinary user, and print the counters.
    #[command(
        after_help = "Example: pmdns replay queries.pcap --output answers.pcap --config replay.toml"
    )]
    Replay(files::Replay),
    /// Check whether a running instance is fit to serve; the exit code tells.
    #[command(after_help = "Example: pmdns health --json")]
    Health(node::Health),
    /// Report a running instance as drained: it answers, but routes to it are withdrawn.
    #[command(after_help = "Example: pmdns drain --wait 60")]
    Drain(node::Drain),
    /// Undo `drain`: routes to a running instance are announced again.
    #[command(after_help = "Example: pmdns resume")]
    Resume(Instance),
    /// Have a running instance claim the addresses of its ports no more: another node has them.
    #[command(after_help = "Example: pmdns standby")]
    Standby(Instance),
    /// Undo `standby`: the addresses are claimed, and announced at once.
    #[command(after_help = "Example: pmdns activate")]
    Activate(Instance),
    /// Have a running instance read its configuration anew. Say for which keys another process is needed.
    #[command(after_help = "Example: pmdns reload")]
    Reload(node::Reload),
    /// Have the next process take over from a running one that has a keeper, as after a new program was installed.
    #[command(after_help = "Example: pmdns upgrade --config /etc/pmdns/pmdns.toml")]
    Upgrade(node::Upgrade),
    /// Print the version of a running instance, its age and its rules, and whether a reload is under way.
    #[command(after_help = "Example: pmdns state --json")]
    State(node::StateCommand),
    /// Print the counters of a running instance.
    #[command(after_help = "Example: pmdns stats --json")]
    Stats(node::Stats),
    /// Take answers out of the cache of a running instance.
    #[command(after_help = "Example: pmdns purge example.com --suffix")]
    Purge(cache::Purge),
    /// Block a name on a running instance, whatever lists and policy zones say.
    ///
    /// There is one entry for each name and view. The entry of a client's view stands before the one of all views. The
    /// answer says which entry is replaced.
    #[command(after_help = "Example: pmdns block ads.example.com --suffix --view kids")]
    Block(names::Block),
    /// Let a name pass on a running instance, whatever lists and policy zones say.
    ///
    /// There is one entry for each name and view. An exception in one view lifts no block in another.
    #[command(after_help = "Example: pmdns allow good.ads.example.com --view kids")]
    Allow(names::Allow),
    /// Remove the entry of a name on a running instance, whether it blocks or allows. The answer says which it was.
    #[command(after_help = "Example: pmdns unblock ads.example.com --view kids")]
    Unblock(names::Unblock),
    /// Print the names that are blocked and allowed on a running instance, at most 1,000.
    #[command(after_help = "Example: pmdns entries ads.example.com --json")]
    Entries(names::EntriesCommand),
    /// Add, remove or list local records of a running instance.
    Local {
        /// The command.
        #[command(subcommand)]
        command: local::LocalCommand,
    },
    /// Print the views of a running instance, with the clients, upstreams, rate and lists of each.
    #[command(after_help = "Example: pmdns views --json")]
    Views(clients::Views),
    /// Put clients of a running instance into views, by prefix.
    Client {
        /// The command.
        #[command(subcommand)]
        command: clients::ClientCommand,
    },
    /// Add, remove or drain upstreams of a running instance.
    Upstream {
        /// The command.
        #[command(subcommand)]
        command: upstreams::UpstreamCommand,
    },
    /// Show the block lists of a running instance, and add or remove some.
    List {
        /// The command.
        #[command(subcommand)]
        command: lists::ListCommand,
    },
    /// Print the configuration that a running instance uses, or where its file differs.
    #[command(after_help = "Example: pmdns config --diff")]
    Config(node::Config),
    /// Have a running instance fetch a block list by its URL now.
    #[command(after_help = "Example: pmdns refresh ads.txt")]
    Refresh(lists::Refresh),
    /// Write the cache of a running instance to a file.
    #[command(after_help = "Example: pmdns dump /var/lib/pmdns/cache.dump")]
    Dump(cache::Dump),
    /// Show answers in the cache of a running instance.
    #[command(after_help = "Example: pmdns cache example.com --type AAAA --limit 20")]
    Cache(cache::Cache),
    /// Load the answers of a dump into the cache of a running instance.
    #[command(after_help = "Example: pmdns load /var/lib/pmdns/cache.dump")]
    Load(cache::Load),
    /// Say which answer a client of a running instance would get, and why. No upstream is asked, nothing is counted.
    #[command(after_help = "Example: pmdns lookup www.example.com AAAA --client 192.0.2.7")]
    Lookup(traffic::Lookup),
    /// Write packets that pass a running instance to a capture (pcapng), until Ctrl-C, `--count`, or an hour is over.
    ///
    /// With `--api` it ends after five minutes.
    #[command(
        after_help = "Example: pmdns capture --write packets.pcapng --client 192.0.2.0/24 --count 1000"
    )]
    Capture(packets::Capture),
    /// Follow packets through the stages of a running instance, with the cycles of each, until Ctrl-C or `-n` packets.
    #[command(after_help = "Example: pmdns trace -n 2 --name example.com")]
    Trace(packets::Trace),
    /// Print the last crashes before a running instance, with the packets that data cores had in hand. It needs a keeper.
    #[command(after_help = "Example: pmdns crash --pcap crash.pcapng")]
    Crash(packets::Crash),
    /// Search the query log of a running instance, the newest entries first.
    #[command(after_help = "Example: pmdns log --since 10m --client 192.0.2.7 --blocked")]
    Log(log::Log),
    /// Print names, clients and zones that come most to a running instance.
    #[command(after_help = "Example: pmdns hitters clients --window 1h -n 50")]
    Hitters(traffic::Hitters),
    /// Print the zones that are flooded with random names.
    #[command(after_help = "Example: pmdns floods --json")]
    Floods(traffic::Floods),
    /// Limit the misses of a zone on a running instance, or print the limits. Cached answers are not limited.
    #[command(after_help = "Example: pmdns limit example.com --rate 50 --for 10m")]
    Limit(traffic::Limit),
    /// Lift the limit of a zone on a running instance.
    #[command(after_help = "Example: pmdns unlimit example.com")]
    Unlimit(traffic::Unlimit),
    /// Show a running instance on the terminal, second by second; q quits, space pauses.
    #[command(after_help = "Example: pmdns top --once")]
    Top(screens::Top),
    /// Watch a running instance for some time and write a page with plots.
    #[command(after_help = "Example: pmdns profile --seconds 30 --output profile.html")]
    Profile(screens::Profile),
    /// Print the version.
    #[command(after_help = "Example: pmdns version")]
    Version,
}

impl Arguments {
    /// Those of this process. Ends it where they are wrong, or ask for help.
    pub fn of_process() -> Self {
        Self::parse()
    }

    /// Does what the command says. `program` does the parts that need the engine.
    ///
    /// # Errors
    ///
    /// The command fails; the error has the exit code.
    pub fn execute(self, program: &impl Program) -> Result<(), Failure> {
        self.command.run(program)
    }
}

impl Command {
    fn run(self, program: &impl Program) -> Result<(), Failure> {
        match self {
            Self::Run(it) => it.run(program),
            Self::Check(it) => it.run(program),
            Self::Doctor(it) => it.run(program),
            Self::Import(it) => it.run(program),
            Self::Replay(it) => it.run(program),
            Self::Health(it) => it.run(program),
            Self::Drain(it) => it.run(),
            Self::Resume(instance) => instance.has_done(ask::Resume),
            Self::Standby(instance) => instance.has_done(ask::Standby),
            Self::Activate(instance) => instance.has_done(ask::Activate),
            Self::Reload(it) => it.run(),
            Self::Upgrade(it) => it.run(program),
            Self::State(it) => it.run(),
            Self::Stats(it) => it.run(),
            Self::Purge(it) => it.run(),
            Self::Block(it) => it.run(),
            Self::Allow(it) => it.run(),
            Self::Unblock(it) => it.run(),
            Self::Entries(it) => it.run(),
            Self::Local { command } => command.run(),
            Self::Views(it) => it.run(),
            Self::Client { command } => command.run(),
            Self::Upstream { command } => command.run(),
            Self::List { command } => command.run(),
            Self::Config(it) => it.run(),
            Self::Refresh(it) => it.run(),
            Self::Dump(it) => it.run(),
            Self::Cache(it) => it.run(),
            Self::Load(it) => it.run(program),
            Self::Lookup(it) => it.run(),
            Self::Capture(it) => it.run(),
            Self::Trace(it) => it.run(),
            Self::Crash(it) => it.run(),
            Self::Log(it) => it.run(),
            Self::Hitters(it) => it.run(),
            Self::Floods(it) => it.run(),
            Self::Limit(it) => it.run(),
            Self::Unlimit(it) => it.run(),
            Self::Top(it) => it.run(),
            Self::Profile(it) => it.run(),
            Self::Version => version(program),
        }
    }
}

fn version(program: &impl Program) -> Result<(), Failure> {
    let commit = option_env!("PMDNS_COMMIT").unwrap_or("not said by the build");
    let mut out = output();
    writeln!(out, "pmdns {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "commit: {commit}")?;
    program.dpdk().map_or(Ok(()), |dpdk| Ok(writeln!(out, "{}", dpdk.version)?))
}
