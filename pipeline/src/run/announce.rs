//! What an instance logs when it starts.

use std::net::IpAddr;

use pmdns_config::{ByteSize, Config};
use pmdns_engine::engine::Engine;
use pmdns_engine::ports::mac_text;
use pmdns_engine::topology::Topology;
use pmdns_nics::Nic;
use pmdns_nics::hugepage::ArenaReport;

use crate::control::reload::describe;

/// Logs the plan, and what the machine gave.
pub(super) fn announce(
    config: &Config,
    topology: &Topology,
    engine: &Engine,
    nics: &[Box<dyn Nic>],
) {
    for (nic, port) in nics.iter().zip(&config.ports) {
        let facts = nic.facts();
        let mac = mac_text(facts.mac);
        let addresses: Vec<IpAddr> = port.addresses.iter().map(|address| address.address).collect();
        let link = if nic.link_up() { "up" } else { "down" };
        tracing::info!(
            "port {} {} {mac} link {link}, answers at {} port {}",
            facts.name,
            facts.driver,
            listed(&addresses),
            port.dns_port,
        );
        if !port.query_sources.is_empty() {
            let gateways = match &*port.gateways {
                [] => "no gateway".to_owned(),
                gateways => format!("gateways {}", listed(gateways)),
            };
            let sources = listed(&port.query_sources);
            tracing::info!("port {}: upstreams are asked from {sources}, {gateways}", facts.name);
        }
    }
    for line in topology.to_string().lines() {
        tracing::info!("{line}");
    }
    let warnings = config.warnings();
    for warning in warnings.iter().chain(&engine.arena.warning).chain(&engine.digest.warnings) {
        tracing::warn!("{warning}");
    }
    tracing::info!("rules: {}", describe(&engine.digest));
    let ArenaReport { bytes, page, numa_node, .. } = &engine.arena;
    let node = numa_node.map(|node| format!(", NUMA node {node}")).unwrap_or_default();
    let (size, page) = (ByteSize(*bytes), ByteSize(page.bytes()));
    tracing::info!("cache {size} on pages of {page}{node}");
}

fn listed(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}
