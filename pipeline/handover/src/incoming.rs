//! The process that takes over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::keeper::ProcessId;
use crate::message::{FromIncoming, FromOutgoing, HandoverLimits, Hello, Offer, PROTOCOL};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingOutput {
    /// Send this to the outgoing process. It may answer by [`Incoming::receive`].
    Send(FromIncoming),
    /// Open ports, read lists, start threads; serve nothing yet, and leave the devices of the offer. It comes with the offer.
    /// [`Incoming::prepared`] says when that is done.
    Prepare(Offer),
    /// Lock the cache, write to it, and serve. It comes when the outgoing process writes no more, or has ended.
    /// [`Incoming::taken`] says whether that was possible.
    Take,
    /// Open the devices of the offer. It comes once at most: when the outgoing process has closed them, or after [`Self::Own`].
    /// [`Incoming::opened`] says whether that was possible. The kernel may still be closing them after the outgoing process has
    /// ended, so an attempt that fails then is repeated for a moment.
    OpenDevices,
    /// End the outgoing process, which does not come to its end. [`Incoming::closed`] says when it has.
    Kill,
    /// The outgoing process has ended. Every file is this one's now. Nothing answers it.
    Own,
    /// There is no outgoing process to take over from: start as if there had been none. It comes instead of an offer, and nothing
    /// answers it.
    StartAlone,
    /// End this process, and say why. It comes when it cannot take over, and nothing answers it. The outgoing one goes on.
    End(String),
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It waits for the offer.
    Greeted,
    /// It prepares. The outgoing process may be gone meanwhile.
    Preparing { is_alone: bool },
    /// It waits until the outgoing process writes no more.
    Prepared,
    /// It takes over.
    Taking { is_alone: bool },
    /// It serves, and the outgoing process drains. `waits_for_devices`: the outgoing process has not closed them yet.
    Serving { waits_for_devices: bool },
    /// It is the only one.
    Alone,
    /// It ends.
    Ended,
}

/// The incoming process.
#[derive(Debug)]
pub struct Incoming {
    stage: Stage,
    limits: HandoverLimits,
    deadline: Option<Instant>,
    /// Whether it opens devices of the outgoing process.
    has_devices: bool,
    outputs: VecDeque<IncomingOutput>,
}

