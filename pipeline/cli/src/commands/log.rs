//! `pmdns log`: a search in the query log of a running instance.

use clap::Args;
use pmdns_control::ask;
use pmdns_control::query_log::{Age, LogSearch, MAX_FOUND};

use super::instance::Listing;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct Log {
    /// Only entries that are not older than this: a number with s, m, h or d.
    #[arg(long, value_name = "TIME")]
    since: Option<Age>,
    /// Only entries of this client, as the log names it.
    #[arg(long)]
    client: Option<String>,
    /// Only entries about this name and names below it.
    #[arg(long)]
    name: Option<String>,
    /// Only entries of this record type.
    #[arg(long = "type", value_name = "TYPE")]
    record_type: Option<String>,
    /// Only entries with this rcode in the answer.
    #[arg(long)]
    rcode: Option<String>,
    /// Only entries that a list has decided.
    #[arg(long)]
    blocked: bool,
    /// How many entries, 1 to 10000.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_FOUND)))]
    limit: u32,
    /// Where it is asked, and how it is printed.
    #[command(flatten)]
    listed: Listing,
}

impl Log {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { since, client, name, record_type, rcode, blocked, limit, listed } = self;
        listed.show(ask::Log(LogSearch {
            since,
            client,
            name,
            record_type,
            rcode,
            blocked: blocked.then_some(true),
            limit: Some(limit),
            ..LogSearch::default()
        }))
    }
}
