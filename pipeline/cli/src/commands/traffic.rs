//! Commands about traffic, and about its limits.

use std::net::IpAddr;

use clap::Args;
use pmdns_control::lookup::LookupRequest;
use pmdns_control::query_log::Age;
use pmdns_control::{Hitter, HittersQuery, LimitOrder, Window, ask};

use super::instance::{Changing, Instance};
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct Lookup {
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
}

#[derive(Args)]
pub(super) struct Hitters {
    /// The table: names, clients, nxdomain, blocked or failing.
    #[arg(default_value_t)]
    what: Hitter,
    /// For how long: 1s, 1m or 1h.
    #[arg(long, default_value_t)]
    window: Window,
    /// How many rows, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 20)]
    count: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
#[command(mut_arg("until_restart", |it| it.requires("zone")))] // To print limits changes nothing.
pub(super) struct Limit {
    /// The zone; without it the limits are printed.
    #[arg(requires = "rate")]
    zone: Option<String>,
    /// Misses a second; 0: none.
    #[arg(long, requires = "zone")]
    rate: Option<u32>,
    /// How long: a number with s, m, h or d; without it until it is lifted.
    #[arg(long = "for", value_name = "TIME", requires = "zone")]
    time: Option<Age>,
    /// Print JSON.
    #[arg(long, conflicts_with = "zone")]
    json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Changing,
}

#[derive(Args)]
pub(super) struct Floods {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct Unlimit {
    /// The zone.
    zone: String,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Changing,
}

impl Lookup {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, record_type, client, instance, json } = self;
        let (r#type, client) = (Some(record_type), client.map(|one| one.to_string()));
        let request = LookupRequest { name, r#type, client };
        instance.show(ask::Lookup(request), json)
    }
}

impl Hitters {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { what, window, count: n, json, instance } = self;
        instance.show(ask::Hitters(HittersQuery { what, window, n }), json)
    }
}

impl Floods {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.instance.show(ask::Floods, self.json)
    }
}

impl Limit {
    /// Without a zone the limits are printed.
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { zone, rate, time, json, instance } = self;
        let Some(zone) = zone else {
            return instance.instance.show(ask::Limits, json);
        };
        // What is longer than the longest time is refused for that.
        let seconds = time.map(|time| u32::try_from(time.0.as_secs()).unwrap_or(u32::MAX));
        let order = LimitOrder { zone, rate: rate.unwrap_or_default(), seconds };
        instance.has_done(ask::Limit(order))
    }
}

impl Unlimit {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.instance.has_done(ask::Unlimit(self.zone))
    }
}
