//! The process that takes over.

use std::collections::VecDeque;
use std::time::Instant;

use crate::message::{FromIncoming, FromOutgoing, HandoverLimits, Hello, Offer, PROTOCOL};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncomingOutput {
    /// Send this to the outgoing process.
    Send(FromIncoming),
    /// Open ports, read lists, start threads; serve nothing yet. [`Incoming::prepared`] says when that is done.
    Prepare(Offer),
    /// Lock the cache, write to it, and serve. [`Incoming::taken`] says whether that was possible.
    Take,
    /// End the outgoing process, which does not come to its end.
    Kill,
    /// The outgoing process has ended. Every file is this one's now.
    Own,
    /// There is no outgoing process to take over from: start as if there had been none.
    StartAlone,
    /// End this process, and say why. The outgoing one goes on.
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
    /// It serves, and the outgoing process drains.
    Serving,
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
    outputs: VecDeque<IncomingOutput>,
}

impl Incoming {
    /// It has connected to the outgoing process.
    pub fn new(limits: HandoverLimits, version: &str, now: Instant) -> Self {
        let hello = Hello { protocol: PROTOCOL, version: version.to_owned() };
        Self {
            stage: Stage::Greeted,
            limits,
            deadline: Some(now + limits.greeting),
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
            (Stage::Serving, FromOutgoing::Refused(why)) => self.misunderstood(why),
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
            Stage::Serving => self.outputs.push_back(IncomingOutput::Kill),
            _ => self.end(why),
        }
    }

    /// Everything is prepared, or why it is not.
    pub fn prepared(&mut self, outcome: Result<(), String>, now: Instant) {
        match (self.stage, outcome) {
            (Stage::Preparing { is_alone: false }, Ok(())) => {
                self.send(FromIncoming::Prepared);
                self.enter(Stage::Prepared, Some(now + self.limits.taking));
            }
            (Stage::Preparing { is_alone: true }, Ok(())) => self.take_alone(),
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
                let most = self.limits.draining + self.limits.ending;
                self.enter(Stage::Serving, Some(now + most));
            }
            (Stage::Taking { is_alone: true }, Ok(())) => self.own(),
            (Stage::Taking { .. }, Err(why)) => self.end(why),
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
            Stage::Serving => self.own(),
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
            Stage::Serving => self.outputs.push_back(IncomingOutput::Kill),
            _ => self.end("the running process does not answer".to_owned()),
        }
    }

    /// The outgoing process is gone, or wants no more. In the latter case it has the lock, and the attempt fails.
    fn take_alone(&mut self) {
        self.outputs.push_back(IncomingOutput::Take);
        self.enter(Stage::Taking { is_alone: true }, None);
    }

    fn own(&mut self) {
        self.outputs.push_back(IncomingOutput::Own);
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

    #[test]
    fn an_outgoing_process_that_does_not_end_is_ended() {
        let (now, limits) = (Instant::now(), HandoverLimits::default());
        let mut incoming = Incoming::new(limits, "1", now);
        incoming.receive(FromOutgoing::Offer(Offer::default()));
        incoming.prepared(Ok(()), now);
        incoming.receive(FromOutgoing::Frozen(crate::NodeRole::default()));
        incoming.taken(Ok(()), now);
        let outputs = std::iter::from_fn(|| incoming.next_output());
        assert_eq!(outputs.last(), Some(IncomingOutput::Send(FromIncoming::Serving)));
        let most = limits.draining + limits.ending;
        incoming.turn(now + most / 2);
        assert_eq!(incoming.next_output(), None);
        incoming.turn(now + most);
        assert_eq!(incoming.next_output(), Some(IncomingOutput::Kill));
        incoming.closed();
        assert_eq!(incoming.next_output(), Some(IncomingOutput::Own));
        assert!(incoming.is_alone());
    }
}