impl Incoming {
    /// It has connected to the outgoing process.
    pub fn new(
        limits: HandoverLimits,
        version: &str,
        keeper: Option<ProcessId>,
        now: Instant,
    ) -> Self {
        let hello = Hello { protocol: PROTOCOL, version: version.to_owned(), keeper };
        Self {
            stage: Stage::Greeted,
            limits,
            deadline: Some(now + limits.greeting),
            has_devices: false,
            outputs: VecDeque::from([IncomingOutput::Send(FromIncoming::Hello(hello))]),
        }
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<IncomingOutput> {
        self.outputs.pop_front()
    }

    /// Whether this process serves, and the other one has ended.
    pub fn is_alone(&self) -> bool {
        self.stage == Stage::Alone
    }

    /// The outgoing process says something.
    pub fn receive(&mut self, message: FromOutgoing) {
        match (self.stage, message) {
            (Stage::Greeted, FromOutgoing::Offer(offer)) => {
                self.outputs.push_back(IncomingOutput::Prepare(offer));
                // The outgoing process has the bound of it.
                self.enter(Stage::Preparing { is_alone: false }, None);
            }
            (Stage::Prepared, FromOutgoing::Frozen(_)) => {
                self.outputs.push_back(IncomingOutput::Take);
                self.enter(Stage::Taking { is_alone: false }, None);
            }
            (Stage::Serving { waits_for_devices: true }, FromOutgoing::Closed) => {
                self.outputs.push_back(IncomingOutput::OpenDevices);
                self.stage = Stage::Serving { waits_for_devices: false };
            }
            (Stage::Serving { .. }, FromOutgoing::Refused(why)) => self.misunderstood(why),
            (Stage::Alone | Stage::Ended, _) => {}
            (_, FromOutgoing::Refused(why)) => self.end(why),
            (stage, message) => {
                self.misunderstood(format!("{message:?} is no answer while {stage:?}"))
            }
        }
    }

    /// What came is no message.
    pub fn misunderstood(&mut self, why: String) {
        match self.stage {
            // Both serve. It is this one that goes on.
            Stage::Serving { .. } => self.outputs.push_back(IncomingOutput::Kill),
            _ => self.end(why),
        }
    }

    /// Everything is prepared but for these devices of the offer, or why it is not.
    pub fn prepared(&mut self, outcome: Result<Vec<String>, String>, now: Instant) {
        match (self.stage, outcome) {
            (Stage::Preparing { is_alone }, Ok(devices)) => {
                self.has_devices = !devices.is_empty();
                if is_alone {
                    return self.take_alone();
                }
                self.send(FromIncoming::Prepared(devices));
                self.enter(Stage::Prepared, Some(now + self.limits.taking));
            }
            (Stage::Preparing { .. }, Err(why)) => self.end(why),
            _ => {}
        }
    }

    /// It serves, or why it does not. If the outgoing process is gone, and the lock of the cache has not fallen yet, `taken` comes
    /// later.
    pub fn taken(&mut self, outcome: Result<(), String>, now: Instant) {
        match (self.stage, outcome) {
            (Stage::Taking { is_alone: false }, Ok(())) => {
                self.send(FromIncoming::Serving);
                let waits_for_devices = self.has_devices;
                let passing = if waits_for_devices { self.limits.passing } else { Duration::ZERO };
                let most = passing + self.limits.draining + self.limits.ending;
                self.enter(Stage::Serving { waits_for_devices }, Some(now + most));
            }
            (Stage::Taking { is_alone: true }, Ok(())) => self.own(self.has_devices),
            (Stage::Taking { .. }, Err(why)) => self.end(why),
            _ => {}
        }
    }

    /// Every such device is open, or why one is not. In the latter case this process ends, unless it
    /// is alone: then the caller goes on with what is open.
    pub fn opened(&mut self, outcome: Result<(), String>) {
        match (self.stage, outcome) {
            (Stage::Serving { .. }, Ok(())) => self.send(FromIncoming::Opened),
            (Stage::Serving { .. }, Err(why)) => self.end(why),
            _ => {}
        }
    }

    /// The connection was closed by the other end.
    pub fn closed(&mut self) {
        match self.stage {
            Stage::Greeted => {
                self.outputs.push_back(IncomingOutput::StartAlone);
                self.enter(Stage::Ended, None);
            }
            Stage::Preparing { .. } => self.enter(Stage::Preparing { is_alone: true }, None),
            Stage::Prepared => self.take_alone(),
            Stage::Taking { .. } => self.enter(Stage::Taking { is_alone: true }, None),
            Stage::Serving { waits_for_devices } => self.own(waits_for_devices),
            Stage::Alone | Stage::Ended => {}
        }
    }

    /// Ends what takes too long.
    pub fn turn(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        match self.stage {
            Stage::Serving { .. } => self.outputs.push_back(IncomingOutput::Kill),
            _ => self.end("the running process does not answer".to_owned()),
        }
    }

    /// The outgoing process is gone, or wants no more. In the latter case it has the lock, and the attempt fails.
    fn take_alone(&mut self) {
        self.outputs.push_back(IncomingOutput::Take);
        self.enter(Stage::Taking { is_alone: true }, None);
    }

    fn own(&mut self, waits_for_devices: bool) {
        self.outputs.push_back(IncomingOutput::Own);
        if waits_for_devices {
            // The kernel closes them with the process that had them.
            self.outputs.push_back(IncomingOutput::OpenDevices);
        }
        self.enter(Stage::Alone, None);
    }

    fn end(&mut self, why: String) {
        self.outputs.push_back(IncomingOutput::End(why));
        self.enter(Stage::Ended, None);
    }

    fn send(&mut self, message: FromIncoming) {
        self.outputs.push_back(IncomingOutput::Send(message));
    }

    fn enter(&mut self, stage: Stage, deadline: Option<Instant>) {
        self.stage = stage;
        self.deadline = deadline;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::NodeRole;

    /// It takes over, and opens so many devices of the process before.
    fn taking(devices: usize, now: Instant) -> Incoming {
        let mut incoming = Incoming::new(HandoverLimits::default(), "1", None, now);
        incoming.receive(FromOutgoing::Offer(Offer::default()));
        incoming.prepared(Ok(vec!["net_memif0".to_owned(); devices]), now);
        incoming.receive(FromOutgoing::Frozen(NodeRole::default()));
        assert_eq!(outputs(&mut incoming).last(), Some(&IncomingOutput::Take));
        incoming
    }

    fn serving(devices: usize, now: Instant) -> Incoming {
        let mut incoming = taking(devices, now);
        incoming.taken(Ok(()), now);
        assert_eq!(outputs(&mut incoming), [IncomingOutput::Send(FromIncoming::Serving)]);
        incoming
    }

    fn outputs(incoming: &mut Incoming) -> Vec<IncomingOutput> {
        std::iter::from_fn(|| incoming.next_output()).collect()
    }

    #[test]
    fn an_outgoing_process_that_does_not_end_is_ended() {
        let (now, limits) = (Instant::now(), HandoverLimits::default());
        let most = limits.draining + limits.ending;
        for (devices, most) in [(0, most), (1, limits.passing + most)] {
            let mut incoming = serving(devices, now);
            incoming.turn(now + most - Duration::from_millis(1));
            assert_eq!(outputs(&mut incoming), []);
            incoming.turn(now + most);
            assert_eq!(outputs(&mut incoming), [IncomingOutput::Kill]);
            incoming.closed();
            assert_eq!(outputs(&mut incoming).first(), Some(&IncomingOutput::Own));
            assert!(incoming.is_alone());
        }
    }

    #[test]
    fn devices_are_opened_when_they_are_closed() {
        let mut incoming = serving(2, Instant::now());
        incoming.receive(FromOutgoing::Closed);
        assert_eq!(outputs(&mut incoming), [IncomingOutput::OpenDevices]);
        incoming.opened(Ok(()));
        assert_eq!(outputs(&mut incoming), [IncomingOutput::Send(FromIncoming::Opened)]);
        incoming.closed();
        assert_eq!(outputs(&mut incoming), [IncomingOutput::Own], "it has them");
    }

    #[test]
    fn devices_of_a_process_that_has_ended_are_opened_once() {
        let now = Instant::now();
        let mut alone = taking(1, now);
        alone.closed();
        alone.taken(Ok(()), now);
        let mut waits = serving(1, now);
        waits.closed();
        for incoming in [&mut alone, &mut waits] {
            assert_eq!(outputs(incoming), [IncomingOutput::Own, IncomingOutput::OpenDevices]);
            incoming.opened(Ok(()));
            assert_eq!(outputs(incoming), [], "there is nobody to tell");
        }
        let mut opens = serving(1, now);
        opens.receive(FromOutgoing::Closed);
        opens.closed();
        assert_eq!(outputs(&mut opens), [IncomingOutput::OpenDevices, IncomingOutput::Own]);
        opens.opened(Ok(()));
        assert_eq!(outputs(&mut opens), []);
    }

    #[test]
    fn a_process_that_cannot_open_the_devices_ends_unless_it_is_alone() {
        for is_alone in [false, true] {
            let mut incoming = serving(1, Instant::now());
            incoming.receive(FromOutgoing::Closed);
            if is_alone {
                incoming.closed();
            }
            outputs(&mut incoming);
            incoming.opened(Err("no device".to_owned()));
            let end = IncomingOutput::End("no device".to_owned());
            assert_eq!(outputs(&mut incoming).contains(&end), !is_alone);
        }
    }

    #[test]
    fn devices_that_nothing_waits_for_are_misunderstood() {
        let now = Instant::now();
        let mut none = serving(0, now);
        none.receive(FromOutgoing::Closed);
        assert_eq!(outputs(&mut none), [IncomingOutput::Kill]);
        let mut twice = serving(1, now);
        twice.receive(FromOutgoing::Closed);
        twice.receive(FromOutgoing::Closed);
        assert_eq!(outputs(&mut twice), [IncomingOutput::OpenDevices, IncomingOutput::Kill]);
        let mut early = taking(1, now);
        early.receive(FromOutgoing::Closed);
        assert!(matches!(outputs(&mut early)[..], [IncomingOutput::End(_)]));
    }
}
