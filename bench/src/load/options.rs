//! The command line of `pmdns-load`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::flight::MAX_SLOTS;
use super::generator::Checksums;
use super::mix::Mix;
use super::pace::MAX_RATE;
use super::path::MAX_CLIENTS;
use super::upstreams::{MAX_HELD, MIN_HELD};

/// A load generator for DNS servers, over any DPDK port: open loop, every answer checked.
#[derive(Parser)]
#[command(name = "pmdns-load", version, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Offer one rate for a while.
    Run {
        /// Queries per second.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
        rate: u64,
        /// How long.
        #[arg(long, default_value_t = 10.0, value_parser = seconds)]
        seconds: f64,
        /// Who asks what, over which port.
        #[command(flatten)]
        job: Job,
    },
    /// Find the highest rate the server keeps up with: doubling, then bisection.
    Ceiling {
        /// How to search.
        #[command(flatten)]
        search: Search,
        /// Who asks what, over which port.
        #[command(flatten)]
        job: Job,
    },
    /// Warm-up, ceiling, then 80 % and 150 % of it.
    Phases {
        /// How long each of the last two phases lasts.
        #[arg(long, default_value_t = 60.0, value_parser = seconds)]
        seconds: f64,
        /// The share of the ceiling that is sustained.
        #[arg(long, default_value_t = 0.8, value_parser = share)]
        sustained: f64,
        /// The share of the ceiling that is overload.
        #[arg(long, default_value_t = 1.5, value_parser = share)]
        overload: f64,
        /// How to search.
        #[command(flatten)]
        search: Search,
        /// Who asks what, over which port.
        #[command(flatten)]
        job: Job,
    },
    /// Be the partner that sends every query back as an empty response, to show the generator's own ceiling.
    Reflector {
        /// The address that answers.
        #[arg(long, default_value = "10.77.0.2")]
        address: Ipv4Addr,
        /// The port.
        #[command(flatten)]
        link: Link,
    },
    /// Write the zone that `--names` asks for, to serve it upstream.
    Zone {
        /// Names in it.
        #[arg(long, default_value_t = 10_000)]
        names: usize,
    },
}

/// What every run of the generator needs to know.
#[derive(Args, Clone, Debug)]
pub struct Job {
    /// The port.
    #[command(flatten)]
    pub link: Link,
    /// Who asks what.
    #[command(flatten)]
    pub load: Load,
    /// Who answers the server's own queries.
    #[command(flatten)]
    pub upstreams: Upstreams,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

/// The port.
#[derive(Args, Clone, Debug)]
pub struct Link {
    /// Arguments for DPDK's environment, separated by blanks.
    #[arg(long, default_value = "--no-pci --in-memory", allow_hyphen_values = true)]
    pub eal: String,
    /// A PCI address or a vdev: `net_vhost0,iface=/run/v.sock,queues=1`.
    #[arg(long)]
    pub device: String,
    /// The CPU to poll on; absent: wherever the kernel lets it run.
    #[arg(long)]
    pub core: Option<usize>,
    /// How long to wait for the link, and for the server to tell its hardware address.
    #[arg(long, default_value_t = 30)]
    pub patience_seconds: u64,
    /// Descriptors of the RX and of the TX queue.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(64..=32_768))]
    pub descriptors: u16,
}

/// Who asks what.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// The server's address.
    #[arg(long, default_value = "10.77.0.2")]
    pub server: Ipv4Addr,
    /// The server's UDP port.
    #[arg(long, default_value_t = 53)]
    pub server_port: u16,
    /// The server's hardware address; absent: asked for by ARP.
    #[arg(long, value_parser = mac)]
    pub server_mac: Option<[u8; 6]>,
    /// The first client's address; the others follow.
    #[arg(long, default_value = "10.77.1.0")]
    pub source: Ipv4Addr,
    /// Client addresses.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CLIENTS)))]
    pub clients: u32,
    /// Ask for this many names of the generated zone (`pmdns-load zone`).
    #[arg(long, default_value_t = 10_000, conflicts_with = "queries")]
    pub names: usize,
    /// Ask what this file says: a name and a type on each line.
    #[arg(long)]
    pub queries: Option<PathBuf>,
    /// Check answers against this zone file; absent: against the generated zone, or with `--queries`
    /// against the first answer to each query.
    #[arg(long)]
    pub zone: Option<PathBuf>,
    /// Ask for the name of rank k in proportion to k to the power of minus this; absent: for all alike.
    #[arg(long, value_parser = exponent)]
    pub zipf: Option<f64>,
    /// Weights of the kinds: hit, miss, nxdomain, malformed, random-prefix.
    #[arg(long, default_value = "hit=1")]
    pub mix: Mix,
    /// The zone in which misses, NXDOMAINs and random prefixes lie.
    #[arg(long, default_value = "example.")]
    pub origin: String,
    /// Send EDNS, announcing this UDP size.
    #[arg(long)]
    pub edns: Option<u16>,
    /// Set the DO bit (RFC 3225); needs `--edns`.
    #[arg(long, requires = "edns")]
    pub dnssec_ok: bool,
    /// The seed of the order in which names are asked.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// An answer that takes longer is lost.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
    /// Queries that can be under way; a power of two.
    #[arg(long, default_value_t = MAX_SLOTS)]
    pub slots: usize,
    /// Which answers have their checksums checked.
    #[arg(long, value_enum, default_value_t)]
    pub checksums: Checksums,
    /// Queries under way in the warm-up.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub warm_window: u16,
    /// Ask nothing before measuring.
    #[arg(long)]
    pub no_warm_up: bool,
    /// The partner is `pmdns-load reflector`: expect empty answers.
    #[arg(long)]
    pub reflector: bool,
}

