//! Upstreams over encrypted connections: TLS, HTTPS and QUIC, on a thread of their own.
//!
//! ```text
//!  desk ──Request──► peer, one for each upstream ──► its connection ──► upstream
//!       ◄──Report───  (bootstrap, back-off, reuse)    (dot, doh, doq)
//! ```
//!
//! Encryption comes from libraries that are written for tokio, and the slow path's loop never waits. So each slow
//! path thread with such upstreams has a second one, with a runtime: requests go there over one channel, and each
//! comes back over another one as exactly one report, a time-out at the latest, and before that perhaps one that
//! it is late. Both channels have room for all that may be under way, so nobody ever waits for room. docs/adr/0018-encrypted-upstreams.md says why.

mod bootstrap;
mod connection;
mod doh;
mod doq;
mod dot;
mod exchange;
mod peer;
mod trust;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use pmdns_config::Upstream;
use slab::Slab;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::counters::UpstreamCounters;
use super::pending::Ticket;
use super::plan::Attempt;
use super::prefixes::ClientPrefix;
use super::query::Question;
use super::quota::Quota;
use peer::Peer;

pub use trust::{Trust, TrustError};

/// Queries under way to one upstream. More are shed: they go to the next upstream. So are those of a client prefix
/// that has its part.
pub(super) const MAX_UNDER_WAY: usize = 2048;
/// How often connections that nobody uses are looked for.
const UPKEEP: Duration = Duration::from_secs(1);

/// What is under way to the encrypted upstreams of one slow path thread.
pub(super) struct Encrypted {
    asked: Slab<Asked>,
    /// Queries under way, by upstream.
    under_way: Vec<Quota>,
}

/// The thread that asks them, if there are any.
pub(super) struct EncryptedThread {
    requests: Option<mpsc::Sender<Request>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

/// A query under way.
pub(super) struct Asked {
    /// Whom it is charged to.
    pub(super) prefix: ClientPrefix,
    pub(super) ticket: Ticket,
    pub(super) question: Rc<Question>,
    pub(super) attempt: Attempt,
    pub(super) sent: Duration,
}

/// What came of a query.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A reply with id 0, not looked at yet, after so long a time on the wire.
    Reply(Vec<u8>, Duration),
    /// Nothing, in the time it had.
    Silent,
    /// No connection, or one that ended.
    Broken(io::Error),
}

/// News of a query.
pub(super) enum Heard {
    /// It is late. There will be more news of it.
    Late {
        /// The question.
        ticket: Ticket,
        /// The try, when it was not late.
        attempt: Attempt,
        /// When it left.
        sent: Duration,
    },
    /// The last.
    End(Asked, Outcome),
}

/// A query for the other thread.
#[derive(Debug)]
pub(super) struct Request {
    slot: usize,
    upstream: usize,
    /// With id 0.
    query: Vec<u8>,
    /// When it is late, and when it is given up.
    patience: (Duration, Duration),
}

/// What came of a request.
#[derive(Debug)]
pub(super) struct Report {
    slot: usize,
    /// `None`: it is late.
    outcome: Option<Outcome>,
}

impl Encrypted {
    /// Nothing is under way to so many upstreams.
    pub(super) fn new(upstreams: usize) -> Self {
        let under_way = (0..upstreams).map(|_| Quota::new(MAX_UNDER_WAY)).collect();
        Self { asked: Slab::new(), under_way }
    }

    /// The request that asks an encrypted upstream. There is news when the first of these times has passed, and it is
    /// given up when the second has. Nothing, if too many queries are under way to it, or of this prefix.
    pub(super) fn ask(
        &mut self,
        asked: Asked,
        query: Vec<u8>,
        patience: (Duration, Duration),
    ) -> Option<Request> {
        let (prefix, upstream) = (asked.prefix, asked.attempt.upstream);
        if !self.under_way[upstream].has_room_for(prefix) {
            return None;
        }
        self.under_way[upstream].take(prefix);
        Some(Request { slot: self.asked.insert(asked), upstream, query, patience })
    }

    /// Takes in what came of a query.
    pub(super) fn hear(&mut self, Report { slot, outcome }: Report) -> Heard {
        let Some(outcome) = outcome else {
            let Asked { ticket, attempt, sent, .. } = &mut self.asked[slot];
            let before = *attempt;
            attempt.late = true;
            return Heard::Late { ticket: *ticket, attempt: before, sent: *sent };
        };
        let asked = self.asked.remove(slot);
        self.under_way[asked.attempt.upstream].give_back(asked.prefix);
        Heard::End(asked, outcome)
    }
}

impl EncryptedThread {
    /// Starts it, if any of `upstreams` is encrypted.
    pub(super) fn start(
        upstreams: &[Upstream],
        bootstrap: &[SocketAddr],
        trust: &Trust,
        counters: &Arc<[UpstreamCounters]>,
    ) -> io::Result<Self> {
        let encrypted = upstreams.iter().filter(|one| one.address.server().is_some()).count();
        let capacity = encrypted * MAX_UNDER_WAY;
        let (report, reports) = crossbeam_channel::bounded(2 * capacity);
        let mut this = Self { requests: None, reports, thread: None };
        if encrypted == 0 {
            return Ok(this);
        }
        let settings = trust.settings(upstreams, bootstrap, counters).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (request, requests) = mpsc::channel(capacity);
        let body = move || {
            let peers = settings.into_iter().map(|one| one.map(|one| Rc::new(Peer::new(one))));
            let peers = peers.collect();
            LocalSet::new().block_on(&runtime, serve(peers, requests, report));
        };
        let slow_path = std::thread::current();
        let name = format!("{}-tls", slow_path.name().unwrap_or("slowpath"));
        this.thread = Some(std::thread::Builder::new().name(name).spawn(body)?);
        this.requests = Some(request);
        Ok(this)
    }

