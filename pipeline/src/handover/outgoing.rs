//! The process that serves: who connects, and what it is given.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_engine::snapshot::CacheJobs;
use pmdns_handover::{
    FromIncoming, FromOutgoing, HandoverLimits, NodeRole, Offer, Outgoing, OutgoingOutput,
    PassedDevice, PassedHop,
};
use pmdns_nics::dpdk::{FilesBeside, are_devices_shared, share_devices};
use pmdns_nics::{RelayEnd, XdpSteering};
use pmdns_streams::quic_steering::QuicSteering;

use super::cache::CacheWriting;
use super::channel::{Channel, HandoverSocket, MAX_PACKETS, Received};
use super::kept::Kept;
use super::obstacles::obstacle;
use super::offered::Offered;
use super::parts::{OpenedForNext, Step, UNSTEERED, UNSTEERED_QUIC};
use super::process::{HandoverError, SOCKET, at, cannot_pass, path};
use super::taps::{Taps, is_over_af_xdp};
use crate::control::socket::SocketFile;
use crate::sockets::OpenSockets;
use crate::supervisor::living_keeper;

/// What could not be kept is tried again after that time.
const RETRY: Duration = Duration::from_secs(1);

/// The way out of this process.
pub(crate) struct HandOver {
    /// `None`: it could not be opened.
    socket: Option<HandoverSocket>,
    path: PathBuf,
    machine: Outgoing,
    channel: Option<Channel>,
    /// The other end of the channel is closed.
    is_closed: bool,
    /// Copies of what passes.
    sockets: OpenSockets,
    /// The files of local sockets, which stay.
    files: Vec<Arc<SocketFile>>,
    taps: Taps,
    quic: Option<QuicSteering>,
    /// Ports over AF_XDP, and how many there are.
    xdp: Vec<XdpSteering>,
    xdp_ports: usize,
    offered: Offered,
    obstacle: Option<String>,
    /// `None`: nothing runs yet.
    cache: Option<CacheWriting>,
    /// What a crash is to leave.
    kept: Kept,
    /// It is not that which is there now.
    is_stale: bool,
    /// When that is tried again.
    keep_due: Option<Instant>,
    /// DPDK has the second name for its files.
    is_second: bool,
    /// What operators have said of this node.
    role: NodeRole,
    /// Its files of the process before.
    beside: FilesBeside,
}

impl HandOver {
    /// The socket of the process before, or a new one. It is opened before rights go. Without it, or without the right to lead
    /// what comes to a TAP, this process serves and hands over to none.
    pub(crate) fn open(
        config: &Config,
        inherited: &mut OpenSockets,
        kept: Option<Kept>,
        opened: OpenedForNext,
    ) -> Result<Self, HandoverError> {
        let OpenedForNext { copies, taps, quic, xdp, is_second, beside } = opened;
        let ((mut sockets, files), path) = (copies, path(config));
        let socket = match inherited.take_local(SOCKET, &path) {
            Some(socket) => Ok(HandoverSocket::inherited(socket)),
            None => HandoverSocket::open(&path),
        };
        let told = |why: &_| tracing::warn!("no other process can take over: {why}");
        let socket = socket.map_err(at(&path)).inspect_err(told).ok();
        if let Some(socket) = &socket {
            sockets.add_local(SOCKET, &path, socket.copy().map_err(at(&path))?);
        }
        let (taps, obstacle) = match obstacle(config).map_or(taps, Err) {
            Ok(taps) => (taps, None),
            Err(why) => (Taps::default(), Some(why)),
        };
        Ok(Self {
            socket,
            path,
            machine: Outgoing::new(HandoverLimits::default()),
            channel: None,
            is_closed: false,
            sockets,
            files,
            taps,
            quic,
            xdp,
            xdp_ports: config.ports.iter().filter(|port| is_over_af_xdp(port)).count(),
            offered: Offered::new(config),
            obstacle,
            cache: None,
            kept: kept.unwrap_or_default(),
            is_stale: false,
            keep_due: None,
            is_second,
            role: NodeRole::default(),
            beside,
        })
    }

