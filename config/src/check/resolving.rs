//! The rules of `[slowpath]` and `[[upstream]]`: how misses are resolved.

use std::net::SocketAddr;

use super::{Verdict, at_most, broken, cores, in_range, power_of_two, unicast};
use crate::limits::{
    MAX_PENDING, MAX_QUERIES_PER_PORT, MAX_RING, MAX_SLOWPATH_THREADS, MAX_TIMEOUT_MS,
    MAX_UPSTREAMS, MIN_RING,
};
use crate::problem::Problem;
use crate::settings::{Config, Port, SlowPath, Upstream};

pub(super) fn check(config: &Config) -> Verdict {
    if config.upstreams.is_empty() {
        let fix = "an [[upstream]] table, as in address = \"192.0.2.53:53\"; misses have to be asked of somebody";
        return broken("upstream", Problem::None(fix));
    }
    check_slowpath(&config.slowpath)?;
    at_most("upstream", "resolvers", config.upstreams.len(), MAX_UPSTREAMS)?;
    for index in 0..config.upstreams.len() {
        check_upstream(&config.upstreams, index, &config.ports)?;
    }
    let deadline = config.slowpath.deadline_ms;
    for (upstream, one) in config.upstreams.iter().enumerate() {
        let timeout = one.timeout_ms;
        let leads = config.upstreams[..upstream].iter().all(|other| other.group != one.group);
        if leads && deadline < timeout {
            let problem = Problem::DeadlineTooShort { deadline, upstream, timeout };
            return broken("slowpath.deadline_ms", problem);
        }
    }
    Ok(())
}

fn check_slowpath(slowpath: &SlowPath) -> Verdict {
    in_range("slowpath.threads", slowpath.threads, 1, MAX_SLOWPATH_THREADS)?;
    cores("slowpath.cores", &slowpath.cores)?;
    for (index, core) in slowpath.cores.iter().enumerate() {
        if let Some(first) = slowpath.cores[..index].iter().position(|other| other == core) {
            let (value, other) = (core.to_string(), format!("slowpath.cores[{first}]"));
            let fix = "name each CPU once";
            return broken(
                format!("slowpath.cores[{index}]"),
                Problem::Twice { value, other, fix },
            );
        }
    }
    power_of_two("slowpath.ring", slowpath.ring, MIN_RING, MAX_RING)?;
    in_range("slowpath.deadline_ms", slowpath.deadline_ms, 1, MAX_TIMEOUT_MS)?;
    in_range("slowpath.max_pending", slowpath.max_pending, 1, MAX_PENDING)?;
    in_range("slowpath.max_waiting", slowpath.max_waiting, 1, MAX_PENDING)?;
    let key = "slowpath.max_waiting_per_client";
    in_range(key, slowpath.max_waiting_per_client, 1, MAX_PENDING)?;
    in_range("slowpath.queries_per_port", slowpath.queries_per_port, 1, MAX_QUERIES_PER_PORT)
}

fn check_upstream(upstreams: &[Upstream], index: usize, ports: &[Port]) -> Verdict {
    let upstream = &upstreams[index];
    let path = format!("upstream[{index}]");
    let key = format!("{path}.address");
    unicast(&key, upstream.address.ip())?;
    if upstream.address.port() == 0 {
        return broken(key, Problem::Empty("a port other than 0, as in \"192.0.2.53:53\""));
    }
    if let Some(port) = own_address(ports, upstream.address) {
        return broken(key, Problem::Loop { port });
    }
    let same = |other: &Upstream| other.address == upstream.address;
    if let Some(first) = upstreams[..index].iter().position(same) {
        let (value, other) = (upstream.address.to_string(), format!("upstream[{first}].address"));
        return broken(key, Problem::Twice { value, other, fix: "name each resolver once" });
    }
    in_range(&format!("{path}.timeout_ms"), upstream.timeout_ms, 1, MAX_TIMEOUT_MS)?;
    let key = format!("{path}.source");
    match upstream.source {
        Some(source_address) if source_address.is_ipv4() != upstream.address.is_ipv4() => {
            let address = upstream.address.ip();
            broken(key, Problem::OtherFamily { source_address, address })
        }
        Some(source_address) => unicast(&key, source_address),
        None => Ok(()),
    }
}

/// The path of the address of ours that `upstream` is, if a query sent there would come back to us.
fn own_address(ports: &[Port], upstream: SocketAddr) -> Option<String> {
    let asked = upstream.ip().to_canonical();
    ports.iter().enumerate().filter(|(_, port)| port.dns_port == upstream.port()).find_map(
        |(index, port)| {
            let place =
                port.addresses.iter().position(|ours| ours.address.to_canonical() == asked)?;
            Some(format!("port[{index}].addresses[{place}]"))
        },
    )
}