/// The server's upstreams, played by the generator.
#[derive(Args, Clone, Debug)]
pub struct Upstreams {
    /// Play an upstream at this address, `ADDRESS` or `ADDRESS:PORT`, over the same port; repeat it for several. Answers
    /// come from the zone that answers are checked against.
    #[arg(long = "upstream", value_name = "ADDRESS[:PORT]", value_parser = upstream)]
    pub addresses: Vec<SocketAddr>,
    /// How long each upstream's answer is held, in microseconds.
    #[arg(long, default_value_t = 0, requires = "addresses", value_parser = clap::value_parser!(u64).range(0..=MAX_DELAY_US))]
    pub upstream_delay_us: u64,
    /// The share of the server's queries that get no answer.
    #[arg(long, default_value_t = 0.0, requires = "addresses", value_parser = part)]
    pub upstream_loss: f64,
    /// Answers of upstreams that can be held at once; what is more is left out and counted.
    #[arg(long, default_value_t = 8192, requires = "addresses", value_parser = held)]
    pub upstream_held: u32,
}

/// How to search for the ceiling.
#[derive(Args, Clone, Debug)]
pub struct Search {
    /// The first rate, in queries per second.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
    pub start_rate: u64,
    /// The highest rate, in queries per second.
    #[arg(long, default_value_t = 32_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
    pub max_rate: u64,
    /// How long each rate is offered.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    pub step_seconds: f64,
    /// The share of queries that may stay without a right answer.
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    pub max_loss: f64,
    /// The 99th percentile of latency that is still good, in microseconds; absent: any.
    #[arg(long)]
    pub max_p99_us: Option<f64>,
    /// How close passing and failing rate must come, as a share.
    #[arg(long, default_value_t = 0.05, value_parser = share)]
    pub precision: f64,
    /// How often a rate is tried before it counts as failed.
    #[arg(long, default_value_t = 2)]
    pub tries: u32,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
pub struct Output {
    /// Write the report as JSON to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// The server's process, whose CPU time is reported.
    #[arg(long)]
    pub server_pid: Option<u32>,
    /// How long each stretch of the plot is.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub slice_ms: u64,
}

/// The longest time that an upstream's answer is held: a second.
const MAX_DELAY_US: u64 = 1_000_000;
/// The port that upstreams are asked at.
const DNS_PORT: u16 = 53;
/// The longest phase: an hour.
const MAX_SECONDS: f64 = 3600.0;

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.01, MAX_SECONDS)
}

fn held(text: &str) -> Result<u32, String> {
    let lawful = text.parse().ok().filter(|held| (MIN_HELD..=MAX_HELD).contains(held));
    lawful.ok_or_else(|| format!("write a whole number from {MIN_HELD} to {MAX_HELD}"))
}

fn part(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

fn upstream(text: &str) -> Result<SocketAddr, String> {
    let whole =
        text.parse().or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, DNS_PORT)));
    whole.map_err(|_| "write an address, or address:port; [address]:port for IPv6".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 100.0)
}

fn exponent(text: &str) -> Result<f64, String> {
    number(text, 0.0, 10.0)
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let lawful = number.filter(|number| (least..=most).contains(number));
    lawful.ok_or_else(|| format!("write a number between {least} and {most}"))
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let mac = bytes.and_then(|bytes| bytes.try_into().ok());
    mac.ok_or_else(|| "write six hexadecimal bytes: 02:00:00:00:00:01".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_whole_command_line_is_read() {
        let line = "pmdns-load run --rate 5000 --seconds 2 --device net_null0 --eal --no-huge \
                    --mix hit=9,miss=1 --zipf 0.9 --server-mac 02:00:00:00:00:01 --edns 1232 --dnssec-ok";
        let arguments = Arguments::try_parse_from(line.split_ascii_whitespace()).unwrap();
        let Command::Run { rate, job, .. } = arguments.command else { panic!("not run") };
        let Job { link, load, .. } = job;
        assert_eq!((rate, load.zipf, load.server_mac), (5000, Some(0.9), Some([2, 0, 0, 0, 0, 1])));
        assert!(link.eal.starts_with("--no-huge"));
    }

    #[test]
    fn upstreams_are_read() {
        let line = "pmdns-load run --rate 5 --device net_null0 --upstream 10.77.0.9 --upstream [fd77::9]:5300 \
                    --upstream-delay-us 500 --upstream-loss 0.01 --upstream-held 100";
        let arguments = Arguments::try_parse_from(line.split_ascii_whitespace()).unwrap();
        let Command::Run { job, .. } = arguments.command else { panic!("not run") };
        let Upstreams { addresses, upstream_delay_us, upstream_loss, upstream_held } =
            job.upstreams;
        assert_eq!(
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.77.0.9:53", "[fd77::9]:5300"]
        );
        assert_eq!((upstream_delay_us, upstream_loss, upstream_held), (500, 0.01, 100));
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "--rate 0",
            "--rate 9 --seconds 0",
            "--rate 9 --mix hit",
            "--rate 9 --dnssec-ok",
            "--rate 9 --server-mac 1:2",
            "--rate 9 --names 5 --queries x",
            "--rate 9 --clients 0",
            "--rate 9 --upstream-loss 0.1",
            "--rate 9 --upstream 10.77.0 --upstream-loss 0.1",
            "--rate 9 --upstream 10.77.0.9 --upstream-loss 1.1",
            "--rate 9 --upstream 10.77.0.9 --upstream-held 9",
        ] {
            let line = format!("pmdns-load run --device net_null0 {bad}");
            assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{bad}");
        }
    }
}
