//! The state that threads share to ask upstreams over ports: query sources and next hops.

use std::sync::Arc;

use pmdns_config::Config;
use pmdns_nics::PortFacts;
use pmdns_stages::next_hop::{HopTable, KnownHop, LinkAddresses, NextHops, Routes};
use pmdns_stages::ports::{Claim, Port, Ports};
use pmdns_stages::query_sources::{QuerySources, Source};
use pmdns_stages::wire::name::Seed;

use crate::news::AllPortNews;
use crate::slowpath::{Hops, Seeker};

/// The ports and the ways to upstreams over them.
pub struct Asking {
    /// The ports, as the stages see them.
    pub ports: Ports,
    /// Whether the addresses of these are claimed.
    pub claim: Claim,
    /// The addresses that queries leave from.
    pub sources: Arc<QuerySources>,
    /// Over which next hop each upstream is asked.
    pub routes: Arc<Routes>,
    /// Where the next hops are.
    pub table: Arc<HopTable>,
    /// Taken by the thread that looks for them.
    seeker: Option<NextHops>,
}

impl Asking {
    /// The ports of a configuration, whose devices have these facts. It begins with the next hops that are known.
    pub fn new(config: &Config, facts: &[PortFacts], seed: Seed, known: &[KnownHop]) -> Self {
        let upstream = |one| Some((config.upstream_port(one)?, one.address.ip()?));
        let upstreams: Vec<_> = config.upstreams.iter().map(upstream).collect();
        let links: Vec<LinkAddresses> = config.ports.iter().map(link).collect();
        let routes = Routes::new(&links, &upstreams);
        let asked: Vec<bool> = (0..config.ports.len())
            .map(|port| upstreams.iter().flatten().any(|(over, _)| *over == port))
            .collect();
        let numbered = config.ports.iter().enumerate().filter(|(port, _)| asked[*port]);
        let sources = numbered.flat_map(|(port, settings)| {
            settings.query_sources.iter().map(move |address| Source { port, address: *address })
        });
        let sources = Arc::new(QuerySources::new(sources.collect()));
        let claim = Claim::default();
        claim.set_standby(config.standby.at_start);
        let ports = config.ports.iter().zip(facts).enumerate().map(|(number, (port, facts))| {
            let hops = routes.plans().iter().filter(|plan| plan.port == number);
            Port::of(port, facts)
                .with_claim(claim.clone())
                .with_query_sources(Arc::clone(&sources), number)
                .with_next_hops(hops.map(|plan| plan.address).collect())
        });
        // Behind the configured ports there may be that of clients over streams.
        let streams = facts.get(config.ports.len()).map(|_| Port::streams());
        // The last one is that of health checks.
        let ports: Ports = ports.chain(streams).chain([Port::probes()]).collect();
        let seeker = NextHops::new(routes.plans(), Arc::clone(&ports), seed).with_known(known);
        let table = Arc::clone(seeker.table());
        Self { ports, claim, sources, routes: Arc::new(routes), table, seeker: Some(seeker) }
    }

    /// The next hops for the next thread. The first one looks for them.
    pub fn hops(&mut self, config: &Config, news: &AllPortNews) -> Hops {
        let seeker = self.seeker.take().map(|hops| Seeker {
            hops,
            news: Arc::clone(news),
            names: config.ports.iter().map(|port| port.name.clone()).collect(),
        });
        let (routes, table) = (Arc::clone(&self.routes), Arc::clone(&self.table));
        Hops { routes, table, seeker }
    }
}

fn link(port: &pmdns_config::PortSettings) -> LinkAddresses {
    LinkAddresses {
        addresses: port.addresses.clone(),
        query_sources: port.query_sources.clone(),
        gateways: port.gateways.clone(),
    }
}
