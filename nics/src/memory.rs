//! A port made of memory: each end receives the frames that the other transmits.
//!
//! For tests and benches: no EAL, no root, no device. Each queue is a ring of frames.

use rtrb::{Consumer, Producer, RingBuffer};

use crate::{Burst, Frame, Nic, PortFacts, PortStats, Queues, RxQueue, TxQueue};

/// One end of a link in memory.
#[derive(Debug)]
pub struct MemoryNic {
    facts: PortFacts,
}

/// Both ends of a link with `queues` queues each way, `depth` frames deep. The first end is the port
/// under test, with port number `port` on what it receives; the second is the test's own.
pub fn link(name: &str, port: u8, queues: u16, depth: usize) -> (MemoryNic, Queues, Queues) {
    let mut near = Queues::default();
    let mut far = Queues::default();
    for _ in 0..queues {
        let (near_tx, far_rx) = RingBuffer::new(depth);
        let (far_tx, near_rx) = RingBuffer::new(depth);
        near.rx.push(Box::new(Rx { frames: near_rx, port }));
        near.tx.push(Box::new(Tx { frames: near_tx }));
        far.rx.push(Box::new(Rx { frames: far_rx, port }));
        far.tx.push(Box::new(Tx { frames: far_tx }));
    }
    (MemoryNic { facts: facts(name, "memory", queues) }, near, far)
}

/// Facts of a port that is not a device.
pub(crate) fn facts(name: &str, driver: &str, queues: u16) -> PortFacts {
    PortFacts {
        name: name.to_owned(),
        driver: driver.to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        max_rx_queues: queues,
        max_tx_queues: queues,
        rx_descriptors: 1024,
        tx_descriptors: 1024,
        mtu: crate::MTU,
        checksum_offload: false,
        keeps_clients: true,
        spreads_flows: true,
        partial_checksums: false,
        numa_node: None,
    }
}

impl Nic for MemoryNic {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }

    fn close(self: Box<Self>) {}
}

struct Rx {
    frames: Consumer<Frame>,
    port: u8,
}

impl RxQueue for Rx {
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let count = self.frames.slots().min(limit).min(burst.remaining_capacity());
        let Ok(frames) = self.frames.read_chunk(count) else { return 0 };
        for mut frame in frames {
            frame.set_port(self.port);
            burst.push(frame);
        }
        count
    }
}

struct Tx {
    frames: Producer<Frame>,
}

impl TxQueue for Tx {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let count = self.frames.slots().min(burst.len());
        match self.frames.write_chunk_uninit(count) {
            Ok(room) => room.fill_from_iter(burst.drain(..count)),
            Err(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapPool;

    #[test]
    fn a_full_queue_leaves_the_rest_in_the_burst() {
        let pool = HeapPool::new(8);
        let (_nic, mut near, mut far) = link("m0", 0, 1, 3);
        let mut burst: Burst = (0..5).filter_map(|_| pool.take()).collect();
        assert_eq!(near.tx[0].transmit(&mut burst), 3);
        assert_eq!(burst.len(), 2);
        let mut got = Burst::new();
        assert_eq!(far.rx[0].receive(&mut got, 2), 2);
        assert_eq!(far.rx[0].receive(&mut got, 32), 1);
        drop((got, burst));
        assert_eq!(pool.in_use(), 0);
    }
}
