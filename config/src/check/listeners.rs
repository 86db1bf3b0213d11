//! Addresses that connections come to, over all tables: no two listeners share one.

use std::net::SocketAddr;

use super::rules::{Mistakes, broken};
use crate::problem::BrokenRule;
use crate::settings::Config;

pub(super) fn check(config: &Config, found: &mut Mistakes) {
    let streams = &config.streams;
    let listed = [("tcp", &streams.tcp), ("tls", &streams.tls), ("https", &streams.https)];
    let of_streams = listed.into_iter().flat_map(|(transport, addresses)| {
        let path = move |at| format!("streams.{transport}[{at}]");
        addresses.iter().enumerate().map(move |(at, address)| (path(at), *address))
    });
    let others = [
        ("metrics.listen", config.metrics.listen),
        ("api.listen", config.api.listen),
        ("transfer.listen", config.transfer.listen),
    ];
    let others = others.into_iter().filter_map(|(key, address)| Some((key.to_owned(), address?)));
    let all: Vec<(String, SocketAddr)> = of_streams.chain(others).collect();
    for (index, (path, address)) in all.iter().enumerate() {
        let earlier = all[..index].iter().find(|(_, earlier)| collide(*earlier, *address));
        // The same address twice in one list is told by the rules of `[streams]`.
        if let Some((other, _)) = earlier.filter(|(other, _)| list_of(other) != list_of(path)) {
            let fix = "each listener needs a port of its own";
            let problem =
                BrokenRule::Twice { value: address.to_string(), other: other.clone(), fix };
            found.note(broken(path, problem));
        }
    }
}

fn list_of(path: &str) -> &str {
    path.split('[').next().unwrap_or_default()
}

/// Whether the kernel takes only one of two listeners: an address of all interfaces contains each of its family.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (one_ip, other_ip) = (one.ip(), other.ip());
    let meet = one_ip == other_ip || one_ip.is_unspecified() || other_ip.is_unspecified();
    one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && meet
}
