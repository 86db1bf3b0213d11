//! Commands about traffic, and about its limits.

use clap::Args;
use pmdns_control::query_log::Age;
use pmdns_control::{Hitter, Window};

use super::instance::Instance;
use super::request::Changing;

/// Heavy hitters.
#[derive(Args)]
pub struct HitterArguments {
    /// The table: names, clients, nxdomain, blocked or failing.
    #[arg(default_value_t)]
    pub what: Hitter,
    /// For how long: 1s, 1m or 1h.
    #[arg(long, default_value_t)]
    pub window: Window,
    /// How many rows, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 20)]
    pub count: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Instance,
}

/// A limit on the misses of a zone.
#[derive(Args)]
pub struct LimitArguments {
    /// The zone; without it the limits are printed.
    #[arg(requires = "rate")]
    pub zone: Option<String>,
    /// Misses a second; 0: none.
    #[arg(long, requires = "zone")]
    pub rate: Option<u32>,
    /// How long: a number with s, m, h or d; without it until it is lifted.
    #[arg(long = "for", value_name = "TIME", requires = "zone")]
    pub time: Option<Age>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Changing,
}
