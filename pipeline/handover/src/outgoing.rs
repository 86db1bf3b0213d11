//! The process that serves, and gives what it has to the next one.

use std::collections::VecDeque;
use std::time::Instant;

use crate::keeper::ProcessId;
use crate::message::{
    FromIncoming, FromOutgoing, HandoverLimits, Hello, NodeRole, Offer, PROTOCOL,
};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingOutput {
    /// Send this to the incoming process. Descriptors go with an offer. It may answer by [`Outgoing::receive`].
    Send(FromOutgoing),
    /// Write no more to the cache, and unlock it. It comes when the incoming process is prepared. [`Outgoing::frozen`] says when
    /// that is so.
    Freeze,
    /// Lock the cache, and write to it again. It comes when the incoming process has ended. [`Outgoing::thawed`] says whether that
    /// was possible.
    Thaw,
    /// Take in no more connections, read what ports have received, and answer who waits. It comes when the incoming process serves.
    /// [`Outgoing::drained`] says when that is done. If this process [is to close its devices](Outgoing::is_closing), it closes
    /// them too, and [`Outgoing::devices_closed`] says when.
    Drain,
    /// Take in connections again, open the devices again, and take all that comes to the ports. It comes after [`Self::Thaw`] if
    /// this process drained, and nothing answers it. Some devices may be open, as not all of them were closed yet.
    Resume,
    /// End the incoming process, and say why in the log: it does not go on. Its connection closes then, and [`Outgoing::closed`]
    /// says so.
    Kill(String),
    /// Close the connection, and say why in the log. It comes while this process serves as before, and nothing answers it.
    Close(String),
    /// End this process. It comes when nobody waits for it, or they wait too long, and nothing answers it.
    End,
}

/// Why a process does not take over that ends by itself.
const ENDED: &str = "the incoming process has ended";

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It serves, and no process wants to take over.
    Alone,
    /// A process has connected. It has to greet.
    Connected,
    /// A process prepares.
    Offered,
    /// Writing ends. `is_alone`: the incoming process has ended meanwhile.
    Freezing {
        is_alone: bool,
    },
    /// The incoming process takes over.
    Frozen,
    /// The incoming process serves. This one closes its devices.
    Closing,
    /// The incoming process serves, and opens the devices.
    Opening,
    /// The incoming process serves, and has the devices.
    Draining,
    /// The incoming process is to end.
    Killed {
        was_draining: bool,
    },
    /// The incoming process has ended. The lock falls with it.
    Thawing {
        was_draining: bool,
    },
    Ended,
}

/// The outgoing process.
#[derive(Debug)]
pub struct Outgoing {
    stage: Stage,
    limits: HandoverLimits,
    deadline: Option<Instant>,
    /// The process that starts the next one, if there is such a one.
    keeper: Option<ProcessId>,
    /// The devices that the incoming process opens once they are closed.
    wanted: Vec<String>,
    /// Why the last process has not taken over.
    failure: Option<String>,
    outputs: VecDeque<OutgoingOutput>,
}

impl Outgoing {
    /// It serves.
    pub fn new(limits: HandoverLimits) -> Self {
        let (stage, wanted, outputs) = (Stage::Alone, Vec::new(), VecDeque::new());
        Self { stage, limits, deadline: None, keeper: None, wanted, failure: None, outputs }
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<OutgoingOutput> {
        self.outputs.pop_front()
    }

    /// Why the last process has not taken over, once. A keeper knows best why its process has ended.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Whether changes of operators have to wait: the incoming process has read the others already.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Alone | Stage::Connected)
    }

    /// Whether the incoming process knows all that operators have said of the node.
    pub fn has_passed_role(&self) -> bool {
        self.is_under_way() && self.stage != Stage::Offered && !self.is_freezing()
    }

    /// Whether this process may end when nobody waits for it any more: the incoming one serves, and has the devices.
    pub fn is_draining(&self) -> bool {
        self.stage == Stage::Draining
    }

