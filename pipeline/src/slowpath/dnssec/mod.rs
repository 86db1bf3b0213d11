//! DNSSEC validation (RFC 4033 to 4035), on a thread of its own beside the slow path.
//!
//! ```text
//!  desk ──Work: a reply, keys──────────► validator ──► the domain crate's validator
//!       ◄──Report: a verdict, a fetch──            ◄── (signatures, proofs, chain of trust)
//! ```
//!
//! The upstreams are asked with DO=1 and CD=1 (RFC 6840 section 5.9), and their replies come here before they
//! become entries. What the validator needs to know itself, keys and proofs that there are none, the desk fetches
//! for it like anything else that is asked upstream. Every reply that goes there comes back as one verdict, late in the
//! worst case; both channels have room for all that may be under way, so nobody ever waits for room.
//! docs/adr/0022-dnssec-validation.md says why.

mod anchors;
mod exchange;
mod message;
mod validator;

use std::collections::HashMap;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Receiver;
use pmdns_stages::wire::edns::ExtendedError;
use pmdns_stages::wire::subnet::Subnet;
use slab::Slab;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::pending::Ticket;
use super::plan::Attempt;
use super::query::Question;

pub use anchors::{AnchorError, Anchors};

/// Replies under validation at once, of one thread. More are shed.
const MAX_UNDER_WAY: usize = 1024;

/// The validator of one slow path thread.
pub(super) struct Validation {
    under_way: Slab<Validated>,
    /// Who waits for the reply to a question of the validator's own.
    fetches: HashMap<Question, Vec<usize>>,
    work: Option<mpsc::Sender<Work>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

/// A reply under validation.
struct Validated {
    ticket: Ticket,
    attempt: Attempt,
    /// The network it is for; none: it is for everybody.
    network: Option<Subnet>,
}

/// What the desk sends.
enum Work {
    /// A reply; whether its records stay as they are, because the client asked for DNSSEC.
    Validate { slot: usize, reply: Vec<u8>, dnssec_ok: bool },
    /// What came of a fetch.
    Fetched { fetch: usize, reply: Option<Vec<u8>> },
}

/// What comes back.
enum Report {
    /// The verdict on a reply.
    Verdict { slot: usize, verdict: Verdict },
    /// A question to the upstreams: its name in lower case, and its type.
    Fetch { fetch: usize, name: Box<[u8]>, qtype: u16 },
}

/// What is to be thought of a reply.
#[derive(Debug)]
enum Verdict {
    /// It can be passed on.
    Sound(Sound),
    /// It is forged or broken (RFC 4033 section 5), for this reason.
    Bogus(ExtendedError),
    /// There was no time.
    Late,
}

/// A reply that can be passed on, with AD if it is secure and without DNSSEC records that nobody asked for.
#[derive(Debug)]
struct Sound {
    standing: Standing,
    reply: Vec<u8>,
    /// The longest it may be kept, in seconds.
    max_ttl: u32,
}

/// How much is known about a reply (RFC 4033 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Signed, all the way from a trust anchor.
    Secure,
    /// Provably not signed, or the operator says not to look.
    Insecure,
    /// No trust anchor is above it.
    Indeterminate,
}

impl Validation {
    /// Starts the thread, if there are `anchors`. A reply is judged within `patience`.
    pub(super) fn start(anchors: Option<Anchors>, patience: Duration) -> io::Result<Self> {
        // A fetch may outlive the validation that wanted it, so there may be as many of either.
        let capacity = 2 * MAX_UNDER_WAY;
        let (report, reports) = crossbeam_channel::bounded(capacity);
        let mut this = Self {
            under_way: Slab::new(),
            fetches: HashMap::new(),
            work: None,
            reports,
            thread: None,
        };
        let Some(anchors) = anchors else { return Ok(this) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (sender, work) = mpsc::channel(capacity);
        let body = move || {
            let serve = validator::serve(anchors, patience, work, report);
            LocalSet::new().block_on(&runtime, serve);
        };
        let slow_path = std::thread::current();
        let name = format!("{}-sec", slow_path.name().unwrap_or("slowpath"));
        this.thread = Some(std::thread::Builder::new().name(name).spawn(body)?);
        this.work = Some(sender);
        Ok(this)
    }

    /// Whether replies are validated.
    pub(super) fn is_on(&self) -> bool {
        self.work.is_some()
    }

    /// Whether the validator waits for the reply to this.
    pub(super) fn wants(&self, question: &Question) -> bool {
        !self.fetches.is_empty() && self.fetches.contains_key(question)
    }

    /// Hands over a reply; `false`: too many are under way.
    fn validate(&mut self, validated: Validated, reply: Vec<u8>, dnssec_ok: bool) -> bool {
        let Some(work) = &self.work else { return false };
        if self.under_way.len() >= MAX_UNDER_WAY {
            return false;
        }
        let slot = self.under_way.insert(validated);
        let sent = work.try_send(Work::Validate { slot, reply, dnssec_ok });
        debug_assert!(sent.is_ok(), "the channel has room for all that may be under way");
        if sent.is_err() {
            self.under_way.remove(slot);
        }
        sent.is_ok()
    }

    /// Hands over what came of a question, if the validator waits for that.
    pub(super) fn fetched(&mut self, question: &Question, reply: Option<&[u8]>) {
        if self.wants(question) {
            for fetch in self.fetches.remove(question).unwrap_or_default() {
                self.give(fetch, reply.map(<[u8]>::to_vec));
            }
        }
    }

    fn give(&self, fetch: usize, reply: Option<Vec<u8>>) {
        let Some(work) = &self.work else { return };
        let sent = work.try_send(Work::Fetched { fetch, reply });
        debug_assert!(sent.is_ok(), "the channel has room for all that may be under way");
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it any more.
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok() || std::thread::panicking(), "its panic is reported above");
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::Dnssec;

    use super::super::plan::Transport;
    use super::*;

    /// An unsigned answer of the root's NS record to itself: keys are wanted to judge it.
    const REPLY: &[u8] =
        b"\0\0\x84\0\0\x01\0\x01\0\0\0\0\0\0\x02\0\x01\0\0\x02\0\x01\0\0\0\x3c\0\x01\0";

    #[test]
    fn too_many_replies_at_once_are_refused_and_all_others_come_back() {
        let on = Dnssec { validate: true, ..Dnssec::default() };
        let anchors = Anchors::load(&on).unwrap();
        let mut validation = Validation::start(anchors, Duration::from_millis(500)).unwrap();
        let attempt = Attempt { upstream: 0, transport: Transport::Udp, edns: true, late: false };
        let validated = || Validated { ticket: Ticket::NONE, attempt, network: None };
        for _ in 0..MAX_UNDER_WAY {
            assert!(validation.validate(validated(), REPLY.to_vec(), false));
        }
        assert!(!validation.validate(validated(), REPLY.to_vec(), false));
        // Nobody brings the keys.
        while !validation.under_way.is_empty() {
            if let Report::Verdict { slot, verdict } = validation.reports.recv().unwrap() {
                assert!(matches!(verdict, Verdict::Late), "{verdict:?}");
                validation.under_way.remove(slot);
            }
        }
        assert!(validation.validate(validated(), REPLY.to_vec(), false), "there is room again");
    }

    #[test]
    fn who_does_not_validate_has_no_thread() {
        let validation = Validation::start(None, Duration::from_secs(1)).unwrap();
        assert!(validation.thread.is_none() && !validation.is_on());
    }
}
