//! Next hops: where the outgoing process has found them. Their answers come to it until the incoming one serves, which is to ask
//! upstreams from then on.

use pmdns_config::Config;
use pmdns_handover::{MAX_PASSED_HOPS, PassedHop};
use pmdns_stages::next_hop::{KnownHop, MAX_HOPS};

const _: () = assert!(MAX_HOPS <= MAX_PASSED_HOPS, "an offer has room for all of them");

/// What is said to the next process: the numbers of its ports may be others.
pub(crate) fn passed_hops(
    config: &Config,
    known: impl Iterator<Item = KnownHop>,
) -> Vec<PassedHop> {
    let passed = |KnownHop { port, address, mac }| {
        Some(PassedHop { port: config.ports.get(port)?.name.clone(), address, mac })
    };
    known.filter_map(passed).collect()
}

/// What the process before has said, but for ports that this one does not have.
pub(crate) fn known_hops(config: &Config, passed: &[PassedHop]) -> Vec<KnownHop> {
    let known = |PassedHop { port, address, mac }: &PassedHop| {
        Some(KnownHop { port: config.port_of_name(port)?, address: *address, mac: *mac })
    };
    passed.iter().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use pmdns_config::PortSettings;

    use super::*;

    fn config(ports: &[&str]) -> Config {
        let ports = ports.iter().map(|name| PortSettings::new(name, "net_null0"));
        Config { ports: ports.collect(), ..Config::default() }
    }

    #[test]
    fn next_hops_pass_by_the_names_of_their_ports() {
        let hop = |port, host| KnownHop { port, address: [10, 0, 0, host].into(), mac: [2; 6] };
        let before = config(&["a", "b", "c"]);
        let passed = passed_hops(&before, [hop(0, 1), hop(1, 2), hop(2, 3), hop(9, 4)].into_iter());
        let names: Vec<_> = passed.iter().map(|hop| hop.port.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(known_hops(&before, &passed), [hop(0, 1), hop(1, 2), hop(2, 3)]);
        assert_eq!(known_hops(&config(&["c", "a"]), &passed), [hop(1, 1), hop(0, 3)]);
    }
}
