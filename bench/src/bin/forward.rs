//! Sends every frame back with its MAC addresses swapped, over our own port queues: `forward swap|parse CONFIG`.
//!
//! The config is one of pmdns; its `[eal]` and its first `[[port]]` count. `parse` puts our parse stage before the swap, which
//! checks the whole query, checksums and name included. For scripts/compare.sh; SIGTERM ends it.

use std::error::Error;
use std::path::Path;

use pmdns_config::Config;
use pmdns_nics::dpdk::{self, Eal, Mempool};
use pmdns_nics::{Burst, PortPlan, Queues, release};
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
        return Err("usage: forward swap|parse CONFIG".into());
    };
    let config = Config::load(Path::new(file))?;
    let settings = &config.ports[0];
    let eal = Eal::init("forward", &dpdk::arguments(&config.eal, &config.ports))?;
    let pool = Mempool::new("frames", FRAMES, None)?;
    let port = eal.open(settings, 0)?;
    let addresses = settings.addresses.iter().map(|prefix| prefix.address);
    let ours = Port::new(port.facts().mac, addresses);
    let (_nic, queues) =
        port.start(&PortPlan { rx_queues: 1, tx_queues: 1, interrupts: false }, &pool)?;
    match way.as_str() {
        "swap" => poll(queues, |_| ()),
        "parse" => {
            let mut parse = Parse::new([ours].into(), Seed::new([0; 16]));
            poll(queues, move |burst| parse_all(&mut parse, burst))
        }
        _ => Err("swap or parse?".into()),
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
