//! Sends every frame back with its MAC addresses swapped, with capsule: `capsule-bench -f FILE`, config as capsule has it.
//!
//! `FRAMES=swap` touches Ethernet alone; `FRAMES=parse` walks Ethernet, IPv4 and UDP first, as a DNS server must.

use anyhow::{Result, bail, ensure};
use capsule::batch::{Batch, Pipeline, Poll};
use capsule::config::load_config;
use capsule::packets::ip::v4::Ipv4;
use capsule::packets::{Ethernet, Packet, Udp4};
use capsule::{Mbuf, PortQueue, Runtime};

/// The name that the config gives its one port.
const PORT: &str = "port";

fn main() -> Result<()> {
    let mut runtime = Runtime::build(load_config()?)?;
    match std::env::var("FRAMES").as_deref() {
        Ok("swap") => runtime.add_pipeline_to_port(PORT, swap_all)?,
        Ok("parse") => runtime.add_pipeline_to_port(PORT, parse_all)?,
        _ => bail!("set FRAMES to swap or parse"),
    };
    runtime.execute()
}

fn swap_all(queue: PortQueue) -> impl Pipeline {
    Poll::new(queue.clone()).map(|frame: Mbuf| Ok(swap(frame.parse::<Ethernet>()?))).send(queue)
}

fn parse_all(queue: PortQueue) -> impl Pipeline {
    Poll::new(queue.clone())
        .map(|frame: Mbuf| {
            let udp = frame.parse::<Ethernet>()?.parse::<Ipv4>()?.parse::<Udp4>()?;
            ensure!(udp.dst_port() == 53, "not for DNS");
            Ok(swap(udp.deparse().deparse()))
        })
        .send(queue)
}

fn swap(mut ethernet: Ethernet) -> Ethernet {
    let (from, to) = (ethernet.src(), ethernet.dst());
    ethernet.set_src(to);
    ethernet.set_dst(from);
    ethernet
}
