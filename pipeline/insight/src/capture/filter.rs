//! Which packets a capture or a trace is about.

use std::net::IpAddr;
use std::time::Duration;

use pmdns_config::narrow::to_u8;
use pmdns_config::{Prefix, wire_name};
use pmdns_control::trace::PacketSearch;
use pmdns_engine::observe::{Departure, Sent};
use pmdns_nics::Frame;
use pmdns_stages::wire::name::{equal, suffixes};
use pmdns_stages::{Exception, Reason, StageName, Step};

use super::headers::Headers;

/// What is searched for, checked as far as it can be without the instance's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    port: Option<String>,
    stage: Option<StageName>,
    /// By index, the steps that are wanted; 0: all.
    steps: u64,
    client: Option<Prefix>,
    name: Option<Box<[u8]>>,
    answers: bool,
    /// How many packets.
    pub count: Option<u64>,
    /// For how long.
    pub time: Option<Duration>,
}

/// How long a capture or a trace goes on at most.
pub(super) const MAX_TIME: Duration = Duration::from_secs(3600);
const _: () = assert!(Step::COUNT <= u64::BITS as usize, "each step has a bit");

impl Selection {
    /// How long it goes on at most.
    pub(super) fn longest(&self) -> Duration {
        self.time.map_or(MAX_TIME, |time| time.min(MAX_TIME))
    }

    /// The filter, where the ports have these names. The ports from number `wires` on are of clients over streams.
    pub(crate) fn filter(&self, ports: &[String], wires: usize) -> Result<Filter, String> {
        let port = self.port.as_deref().map(|port| {
            let number = ports.iter().position(|name| name == port);
            let number = number.or_else(|| port.parse().ok().filter(|n| *n < ports.len()));
            number.map(to_u8).ok_or_else(|| {
                format!("there is no port `{port}`; the ports are {}", ports.join(", "))
            })
        });
        Ok(Filter {
            port: port.transpose()?,
            stage: self.stage,
            steps: self.steps,
            client: self.client,
            name: self.name.clone(),
            answers: self.answers,
            every_stage: false,
            wires: to_u8(wires),
        })
    }
}

impl TryFrom<PacketSearch> for Selection {
    type Error = String;

    fn try_from(search: PacketSearch) -> Result<Self, String> {
        let PacketSearch { port, stage: at, reason, client: of, name, count, seconds, answers } =
            search;
        let name = name.as_deref().map(wire_name).transpose();
        Ok(Self {
            port,
            stage: at.as_deref().map(stage).transpose()?,
            steps: reason.as_deref().map_or(Ok(0), steps)?,
            client: of.as_deref().map(client).transpose()?,
            name: name.map_err(|error| error.to_string())?,
            answers,
            count: count.map(u64::from),
            time: Some(Duration::from_secs(seconds.into())),
        })
    }
}

fn stage(text: &str) -> Result<StageName, String> {
    let names: Vec<&str> = StageName::ALL.iter().map(|stage| stage.name()).collect();
    StageName::from_name(text)
        .ok_or_else(|| format!("there is no stage `{text}`; the stages are {}", names.join(", ")))
}

/// The bits of the steps of this name: that of the counters, with or without its `drop.` or `exception.`.
fn steps(text: &str) -> Result<u64, String> {
    let is_it = |step: &Step| {
        let short =
            step.reason().map(Reason::name).or_else(|| step.as_exception().map(Exception::name));
        step.to_string() == text || short == Some(text)
    };
    match Step::all().filter(is_it).fold(0, |bits, step| bits | bit(step)) {
        0 => Err(format!(
            "there is no reason `{text}`; write one of the reasons to drop, as the counters name them, an exception, \
             `encode`, `transmit`, `slow_path` or `reply`"
        )),
        bits => Ok(bits),
    }
}

fn bit(step: Step) -> u64 {
    1 << step.index()
}

/// A prefix, or an address.
fn client(text: &str) -> Result<Prefix, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// Which packets are wanted. Each core has a copy.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    port: Option<u8>,
    stage: Option<StageName>,
    steps: u64,
    client: Option<Prefix>,
    name: Option<Box<[u8]>>,
    answers: bool,
    /// Whether each departure of a packet is wanted: for a trace.
    pub(super) every_stage: bool,
    wires: u8,
}

