//! Ports over AF_XDP of a process that takes over: they have packet sockets until the process before has ended.

use std::time::{Duration, Instant};

use pmdns_nics::XdpSteering;
use pmdns_nics::dpdk::{PassingPort, PortError};

/// The kernel gives a queue free some 30 ms after its socket was closed. The driver of DPDK 22.11 cannot try a second time,
/// because it keeps what it has prepared. So this is long, and packet sockets serve meanwhile.
const SETTLING: Duration = Duration::from_millis(500);

/// Such ports.
#[derive(Default)]
pub(super) struct PassingPorts {
    ports: Vec<PassingPort>,
    steps: Steps,
}

impl PassingPorts {
    /// Adds one.
    pub(super) fn add(&mut self, port: PassingPort) {
        self.ports.push(port);
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Goes on. The process before has ended. `None`: something is left to do. Then: what steers the ports that have their sockets.
    pub(super) fn turn(&mut self, now: Instant) -> Option<Vec<XdpSteering>> {
        match self.steps.turn(now) {
            None if self.steps.step == Step::Rest => return Some(self.steerings()),
            None => {}
            Some(Action::Open) => {
                let outcome = self.open();
                self.steps.opened(outcome, now);
            }
            Some(Action::ClosePackets) => {
                // Each core is asked.
                let closed = self.ports.iter_mut().map(PassingPort::close_packets);
                self.steps.closed(closed.fold(true, |all, one| all & one));
            }
        }
        None
    }

    fn open(&mut self) -> Result<(), PortError> {
        self.ports.iter_mut().try_for_each(PassingPort::open)
    }

    fn steerings(&mut self) -> Vec<XdpSteering> {
        self.ports.iter_mut().filter_map(PassingPort::take_steering).collect()
    }
}

/// What is done when.
#[derive(Default)]
struct Steps {
    step: Step,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// The process before has just ended.
    #[default]
    Begin,
    Open(Instant),
    /// Frames that came before are read by then.
    ClosePackets(Instant),
    Rest,
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Open,
    ClosePackets,
}

impl Steps {
    fn turn(&mut self, now: Instant) -> Option<Action> {
        match self.step {
            Step::Begin => {
                self.step = Step::Open(now + SETTLING);
                None
            }
            Step::Open(at) => (at <= now).then_some(Action::Open),
            Step::ClosePackets(at) => (at <= now).then_some(Action::ClosePackets),
            Step::Rest => None,
        }
    }

    fn opened(&mut self, outcome: Result<(), PortError>, now: Instant) {
        self.step = match outcome {
            Ok(()) => {
                tracing::info!("the ports over AF_XDP have their own sockets");
                Step::ClosePackets(now + SETTLING)
            }
            Err(error) => {
                tracing::error!(
                    "{error}; a packet socket, which is slower, serves until a restart"
                );
                Step::Rest
            }
        };
    }

    fn closed(&mut self, are_all: bool) {
        if are_all {
            self.step = Step::Rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<(), PortError> {
        Err(PortError::ZeroByte { port: "edge".to_owned(), device: String::new() })
    }

    #[test]
    fn sockets_are_opened_after_a_while_and_packet_sockets_closed_after_another_one() {
        let (mut steps, mut now) = (Steps::default(), Instant::now());
        assert_eq!(steps.turn(now), None);
        assert_eq!(steps.turn(now + SETTLING / 2), None, "the kernel may have the queue yet");
        now += SETTLING;
        assert_eq!(steps.turn(now), Some(Action::Open));
        steps.opened(Ok(()), now);
        assert_eq!(steps.turn(now), None);
        now += SETTLING;
        assert_eq!(steps.turn(now), Some(Action::ClosePackets));
        steps.closed(false);
        assert_eq!(steps.turn(now), Some(Action::ClosePackets), "a core has not read all");
        steps.closed(true);
        assert_eq!((steps.turn(now), steps.step), (None, Step::Rest));
    }

    #[test]
    fn after_a_failure_packet_sockets_serve_on() {
        let (mut steps, now) = (Steps::default(), Instant::now());
        steps.turn(now);
        assert_eq!(steps.turn(now + SETTLING), Some(Action::Open));
        steps.opened(refused(), now + SETTLING);
        assert_eq!((steps.turn(now + SETTLING * 9), steps.step), (None, Step::Rest));
    }
}
