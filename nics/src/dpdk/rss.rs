//! How a port chooses the RX queue of a frame: the fields that it is asked to hash, and those that it cannot.

use std::mem;

use dpdk_sys::{DPDK_RSS_IP, DPDK_RSS_IPV4, DPDK_RSS_IPV6, DPDK_RSS_UDP, rte_eth_rss_conf};

use crate::Rss;

/// It says that it spreads by address, but the kernel spreads by ports as well.
const TAP: &str = "net_tap";

/// Whether the port can hash a datagram by its addresses alone. i40e and ena offer hashes of whole flows and of
/// fragments only. With those a datagram is hashed by its ports too, or not at all.
pub(super) fn keeps_clients(offered: u64, driver: &str) -> bool {
    let by_address = DPDK_RSS_IPV4 | DPDK_RSS_IPV6;
    offered & by_address == by_address && driver != TAP
}

/// Whether the port can hash a datagram by its addresses and ports.
pub(super) fn spreads_flows(offered: u64) -> bool {
    offered & DPDK_RSS_UDP != 0
}

/// The hash functions of a choice, as far as the port has them.
pub(super) fn functions(rss: Rss, offered: u64) -> u64 {
    match rss {
        Rss::None => 0,
        Rss::Clients => offered & DPDK_RSS_IP,
        // Fragments have no ports.
        Rss::Flows => offered & (DPDK_RSS_IP | DPDK_RSS_UDP),
    }
}

/// The fields that a started port was asked to hash and does not, as far as it tells.
pub(super) fn refused(id: u16, asked: u64) -> Option<String> {
    // SAFETY: the struct is numbers and a nullable pointer; with none, no key is written.
    let mut conf: rte_eth_rss_conf = unsafe { mem::zeroed() };
    // SAFETY: the port is ours and runs; `conf` can be written.
    let code = unsafe { dpdk_sys::rte_eth_dev_rss_hash_conf_get(id, &raw mut conf) };
    let missing = missing(asked, conf.rss_hf);
    (code == 0 && !missing.is_empty()).then(|| missing.join(", "))
}

fn missing(asked: u64, has: u64) -> Vec<&'static str> {
    let kinds = [
        (DPDK_RSS_IPV4, "IPv4 addresses"),
        (DPDK_RSS_IPV6, "IPv6 addresses"),
        (DPDK_RSS_UDP, "UDP ports"),
    ];
    let is_missing = |kind: u64| asked & kind != 0 && has & kind == 0;
    kinds.into_iter().filter(|(kind, _)| is_missing(*kind)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_plain_address_hashes_does_not_keep_clients() {
        let plain = DPDK_RSS_IPV4 | DPDK_RSS_IPV6;
        // As ixgbe, vmxnet3 before version 4, and i40e offer them.
        let (full, addresses, flows) =
            (plain | DPDK_RSS_UDP, plain, (DPDK_RSS_IP & !plain) | DPDK_RSS_UDP);
        assert!(keeps_clients(full, "net_ixgbe") && spreads_flows(full));
        assert!(keeps_clients(addresses, "net_vmxnet3") && !spreads_flows(addresses));
        assert!(!keeps_clients(flows, "net_i40e") && spreads_flows(flows));
        assert!(!keeps_clients(full, TAP) && !keeps_clients(DPDK_RSS_IPV4, "net_x"));
    }

    #[test]
    fn only_what_the_port_offers_is_asked_for() {
        let offered = DPDK_RSS_IPV4 | DPDK_RSS_UDP;
        assert_eq!(functions(Rss::None, offered), 0);
        assert_eq!(functions(Rss::Clients, offered), DPDK_RSS_IPV4);
        assert_eq!(functions(Rss::Flows, offered), offered);
        assert_eq!(functions(Rss::Flows, 1 << 63), 0);
    }

    #[test]
    fn what_a_port_does_not_hash_is_named() {
        let asked = DPDK_RSS_IP | DPDK_RSS_UDP;
        assert_eq!(missing(asked, asked), [""; 0]);
        assert_eq!(missing(asked, DPDK_RSS_IPV4), ["IPv6 addresses", "UDP ports"]);
        assert_eq!(missing(DPDK_RSS_IPV4, 0), ["IPv4 addresses"]);
    }
}