impl Filter {
    /// Whether a packet is wanted that leaves a station.
    ///
    /// Without a stage, a packet is wanted where its fate is decided: it does not simply go on to the next stage. So it is seen
    /// once, as it came. The answer that encode has written is another matter.
    #[inline]
    pub(super) fn wants(&self, departure: &Departure<'_>) -> bool {
        let (stage, step) = (departure.stage, departure.packet.step);
        let is_answer = stage == StageName::Encode && step == Step::TRANSMIT;
        let is_wanted = if self.every_stage {
            true
        } else if let Some(wanted) = self.stage {
            stage == wanted && self.has(step) || is_answer && self.answers
        } else if is_answer {
            self.answers
        } else {
            (!step.is_on_the_line() || step == Step::ANSWER) && self.has(step)
        };
        is_wanted && self.is_about(&departure.packet.frame, step == Step::TRANSMIT)
    }

    /// Whether an answer of the slow path is wanted.
    #[inline]
    pub(super) fn wants_sent(&self, sent: &Sent<'_>) -> bool {
        (self.answers || self.every_stage) && self.is_about(sent.frame, true)
    }

    /// Whether the port is of clients over streams.
    pub(super) fn is_stream(&self, port: u8) -> bool {
        port >= self.wires
    }

    fn has(&self, step: Step) -> bool {
        self.steps == 0 || self.steps & bit(step) != 0
    }

    /// Whether it is the right port, client and name.
    fn is_about(&self, frame: &Frame, leaves: bool) -> bool {
        if self.port.is_some_and(|port| port != frame.port()) {
            return false;
        }
        if self.client.is_none() && self.name.is_none() {
            return true;
        }
        let Some(headers) = headers(frame.bytes(), self.is_stream(frame.port())) else {
            return false;
        };
        let client = client_of(&headers, leaves);
        let is_below = |suffix: &[u8]| {
            let question = headers.question(frame.bytes());
            question.is_some_and(|(name, _)| suffixes(name).any(|name| equal(name, suffix)))
        };
        self.client.is_none_or(|prefix| prefix.contains(client))
            && self.name.as_deref().is_none_or(is_below)
    }
}

pub(super) fn headers(frame: &[u8], is_stream: bool) -> Option<Headers> {
    if is_stream { Headers::of_stream(frame) } else { Headers::read(frame) }
}

/// The client of a packet that came, or that leaves.
pub(super) fn client_of(headers: &Headers, leaves: bool) -> IpAddr {
    headers.destination.filter(|_| leaves).unwrap_or(headers.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_checked_and_mistakes_are_named() {
        let ports = ["p0".to_owned(), "streams".to_owned()];
        let text = |text: &str| Some(text.to_owned());
        let selection = |search: PacketSearch| Selection::try_from(search);
        let all = selection(PacketSearch {
            port: text("streams"),
            stage: text("lookup"),
            reason: text("blocked"),
            client: text("10.0.0.0/8"),
            name: text("Example."),
            count: Some(7),
            answers: true,
            ..PacketSearch::default()
        });
        let all = all.unwrap();
        let filter = all.filter(&ports, 1).unwrap();
        assert_eq!((filter.port, filter.stage), (Some(1), Some(StageName::Lookup)));
        assert_eq!(filter.steps, bit(Step::drop(Reason::Blocked)));
        assert_eq!((all.count, filter.answers), (Some(7), true));
        assert!(filter.is_stream(1) && !filter.is_stream(0));
        let with = |set: fn(&mut PacketSearch, Option<String>), value: &str| {
            let mut search = PacketSearch::default();
            set(&mut search, text(value));
            selection(search)
        };
        assert_eq!(
            with(|one, value| one.reason = value, "drop.blocked").unwrap().steps,
            filter.steps
        );
        let port = |value| with(|one, value| one.port = value, value).unwrap().filter(&ports, 1);
        assert_eq!(port("1").unwrap().port, Some(1));
        for (wrong, part) in [
            (with(|one, value| one.stage = value, "nowhere"), "the stages are parse, neighbor"),
            (with(|one, value| one.reason = value, "none"), "there is no reason `none`"),
            (with(|one, value| one.client = value, "10.0.0.1/8"), "10.0.0.0/8"),
            (with(|one, value| one.name = value, "a..b"), "not a domain name"),
        ] {
            let error = wrong.unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let error = port("p9").unwrap_err();
        assert!(error.contains("p0, streams"), "{error}");
    }
}
