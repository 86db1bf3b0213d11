//! Commands on upstreams.

use clap::Subcommand;
use pmdns_config::limits::MAX_WEIGHT;

use pmdns_control::{NewUpstream, UpstreamState, ask};

use super::instance::{Changing, Listing};
use crate::failure::Failure;

/// Commands on upstreams. Their effect holds over reloads and restarts.
#[derive(Subcommand)]
pub(super) enum UpstreamCommand {
    /// Print the upstreams in use, with some of their counters; with `--json` all counters.
    #[command(visible_alias = "show")]
    #[command(after_help = "Example: pmdns upstream list --json")]
    List {
        /// Where it is asked, and how it is printed.
        #[command(flatten)]
        listed: Listing,
    },
    /// Ask one more upstream, over UDP and TCP. An upstream of the file that was removed comes back.
    #[command(after_help = "Example: pmdns upstream add 198.51.100.53:53 --group corp")]
    Add {
        /// The address and port of the upstream, as in `192.0.2.53:53`.
        address: String,
        /// The group of the upstream, which the file has; without one the default group.
        #[arg(long)]
        group: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Ask an upstream no more. What is under way to it is asked of others at once.
    #[command(after_help = "Example: pmdns upstream remove 192.0.2.53:53")]
    Remove {
        /// The address of the upstream, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Send an upstream no new questions. What is under way to it ends as usual.
    #[command(after_help = "Example: pmdns upstream drain 192.0.2.53:53")]
    Drain {
        /// The address of the upstream, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Give an upstream another share of the questions of its group, which has the strategy `round_robin`.
    #[command(after_help = "Example: pmdns upstream weight 192.0.2.54:53 2")]
    Weight {
        /// The address of the upstream, as it is configured.
        address: String,
        /// The share, in proportion to those of the others.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WEIGHT)))]
        weight: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
    /// Undo `drain`: send an upstream questions again.
    #[command(after_help = "Example: pmdns upstream resume 192.0.2.53:53")]
    Resume {
        /// The address of the upstream, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Changing,
    },
}

impl UpstreamCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        let set =
            |address, drained, weight| ask::SetUpstream(address, UpstreamState { drained, weight });
        match self {
            Self::List { listed } => listed.show(ask::Upstreams),
            Self::Add { address, group, instance } => {
                instance.has_done(ask::AddUpstream(NewUpstream { address, group }))
            }
            Self::Remove { address, instance } => instance.has_done(ask::RemoveUpstream(address)),
            Self::Drain { address, instance } => instance.has_done(set(address, Some(true), None)),
            Self::Weight { address, weight, instance } => {
                instance.has_done(set(address, None, Some(weight)))
            }
            Self::Resume { address, instance } => {
                instance.has_done(set(address, Some(false), None))
            }
        }
    }
}
