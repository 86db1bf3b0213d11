//! Commands on packets that pass.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use pmdns_config::files::open_to_replace;
use pmdns_control::crashes::CrashList;
use pmdns_control::trace::{MAX_SECONDS, MAX_SECONDS_OF_USERS, PacketSearch};
use pmdns_control::{Call, ask};

use super::instance::{Instance, print_reply};
use crate::capture::{self, MODE};
use crate::crash::write_crashes;
use crate::failure::Failure;
use crate::output::errors;

/// Which packets.
#[derive(Args)]
struct PacketFilter {
    /// Only packets of this port, by name or number; `streams`: clients over TCP, TLS, HTTPS and QUIC.
    #[arg(long)]
    port: Option<String>,
    /// All packets that leave this stage, and none where another stage decides.
    #[arg(long)]
    stage: Option<String>,
    /// Only packets that leave a stage to there: `blocked` and other reasons to drop, `encode`, `slow_path`, an exception.
    #[arg(long)]
    reason: Option<String>,
    /// Only packets of clients with such an address: `10.0.0.0/8`, or one address.
    #[arg(long, value_name = "PREFIX")]
    client: Option<String>,
    /// Only packets about this name and names below it.
    #[arg(long, value_name = "SUFFIX")]
    name: Option<String>,
}

impl PacketFilter {
    /// The search for such packets, for so many seconds at most.
    fn search(self, seconds: u32) -> PacketSearch {
        let Self { port, stage, reason, client, name } = self;
        PacketSearch { port, stage, reason, client, name, seconds, ..PacketSearch::default() }
    }
}

#[derive(Args)]
pub(super) struct Capture {
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
}

#[derive(Args)]
pub(super) struct Trace {
    /// End after so many packets, 1 to 1000.
    #[arg(short = 'n', long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
    /// Only packets of this port, by name or number.
    #[arg(long)]
    port: Option<String>,
    /// Only packets of clients with such an address.
    #[arg(long, value_name = "PREFIX")]
    client: Option<String>,
    /// Only packets about this name and names below it.
    #[arg(long, value_name = "SUFFIX")]
    name: Option<String>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Crash {
    /// Write the packets to this file (pcapng), which is replaced.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pcap: Option<PathBuf>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Crash {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { pcap, instance, json } = self;
        let Some(path) = pcap else { return instance.show(ask::Crashes, json) };
        let list: CrashList = serde_json::from_str(&instance.client()?.ask(&Call::Crashes)?)?;
        if list.crashes.is_empty() {
            return Err(Failure::NoCrash);
        }
        let written = open_to_replace(&path, MODE).map(BufWriter::new);
        let written = written.and_then(|file| write_crashes(&list, file));
        let packets = written.map_err(|source| Failure::Write { path, source })?;
        Ok(writeln!(errors(), "packets written: {packets}")?)
    }
}

impl Capture {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { write, filter, count, answers, instance } = self;
        let (client, search) = (instance.client()?, filter.search(longest_watch(&instance)));
        let count = Some(count.unwrap_or(u32::MAX));
        let call = Call::Capture(PacketSearch { count, answers, ..search });
        let done = capture::capture(&client, &call, &write)?;
        Ok(writeln!(errors(), "{done}")?)
    }
}

impl Trace {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { count, port, client, name, instance, json } = self;
        let filter = PacketFilter { port, client, name, stage: None, reason: None };
        let search = filter.search(longest_watch(&instance));
        let call = Call::Trace(PacketSearch { count: Some(count), ..search });
        let stop = capture::stop_flag().map_err(Failure::Signal)?;
        let reply = instance.client()?.ask_until(&call, || stop.load(Ordering::Relaxed))?;
        print_reply::<ask::Trace>(&reply, json)
    }
}

/// For how many seconds packets of an instance may be watched.
fn longest_watch(instance: &Instance) -> u32 {
    if instance.api.is_some() { MAX_SECONDS } else { MAX_SECONDS_OF_USERS }
}
