//! Searches: packets that pass, and entries of the query log.

use std::path::PathBuf;

use clap::Args;
use pmdns_control::query_log::Age;
use pmdns_control::trace::PacketSearch;

use super::instance::{ConfigFile, Instance};

/// Which packets.
#[derive(Args)]
pub struct PacketFilter {
    /// Only packets of this port, by name or number; `streams`: clients over TCP, TLS, HTTPS and QUIC.
    #[arg(long)]
    pub port: Option<String>,
    /// All packets that leave this stage, and none where another stage decides.
    #[arg(long)]
    pub stage: Option<String>,
    /// Only packets that leave a stage to there: `blocked` and other reasons to drop, `encode`, `slow_path`, an exception.
    #[arg(long)]
    pub reason: Option<String>,
    /// Only packets of clients with such an address: `10.0.0.0/8`, or one address.
    #[arg(long, value_name = "PREFIX")]
    pub client: Option<String>,
    /// Only packets about this name and names below it.
    #[arg(long, value_name = "SUFFIX")]
    pub name: Option<String>,
}

impl PacketFilter {
    /// The search for such packets, for so many seconds at most.
    pub fn search(self, seconds: u32) -> PacketSearch {
        let Self { port, stage, reason, client, name } = self;
        PacketSearch { port, stage, reason, client, name, seconds, ..PacketSearch::default() }
    }
}

/// A search in the query log.
#[derive(Args)]
pub struct LogArguments {
    /// The database; without it `query_log.sqlite` of the config file.
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// The config file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Only entries that are not older than this: a number with s, m, h or d.
    #[arg(long, value_name = "TIME")]
    pub since: Option<Age>,
    /// Only entries of this client, as the log names it.
    #[arg(long)]
    pub client: Option<String>,
    /// Only entries about this name and names below it.
    #[arg(long)]
    pub name: Option<String>,
    /// Only entries of this record type.
    #[arg(long = "type", value_name = "TYPE")]
    pub record_type: Option<String>,
    /// Only entries with this rcode in the answer.
    #[arg(long)]
    pub rcode: Option<String>,
    /// Only entries that a list has decided.
    #[arg(long)]
    pub blocked: bool,
    /// How many entries, 1 to 10000.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Print JSON lines.
    #[arg(long)]
    pub json: bool,
}

/// Which packets are followed through the stages.
#[derive(Args)]
pub struct TraceArguments {
    /// End after so many packets, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Only packets of this port, by name or number.
    #[arg(long)]
    pub port: Option<String>,
    /// Only packets of clients with such an address.
    #[arg(long, value_name = "PREFIX")]
    pub client: Option<String>,
    /// Only packets about this name and names below it.
    #[arg(long, value_name = "SUFFIX")]
    pub name: Option<String>,
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Instance,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
