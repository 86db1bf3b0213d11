//! The far end of the link of an engine whose upstreams are asked over its port: gateways, and the way to upstreams. The engine's
//! own cores send and receive all frames, and its own rings carry them.

use std::sync::Arc;
use std::time::Duration;

use pmdns_stages::Step;
use pmdns_stages::next_hop::HopTable;
use pmdns_stages::ports::Port;
use pmdns_stages::query_sources::{Owner, QuerySources};
use pmdns_stages::testing::Hosts;
use pmdns_stages::wire::{be16, ip};

use super::port_wire::{Asked, FAR_MAC, PortWire, read};

/// The far end of the link.
pub(crate) struct Link {
    far: Hosts,
    /// The UDP ports of all query sources.
    pub(crate) sources: Arc<QuerySources>,
    /// What is known of the next hops.
    pub(crate) table: Arc<HopTable>,
    /// Receive queues among which frames are spread.
    queues: usize,
    /// Whether replies come by another queue than their queries left by.
    pub(crate) crosses: bool,
    /// Whether nobody answers for the next hops.
    pub(crate) is_deaf: bool,
    /// Whether the next hops forward nothing.
    pub(crate) is_dead: bool,
    /// Frames that have come from here, as far as there was room for them.
    pub(crate) fed: u64,
    /// Frames that have got here.
    pub(crate) taken: u64,
}

/// What becomes of a frame that was sent.
pub(crate) enum Taken {
    /// It is for a client.
    NotOurs,
    /// It is lost.
    Lost,
    /// It asks for a next hop, which answers.
    OutgoingAnswer(Vec<u8>),
    /// It is a query, and who waits for the reply.
    Query(Owner, Asked),
}

impl Link {
    /// One whose next hops answer, at the other end of so many queues.
    pub(super) fn new(wire: &PortWire, queues: usize) -> Self {
        let addresses = wire.table.report(Duration::ZERO).map(|hop| hop.plan.address);
        Self {
            far: Hosts::new([Port::new(FAR_MAC, addresses)].into()),
            sources: Arc::clone(&wire.sources),
            table: Arc::clone(&wire.table),
            queues,
            crosses: false,
            is_deaf: false,
            is_dead: false,
            fed: 0,
            taken: 0,
        }
    }

    /// The queue that a frame comes by, as hardware spreads flows. It has to do with a query that left by `left_by`.
    pub(super) fn queue_of(&self, frame: &[u8], left_by: usize) -> usize {
        if self.crosses {
            return (left_by + 1) % self.queues;
        }
        // The UDP port that it goes to, or something like it.
        let port = be16(frame, ip::ETHERNET_LEN + ip::IPV4_MIN_LEN + 2).unwrap_or(0);
        usize::from(port) % self.queues
    }

    /// Takes a frame that was sent by a queue.
    pub(super) fn take(&mut self, frame: &[u8], queue: usize) -> Taken {
        let taken = match read(frame, queue) {
            Some(asked) => self.take_query(frame, asked),
            // One host alone is asked, and it is another.
            None if frame[0] & 1 == 0 && !frame.starts_with(&FAR_MAC) => Taken::Lost,
            None if self.is_deaf => Taken::Lost,
            None => {
                let packet = self.far.take(frame);
                assert_eq!(packet.step, Step::TRANSMIT, "nobody answers {frame:02x?}");
                Taken::OutgoingAnswer(packet.frame.bytes().to_vec())
            }
        };
        self.taken += u64::from(!matches!(taken, Taken::NotOurs));
        taken
    }

    fn take_query(&self, frame: &[u8], asked: Asked) -> Taken {
        let Some(source) = self.sources.find(0, asked.from.ip()) else { return Taken::NotOurs };
        // What goes elsewhere gets to somebody who keeps it.
        if self.is_dead || !frame.starts_with(&FAR_MAC) {
            return Taken::Lost;
        }
        // Nobody may wait any more.
        let owner = self.sources.owner(source, asked.from.port());
        owner.map_or(Taken::Lost, |owner| Taken::Query(owner, asked))
    }
}
