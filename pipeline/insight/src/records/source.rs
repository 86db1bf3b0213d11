//! Where an answer came from, read from the packet that leaves a data core.

use pmdns_engine::observe::Sent;
use pmdns_resolver::Origin;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::{Answer, Packet, Reason, Step, Tick};

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Source {
    Hit,
    Local,
    Policy,
    Truncated,
    Error,
    Forward,
    Late,
    Stale,
    Failure,
    Drop,
    /// It is none: the query goes to the slow path.
    Miss,
}

impl Source {
    pub(super) const ALL: [Self; 11] = [
        Self::Hit,
        Self::Local,
        Self::Policy,
        Self::Truncated,
        Self::Error,
        Self::Forward,
        Self::Late,
        Self::Stale,
        Self::Failure,
        Self::Drop,
        Self::Miss,
    ];
}

/// The facts of an answer that its packet lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) received: Tick,
    pub(crate) left: Tick,
    pub(crate) source: Source,
    pub(crate) upstream: Option<u16>,
}

/// Where the answer came from that a packet is, or that a rule wants no answer. `None`: it is neither, or does not leave here.
#[inline]
pub(crate) fn source_of(packet: &Packet, sends: bool) -> Option<Source> {
    if packet.step != Step::TRANSMIT {
        let is_blocked = packet.step == Step::drop(Reason::Blocked);
        return is_blocked.then_some(Source::Drop);
    }
    match packet.answer {
        _ if !sends => None,
        // It is no query: ARP, ping.
        Answer::None => None,
        Answer::Cached(_) => Some(Source::Hit),
        Answer::Local(_) | Answer::Fixed(_) => Some(Source::Local),
        Answer::Truncated => Some(Source::Truncated),
        Answer::Rcode(_) if packet.extended_error.is_some_and(ExtendedError::is_of_rules) => {
            Some(Source::Policy)
        }
        Answer::Rcode(_) => Some(match packet.extended_error {
            Some(ExtendedError::NOT_READY) => Source::Policy,
            _ => Source::Error,
        }),
    }
}

impl Facts {
    /// Of a packet that leaves the line now.
    #[inline]
    pub(crate) fn of(packet: &Packet, source: Source, now: Tick) -> Self {
        Self { received: packet.received, left: now, source, upstream: None }
    }

    /// Of an answer of the slow path. `None`: nobody is answered.
    #[inline]
    pub(crate) fn of_sent(sent: &Sent<'_>) -> Option<Self> {
        let (source, upstream) = match sent.origin {
            Origin::Upstream(index) => (Source::Forward, Some(index)),
            Origin::Cache => (Source::Late, None),
            Origin::Stale => (Source::Stale, None),
            Origin::Rules => (Source::Local, None),
            Origin::Failure => (Source::Failure, None),
            Origin::Silence => return None,
        };
        Some(Self { received: sent.received, left: sent.now, source, upstream })
    }
}
