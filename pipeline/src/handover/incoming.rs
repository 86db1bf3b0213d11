//! The process that takes over, from its start to the moment when it is the only one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_handover::{FromOutgoing, HandoverLimits, Incoming, IncomingOutput, Offer};

use super::channel::{Channel, MAX_PACKETS, Received};
use super::process::{HandoverError, at, path};
use super::sockets::OpenSockets;

/// How long the socket is waited for at a time.
const PAUSE: Duration = Duration::from_millis(1);

/// The way into this process.
pub(crate) struct TakeOver {
    machine: Incoming,
    channel: Option<Channel>,
    path: PathBuf,
    /// What came with the offer.
    sockets: OpenSockets,
}

impl TakeOver {
    /// Asks the process that runs with this configuration's socket. `None`: there is none.
    pub(crate) fn begin(config: &Config) -> Result<Option<(Self, OpenSockets)>, HandoverError> {
        let path = path(config);
        let Some(channel) = Channel::connect(&path).map_err(at(&path))? else { return Ok(None) };
        tracing::info!("taking over from the running process");
        let machine = Incoming::new(HandoverLimits::default(), crate::VERSION, Instant::now());
        let channel = Some(channel);
        let mut begun = Self { machine, channel, path, sockets: OpenSockets::default() };
        loop {
            match begun.next()? {
                IncomingOutput::Prepare(Offer { version, .. }) => {
                    tracing::info!("pmdns {version} passes its sockets");
                    let sockets = std::mem::take(&mut begun.sockets);
                    return Ok(Some((begun, sockets)));
                }
                // It has ended meanwhile.
                IncomingOutput::StartAlone => return Ok(None),
                _ => {}
            }
        }
    }

    /// Everything is prepared: waits until this process may serve.
    pub(crate) fn prepared(&mut self) -> Result<(), HandoverError> {
        self.machine.prepared(Ok(()), Instant::now());
        loop {
            if let IncomingOutput::Take(_) = self.next()? {
                return Ok(());
            }
        }
    }

    /// This process serves.
    pub(crate) fn taken(&mut self) {
        self.machine.taken(Ok(()), Instant::now());
    }

    /// Goes on, and says whether this process has become the only one.
    pub(crate) fn turn(&mut self, now: Instant) -> Result<bool, HandoverError> {
        self.receive()?;
        self.machine.turn(now);
        while let Some(output) = self.machine.next_output() {
            self.carry_out(&output)?;
        }
        Ok(self.machine.is_alone())
    }

    /// Waits for the next thing to do that is the caller's.
    fn next(&mut self) -> Result<IncomingOutput, HandoverError> {
        loop {
            self.receive()?;
            self.machine.turn(Instant::now());
            while let Some(output) = self.machine.next_output() {
                if self.carry_out(&output)? {
                    return Ok(output);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Does what is done here, or says that it is the caller's.
    fn carry_out(&mut self, output: &IncomingOutput) -> Result<bool, HandoverError> {
        match output {
            IncomingOutput::Send(message) => {
                let packet = message.written()?;
                if let Some(channel) = &self.channel {
                    // If nobody hears it, the connection is closed, which is told with the next packet.
                    let _ = channel.send(&packet, &[]);
                }
            }
            IncomingOutput::Kill => {
                if let Some(channel) = &self.channel {
                    tracing::warn!("the process before does not end: it is ended");
                    channel.kill().map_err(at(&self.path))?;
                }
            }
            IncomingOutput::Own => tracing::info!("the process before has ended"),
            IncomingOutput::End(why) => return Err(HandoverError::Refused(why.clone())),
            IncomingOutput::Prepare(_) | IncomingOutput::Take(_) | IncomingOutput::StartAlone => {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn receive(&mut self) -> Result<(), HandoverError> {
        for _ in 0..MAX_PACKETS {
            let Some(channel) = &self.channel else { break };
            match channel.receive().map_err(at(&self.path))? {
                None => break,
                Some(Received::Closed) => {
                    self.channel = None;
                    self.machine.closed();
                }
                Some(Received::Packet(packet, sockets)) => {
                    let message = FromOutgoing::read(&packet, sockets.len())?;
                    if let FromOutgoing::Offer(offer) = &message {
                        self.sockets = OpenSockets::named(offer.passed.clone(), sockets);
                    }
                    self.machine.receive(message);
                }
            }
        }
        Ok(())
    }
}
