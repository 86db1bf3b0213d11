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
        self.rings.set_beside(false);
        self.way = end.map_or(Way::None, Way::ToNext);
    }

    /// Queues of a port that is closed, as many as this port has in `plan`: what is sent by them goes to the next process.
    pub(super) fn queues(&self, port: usize, plan: &PortPlan) -> Queues {
        let Way::ToNext(end) = &self.way else {
            return Queues::none(plan.rx_queues, plan.tx_queues);
        };
        end.queues(to_u8(port), plan.rx_queues, plan.tx_queues)
    }

    /// The other process has ended, and everything that it has passed is taken.
    fn close(&mut self) {
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
                let send_on = |rings: &mut RelayRings, mut frame: Frame| {
                    let port = ports.get(usize::from(frame.port()));
                    if let Some(port) = port.copied().flatten() {
                        frame.set_port(port);
                        rings.send_on(frame);
                    }
                };
                let is_open = !has_ports || receive(&mut self.rings, end, send_on);
                if is_open {
                    self.lost += pass_replies(&mut self.rings, end, ports);
                }
                is_open
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
        // By a port that the process before lacks nothing comes for it.
        lost += u64::from(port.is_some_and(|port| !end.send(to_u8(port), &frame)));
    }
    lost
}

#[cfg(all(test, debug_assertions))]
#[expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use std::time::Duration;

    use pmdns_engine::clock::SteppedTime;
    use pmdns_engine::testing::{Rig, config};
    use pmdns_engine::worker::Worker;
    use pmdns_nics::{Burst, FramePool};

    use super::*;

    /// A data core looks for such frames as often.
    const HOUSEKEEPING: Duration = Duration::from_millis(20);

    /// A process beside another one.
    struct Beside {
        relay: Relay,
        worker: Worker,
        /// The far ends of its port.
        link: Queues,
        pool: FramePool,
        time: SteppedTime,
        /// The other process's end.
        other: RelayEnd,
    }

    impl Beside {
        fn new(way: impl FnOnce(Arc<RelayEnd>) -> Way) -> Self {
            let (rig, time) = Rig::stepped(&config(""));
            let Rig { mut workers, relay, far: link, pool, .. } = rig;
            let (near, far) = RelayEnd::pair().unwrap();
            let relay = Relay { way: way(Arc::new(near)), ..Relay::new(relay, None) };
            let other = RelayEnd::passed(far).unwrap();
            Self { relay, worker: workers.remove(0), link, pool, time, other }
        }

        fn send(&self, port: u8) {
            let mut frame = self.pool.take().unwrap();
            frame.resize(60).unwrap();
            assert!(self.other.send(port, &frame));
        }

        /// Passes frames, and lets the data core take them. Returns how many it has taken in all, and how many have left.
        fn turn(&mut self, has_ports: bool) -> (u64, usize) {
            self.relay.turn(has_ports);
            self.worker.turn();
            self.time.advance(HOUSEKEEPING);
            self.worker.turn();
            let left = self.link.rx[0].receive(&mut Burst::new(), 64);
            (self.worker.counters().tally.relayed, left)
        }
    }

    #[test]
    fn a_frame_for_the_process_before_goes_down_its_line() {
        let mut before = Beside::new(Way::ToNext);
        before.send(0);
        assert_eq!(before.turn(true), (1, 0), "it is no query");
        let mut queues = before.relay.queues(0, &plan());
        let mut burst: Burst = before.pool.take().into_iter().collect();
        assert_eq!(queues.tx[0].transmit(&mut burst), 1);
        assert!(matches!(before.other.receive(&before.pool), Relayed::Frame(_)));
    }

    #[test]
    fn what_the_process_before_sends_leaves_by_the_port_of_that_name_once_it_is_open() {
        let ports = vec![None, Some(0)];
        let mut next = Beside::new(|end| Way::ToBefore(RelayToBefore { end, ports }));
        (0..3).for_each(|port| next.send(port));
        assert_eq!(next.turn(false), (0, 0));
        assert_eq!(next.turn(true), (1, 1), "two ports are not here");
    }

    #[test]
    fn the_way_ends_with_the_other_process_when_everything_is_taken() {
        let mut next = Beside::new(Way::ToNext);
        next.send(0);
        next.other = RelayEnd::pair().unwrap().0;
        assert_eq!(next.turn(true), (1, 0));
        assert!(matches!(next.relay.way, Way::None));
        let queues = next.relay.queues(0, &plan());
        assert_eq!((queues.rx.len(), queues.tx.len()), (2, 3));
    }

    fn plan() -> PortPlan {
        let rss = pmdns_nics::Rss::None;
        PortPlan { rx_queues: 2, tx_queues: 3, rss, interrupts: false }
    }
}
