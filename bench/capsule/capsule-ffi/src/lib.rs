//! The bindings that capsule 0.1.5 uses, with the names of DPDK 19.11 for what has been renamed since.
#![allow(missing_docs, warnings, reason = "generated, and named as capsule expects")]

mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
pub use bindings::*;

/// Stands before the module of the same name that the line above brings in.
pub mod rte_eth_rx_mq_mode {
    pub use super::bindings::rte_eth_rx_mq_mode::*;
    pub const ETH_MQ_RX_RSS: Type = RTE_ETH_MQ_RX_RSS;
}

pub const ETH_RSS_IP: u64 = CAPSULE_RSS_IP;
pub const ETH_RSS_TCP: u64 = CAPSULE_RSS_TCP;
pub const ETH_RSS_UDP: u64 = CAPSULE_RSS_UDP;
pub const ETH_RSS_SCTP: u64 = CAPSULE_RSS_SCTP;
pub const DEV_TX_OFFLOAD_MBUF_FAST_FREE: u64 = CAPSULE_FAST_FREE;

unsafe extern "C" {
    /// `rte_eal_init` for arguments as DPDK 19.11 took them.
    #[link_name = "capsule_eal_init"]
    pub fn rte_eal_init(
        count: std::os::raw::c_int,
        arguments: *mut *mut std::os::raw::c_char,
    ) -> std::os::raw::c_int;
}
