//! Frames of the other process in a hand-over, which the main thread passes.
//!
//! The process before waits for upstreams, and the next one gets what they reply over ports. The process before may also have no
//! port any more by which it answers. So replies go from the next process to the one before, and answers go back.

use std::sync::Arc;

use pmdns_config::narrow::to_u8;
use pmdns_engine::relay::RelayRings;
use pmdns_nics::{Frame, PortPlan, Queues, RelayEnd, Relayed};

use crate::handover::RelayToBefore;

/// Frames of each kind that are passed in a turn.
const MAX_FRAMES: usize = 1024;

/// The way for frames, if there is another process.
pub(super) struct Relay {
    rings: RelayRings,
    way: Way,
    /// Replies for which there was no room.
    lost: u64,
}

enum Way {
    None,
    ToNext(Arc<RelayEnd>),
    ToBefore(RelayToBefore),
}

impl Relay {
    /// This process will have what comes, and the one `before` will wait for some of it, if there is one.
    pub(super) fn new(rings: RelayRings, before: Option<RelayToBefore>) -> Self {
        rings.set_beside(before.is_some());
        Self { rings, way: before.map_or(Way::None, Way::ToBefore), lost: 0 }
    }

    /// The next process serves, and has what comes.
    pub(super) fn open_to_next(&mut self, end: Option<Arc<RelayEnd>>) {
        self.way = end.map_or(Way::None, Way::ToNext);
    }

    /// Queues of a port that is closed, as many as this port has in `plan`: what is sent by them goes to the next process.
    pub(super) fn queues(&self, port: usize, plan: &PortPlan) -> Queues {
        let Way::ToNext(end) = &self.way else {
            return Queues::none(plan.rx_queues, plan.tx_queues);
        };
        end.queues(to_u8(port), plan.rx_queues, plan.tx_queues)
    }

    /// There is no other process any more.
    pub(super) fn close(&mut self) {
        self.rings.set_beside(false);
        while self.rings.next_reply().is_some() {}
        self.way = Way::None;
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            tracing::warn!("{lost} replies for the process before found no room");
        }
    }

    /// Passes what has come. `has_ports`: what the process before has to send can leave.
    pub(super) fn turn(&mut self, has_ports: bool) {
        let is_open = match &self.way {
            Way::None => return,
            Way::ToNext(end) => receive(&mut self.rings, end, RelayRings::take_in),
            Way::ToBefore(RelayToBefore { end, ports }) => {
                self.lost += pass_replies(&mut self.rings, end, ports);
                !has_ports
                    || receive(&mut self.rings, end, |rings, mut frame| {
                        let port = ports.get(usize::from(frame.port()));
                        if let Some(port) = port.copied().flatten() {
                            frame.set_port(port);
                            rings.send_on(frame);
                        }
                    })
            }
        };
        if !is_open {
            self.close();
        }
    }
}

/// Takes what has come. Returns false if nothing comes any more.
fn receive(rings: &mut RelayRings, end: &RelayEnd, take: impl Fn(&mut RelayRings, Frame)) -> bool {
    for _ in 0..MAX_FRAMES {
        if !rings.has_room() {
            return true;
        }
        match end.receive(rings.pool()) {
            Relayed::Frame(frame) => take(rings, frame),
            Relayed::Nothing => return true,
            Relayed::End => return false,
        }
    }
    true
}

/// Passes replies to the process before, and says how many found no room.
fn pass_replies(rings: &mut RelayRings, end: &RelayEnd, ports: &[Option<u8>]) -> u64 {
    let mut lost = 0;
    for _ in 0..MAX_FRAMES {
        let Some(frame) = rings.next_reply() else { break };
        let port = ports.iter().position(|ours| *ours == Some(frame.port()));
        lost += u64::from(!port.is_some_and(|port| end.send(to_u8(port), &frame)));
    }
    rings.publish();
    lost
}
