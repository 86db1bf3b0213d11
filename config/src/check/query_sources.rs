//! The rules of upstreams that are asked over a port: its query sources, its gateways, and `port` of `[[upstream]]`.

use std::net::IpAddr;

use super::rules::{Checked, Mistakes, at_most, broken, unicast, unlike_earlier};
use crate::limits::{MAX_GATEWAYS, MAX_PORT_QUERY_SOURCES, MAX_QUERY_SOURCES};
use crate::nearest::nearest;
use crate::problem::BrokenRule;
use crate::settings::{Config, PortSettings, Upstream};

/// Checks the addresses of each port.
pub(super) fn check(ports: &[PortSettings], found: &mut Mistakes) {
    let count = ports.iter().map(|port| port.query_sources.len()).sum();
    found.note(at_most("port", "query sources in all ports", count, MAX_QUERY_SOURCES));
    for (index, port) in ports.iter().enumerate() {
        check_sources(ports, index, found);
        let key = format!("port[{index}].gateways");
        found.note(at_most(&key, "gateways", port.gateways.len(), MAX_GATEWAYS));
        for place in 0..port.gateways.len() {
            found.note(check_gateway(ports, index, place));
        }
    }
}

fn check_sources(ports: &[PortSettings], index: usize, found: &mut Mistakes) {
    let (port, path) = (&ports[index], format!("port[{index}]"));
    let key = format!("{path}.query_sources");
    let (what, max) = ("query sources", MAX_PORT_QUERY_SOURCES);
    found.note(at_most(&key, what, port.query_sources.len(), max));
    for (place, source) in port.query_sources.iter().enumerate() {
        let key = format!("{key}[{place}]");
        found.note(routable(&key, *source, false));
        let other = service_address(ports, *source).or_else(|| {
            let before = |at: &(usize, usize)| *at < (index, place);
            query_source(ports, *source).filter(before).map(source_path)
        });
        if let Some(other) = other {
            let fix = "a query source is used for nothing else, so write another address";
            let problem = BrokenRule::Twice { value: source.to_string(), other, fix };
            found.note(broken(&*key, problem));
        }
        found.note(reachable(key, *source, port, &path));
    }
}

fn check_gateway(ports: &[PortSettings], index: usize, place: usize) -> Checked {
    let (port, path) = (&ports[index], |at| format!("port[{index}].gateways[{at}]"));
    let gateway = port.gateways[place];
    routable(&path(place), gateway, true)?;
    let ours = || query_source(ports, gateway).map(source_path);
    if let Some(other) = service_address(ports, gateway).or_else(ours) {
        let fix = "a gateway is another machine, so write its address";
        return broken(path(place), BrokenRule::Twice { value: gateway.to_string(), other, fix });
    }
    if !port.is_on_link(gateway) {
        let addresses = format!("port[{index}].addresses");
        return broken(path(place), BrokenRule::FarGateway(gateway, addresses));
    }
    let (same, fix) = (|other: &IpAddr| *other == gateway, "remove one of the two");
    unlike_earlier(&port.gateways, place, same, path, gateway, fix)
}

/// Checks which upstreams are asked over which ports.
pub(super) fn check_upstreams(config: &Config, found: &mut Mistakes) {
    for (index, upstream) in config.upstreams.iter().enumerate() {
        let path = format!("upstream[{index}]");
        let address = upstream.address.ip().map(|address| address.to_canonical());
        if let Some(source) = address.and_then(|address| query_source(&config.ports, address)) {
            let problem = BrokenRule::AsksItself(source_path(source));
            found.note(broken(format!("{path}.address"), problem));
        }
        if let Some(name) = &upstream.port {
            found.note(check_port(config, upstream, name, &path));
            if upstream.source.is_some() {
                found.note(broken(format!("{path}.source"), BrokenRule::SourceWithPort));
            }
        }
    }
}

/// Checks whether the port of this name can ask `upstream`.
fn check_port(config: &Config, upstream: &Upstream, name: &str, path: &str) -> Checked {
    let key = format!("{path}.port");
    let Some(index) = config.upstream_port(upstream) else {
        let allowed: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
        let nearest = nearest(name, allowed.iter().map(String::as_str)).map(str::to_owned);
        return broken(key, BrokenRule::NoPort { name: name.to_owned(), nearest, allowed });
    };
    let Some(address) = upstream.address.plain().map(|address| address.ip()) else {
        return broken(key, BrokenRule::NotOverUdp);
    };
    let (port, of_port) = (&config.ports[index], format!("port[{index}]"));
    if !port.query_sources.iter().any(|source| source.is_ipv4() == address.is_ipv4()) {
        let (name, port) = (name.to_owned(), of_port);
        return broken(key, BrokenRule::NoQuerySource { name, port, address });
    }
    let key = format!("{path}.address");
    routable(&key, address, true)?;
    reachable(key, address, port, &of_port)
}

/// Whether `address` can stand in packets on a wire. Link-local ones stay on the `link`.
fn routable(key: &str, address: IpAddr, on_link: bool) -> Checked {
    unicast(key, address)?;
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is_mapped = address.to_canonical() != address;
    if address.is_loopback() || is_mapped || (is_link_local && !on_link) {
        return broken(key, BrokenRule::NotRoutable(address));
    }
    Ok(())
}

/// Whether packets find a way between `address` and `port`, whose path is `path`.
fn reachable(key: String, address: IpAddr, port: &PortSettings, path: &str) -> Checked {
    match port.is_on_link(address) || port.has_gateway_for(address) {
        true => Ok(()),
        false => broken(key, BrokenRule::NoGateway { address, port: path.to_owned() }),
    }
}

/// The path of the address that clients ask, if `address` is one.
fn service_address(ports: &[PortSettings], address: IpAddr) -> Option<String> {
    ports.iter().enumerate().find_map(|(index, port)| {
        let place = port.addresses.iter().position(|ours| ours.address == address)?;
        Some(format!("port[{index}].addresses[{place}]"))
    })
}

/// The port and the place of the first query source that is `address`.
fn query_source(ports: &[PortSettings], address: IpAddr) -> Option<(usize, usize)> {
    ports.iter().enumerate().find_map(|(index, port)| {
        Some((index, port.query_sources.iter().position(|source| *source == address)?))
    })
}

fn source_path((port, place): (usize, usize)) -> String {
    format!("port[{port}].query_sources[{place}]")
}
