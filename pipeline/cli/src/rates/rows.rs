//! The rates of one core, stage, ring, port, reason or upstream.

use pmdns_counters::Occupancy;

/// How a data core spent its time, in shares of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreLoad {
    /// Its CPU.
    pub core: usize,
    /// Turns that found work.
    pub busy: f64,
    /// Misses, if it resolves.
    pub resolving: f64,
    /// Publishing counters.
    pub housekeeping: f64,
    /// The rest: turns without work, and sleep.
    pub idle: f64,
    /// Packets it took in a second, from queues and rings.
    pub packets: f64,
}

/// The rates of a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageRate {
    /// Its name.
    pub stage: &'static str,
    /// Packets in a second.
    pub packets: f64,
    /// Ticks of the clock it took for one.
    pub ticks_per_packet: f64,
    /// Packets it had at a time.
    pub packets_per_batch: f64,
}

/// How full a ring was.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingLoad {
    /// Who fills and who empties it.
    pub ends: String,
    /// Its items.
    pub carries: String,
    /// Its slots.
    pub capacity: usize,
    /// Values taken from it in a second.
    pub taken: f64,
    /// Values in a second that found it full.
    pub refused: f64,
    /// Its occupancy, as its consumer found it.
    pub occupancy: Occupancy,
}

/// The rates of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortRate {
    /// Its name.
    pub port: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Frames received in a second.
    pub rx_frames: f64,
    /// Bits received in a second.
    pub rx_bits: f64,
    /// Frames sent in a second.
    pub tx_frames: f64,
    /// Bits sent in a second.
    pub tx_bits: f64,
    /// How much its busiest RX queue got beside the mean of all, from 1 to their number; `None`: it has one, or nothing came.
    pub imbalance: Option<f64>,
    /// Frames lost in a second: missed, damaged, without a buffer, not sent.
    pub lost: f64,
}

/// The rate of drops for one reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct DropRate {
    /// The reason.
    pub reason: String,
    /// Packets in a second.
    pub rate: f64,
    /// Packets since the start.
    pub total: u64,
}

/// How an upstream was doing.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamRate {
    /// Its address.
    pub address: String,
    /// Queries in a second.
    pub queries: f64,
    /// Replies in a second.
    pub replies: f64,
    /// Queries in a second without a reply in time, or ended by an error.
    pub failures: f64,
    /// Smoothed round-trip time, in milliseconds.
    pub srtt_ms: f64,
    /// Whether it rests after failures.
    pub rests: bool,
}
