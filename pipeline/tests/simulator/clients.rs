//! Clients: what they ask, and what they have to get.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use pmdns_hierarchy::message::flag;
use pmdns_hierarchy::{Message, Name, rtype};
use pmdns_nics::Frame;
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::{be16, ip};

use crate::blocks::Blocks;
use crate::servers::second;
use crate::setup::is_in_lab;
use crate::signed;
use crate::stepping::Stepping;
use crate::trace::Trace;
use crate::truth::{NXDOMAIN, check};

/// Turns of all threads in which those whose deadline has come are answered.
const GRACE: u64 = 600;

/// Tells a query from all others: address and port it came from, and its id.
type Key = (IpAddr, u16, u16);

/// What a client wants to know.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) client: IpAddr,
    pub(crate) name: Name,
    pub(crate) qtype: u16,
    /// Whether it wants signatures; none: it knows no EDNS.
    pub(crate) dnssec: Option<bool>,
    /// Whether it validates by itself.
    pub(crate) checks: bool,
    /// Whether the network brings its query twice.
    pub(crate) comes_twice: bool,
    /// Whether there is no excuse for a failure.
    pub(crate) must_succeed: bool,
}

/// A query without an answer so far.
#[derive(Debug)]
struct Asked {
    ask: Ask,
    at: Duration,
    /// Frames with it that have got into the port.
    frames: u8,
}

/// What clients may not be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// How old what is in it may be, in seconds.
    pub(crate) oldest: u32,
    /// The first and the last version of what is answered here.
    pub(crate) versions: (u16, u16),
    /// Whether all else is signed.
    pub(crate) is_signed: bool,
    /// Whether there is a view with upstreams of its own.
    pub(crate) has_lab: bool,
}

/// All clients.
pub(crate) struct Clients {
    waiting: BTreeMap<Key, Asked>,
    by_age: VecDeque<(Duration, Key)>,
    /// Those whose deadline has come, and in which turn.
    late: VecDeque<(u64, Key)>,
    /// Those who have got nothing long after.
    pub(crate) forgotten: u64,
    /// Queries that have got into the port.
    pub(crate) sent: u64,
    /// Answers that have come.
    pub(crate) answered: u64,
    /// Those among them that are no failures.
    pub(crate) succeeded: u64,
    next: u32,
    trace: Trace,
}

impl Promise {
    /// Whether an answer is true that somebody gets now, or that the cache holds.
    pub(crate) fn check(
        &self,
        answer: &Message,
        rcode: u16,
        (is_secure, is_lab): (bool, bool),
        now: Duration,
    ) -> Result<(), String> {
        let (name, qtype, _) = &answer.question;
        let answer = &answer.sections[0];
        match self.is_signed {
            true => signed::check((name, *qtype), is_secure, rcode, answer),
            false => check((name, *qtype, is_lab), rcode, answer, (second(now), self.oldest)),
        }
    }
}

impl Ask {
    /// A question from a client.
    pub(crate) fn new(client: impl Into<IpAddr>, name: Name, qtype: u16) -> Self {
        let (client, dnssec) = (client.into(), None);
        let (checks, comes_twice, must_succeed) = (false, false, false);
        Self { client, name, qtype, dnssec, checks, comes_twice, must_succeed }
    }

    /// Its frame.
    fn frame(&self, id: u16, port: u16) -> Vec<u8> {
        let query = QueryFrame {
            name: self.name.wire().to_vec(),
            qtype: self.qtype,
            id,
            source_port: port,
            edns: self.dnssec.map(|dnssec_ok| (1232, dnssec_ok)),
            ..query(". A")
        };
        let flags = query.flags | if self.checks { flag::CD } else { 0 };
        let query = match self.client {
            IpAddr::V4(client) => QueryFrame { source: client.octets().to_vec(), flags, ..query },
            IpAddr::V6(client) => {
                QueryFrame { source: client.octets().to_vec(), flags, ..query.over_ipv6() }
            }
        };
        query.frame_bytes()
    }

    /// The same of somebody who has to get it.
    pub(crate) fn for_sure(self) -> Self {
        Self { must_succeed: true, ..self }
    }
}