    /// Whether the incoming process waits until this one has closed its devices.
    pub fn is_closing(&self) -> bool {
        self.stage == Stage::Closing
    }

    /// The devices that it waits for.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// Whether writing to the cache is to end.
    pub fn is_freezing(&self) -> bool {
        matches!(self.stage, Stage::Freezing { .. })
    }

    /// Whether the incoming process is to have ended before this one goes on.
    pub fn is_thawing(&self) -> bool {
        matches!(self.stage, Stage::Thawing { .. })
    }

    /// A process has connected. `false`: there is one already, so this one is to be [refused](crate::FromOutgoing::Refused).
    /// This process may have a `keeper`, which would take an end for an order if it had not started the next one.
    pub fn connected(&mut self, keeper: Option<ProcessId>, now: Instant) -> bool {
        let is_alone = self.stage == Stage::Alone;
        if is_alone {
            (self.stage, self.keeper) = (Stage::Connected, keeper);
            self.deadline = Some(now + self.limits.greeting);
        }
        is_alone
    }

    /// The incoming process says something. `offer`: what this one has.
    pub fn receive(&mut self, message: FromIncoming, offer: impl FnOnce() -> Offer, now: Instant) {
        match (self.stage, message) {
            (Stage::Connected, FromIncoming::Hello(hello)) => match refusal(&hello, self.keeper) {
                None => {
                    self.send(FromOutgoing::Offer(offer()));
                    self.enter(Stage::Offered, now + self.limits.preparing);
                }
                Some(why) => self.refuse(why),
            },
            (Stage::Offered, FromIncoming::Prepared(devices)) => {
                self.wanted = devices;
                self.outputs.push_back(OutgoingOutput::Freeze);
                // This takes this process's own threads only.
                self.stage = Stage::Freezing { is_alone: false };
                self.deadline = None;
            }
            (Stage::Frozen, FromIncoming::Serving) => {
                self.outputs.push_back(OutgoingOutput::Drain);
                match self.wanted.is_empty() {
                    true => self.enter(Stage::Draining, now + self.limits.draining),
                    false => self.enter(Stage::Closing, now + self.limits.passing),
                }
            }
            (Stage::Opening, FromIncoming::Opened) => {
                self.enter(Stage::Draining, now + self.limits.draining);
            }
            // It is on its way to its end.
            (Stage::Killed { .. } | Stage::Thawing { .. } | Stage::Alone | Stage::Ended, _) => {}
            (stage, message) => self.give_up(format!("{message:?} is no answer while {stage:?}")),
        }
    }

    /// What came is no message.
    pub fn misunderstood(&mut self, why: String) {
        self.give_up(why);
    }

    /// Writing to the cache has ended. Operators have said this of the node.
    pub fn frozen(&mut self, role: NodeRole, now: Instant) {
        match self.stage {
            Stage::Freezing { is_alone: false } => {
                self.send(FromOutgoing::Frozen(role));
                self.enter(Stage::Frozen, now + self.limits.taking);
            }
            Stage::Freezing { is_alone: true } => self.thaw(false),
            _ => {}
        }
    }

    /// Whether the cache is written to again.
    pub fn thawed(&mut self, is_ours: bool) {
        match self.stage {
            Stage::Thawing { was_draining } if is_ours => {
                if was_draining {
                    self.outputs.push_back(OutgoingOutput::Resume);
                }
                self.stage = Stage::Alone;
            }
            // The kernel has not closed its files yet.
            Stage::Thawing { .. } => self.outputs.push_back(OutgoingOutput::Thaw),
            _ => {}
        }
    }

    /// Every device that the incoming process waits for is closed. It opens them in what is left of the time to pass them.
    pub fn devices_closed(&mut self) {
        if self.stage == Stage::Closing {
            self.send(FromOutgoing::Closed);
            self.stage = Stage::Opening;
        }
    }

    /// Nobody waits for this process any more.
    pub fn drained(&mut self) {
        if self.stage == Stage::Draining {
            self.end();
        }
    }

