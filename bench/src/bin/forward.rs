//! Sends every frame back with its MAC addresses swapped, over our own port queues: `forward swap|parse|reflect CONFIG`.
//!
//! The config is one of pmdns; its `[eal]` and its first `[[port]]` count. `parse` puts our parse stage before the swap, which
//! checks the whole query, checksums and name included. `reflect` makes each query its own empty response, so that pmdns-load
//! can tell the latency of the link. For scripts/compare.sh; SIGTERM ends it.

use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use pmdns_bench::load::arp::Host;
use pmdns_bench::load::reflector::reflect;
use pmdns_config::Config;
use pmdns_nics::dpdk::{self, Eal, Mempool};
use pmdns_nics::{Burst, FramePool, PortPlan, Queues, Rss, release};
use pmdns_stages::parse::Parse;
use pmdns_stages::ports::Port;
use pmdns_stages::wire::ip::swap_halves;
use pmdns_stages::wire::name::Seed;
use pmdns_stages::{Context, Packet, Stage};

const BURST: usize = 32;
const FRAMES: u32 = 16_383;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, file] = arguments.as_slice() else {
        return Err("usage: forward swap|parse|reflect CONFIG".into());
    };
    let config = Config::load(Path::new(file))?;
    let settings = &config.ports[0];
    let eal = Eal::init("forward", &dpdk::arguments(&config.eal, &config.ports))?;
    let pool = Mempool::new("frames", FRAMES, None)?;
    let port = eal.open(settings, 0)?;
    let mac = port.facts().mac;
    let addresses = settings.addresses.iter().map(|prefix| prefix.address);
    let ours = Port::new(mac, addresses.clone());
    let plan = PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };
    let (_nic, mut queues) = port.start(&plan, &pool)?;
    match way.as_str() {
        "swap" => poll(queues, |_| ()),
        "parse" => {
            let mut parse = Parse::new([ours].into(), Seed::new([0; 16]));
            poll(queues, move |burst| parse_all(&mut parse, burst))
        }
        "reflect" => {
            let IpAddr::V4(address) = settings.addresses[0].address else {
                return Err("the port's first address is not of IPv4".into());
            };
            let never = AtomicBool::new(false);
            reflect(&mut queues, &FramePool::Dpdk(pool), Host { mac, address }, &never);
            Ok(())
        }
        _ => Err("swap, parse or reflect?".into()),
    }
}

/// Receives, works, swaps and transmits until the process is told to end.
fn poll(mut queues: Queues, mut work: impl FnMut(&mut Burst)) -> Result<(), Box<dyn Error>> {
    let mut burst = Burst::new();
    loop {
        queues.rx[0].receive(&mut burst, BURST);
        work(&mut burst);
        for frame in &mut burst {
            swap_halves::<12>(frame.bytes_mut());
        }
        queues.tx[0].transmit(&mut burst);
        release(&mut burst);
    }
}

/// Keeps the frames that hold a query for us.
fn parse_all(parse: &mut Parse, burst: &mut Burst) {
    let context = Context { now: 0, seconds: 0 };
    for frame in burst.iter() {
        frame.prefetch();
    }
    let mut queries = Burst::new();
    for frame in burst.drain(..) {
        let mut packet = Packet::arrived(frame, context.now);
        if parse.act(&mut packet, &context).is_on_the_line() {
            queries.push(packet.frame);
        }
    }
    *burst = queries;
}