    /// The kernel's ends of ports, with their names. `None`: the driver of vhost-net has it, and gives it to nobody.
    pub(crate) fn set_taps(&mut self, taps: Vec<(String, Option<OwnedFd>)>) {
        for (name, tap) in taps {
            match tap {
                Some(tap) => self.sockets.add_tap(name, tap),
                None => {
                    let why = || cannot_pass(format!("the `tap` {name} over vhost-net"));
                    self.obstacle.get_or_insert_with(why);
                }
            }
        }
    }

    /// The cache that this process writes to, and passes on. If it is alone, all is kept first: what comes may crash it.
    pub(crate) fn set_cache(&mut self, jobs: CacheJobs, config: &Config, is_alone: bool) {
        self.cache = Some(CacheWriting::new(jobs, config));
        self.follow(config);
        if is_alone {
            self.keep(Instant::now());
        }
    }

    /// This configuration is in use from now on.
    pub(crate) fn follow(&mut self, config: &Config) {
        let Some(cache) = &self.cache else { return };
        let told = |error: &io::Error| tracing::warn!("the cache does not pass: {error}");
        self.sockets.set_cache(cache.passed(config).inspect_err(told).ok().flatten());
        self.is_stale = true;
    }

    /// Ports over AF_XDP that have their own sockets now.
    pub(crate) fn add_steerings(&mut self, others: Vec<XdpSteering>) {
        self.xdp.extend(others);
    }

    /// Why no other process can take over. A process that takes over has none when it has opened its ports.
    pub(crate) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Whether changes of operators have to wait.
    pub(crate) fn is_under_way(&self) -> bool {
        self.machine.is_under_way()
    }

    /// Whether a process has connected, which may take over.
    pub(crate) fn is_asked(&self) -> bool {
        self.channel.is_some()
    }

    /// The process that takes over, if there is one.
    pub(crate) fn next_process(&self) -> Option<u32> {
        self.channel.as_ref().filter(|_| self.is_under_way()).map(Channel::number)
    }

    /// Whether it has said something, which an offer may answer.
    pub(crate) fn is_greeted(&self) -> bool {
        !self.is_under_way() && self.channel.as_ref().is_some_and(Channel::has_packet)
    }

    /// Whether what operators say of the node comes too late for the next process.
    pub(crate) fn has_passed_role(&self) -> bool {
        self.machine.has_passed_role()
    }

