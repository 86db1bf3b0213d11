//! A rig whose upstreams are asked over a port.

use std::net::IpAddr;
use std::sync::Arc;

use pmdns_config::Config;
use pmdns_engine::engine::Asking;
use pmdns_engine::news::NewsBoard;
use pmdns_engine::ring::ring;
use pmdns_engine::slowpath::{Hops, PortParts};
use pmdns_nics::{FramePool, Nic as _, memory};
use pmdns_stages::wire::name::Seed;

/// Has all upstreams asked over a port, as far as they can be: on its link, or by these gateways.
pub(super) fn ask(config: &mut Config, gateways: Vec<IpAddr>) {
    let port = pmdns_config::PortSettings::new("p0", "memory");
    let addresses = match gateways.is_empty() {
        true => ["10.9.0.2/24", "fd09::2/64"],
        false => ["10.9.0.2/28", "fd09::2/124"],
    };
    config.ports = vec![pmdns_config::PortSettings {
        addresses: addresses.map(|one| one.parse().unwrap()).into(),
        gateways,
        query_sources: ["10.9.0.60", "10.9.0.61", "fd09::60"]
            .map(|one| one.parse().unwrap())
            .into(),
        ..port
    }];
    let upstreams = config.upstreams.iter_mut();
    for upstream in upstreams.filter(|one| one.address.plain().is_some() && one.source.is_none()) {
        upstream.port = Some("p0".into());
    }
}

/// The parts of the driver of queries over ports. The test that turns it gives it rings.
pub(super) fn parts(config: &Config, pool: &FramePool, seed: Seed) -> (PortParts, Hops) {
    let (nic, ..) = memory::link("p0", 0, 1, 1);
    let mut asking = Asking::new(config, &[nic.facts().clone()], seed, &[]);
    let parts = PortParts {
        thread: 0,
        sources: Arc::clone(&asking.sources),
        ports: Arc::clone(&asking.ports),
        pool: pool.clone(),
        queries: ring(1).0,
        replies: Vec::new(),
        burst: pmdns_engine::slowpath::burst(false, 1),
    };
    (parts, asking.hops(config, &NewsBoard::new(1).into()))
}