impl Clients {
    /// Nobody has asked yet.
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_age: VecDeque::new(),
            late: VecDeque::new(),
            forgotten: 0,
            sent: 0,
            answered: 0,
            succeeded: 0,
            next: 0,
            trace,
        }
    }

    /// Queries without an answer, and other frames that nobody answers.
    pub(crate) fn unanswered(&self) -> u64 {
        self.sent - self.answered
    }

    /// Somebody asks, over one of so many queues.
    pub(crate) fn ask(&mut self, line: &mut Stepping, queues: usize, ask: Ask) {
        self.next += 1;
        let id = (self.next.wrapping_mul(0x9e37) >> 3) as u16;
        let port = 1024 + (self.next % 60_000) as u16;
        let frame = ask.frame(id, port);
        let key = (ask.client, port, id);
        let queue = usize::from(port) % queues;
        let now = line.now();
        let frames = (0..1 + u8::from(ask.comes_twice)).filter(|_| line.offer(queue, &frame));
        let frames = frames.count() as u8;
        if frames == 0 {
            return self.trace.note(now, format_args!("{key:?} finds no room"));
        }
        self.trace.note(now, format_args!("{key:?} asks {} {}", ask.name, ask.qtype));
        self.sent += u64::from(frames);
        self.by_age.push_back((now, key));
        let before = self.waiting.insert(key, Asked { ask, at: now, frames });
        assert!(before.is_none(), "no query is like another");
    }

    /// Somebody sends what nobody answers.
    pub(crate) fn send_rubbish(&mut self, line: &mut Stepping, bytes: &[u8]) {
        self.sent += u64::from(line.offer(0, bytes));
    }

    /// An answer comes.
    pub(crate) fn take(
        &mut self,
        frame: &Frame,
        now: Duration,
        promise: &Promise,
        blocks: Option<&Blocks>,
    ) -> Result<(), String> {
        self.answered += 1;
        let (address, port, message) = read(frame.bytes());
        let Some(message) = Message::parse(message) else {
            return Err(format!("{address} gets what is no message: {:02x?}", frame.bytes()));
        };
        let key = (address, port, message.id);
        let Some(asked) = self.waiting.get_mut(&key) else {
            return Err(format!("{key:?} gets an answer that it does not wait for"));
        };
        asked.frames -= 1;
        let (ask, at) = (asked.ask.clone(), asked.at);
        if asked.frames == 0 {
            self.waiting.remove(&key);
        }
        let rcode = message.rcode();
        let answers = &message.sections[0];
        self.trace.note(now, format_args!("{key:?} gets rcode {rcode}, {} records", answers.len()));
        let (name, qtype, _) = &message.question;
        if name.wire() != ask.name.wire() || *qtype != ask.qtype {
            return Err(format!("{key:?} asked {} and gets {name}", ask.name));
        }
        if message.flags & flag::TC != 0 {
            return Ok(());
        }
        if rcode != 0 && rcode != NXDOMAIN {
            return match ask.must_succeed {
                true => Err(format!(
                    "{key:?} gets rcode {rcode} for {} {qtype} after {:?}",
                    ask.name,
                    now - at
                )),
                false => Ok(()),
            };
        }
        self.succeeded += 1;
        if let Some(blocks) = blocks {
            blocks.check(&message).map_err(|why| format!("{key:?} {why}"))?;
            if rcode == NXDOMAIN && answers.is_empty() && blocks.may_refuse(name, at) {
                return Ok(());
            }
        }
        if name.is_within(&Name::new("here")) {
            let version = answers.first().and_then(|one| one.data.last_chunk::<2>());
            let version = u16::from_be_bytes(*version.unwrap_or(&[0, 0]));
            let (first, last) = promise.versions;
            let is_known = (first..=last).contains(&version) && answers.len() == 1;
            return is_known.then_some(()).ok_or_else(|| {
                format!("{key:?} gets version {version}, not one of {first} to {last}")
            });
        }
        // What it validates by itself nobody else does.
        if ask.checks && promise.is_signed {
            return Ok(());
        }
        let is_secure = message.flags & flag::AD != 0;
        let is_lab = promise.has_lab && is_in_lab(address);
        promise
            .check(&message, rcode, (is_secure, is_lab), now)
            .map_err(|why| format!("{key:?}: {why}"))
    }

    /// Looks for those whose deadline has come; `turns` have been taken by all threads.
    pub(crate) fn look_for_late(&mut self, now: Duration, turns: u64, deadline: Duration) {
        while let Some((at, key)) = self.by_age.front().copied()
            && at + deadline < now
        {
            self.by_age.pop_front();
            if self.waiting.contains_key(&key) {
                self.late.push_back((turns, key));
            }
        }
        while let Some((since, key)) = self.late.front()
            && since + GRACE < turns
        {
            self.forgotten += u64::from(self.waiting.contains_key(key));
            self.late.pop_front();
        }
    }

    /// One of those who must get an answer and have none.
    pub(crate) fn disappointed(&self) -> Option<String> {
        let mut waiting = self.waiting.iter();
        let (key, asked) = waiting.find(|(_, asked)| asked.ask.must_succeed)?;
        Some(format!("{key:?} gets no answer to {} {}", asked.ask.name, asked.ask.qtype))
    }
}

/// Types that clients ask for.
pub(crate) const TYPES: [u16; 4] = [rtype::A, rtype::AAAA, rtype::TXT, rtype::A];

/// The address and the port that an answer is for, and its message.
fn read(frame: &[u8]) -> (IpAddr, u16, &[u8]) {
    let (header, ipv6) = (ip::ETHERNET_LEN, be16(frame, ip::ETHERTYPE) == Some(ip::TYPE_IPV6));
    let udp = header + if ipv6 { ip::IPV6_LEN } else { ip::IPV4_MIN_LEN };
    // The destination is what an IP header ends with.
    let address = match ipv6 {
        true => frame[..udp].last_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        false => frame[..udp].last_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
    };
    let port = be16(frame, udp + 2).expect("a frame has all headers");
    (address.expect("a frame has all headers"), port, &frame[udp + ip::UDP_LEN..])
}