    /// Why the last process that wanted to take over has not, if that is news.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.machine.take_failure()
    }

    /// Copies of the sockets, to take in connections again.
    pub(crate) fn sockets(&self) -> io::Result<OpenSockets> {
        self.sockets.copy()
    }

    /// Other sockets of operators are served from now on.
    pub(crate) fn set_files(&mut self, files: Vec<Arc<SocketFile>>) {
        self.files = files;
        self.share(false);
    }

    /// Devices that the next process opens once they are closed.
    pub(crate) fn wanted(&self) -> &[String] {
        self.machine.wanted()
    }

    /// Devices that this process can close for the next one, and where next hops are.
    pub(crate) fn set_ports(&mut self, devices: Vec<PassedDevice>, hops: Vec<PassedHop>) {
        self.offered.set_ports(devices, hops);
    }

    /// The changes of operators that hold in this turn, and whether those of clients are among them; or why they cannot pass.
    pub(crate) fn set_changes(&mut self, changes: Result<(OwnedFd, bool), String>) {
        self.offered.set_changes(changes);
    }

    /// The way for frames to the next process, which has the other end.
    pub(crate) fn take_relay(&mut self) -> Option<Arc<RelayEnd>> {
        self.offered.relay.take_end()
    }

    /// Operators have said this of the node.
    pub(crate) fn set_role(&mut self, role: NodeRole) {
        self.role = role;
    }

    /// Others are passed from now on in the place of those of this key.
    pub(crate) fn replace(&mut self, key: &str, others: OpenSockets) {
        self.sockets.replace(key, others);
        self.is_stale = true;
    }

    /// This is the only process: it has what comes to its TAPs, and its files and devices go with it.
    pub(crate) fn own(&mut self) {
        if let Some(Err(error)) = self.socket.as_ref().map(HandoverSocket::own) {
            tracing::error!("no other process can take over from this one: {error}");
        }
        self.share(false);
        self.beside.remove_left();
        if let Err(error) = self.taps.be_alone() {
            tracing::error!("what comes to a TAP cannot be led to this process: {error}");
        }
        if let Some(Err(error)) = self.quic.as_ref().map(QuicSteering::hold) {
            tracing::error!("no other process can take over: `streams.quic`: {error}");
            self.obstacle = Some(UNSTEERED_QUIC.to_owned());
        }
    }

    /// This process has everything that comes to its TAPs, and new clients over QUIC.
    pub(crate) fn take_ports(&self) -> Result<(), HandoverError> {
        self.quic.as_ref().map_or(Ok(()), QuicSteering::take).map_err(HandoverError::Quic)?;
        self.taps.take().map_err(HandoverError::Taps)
    }

    /// This process ends, and has not taken over altogether: what it has taken goes to the process before.
    pub(crate) fn give_back_ports(&self) {
        if let Err(error) = self.taps.give_back() {
            tracing::error!("what comes to a TAP cannot be led to the other process: {error}");
        }
        if let Some(Err(error)) = self.quic.as_ref().map(QuicSteering::hold) {
            tracing::error!("clients over QUIC are not led to the other process: {error}");
        }
    }

    /// Goes on. `is_busy`: a change of an operator is under way, or it is not [told](Self::set_changes) yet what holds, so no offer
    /// is made. `is_idle`: nothing is left to read or to answer, and no connection is open; it is asked while this process
    /// drains. `are_closed`: the devices are that are [wanted](Self::wanted).
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        is_busy: bool,
        are_closed: bool,
        is_idle: impl FnOnce() -> bool,
    ) -> Option<Step> {
        // What a drain asks for is done between two turns.
        let was_draining = self.machine.is_draining();
        if self.is_stale && self.keep_due.is_none_or(|due| due <= now) {
            self.keep(now);
        }
        if !is_busy || self.is_under_way() {
            self.receive(now);
        }
        self.machine.turn(now);
        if self.machine.is_freezing() && self.cache.as_mut().is_none_or(CacheWriting::has_stopped) {
            match self.taps.make_room() {
                Ok(()) => self.machine.frozen(self.role, now),
                Err(error) => self.machine.misunderstood(format!("a TAP does not pass: {error}")),
            }
        }
        if self.machine.is_thawing()
            && self.channel.as_ref().is_none_or(Channel::has_ended)
            && self.cache.as_mut().is_none_or(CacheWriting::goes_on)
        {
            tracing::warn!("the process that wanted to take over has ended; this one goes on");
            self.channel = None;
            self.own();
            self.machine.thawed(true);
            // The other process may have been the last one that had something kept.
            self.is_stale = true;
        }
        if was_draining && !self.offered.answers.are_under_way() && is_idle() {
            self.machine.drained();
        }
        if self.machine.is_closing() && are_closed {
            self.machine.devices_closed();
        }
        let mut step = None;
        while let Some(output) = self.machine.next_output() {
            step = self.carry_out(output).or(step);
        }
        self.offered.drop_changes();
        // Last: what is left to do is about the process before, whose channel goes with it.
        self.accept(now);
        step
    }

    fn accept(&mut self, now: Instant) {
        let channel = match self.socket.as_ref().map(HandoverSocket::accept) {
            Some(Ok(Some(channel))) => channel,
            Some(Err(error)) => return tracing::warn!("a process cannot take over: {error}"),
            None | Some(Ok(None)) => return,
        };
        let refusal = match &self.obstacle {
            Some(obstacle) => Some(obstacle.clone()),
            None if self.xdp.len() < self.xdp_ports => Some(UNSTEERED.to_owned()),
            None if self.machine.connected(living_keeper(), now) => None,
            None => Some("another process takes over already".to_owned()),
        };
        match refusal {
            None => {
                self.sockets.drop_lost_taps();
                self.offered.renew();
                (self.channel, self.is_closed) = (Some(channel), false);
            }
            Some(why) => {
                tracing::warn!("a process that wants to take over is refused: {why}");
                channel.say(&FromOutgoing::Refused(why), &[]);
            }
        }
    }

    fn receive(&mut self, now: Instant) {
        for _ in 0..MAX_PACKETS {
            let Some(channel) = self.channel.as_ref().filter(|_| !self.is_closed) else { return };
            match channel.receive() {
                Ok(None) => return,
                Ok(Some(Received::Packet(packet, _))) => match FromIncoming::read(&packet) {
                    Ok(message) => match self.offered.refusal(&message) {
                        Some(why) => self.machine.misunderstood(why),
                        None => {
                            let offer = || Offer {
                                version: crate::VERSION.to_owned(),
                                taps: self.taps.passed(),
                                is_second: self.is_second,
                                role: self.role,
                                ..self.offered.offer(&self.sockets)
                            };
                            self.machine.receive(message, offer, now);
                        }
                    },
                    Err(error) => self.machine.misunderstood(error.to_string()),
                },
                Ok(Some(Received::Closed)) => {
                    self.is_closed = true;
                    self.machine.closed();
                    if !self.machine.is_under_way() {
                        self.channel = None;
                    }
                }
                Err(error) => return self.machine.misunderstood(error.to_string()),
            }
        }
    }

    fn carry_out(&mut self, output: OutgoingOutput) -> Option<Step> {
        match output {
            OutgoingOutput::Send(message) => {
                let is_offer = matches!(message, FromOutgoing::Offer(_));
                if is_offer {
                    tracing::info!("another process takes over");
                    self.share(true);
                }
                let passed = is_offer.then(|| self.offered.passed(&self.sockets).1);
                let say = |channel: &Channel| channel.say(&message, &passed.unwrap_or_default());
                let sent = self.channel.as_ref().is_none_or(say);
                if is_offer && !sent {
                    self.machine.misunderstood("the sockets cannot be passed".to_owned());
                }
            }
            // Each turn sees whether that is done.
            OutgoingOutput::Freeze => {}
            OutgoingOutput::Drain => {
                // From here on frames come to the packet sockets of the next process.
                if let Err(error) = self.xdp.iter().try_for_each(XdpSteering::to_kernel) {
                    self.machine
                        .misunderstood(format!("a port over AF_XDP does not pass: {error}"));
                }
                self.cache.iter().for_each(|cache| self.offered.answers.send(cache.jobs()));
                return Some(Step::Drain);
            }
            OutgoingOutput::Resume => {
                if let Err(error) = self.xdp.iter().try_for_each(XdpSteering::to_sockets) {
                    tracing::error!("a port over AF_XDP gets no frames any more: {error}");
                }
                return Some(Step::Resume);
            }
            // A closed channel may be one of a process that lives.
            OutgoingOutput::Thaw => self.channel.iter().for_each(Channel::end),
            OutgoingOutput::Kill(why) => {
                tracing::warn!("the process that wants to take over is ended: {why}");
                self.channel.iter().for_each(Channel::end);
            }
            OutgoingOutput::Close(why) => {
                tracing::info!("no other process takes over: {why}");
                self.channel = None;
                self.own();
            }
            OutgoingOutput::End => return Some(Step::End),
        }
        None
    }

    /// Has everything kept that a crash is to leave.
    fn keep(&mut self, now: Instant) {
        let kept = self.kept.keep(&self.sockets, self.taps.holders());
        self.is_stale = kept.is_err();
        let is_news = self.keep_due.is_none();
        self.keep_due = kept.as_ref().err().map(|_| now + RETRY);
        if let Err(error) = kept.as_ref()
            && is_news
        {
            tracing::warn!("a crash would lose the cache and connections: {error}");
        }
    }

    /// This process ends in good order, so nothing of it is kept.
    pub(crate) fn forget_kept(&mut self) {
        self.kept.forget();
    }

    /// This process ends. The socket's file goes with it, unless another process has it.
    pub(crate) fn remove_file(&self) {
        if self.socket.is_some() && !are_devices_shared() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Whether another process has the files and the devices too, so that they stay when this one ends.
    fn share(&self, are_shared: bool) {
        self.files.iter().for_each(|file| file.leave(are_shared));
        share_devices(are_shared);
    }
}
