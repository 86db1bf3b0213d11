//! The process that takes over, from its start to the moment when it is the only one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_control::client::is_running;
use pmdns_engine::snapshot::CacheJobs;
use pmdns_handover::{
    FromOutgoing, HandoverLimits, Incoming, IncomingOutput, NodeRole, Offer, PassedDevice,
    PassedHop, PassedTap,
};

use super::answers::AnswersFromBefore;
use super::channel::{Channel, MAX_PACKETS, Received};
use super::obstacles::obstacle;
use super::passed::check;
use super::process::{HandoverError, at, hold, path};
use crate::sockets::OpenSockets;
use crate::supervisor::{BESIDE, living_keeper};

/// How long the socket is waited for at a time.
const PAUSE: Duration = Duration::from_millis(1);
/// After a hand-over the kernel names the process before for a moment as the one that listens.
const SUCCESSION: Duration = Duration::from_secs(1);

/// What the instance has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TakeOverStep {
    /// Open the devices of the process before: it has closed them. [`TakeOver::opened`] says how that went.
    OpenDevices,
    /// Nothing more: it is the only process.
    Own,
    /// End, and leave all to the process before. Why.
    End(String),
}

/// The way into this process.
pub struct TakeOver {
    machine: Incoming,
    channel: Option<Channel>,
    /// The same, once the other end is closed: it knows the process, which may have files yet.
    before: Option<Channel>,
    /// What came with the offer.
    sockets: OpenSockets,
    answers: Option<AnswersFromBefore>,
    /// What it has said with them. The role is what operators have said last.
    offer: Box<Offer>,
    /// When the process before has closed the channel.
    left: Option<Instant>,
    /// Whether this process is to end.
    stop: Arc<AtomicBool>,
}

/// The other process ends this one once the connection is closed, so it stays until this one has ended by itself.
impl Drop for TakeOver {
    fn drop(&mut self) {
        std::mem::forget(self.channel.take());
    }
}

impl TakeOver {
    /// Asks the process that runs with this configuration's socket. `None`: there is none. It is an error if a keeper has started
    /// this process beside one that serves.
    pub fn begin(config: &Config) -> Result<Option<Self>, HandoverError> {
        let path = path(config);
        let begun = Instant::now();
        while let Some(channel) = Channel::connect(&path).map_err(at(&path))? {
            let asked = Self::ask(config, channel)?;
            if asked.is_some() {
                return Ok(asked);
            }
            if begun.elapsed() >= SUCCESSION {
                break;
            }
            std::thread::sleep(SUCCESSION / 20);
        }
        Self::needs_none(config).map(|()| None)
    }

    /// Whether an instance answers operators at this configuration's socket, if a keeper has started this process beside one.
    pub fn check(config: &Config) -> Result<(), HandoverError> {
        if is_running(&config.control.socket) { Ok(()) } else { Self::needs_none(config) }
    }

    /// Nobody is there, so both would serve if there is one elsewhere, or this one without the cache of that one.
    fn needs_none(config: &Config) -> Result<(), HandoverError> {
        let Ok(process) = std::env::var(BESIDE) else { return Ok(()) };
        Err(HandoverError::Refused(format!(
            "process {process} is not at {}; another `control.socket` needs a restart",
            config.control.socket.display()
        )))
    }

    /// Asks who is at the other end. `None`: it has ended, and perhaps another process listens from now on.
    fn ask(config: &Config, channel: Channel) -> Result<Option<Self>, HandoverError> {
        if let Some(why) = obstacle(config) {
            return Err(HandoverError::Refused(why));
        }
        tracing::info!("taking over from the running process");
        let (limits, keeper) = (HandoverLimits::default(), living_keeper());
        let machine = Incoming::new(limits, crate::VERSION, keeper, Instant::now());
        let channel = Some(channel);
        let (sockets, answers, offer, stop) = Default::default();
        let (before, left) = (None, None);
        let mut begun = Self { machine, channel, before, sockets, answers, offer, left, stop };
        loop {
            match begun.next()? {
                IncomingOutput::Prepare(offer) => {
                    tracing::info!("pmdns {} passes its sockets", offer.version);
                    *begun.offer = offer;
                    return Ok(Some(begun));
                }
                IncomingOutput::StartAlone => return Ok(None),
                _ => {}
            }
        }
    }

    /// Whether DPDK is to have the second name for its files: the process before has the first.
    pub(crate) fn is_second(&self) -> bool {
        !self.offer.is_second
    }

    /// The devices that the process before closes before this one opens them.
    pub(crate) fn devices(&self) -> &[PassedDevice] {
        &self.offer.devices
    }

    /// Where the process before has found next hops.
    pub(crate) fn hops(&self) -> &[PassedHop] {
        &self.offer.hops
    }

    /// Where the process before has its queues of TAPs.
    pub(crate) fn taps(&self) -> &[PassedTap] {
        &self.offer.taps
    }

    /// What operators have said of the node before.
    pub(crate) fn role(&self) -> NodeRole {
        self.offer.role
    }

    /// The sockets of the process before. From now on this one may be told to `stop`.
    pub(crate) fn take_sockets(&mut self, stop: &Arc<AtomicBool>) -> OpenSockets {
        self.stop = Arc::clone(stop);
        self.answers = AnswersFromBefore::of(&mut self.sockets);
        std::mem::take(&mut self.sockets)
    }

