//! The rules of `[slowpath]` and `[[upstream]]`: how misses are resolved.

use std::net::SocketAddr;

use super::rules::{
    Checked, Mistakes, at_most, broken, cores, in_range, power_of_two, unicast, unlike_earlier,
};
use crate::limits::{
    MAX_BOOTSTRAP, MAX_PENDING, MAX_PINS, MAX_QUERIES_PER_PORT, MAX_RING, MAX_SLOWPATH_THREADS,
    MAX_TIMEOUT_MS, MAX_UPSTREAMS, MIN_RING,
};
use crate::problem::BrokenRule;
use crate::settings::{Config, PortSettings, SlowPathSettings, Upstream};
use crate::upstream::{Endpoint, Host, Server};

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    if config.upstreams.is_empty() {
        let fix = "an [[upstream]] table, as in address = \"192.0.2.53:53\"; misses have to be asked of somebody";
        found.note(broken("upstream", BrokenRule::None(fix)));
    }
    check_slowpath(&config.slowpath, found);
    check_bootstrap(config, found);
    found.note(at_most("upstream", "resolvers", config.upstreams.len(), MAX_UPSTREAMS));
    for index in 0..config.upstreams.len() {
        check_upstream(config, index, found);
    }
    let deadline = config.slowpath.deadline_ms;
    for (upstream, one) in config.upstreams.iter().enumerate() {
        let timeout = one.timeout_ms;
        let leads = config.upstreams[..upstream].iter().all(|other| other.group != one.group);
        if leads && deadline < timeout {
            let problem = BrokenRule::DeadlineTooShort { deadline, upstream, timeout };
            found.note(broken("slowpath.deadline_ms", problem));
        }
    }
}

/// Where cores resolve, the slow path has no threads of its own.
pub(super) fn check_cores_that_resolve(config: &Config, found: &mut Mistakes) {
    let Some(placement) = config.placements.iter().position(|one| one.resolver) else { return };
    let written = [
        ("slowpath.threads", config.slowpath.threads.is_some()),
        ("slowpath.cores", !config.slowpath.cores.is_empty()),
    ];
    for (key, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
        found.note(broken(key, BrokenRule::CoresResolve { placement }));
    }
}

fn check_slowpath(slowpath: &SlowPathSettings, found: &mut Mistakes) {
    if let Some(threads) = slowpath.threads {
        found.note(in_range("slowpath.threads", threads, 1, MAX_SLOWPATH_THREADS));
    }
    cores("slowpath.cores", &slowpath.cores, found);
    for (index, core) in slowpath.cores.iter().enumerate() {
        let (same, path) = (|other: &_| other == core, |at| format!("slowpath.cores[{at}]"));
        let fix = "name each CPU once";
        found.note(unlike_earlier(&slowpath.cores, index, same, path, core, fix));
    }
    found.note(power_of_two("slowpath.ring", slowpath.ring, MIN_RING, MAX_RING));
    found.note(in_range("slowpath.deadline_ms", slowpath.deadline_ms, 1, MAX_TIMEOUT_MS));
    found.note(in_range("slowpath.max_pending", slowpath.max_pending, 1, MAX_PENDING));
    found.note(in_range("slowpath.max_waiting", slowpath.max_waiting, 1, MAX_PENDING));
    let key = "slowpath.max_waiting_per_client";
    found.note(in_range(key, slowpath.max_waiting_per_client, 1, MAX_PENDING));
    let key = "slowpath.queries_per_port";
    found.note(in_range(key, slowpath.queries_per_port, 1, MAX_QUERIES_PER_PORT));
}

fn check_bootstrap(config: &Config, found: &mut Mistakes) {
    let resolvers = &config.slowpath.bootstrap;
    found.note(at_most("slowpath.bootstrap", "resolvers", resolvers.len(), MAX_BOOTSTRAP));
    for (index, resolver) in resolvers.iter().enumerate() {
        let key = format!("slowpath.bootstrap[{index}]");
        found.note(check_plain(key, *resolver, &config.ports));
    }
}

fn check_upstream(config: &Config, index: usize, found: &mut Mistakes) {
    let upstream = &config.upstreams[index];
    let path = format!("upstream[{index}]");
    found.note(check_address(format!("{path}.address"), config, index));
    if !upstream.address.is_encrypted() {
        found.note(check_unverified(&path, upstream));
    }
    let key = format!("{path}.timeout_ms");
    found.note(in_range(&key, upstream.timeout_ms, 1, MAX_TIMEOUT_MS));
    found.note(at_most(&format!("{path}.pin"), "pins", upstream.pin.len(), MAX_PINS));
    if upstream.ca_file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
        found.note(broken(format!("{path}.ca_file"), BrokenRule::Empty("the path of a PEM file")));
    }
    let key = format!("{path}.source");
    found.note(match (upstream.source, upstream.address.ip()) {
        (Some(source_address), Some(address)) if source_address.is_ipv4() != address.is_ipv4() => {
            broken(key, BrokenRule::OtherFamily { source_address, address })
        }
        (Some(source_address), _) => unicast(&key, source_address),
        (None, _) => Ok(()),
    });
}

fn check_address(key: String, config: &Config, index: usize) -> Checked {
    let upstream = &config.upstreams[index];
    match upstream.address.endpoint() {
        Endpoint::Plain(address) => check_plain(key, *address, &config.ports)?,
        Endpoint::Encrypted(Server { host: Host::Address(address), .. }) => {
            unicast(&key, *address)?
        }
        Endpoint::Encrypted(_) if config.slowpath.bootstrap.is_empty() => {
            return broken(key, BrokenRule::NoBootstrap);
        }
        Endpoint::Encrypted(_) => {}
    }
    let same = |other: &Upstream| other.address.endpoint() == upstream.address.endpoint();
    let path = |at| format!("upstream[{at}].address");
    let fix = "name each resolver once";
    unlike_earlier(&config.upstreams, index, same, path, &upstream.address, fix)
}

/// A resolver that is asked over UDP.
fn check_plain(key: String, address: SocketAddr, ports: &[PortSettings]) -> Checked {
    unicast(&key, address.ip())?;
    if address.port() == 0 {
        return broken(key, BrokenRule::Empty("a port other than 0, as in \"192.0.2.53:53\""));
    }
    match own_address(ports, address) {
        Some(port) => broken(key, BrokenRule::Loop { port }),
        None => Ok(()),
    }
}

/// A resolver that has no certificate.
fn check_unverified(path: &str, upstream: &Upstream) -> Checked {
    let keys = [
        ("name", upstream.name.is_some()),
        ("pin", !upstream.pin.is_empty()),
        ("ca_file", upstream.ca_file.is_some()),
    ];
    match keys.iter().find(|(_, written)| *written) {
        Some((key, _)) => broken(format!("{path}.{key}"), BrokenRule::NotEncrypted),
        None => Ok(()),
    }
}

/// The path of the address of ours that `upstream` is, if a query sent there would come back to us.
fn own_address(ports: &[PortSettings], upstream: SocketAddr) -> Option<String> {
    let asked = upstream.ip().to_canonical();
    ports.iter().enumerate().filter(|(_, port)| port.dns_port == upstream.port()).find_map(
        |(index, port)| {
            let place =
                port.addresses.iter().position(|ours| ours.address.to_canonical() == asked)?;
            Some(format!("port[{index}].addresses[{place}]"))
        },
    )
}
