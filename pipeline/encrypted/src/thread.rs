//! The thread that asks encrypted upstreams for one thread of the slow path.
//!
//! The libraries for encryption are written for tokio, and the slow path's loop never waits. So each slow path thread
//! with such upstreams has a second thread with a tokio runtime. Requests go there over one channel, and reports come
//! back over another. Each request ends with exactly one report, at the latest a time-out. Before that, one more report
//! may say that it is late. Both channels have room for everything that may be under way, so no sender waits.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use pmdns_config::limits::MAX_UPSTREAMS;
use pmdns_engine::encrypted::{EncryptedDriver, Peers, unasked};
use pmdns_engine::threads::{beside, join};
use pmdns_resolver::encrypted::{EncryptedOutcome, EncryptedQuery, EncryptedReport, MAX_UNDER_WAY};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::peer::Peer;
use crate::trust::Settings;

/// How often idle connections are looked for.
const UPKEEP: Duration = Duration::from_secs(1);
/// The most queries under way, and changes of peers among them.
const MAX_REQUESTS: usize = MAX_UPSTREAMS * MAX_UNDER_WAY + 16;

/// A request to the thread.
enum Request {
    Ask(EncryptedQuery),
    /// These are the peers from now on, by slot.
    Peers(Vec<Option<Settings>>),
}

/// The thread.
pub(crate) struct EncryptedThread {
    /// `None` at the end.
    requests: Option<mpsc::Sender<Request>>,
    reports: Receiver<EncryptedReport>,
    thread: Option<JoinHandle<()>>,
}

impl EncryptedThread {
    /// Starts it, to ask the peers with these settings by slot.
    pub(crate) fn start(settings: Vec<Option<Settings>>) -> io::Result<Self> {
        // Bounded by the requests, each of which has two reports at most.
        let (report, reports) = crossbeam_channel::unbounded();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (request, requests) = mpsc::channel(MAX_REQUESTS);
        let body = move || {
            let peers = peers(settings, &[]);
            LocalSet::new().block_on(&runtime, serve(peers, requests, report));
        };
        Ok(Self { requests: Some(request), reports, thread: Some(beside("tls", body)?) })
    }

    fn send(&self, request: Request) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(request).is_ok())
    }
}

impl EncryptedDriver for EncryptedThread {
    fn ask(&self, query: EncryptedQuery) -> Result<(), EncryptedReport> {
        let otherwise = unasked(&query);
        let is_sent = self.send(Request::Ask(query));
        debug_assert!(is_sent, "there is room for all that may be under way");
        if is_sent { Ok(()) } else { Err(otherwise) }
    }

    fn report(&self) -> Option<EncryptedReport> {
        self.reports.try_recv().ok()
    }

    fn change_peers(&mut self, peers: &mut Peers) {
        let Some(settings) = peers.downcast_mut::<Vec<Option<Settings>>>() else {
            debug_assert!(false, "they were made for another driver");
            return;
        };
        let is_sent = self.send(Request::Peers(std::mem::take(settings)));
        debug_assert!(is_sent, "the thread runs, and there is room");
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
    mut peers: Rc<[Option<Rc<Peer>>]>,
    mut requests: mpsc::Receiver<Request>,
    reports: Sender<EncryptedReport>,
) {
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let request = match request {
                    Some(Request::Ask(request)) => request,
                    Some(Request::Peers(settings)) => {
                        peers = self::peers(settings, &peers);
                        continue;
                    }
                    None => return,
                };
                let EncryptedQuery { slot, upstream, query, patience } = request;
                let (peers, reports) = (Rc::clone(&peers), reports.clone());
                tokio::task::spawn_local(async move {
                    // There is room for every report; the receiver may have ended.
                    let report = |outcome| drop(reports.try_send(EncryptedReport { slot, outcome }));
                    let outcome = match peers.get(upstream).and_then(Option::as_ref) {
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

/// The peers with these settings. Those that were there before keep their connections.
fn peers(settings: Vec<Option<Settings>>, before: &[Option<Rc<Peer>>]) -> Rc<[Option<Rc<Peer>>]> {
    let peer = |(slot, settings): (usize, Option<Settings>)| {
        let settings = settings?;
        let known = before.get(slot).cloned().flatten().filter(|one| one.is_same(&settings));
        Some(known.unwrap_or_else(|| Rc::new(Peer::new(settings))))
    };
    settings.into_iter().enumerate().map(peer).collect()
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

    use pmdns_config::{Config, Pin, Upstream};
    use pmdns_resolver::Roster;

    use super::*;
    use crate::trust::UpstreamRoots;

    #[test]
    fn as_many_as_may_be_under_way_come_to_something() {
        // The kernel accepts connections to it, but it never sends anything.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("tls://{}", silent.local_addr().unwrap()).parse().unwrap();
        let upstreams = vec![Upstream { pin: vec![Pin([0; 32])], ..Upstream::at(address) }];
        let trust = UpstreamRoots::load(&upstreams).unwrap();
        let roster = Roster::new(&Config { upstreams, ..Config::default() });
        let settings = trust.settings(&roster, &[].into()).unwrap();
        let thread = EncryptedThread::start(settings).unwrap();
        let patience = (Duration::from_millis(100), Duration::from_millis(500));
        for slot in 0..MAX_UNDER_WAY {
            thread.ask(EncryptedQuery { slot, upstream: 0, query: Vec::new(), patience }).unwrap();
        }
        let mut news = vec![(0, 0); MAX_UNDER_WAY];
        while news.iter().any(|(_, ends)| *ends == 0) {
            match thread.report() {
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
}
