//! The queues of a port that is configured, before it starts.

use std::ffi::c_int;

use dpdk_sys::{rte_eth_conf, rte_eth_dev_info};

use super::mempool::Mempool;
use super::port::ClosedPort;
use super::start::check;
use crate::PortPlan;
use crate::xdp::{Descriptors, XdpSteering};

impl ClosedPort {
    /// Sets up each queue. Drivers over AF_XDP open their sockets here: returns what leads frames to them, if it was found.
    pub(super) fn set_up_queues(
        &self,
        plan: &PortPlan,
        pool: &Mempool,
        info: &rte_eth_dev_info,
        conf: &rte_eth_conf,
    ) -> Result<Option<XdpSteering>, (&'static str, c_int)> {
        let id = self.device.id;
        let mut steering = self.interface.as_ref().map(|_| XdpSteering::default());
        let (rx, tx) = (self.facts.rx_descriptors, self.facts.tx_descriptors);
        // -1 (unknown) becomes SOCKET_ID_ANY, which DPDK wants as an unsigned number here.
        let node = self.facts.numa_node.unwrap_or(u32::MAX);
        let mut rx_conf = info.default_rxconf;
        rx_conf.offloads = conf.rxmode.offloads;
        for queue in 0..plan.rx_queues {
            let before = steering.as_ref().and_then(|_| Descriptors::list().ok());
            // SAFETY: the port is configured with this queue; it will hold the pool (`Started`).
            let code = unsafe {
                dpdk_sys::rte_eth_rx_queue_setup(
                    id,
                    queue,
                    rx,
                    node,
                    &raw const rx_conf,
                    pool.as_ptr(),
                )
            };
            check("set up an RX queue", code)?;
            let (interface, found) = (self.interface.as_ref(), steering.take());
            steering = found.zip(before).zip(interface).and_then(|((mut found, before), one)| {
                found.add(one.queue(queue), &before).is_ok_and(|is_found| is_found).then_some(found)
            });
        }
        let mut tx_conf = info.default_txconf;
        tx_conf.offloads = conf.txmode.offloads;
        for queue in 0..plan.tx_queues {
            // SAFETY: the port is configured with this queue.
            let code = unsafe {
                dpdk_sys::rte_eth_tx_queue_setup(id, queue, tx, node, &raw const tx_conf)
            };
            check("set up a TX queue", code)?;
        }
        Ok(steering)
    }
}