    /// Carries out a request; otherwise says what came of it.
    pub(super) fn ask(&self, request: Request) -> Result<(), Report> {
        let slot = request.slot;
        let sent = self.requests.as_ref().map(|requests| requests.try_send(request));
        debug_assert!(
            sent.as_ref().is_some_and(Result::is_ok),
            "there is room for all that may be under way"
        );
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(Report {
                slot,
                outcome: Some(Outcome::Broken(io::ErrorKind::BrokenPipe.into())),
            }),
        }
    }

    /// What came of a query, if there is news.
    pub(super) fn hear(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }
}

impl Drop for EncryptedThread {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it any more.
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok() || std::thread::panicking(), "its panic is reported above");
        }
    }
}

/// Carries out requests until nobody can send any.
async fn serve(
    peers: Rc<[Option<Rc<Peer>>]>,
    mut requests: mpsc::Receiver<Request>,
    reports: Sender<Report>,
) {
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(Request { slot, upstream, query, patience }) = request else { return };
                let (peers, reports) = (Rc::clone(&peers), reports.clone());
                tokio::task::spawn_local(async move {
                    // There is room for every report; who asked may have ended.
                    let report = |outcome| drop(reports.try_send(Report { slot, outcome }));
                    let outcome = match &peers[upstream] {
                        Some(peer) => ask(peer, &query, patience, || report(None)).await,
                        None => Outcome::Broken(io::ErrorKind::Unsupported.into()),
                    };
                    report(Some(outcome));
                });
            }
            _ = upkeep.tick() => {
                peers.iter().flatten().for_each(|peer| peer.close_if_idle());
            }
        }
    }
}

/// Asks `peer`. When the first time has passed without a reply it says so by `late`, and later queries go over another
/// connection; when the second has, it gives up.
async fn ask(
    peer: &Rc<Peer>,
    query: &[u8],
    (retry, patience): (Duration, Duration),
    late: impl FnOnce(),
) -> Outcome {
    let began = Instant::now();
    let mut asking = pin!(peer.ask(query));
    let mut replied = timeout(retry.min(patience), &mut asking).await;
    if replied.is_err() {
        peer.note_silence(began);
        if retry < patience {
            late();
            replied = timeout(patience - retry, asking).await;
        }
    }
    match replied {
        Ok(Ok((reply, took))) => Outcome::Reply(reply, took),
        Ok(Err(error)) => Outcome::Broken(error),
        Err(_) => Outcome::Silent,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use pmdns_config::Pin;

    use super::super::plan::Transport;
    use super::super::shares::tests::prefix;
    use super::*;

    #[test]
    fn so_many_are_under_way_and_no_more_and_each_comes_to_something() {
        // It accepts connections, as kernels do, and never speaks.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("tls://{}", silent.local_addr().unwrap()).parse().unwrap();
        let upstreams = [Upstream { pin: vec![Pin([0; 32])], ..Upstream::at(address) }];
        let trust = Trust::load(&upstreams).unwrap();
        let counters: Arc<[UpstreamCounters]> = [UpstreamCounters::default()].into();
        let thread = EncryptedThread::start(&upstreams, &[], &trust, &counters).unwrap();
        let mut encrypted = Encrypted::new(1);
        let question = Rc::new(Question::probe());
        let mut number = 0;
        let mut asked = || Asked {
            prefix: prefix({
                number += 1;
                number
            }),
            ticket: Ticket::NONE,
            question: Rc::clone(&question),
            attempt: Attempt { upstream: 0, transport: Transport::Tcp, edns: true, late: false },
            sent: Duration::ZERO,
        };
        let patience = (Duration::from_millis(100), Duration::from_millis(500));
        for _ in 0..MAX_UNDER_WAY {
            thread.ask(encrypted.ask(asked(), Vec::new(), patience).unwrap()).unwrap();
        }
        assert!(encrypted.ask(asked(), Vec::new(), patience).is_none());
        let (mut late, mut silences) = (0, 0);
        while silences < MAX_UNDER_WAY {
            match thread.hear().map(|report| encrypted.hear(report)) {
                Some(Heard::Late { attempt, .. }) => {
                    assert!(!attempt.late);
                    late += 1;
                }
                Some(Heard::End(asked, outcome)) => {
                    assert!(matches!(outcome, Outcome::Silent), "{outcome:?}");
                    assert!(asked.attempt.late);
                    silences += 1;
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        assert_eq!(
            (late, encrypted.under_way[0].held(), encrypted.asked.len()),
            (MAX_UNDER_WAY, 0, 0)
        );
        assert!(encrypted.ask(asked(), Vec::new(), patience).is_some(), "there is room again");
    }

    #[test]
    fn without_encrypted_upstreams_there_is_no_thread() {
        let upstreams = [Upstream::at("192.0.2.53:53".parse().unwrap())];
        let trust = Trust::load(&upstreams).unwrap();
        let counters: Arc<[UpstreamCounters]> = [UpstreamCounters::default()].into();
        let encrypted = EncryptedThread::start(&upstreams, &[], &trust, &counters).unwrap();
        assert!(encrypted.thread.is_none());
    }
}
