//! Frames in and out: packet buffers, ports and their queues, and the drivers behind them.
//!
//! A driver opens a port and hands out its queues as values: an [`RxQueue`] or a [`TxQueue`] belongs to
//! the one core that polls it. What it moves are [`Frame`]s. Nothing here knows DNS.
#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.

pub mod crash;
pub mod device;
mod doorbell;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod frame;
#[cfg(feature = "dpdk")]
mod groups;
mod heap;
pub mod hugepage;
mod kernel;
pub mod machine;
pub mod memory;
mod pause;
pub mod pcap;
mod pool;
mod prefetch;
mod relay;
pub mod reuseport;
mod sleeper;
pub mod stream;
pub mod sync;
mod tap;
mod thread;
#[cfg(feature = "dpdk")]
mod xdp;

pub use frame::{Burst, Frame, MAX_BURST, TooLong, Verified, release};
pub use heap::{FRAME_ROOM, HeapPool};
pub use kernel::{KERNEL_DESCRIPTORS, KernelEnd};
pub use pause::Pause;
pub use pool::FramePool;
pub use prefetch::{prefetch, prefetch_to_write};
pub use relay::{RelayEnd, Relayed};
pub use sleeper::Sleeper;
pub use tap::{TUN, Tap};
pub use thread::{DataThread, ThreadError, adopt_data_thread};
#[cfg(feature = "dpdk")]
pub use xdp::{XdpSteering, program_of_others};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Frames of a DPDK pool that each core caches; it may hold one and a half times as many. A pool needs that
/// many frames beyond those in use.
pub const POOL_CACHE_FRAMES: u32 = 256;

/// Tests that look through all descriptors of the process, or open and close many, run one at a time. Nor does another test start a
/// program then: it has copies of all descriptors until it runs.
#[cfg(test)]
pub(crate) static DESCRIPTORS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A receive queue of a port.
pub trait RxQueue: Send {
    /// Takes up to `limit` frames from the queue into `burst` and says how many. Never waits.
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize;

    /// From now on packets of this queue wake `sleeper` while the queue is [armed](Self::arm). `false`: they cannot, because
    /// the driver has no interrupts. It is called by the thread that polls.
    fn wake(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        let _ = sleeper;
        false
    }

    /// From now on a packet ends a sleep. One that came before may not.
    fn arm(&mut self) {}

    /// Packets end no sleep any more.
    fn disarm(&mut self) {}
}

/// A transmit queue of a port.
pub trait TxQueue: Send {
    /// Gives frames from the front of `burst` to the queue and says how many it took. What it could
    /// not take stays in `burst`. Never waits.
    fn transmit(&mut self, burst: &mut Burst) -> usize;
}

/// The queues of a started port, each to be owned by one core.
#[derive(Default)]
pub struct Queues {
    /// Receive queues, by queue number.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Transmit queues, by queue number.
    pub tx: Vec<Box<dyn TxQueue>>,
}

impl Queues {
    /// Queues that give nothing and take nothing: those of a port that is closed.
    pub fn none(rx_queues: u16, tx_queues: u16) -> Self {
        Self {
            rx: (0..rx_queues).map(|_| Box::new(NoQueue) as Box<dyn RxQueue>).collect(),
            tx: (0..tx_queues).map(|_| Box::new(NoQueue) as Box<dyn TxQueue>).collect(),
        }
    }
}

/// The queue of a port that is closed. It has no size, so a box of it allocates nothing.
pub struct NoQueue;

impl RxQueue for NoQueue {
    fn receive(&mut self, _burst: &mut Burst, _limit: usize) -> usize {
        0
    }
}

impl TxQueue for NoQueue {
    fn transmit(&mut self, _burst: &mut Burst) -> usize {
        0
    }
}

/// By what a port chooses the RX queue of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rss {
    /// By nothing of ours: there is one queue, or the device or its peer decides.
    #[default]
    None,
    /// By the addresses: a client's queries stay on one core.
    Clients,
    /// By addresses and UDP ports: the queries of one busy client spread too.
    Flows,
}

/// How many queues a port is to have: one for each core that receives, and one for each that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// How frames are spread over the receive queues.
    pub rss: Rss,
    /// Whether packets are to wake the cores that receive, if the device can.
    pub interrupts: bool,
}

/// A started port: its facts and counters, while its queues are polled elsewhere.
pub trait Nic: Send {
    /// The properties and abilities of the port.
    fn facts(&self) -> &PortFacts;

    /// The port's own counters.
    fn stats(&self) -> PortStats;

    /// The driver's extended counters, by name.
    fn xstats(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Whether the link is up.
    fn link_up(&self) -> bool {
        true
    }

    /// Whether this process has the device.
    fn is_open(&self) -> bool {
        true
    }

    /// Whether the device is being taken out of the machine: it wants to be [released](Self::release).
    fn is_being_removed(&self) -> bool {
        false
    }

    /// Gives the device back, if none of its queues is left, and says whether that is done. Never waits for them.
    fn release(&mut self) -> bool {
        true
    }

    /// Gives up the port. It stops, and gives back all it holds, when its queues are gone as well.
    fn close(self: Box<Self>);
}

/// The MTU of Ethernet, which is that of every port whose device has no smaller one.
pub const MTU: u16 = 1500;

/// The kind and the capabilities of a port, known before it starts. The topology is planned from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// The name it has in the config.
    pub name: String,
    /// The driver's name, for example `net_tap`.
    pub driver: String,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Receive queues it can have.
    pub max_rx_queues: u16,
    /// Transmit queues it can have.
    pub max_tx_queues: u16,
    /// Descriptors that each RX queue gets: those asked for, as far as the port allows.
    pub rx_descriptors: u16,
    /// Descriptors that each TX queue gets.
    pub tx_descriptors: u16,
    /// The most bytes of a packet behind the Ethernet header that it takes.
    pub mtu: u16,
    /// Whether it computes IPv4 and UDP checksums on transmit.
    pub checksum_offload: bool,
    /// Whether it has RX queues chosen by clients' addresses, so that a client's queries stay on one core.
    pub keeps_clients: bool,
    /// Whether it has RX queues chosen by addresses and UDP ports, so that a client's queries spread.
    pub spreads_flows: bool,
    /// Whether it hands over frames of its own host whose UDP checksum is unfinished, and does not say so.
    pub partial_checksums: bool,
    /// NUMA node of the device, if known.
    pub numa_node: Option<u32>,
}

pmdns_counters::counters! {
    /// A port's own counters, since it started.
    PortStats {
        /// Frames received.
        rx_frames: counter,
        /// Bytes received.
        rx_bytes: counter,
        /// Frames the port lost because no queue had room for them.
        rx_missed: counter,
        /// Frames received damaged.
        rx_errors: counter,
        /// Frames lost because the pool had no buffer.
        rx_no_buffer: counter,
        /// Frames sent.
        tx_frames: counter,
        /// Bytes sent.
        tx_bytes: counter,
        /// Frames the port could not send.
        tx_errors: counter,
    }
}

impl PortStats {
    /// The counters of this port, which goes on where another one has ended.
    #[must_use]
    pub fn after(self, before: Self) -> Self {
        Self::from_values(self.values().iter().zip(before.values()).map(|(a, b)| a + b))
    }
}
