//! Upstreams over encrypted connections: TLS, HTTPS and QUIC, on a thread of their own.
//!
//! ```text
//!  loop ──EncryptedQuery──► peer, one for each upstream ──► its connection ──► upstream
//!       ◄──EncryptedReport───  (bootstrap, back-off, reuse)    (dot, doh, doq)
//! ```
//!
//! The libraries for encryption are written for tokio, and the slow path's loop never waits. So each slow path thread
//! with such upstreams has a second thread with a tokio runtime. Requests go there over one channel, and reports come
//! back over another. Each request ends with exactly one report, at the latest a time-out. Before that, one more report
//! may say that it is late. Both channels have room for everything that may be under way, so no sender waits.
//! docs/adr/0018-encrypted-upstreams.md gives the reasons.

mod bootstrap;
mod connection;
mod doh;
mod doq;
mod dot;
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
use pmdns_resolver::UpstreamCounters;
use pmdns_resolver::encrypted::{EncryptedOutcome, EncryptedQuery, EncryptedReport, MAX_UNDER_WAY};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::threads::{beside, join};
use peer::Peer;

pub use trust::{Trust, TrustError};

/// How often idle connections are looked for.
const UPKEEP: Duration = Duration::from_secs(1);

/// The thread that asks encrypted upstreams, if there are any.
pub(super) struct EncryptedThread {
    requests: Option<mpsc::Sender<EncryptedQuery>>,
    reports: Receiver<EncryptedReport>,
    thread: Option<JoinHandle<()>>,
}

impl EncryptedThread {
    /// Starts the thread, if any of `upstreams` is encrypted.
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
        this.thread = Some(beside("tls", body)?);
        this.requests = Some(request);
        Ok(this)
    }

    /// Passes a request to the thread. If it cannot, the error is the report for it.
    pub(super) fn ask(&self, request: EncryptedQuery) -> Result<(), EncryptedReport> {
        let slot = request.slot;
        let sent = self.requests.as_ref().map(|requests| requests.try_send(request));
        debug_assert!(
            sent.as_ref().is_some_and(Result::is_ok),
            "there is room for all that may be under way"
        );
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(EncryptedReport {
                slot,
                outcome: Some(EncryptedOutcome::Broken(io::ErrorKind::BrokenPipe.into())),
            }),
        }
    }

    /// The next report, if there is one.
    pub(super) fn hear(&self) -> Option<EncryptedReport> {
        self.reports.try_recv().ok()
    }
}

impl Drop for EncryptedThread {
    fn drop(&mut self) {
        // The thread ends when its channel of requests is closed.
        self.requests = None;
        join(self.thread.take());
    }
}

/// Carries out requests until the channel is closed.
async fn serve(
    peers: Rc<[Option<Rc<Peer>>]>,
    mut requests: mpsc::Receiver<EncryptedQuery>,
    reports: Sender<EncryptedReport>,
) {
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(EncryptedQuery { slot, upstream, query, patience }) = request else { return };
                let (peers, reports) = (Rc::clone(&peers), reports.clone());
                tokio::task::spawn_local(async move {
                    // There is room for every report; the receiver may have ended.
                    let report = |outcome| drop(reports.try_send(EncryptedReport { slot, outcome }));
                    let outcome = match &peers[upstream] {
                        Some(peer) => ask(peer, &query, patience, || report(None)).await,
                        None => EncryptedOutcome::Broken(io::ErrorKind::Unsupported.into()),
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

/// Asks `peer`. When the first time has passed without a reply it calls `late`, and later queries go over another
/// connection. When the second time has passed, it gives up.
async fn ask(
    peer: &Rc<Peer>,
    query: &[u8],
    (retry, patience): (Duration, Duration),
    late: impl FnOnce(),
) -> EncryptedOutcome {
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
        Ok(Ok((reply, took))) => EncryptedOutcome::Reply(reply, took),
        Ok(Err(error)) => EncryptedOutcome::Broken(error),
        Err(_) => EncryptedOutcome::Silent,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use pmdns_config::Pin;

    use super::*;

    #[test]
    fn as_many_as_may_be_under_way_come_to_something() {
        // The kernel accepts connections to it, but it never sends anything.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("tls://{}", silent.local_addr().unwrap()).parse().unwrap();
        let upstreams = [Upstream { pin: vec![Pin([0; 32])], ..Upstream::at(address) }];
        let trust = Trust::load(&upstreams).unwrap();
        let counters: Arc<[UpstreamCounters]> = [UpstreamCounters::default()].into();
        let thread = EncryptedThread::start(&upstreams, &[], &trust, &counters).unwrap();
        let patience = (Duration::from_millis(100), Duration::from_millis(500));
        for slot in 0..MAX_UNDER_WAY {
            thread.ask(EncryptedQuery { slot, upstream: 0, query: Vec::new(), patience }).unwrap();
        }
        let mut news = vec![(0, 0); MAX_UNDER_WAY];
        while news.iter().any(|(_, ends)| *ends == 0) {
            match thread.hear() {
                Some(EncryptedReport { slot, outcome: None }) => news[slot].0 += 1,
                Some(EncryptedReport { slot, outcome: Some(EncryptedOutcome::Silent) }) => {
                    news[slot].1 += 1
                }
                Some(report) => panic!("{report:?}"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        assert!(news.iter().all(|one| *one == (1, 1)), "each is late once, and ends once");
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