    /// The connection was closed by the other end.
    pub fn closed(&mut self) {
        let was_ended =
            matches!(self.stage, Stage::Freezing { is_alone: true } | Stage::Killed { .. });
        if self.is_under_way() && !was_ended && self.keeper.is_none() {
            self.failure = Some(ENDED.to_owned());
        }
        match self.stage {
            Stage::Alone | Stage::Ended | Stage::Thawing { .. } => {}
            Stage::Freezing { .. } => self.stage = Stage::Freezing { is_alone: true },
            // It only wanted to know whether this process is there.
            Stage::Connected => self.rest(),
            Stage::Offered => self.close(ENDED.to_owned()),
            Stage::Frozen => self.thaw(false),
            Stage::Closing | Stage::Opening | Stage::Draining => self.thaw(true),
            Stage::Killed { was_draining } => self.thaw(was_draining),
        }
    }

    /// Ends what takes too long.
    pub fn turn(&mut self, now: Instant) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.deadline = None;
        match self.stage {
            // It serves, so nothing is lost but for the slowest.
            Stage::Draining => self.end(),
            Stage::Closing => {
                self.give_up("this process takes too long to close its devices".to_owned())
            }
            stage => self.give_up(format!("the incoming process takes too long while {stage:?}")),
        }
    }

    /// The incoming process is not what it is to be, so this one goes on.
    fn give_up(&mut self, why: String) {
        match self.stage {
            Stage::Connected | Stage::Offered => self.refuse(why),
            Stage::Freezing { is_alone: false } => {
                self.end_other(why);
                self.stage = Stage::Freezing { is_alone: true };
            }
            Stage::Frozen => self.kill(why, false),
            Stage::Closing | Stage::Opening | Stage::Draining => self.kill(why, true),
            Stage::Alone
            | Stage::Freezing { is_alone: true }
            | Stage::Killed { .. }
            | Stage::Thawing { .. }
            | Stage::Ended => {}
        }
    }

    /// The incoming process has nothing of this one.
    fn refuse(&mut self, why: String) {
        self.failure = Some(why.clone());
        self.send(FromOutgoing::Refused(why.clone()));
        self.close(why);
    }

    fn end_other(&mut self, why: String) {
        self.failure = Some(why.clone());
        self.outputs.push_back(OutgoingOutput::Kill(why));
    }

    /// It may write to the cache already, so it has to end before this process writes again.
    fn kill(&mut self, why: String, was_draining: bool) {
        self.end_other(why);
        self.stage = Stage::Killed { was_draining };
        self.deadline = None;
    }

    fn thaw(&mut self, was_draining: bool) {
        self.outputs.push_back(OutgoingOutput::Thaw);
        self.stage = Stage::Thawing { was_draining };
        self.deadline = None;
    }

    fn close(&mut self, why: String) {
        self.outputs.push_back(OutgoingOutput::Close(why));
        self.rest();
    }

    fn rest(&mut self) {
        self.stage = Stage::Alone;
        self.deadline = None;
    }

    fn end(&mut self) {
        self.outputs.push_back(OutgoingOutput::End);
        self.stage = Stage::Ended;
        self.deadline = None;
    }

    fn send(&mut self, message: FromOutgoing) {
        self.outputs.push_back(OutgoingOutput::Send(message));
    }

    fn enter(&mut self, stage: Stage, deadline: Instant) {
        self.stage = stage;
        self.deadline = Some(deadline);
    }
}

fn refusal(hello: &Hello, own_keeper: Option<ProcessId>) -> Option<String> {
    let Hello { protocol, version, keeper } = hello;
    if *protocol != PROTOCOL {
        return Some(format!(
            "pmdns {version} hands over by protocol {protocol}, and the running one by {PROTOCOL}: \
             restart the service"
        ));
    }
    let is_foreign = own_keeper.is_some() && own_keeper != *keeper;
    is_foreign.then(|| {
        "the running one has a keeper, which starts the next process: pmdns upgrade".to_owned()
    })
}

#[cfg(test)]
mod tests;