    /// This process runs, and has not come with the cache's memory: it gets the answers, which come while it serves. `false`: there
    /// are none.
    pub(crate) fn take_answers(
        &mut self,
        config: &Config,
        jobs: &CacheJobs,
        core: Option<usize>,
    ) -> bool {
        let answers = self.answers.take();
        answers.is_some_and(|answers| answers.take(config, jobs.clone(), core))
    }

    /// Everything is prepared but for these devices: waits until this process may serve.
    pub(crate) fn prepared(&mut self, devices: Vec<String>) -> Result<(), HandoverError> {
        self.machine.prepared(Ok(devices), Instant::now());
        while !matches!(self.next()?, IncomingOutput::Take) {}
        hold("frozen");
        self.heed_stop()
    }

    /// This process serves.
    pub(crate) fn taken(&mut self) {
        hold("serving");
        self.machine.taken(Ok(()), Instant::now());
    }

    /// This process has the devices, or why not.
    pub(crate) fn opened(&mut self, outcome: Result<(), String>) {
        self.machine.opened(outcome);
    }

    /// Goes on. `None`: there is nothing to do but to serve.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<TakeOverStep> {
        self.receive();
        self.machine.turn(now);
        while let Some(output) = self.machine.next_output() {
            match output {
                IncomingOutput::OpenDevices => {
                    hold("opening");
                    return Some(TakeOverStep::OpenDevices);
                }
                IncomingOutput::End(why) => return Some(TakeOverStep::End(why)),
                output => self.carry_out(&output),
            };
        }
        let Some(before) = self.before.as_ref().filter(|before| !before.has_ended()) else {
            return self.is_left().then_some(TakeOverStep::Own);
        };
        let left = *self.left.get_or_insert(now);
        if self.is_left() && now.saturating_duration_since(left) >= HandoverLimits::default().ending
        {
            kill(before);
            self.left = None;
        }
        None
    }

    /// Whether the process before has left everything to this one, and is about to end.
    pub(crate) fn is_left(&self) -> bool {
        self.machine.is_alone()
    }

    /// Whether the process before has left everything to this one, or has ended, which may not be known yet.
    pub(crate) fn is_last(&self) -> bool {
        self.is_left() || self.channel.as_ref().is_none_or(Channel::has_ended)
    }

    /// As long as it does not serve, nothing is lost if it ends.
    fn heed_stop(&self) -> Result<(), HandoverError> {
        if self.stop.load(Ordering::Relaxed) { Err(HandoverError::Stopped) } else { Ok(()) }
    }

    /// Waits for the next thing to do that is the caller's.
    fn next(&mut self) -> Result<IncomingOutput, HandoverError> {
        loop {
            self.heed_stop()?;
            self.receive();
            self.machine.turn(Instant::now());
            while let Some(output) = self.machine.next_output() {
                match output {
                    IncomingOutput::End(why) => return Err(HandoverError::Refused(why)),
                    output if self.carry_out(&output) => {}
                    output => return Ok(output),
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Does what is done here. Returns false if it is the caller's.
    fn carry_out(&mut self, output: &IncomingOutput) -> bool {
        match output {
            IncomingOutput::Send(message) => {
                if let (Some(channel), Ok(packet)) = (&self.channel, message.written()) {
                    // If nobody hears it, the connection is closed, which is told with the next packet.
                    let _ = channel.send(&packet, &[]);
                }
            }
            IncomingOutput::Kill => {
                if let Some(channel) = &self.channel {
                    kill(channel);
                }
            }
            IncomingOutput::Own => tracing::info!("the process before has ended"),
            IncomingOutput::Prepare(_)
            | IncomingOutput::Take
            | IncomingOutput::OpenDevices
            | IncomingOutput::StartAlone
            | IncomingOutput::End(_) => return false,
        }
        true
    }

    fn closed(&mut self) {
        self.before = self.channel.take();
        self.machine.closed();
    }

    fn receive(&mut self) {
        // Asked before the last packet is read. Somebody else may hold the other end: a keeper has the socket.
        let has_ended = self.channel.as_ref().is_some_and(Channel::has_ended);
        for _ in 0..MAX_PACKETS {
            let Some(channel) = &self.channel else { return };
            let (packet, sockets) = match channel.receive() {
                Ok(None) if has_ended => return self.closed(),
                Ok(None) => return,
                Ok(Some(Received::Packet(packet, sockets))) => (packet, sockets),
                Ok(Some(Received::Closed)) => return self.closed(),
                Err(error) => return self.machine.misunderstood(error.to_string()),
            };
            match FromOutgoing::read(&packet, sockets.len()) {
                Ok(message) => {
                    if let FromOutgoing::Frozen(role) = &message {
                        self.offer.role = *role;
                    }
                    if let FromOutgoing::Offer(offer) = &message {
                        if let Err(why) = check(&offer.passed, &sockets) {
                            return self.machine.misunderstood(why);
                        }
                        self.sockets = OpenSockets::named(offer.passed.clone(), sockets);
                    }
                    self.machine.receive(message);
                }
                Err(error) => return self.machine.misunderstood(error.to_string()),
            }
        }
    }
}

fn kill(before: &Channel) {
    tracing::warn!("the process before does not end: it is ended");
    before.end();
}
