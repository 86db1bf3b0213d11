//! Commands on upstreams.

use clap::Subcommand;
use pmdns_config::limits::MAX_WEIGHT;

use super::instance::Instance;

/// Commands on upstreams. Their effect holds until the instance stops, over reloads as well.
#[derive(Subcommand)]
pub enum UpstreamCommand {
    /// Print those that are asked, with their counters, as JSON.
    List {
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Ask one more, over UDP and TCP. One of the file that was removed comes back.
    Add {
        /// Its address and port.
        address: String,
        /// Its group, which the file has; without it the default one.
        #[arg(long)]
        group: Option<String>,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Ask one no more. What is under way to it is asked of others at once.
    Remove {
        /// Its address, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Send one no new questions. What is under way to it ends as usual.
    Drain {
        /// Its address, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Give one another share of the questions of its group, which has the strategy `round_robin`.
    Weight {
        /// Its address, as it is configured.
        address: String,
        /// The share, in proportion to those of the others.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_WEIGHT)))]
        weight: u32,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
    /// Undo `drain`: send it questions again.
    Resume {
        /// Its address, as it is configured.
        address: String,
        /// The instance that is asked.
        #[command(flatten)]
        instance: Instance,
    },
}

impl UpstreamCommand {
    /// The request, the instance that it goes to, and whether JSON is the answer.
    pub fn request(self) -> (String, Instance, bool) {
        match self {
            Self::List { instance } => ("upstreams".to_owned(), instance, true),
            Self::Add { address, group, instance } => {
                (format!("upstream add {address} {}", group.unwrap_or_default()), instance, false)
            }
            Self::Remove { address, instance } => {
                (format!("upstream remove {address}"), instance, false)
            }
            Self::Drain { address, instance } => {
                (format!("upstream drain {address}"), instance, false)
            }
            Self::Weight { address, weight, instance } => {
                (format!("upstream weight {address} {weight}"), instance, false)
            }
            Self::Resume { address, instance } => {
                (format!("upstream resume {address}"), instance, false)
            }
        }
    }
}
