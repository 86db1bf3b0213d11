//! The process that serves, and gives what it has to the next one.

use std::collections::VecDeque;
use std::time::Instant;

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
    /// The devices that the incoming process opens once they are closed.
    wanted: Vec<String>,
    outputs: VecDeque<OutgoingOutput>,
}

impl Outgoing {
    /// It serves.
    pub fn new(limits: HandoverLimits) -> Self {
        let (stage, outputs) = (Stage::Alone, VecDeque::new());
        Self { stage, limits, deadline: None, wanted: Vec::new(), outputs }
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<OutgoingOutput> {
        self.outputs.pop_front()
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
    pub fn connected(&mut self, now: Instant) -> bool {
        let is_alone = self.stage == Stage::Alone;
        if is_alone {
            self.stage = Stage::Connected;
            self.deadline = Some(now + self.limits.greeting);
        }
        is_alone
    }

    /// The incoming process says something. `offer`: what this one has.
    pub fn receive(&mut self, message: FromIncoming, offer: impl FnOnce() -> Offer, now: Instant) {
        match (self.stage, message) {
            (Stage::Connected, FromIncoming::Hello(hello)) => match refusal(&hello) {
                None => {
                    self.send(FromOutgoing::Offer(offer()));
                    self.enter(Stage::Offered, now + self.limits.preparing);
                }
                Some(why) => {
                    self.send(FromOutgoing::Refused(why.clone()));
                    self.close(why);
                }
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
        match self.stage {
            Stage::Alone | Stage::Ended | Stage::Thawing { .. } => {}
            Stage::Freezing { .. } => self.stage = Stage::Freezing { is_alone: true },
            // It only wanted to know whether this process is there.
            Stage::Connected => self.rest(),
            Stage::Offered => self.close("the incoming process has ended".to_owned()),
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
            Stage::Connected | Stage::Offered => {
                self.send(FromOutgoing::Refused(why.clone()));
                self.close(why);
            }
            Stage::Freezing { .. } => {
                self.outputs.push_back(OutgoingOutput::Kill(why));
                self.stage = Stage::Freezing { is_alone: true };
            }
            Stage::Frozen => self.kill(why, false),
            Stage::Closing | Stage::Opening | Stage::Draining => self.kill(why, true),
            Stage::Alone | Stage::Killed { .. } | Stage::Thawing { .. } | Stage::Ended => {}
        }
    }

    /// It may write to the cache already, so it has to end before this process writes again.
    fn kill(&mut self, why: String, was_draining: bool) {
        self.outputs.push_back(OutgoingOutput::Kill(why));
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

fn refusal(hello: &Hello) -> Option<String> {
    let Hello { protocol, version } = hello;
    (*protocol != PROTOCOL).then(|| {
        format!(
            "pmdns {version} hands over by protocol {protocol}, and the running one by {PROTOCOL}: \
             stop it, then start the other one"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::message::PassedDevice;

    #[test]
    fn another_protocol_is_refused_by_a_sentence_that_says_what_to_do() {
        let (now, mut outgoing) = (Instant::now(), Outgoing::new(HandoverLimits::default()));
        assert!(outgoing.connected(now));
        let hello = Hello { protocol: PROTOCOL + 1, version: "9.0.0".to_owned() };
        outgoing.receive(FromIncoming::Hello(hello), || panic!("nothing is offered"), now);
        let Some(OutgoingOutput::Send(FromOutgoing::Refused(why))) = outgoing.next_output() else {
            panic!("{outgoing:?}");
        };
        assert!(why.contains("9.0.0") && why.contains("stop it"), "{why}");
        assert!(matches!(outgoing.next_output(), Some(OutgoingOutput::Close(_))));
        assert!(outgoing.connected(now), "the next one may try");
    }

    /// It has offered a device, and the incoming process, which opens so many, has just begun to serve.
    fn serving(wanted: usize, now: Instant) -> Outgoing {
        let device = PassedDevice { device: "net_memif0".to_owned(), facts: Value::Null };
        let wanted = vec![device.device.clone(); wanted];
        let mut outgoing = Outgoing::new(HandoverLimits::default());
        outgoing.connected(now);
        let hello = Hello { protocol: PROTOCOL, version: "1".to_owned() };
        let offer = || Offer { devices: vec![device], ..Offer::default() };
        outgoing.receive(FromIncoming::Hello(hello), offer, now);
        outgoing.receive(FromIncoming::Prepared(wanted), Offer::default, now);
        outgoing.frozen(NodeRole::default(), now - HandoverLimits::default().taking / 2);
        outgoing.receive(FromIncoming::Serving, Offer::default, now);
        assert_eq!(outputs(&mut outgoing).last(), Some(&OutgoingOutput::Drain));
        outgoing
    }

    fn outputs(outgoing: &mut Outgoing) -> Vec<OutgoingOutput> {
        std::iter::from_fn(|| outgoing.next_output()).collect()
    }

    #[test]
    fn it_ends_only_after_the_incoming_process_has_opened_the_devices() {
        let (now, limits) = (Instant::now(), HandoverLimits::default());
        let mut outgoing = serving(1, now);
        outgoing.drained();
        assert!(outgoing.is_closing() && !outgoing.is_draining());
        outgoing.devices_closed();
        assert_eq!(outputs(&mut outgoing), [OutgoingOutput::Send(FromOutgoing::Closed)]);
        outgoing.devices_closed();
        outgoing.drained();
        assert!(!outgoing.is_closing() && !outgoing.is_draining());
        let opened = now + limits.passing - Duration::from_millis(1);
        outgoing.turn(opened);
        assert_eq!(outputs(&mut outgoing), []);
        outgoing.receive(FromIncoming::Opened, Offer::default, opened);
        assert!(outgoing.is_draining());
        outgoing.turn(opened + limits.draining - Duration::from_millis(1));
        assert_eq!(outputs(&mut outgoing), [], "the time to drain begins when they are opened");
        outgoing.drained();
        assert_eq!(outputs(&mut outgoing), [OutgoingOutput::End]);
    }

    #[test]
    fn devices_that_pass_too_slowly_are_opened_again() {
        let (now, late) = (Instant::now(), HandoverLimits::default().passing);
        for has_closed in [false, true] {
            let mut outgoing = serving(1, now);
            if has_closed {
                outgoing.devices_closed();
                outputs(&mut outgoing);
            }
            outgoing.turn(now + late);
            let killed = outputs(&mut outgoing);
            assert!(matches!(&killed[..], [OutgoingOutput::Kill(_)]), "{killed:?}");
            outgoing.closed();
            outgoing.devices_closed();
            outgoing.thawed(true);
            assert_eq!(outputs(&mut outgoing), [OutgoingOutput::Thaw, OutgoingOutput::Resume]);
        }
    }

    #[test]
    fn a_device_that_the_incoming_process_does_not_open_stays_until_this_one_ends() {
        let mut outgoing = serving(0, Instant::now());
        assert!(outgoing.is_draining() && outgoing.wanted().is_empty());
        outgoing.drained();
        assert_eq!(outputs(&mut outgoing), [OutgoingOutput::End]);
    }

    #[test]
    fn devices_are_opened_once_and_only_if_they_were_closed() {
        let now = Instant::now();
        let mut early = serving(1, now);
        let mut twice = serving(1, now);
        twice.devices_closed();
        twice.receive(FromIncoming::Opened, Offer::default, now);
        outputs(&mut twice);
        for outgoing in [&mut early, &mut twice] {
            outgoing.receive(FromIncoming::Opened, Offer::default, now);
            assert!(matches!(outputs(outgoing)[..], [OutgoingOutput::Kill(_)]), "{outgoing:?}");
        }
    }

    #[test]
    fn changes_wait_from_the_offer_on() {
        let (now, mut outgoing) = (Instant::now(), Outgoing::new(HandoverLimits::default()));
        outgoing.connected(now);
        assert!(!outgoing.is_under_way());
        let hello = Hello { protocol: PROTOCOL, version: "1".to_owned() };
        outgoing.receive(FromIncoming::Hello(hello), Offer::default, now);
        assert!(outgoing.is_under_way());
        outgoing.turn(now + HandoverLimits::default().preparing);
        assert!(!outgoing.is_under_way(), "it took too long");
        outgoing.connected(now);
        outgoing.turn(now + Duration::from_secs(1));
        assert!(!outgoing.connected(now), "it may still greet");
    }
}
