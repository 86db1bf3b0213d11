//! Block lists that are fetched by HTTPS.
//!
//! ```text
//!  server ──GET, 304 or the list──► fetch ──► check ──► file ──► reload
//! ```
//!
//! A thread of its own fetches one list after another. What it gets is checked and put into the list's file. Then the rules are
//! made anew from that file, as by any reload. So a start needs no network, and a bad download changes nothing.
//! docs/adr/0052-lists-by-url.md gives the reasons.

mod additions;
mod counters;
mod fetch;
mod keep;
mod list;
mod schedule;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_config::limits::MAX_LIST_NAMES;
use pmdns_config::narrow::to_usize;
use pmdns_config::{Blocklist, Config};
use pmdns_control::answers::Done;
use pmdns_control::{Refusal, named};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

pub use additions::Additions;
pub use counters::{ListCounters, ListSnapshot};
use fetch::Source;
pub(crate) use keep::clear;
use list::{Followed, List};
use pmdns_changes::overlay::Overlay;
use pmdns_changes::{FollowConfig, Reach};
use pmdns_encrypted::roots;
use pmdns_engine::threads::{join_within, pin};

use pmdns_control::Caller;

/// The most requests that may wait for the thread.
const MAX_REQUESTS: usize = 16;
/// Names of all fetched lists together: half of what there is room for. So no server can keep rules from being made of the other
/// lists, which a start needs.
const MAX_FETCHED_NAMES: usize = MAX_LIST_NAMES / 2;
/// How long the thread may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A message to the thread.
enum ListRequest {
    /// These lists are kept up to date from now on.
    Follow(Vec<Followed>),
    /// A caller wants the lists of this name fetched now.
    Refresh(String, Caller),
    /// A caller has added the list of this name, and wants to know what came of its first fetch.
    First { name: String, done: String, caller: Caller },
}

/// What is known of the fetches of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchState {
    /// Attempts that failed since the last successful one.
    pub failing: u64,
    /// Why the last one failed.
    pub last_error: Option<String>,
}

/// The fetched lists. Dropping it ends the thread.
pub struct FetchedLists {
    followed: Vec<Followed>,
    /// Those that the system trusts. They are read once, because later they may be out of reach.
    system: Option<Arc<RootCertStore>>,
    requests: Option<mpsc::Sender<ListRequest>>,
    news: Arc<AtomicBool>,
    /// Whether the thread was told to do nothing, and whether it does nothing.
    is_held: watch::Sender<bool>,
    holds: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FetchedLists {
    /// Begins the thread that fetches the lists of `config`, which `overlay` has changed, pinned to the CPU `core` if one is given.
    /// It is held.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn start(config: &Config, overlay: &Overlay, core: Option<usize>) -> io::Result<Self> {
        let (requests, asked) = mpsc::channel(MAX_REQUESTS);
        let (news, holds) = (Arc::<AtomicBool>::default(), Arc::new(AtomicBool::new(true)));
        let (is_held, held) = watch::channel(true);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (told, holding) = (Arc::clone(&news), Arc::clone(&holds));
        let body = move || {
            pin(core);
            LocalSet::new().block_on(&runtime, serve(asked, (held, holding), told));
            // The system's resolver may still be at work.
            runtime.shutdown_background();
        };
        let thread = Some(std::thread::Builder::new().name("lists".to_owned()).spawn(body)?);
        let is_trusted = |list: &Blocklist| list.url.is_some() && list.ca_file.is_none();
        let is_needed = config.control.lists.is_some() || config.blocklists.iter().any(is_trusted);
        let system = if is_needed { roots::of_system().map(Arc::new) } else { None };
        let (followed, requests) = (Vec::new(), Some(requests));
        let mut this = Self { followed, system, requests, news, is_held, holds, thread };
        this.apply_config(config, overlay);
        Ok(this)
    }

    /// Tells the caller that has added the list of this name what came of its first fetch, behind the sentence about it.
    pub(crate) fn report_first(&self, name: String, done: String, caller: Caller) {
        self.request(ListRequest::First { name, done, caller });
    }

    /// What is known of the fetches of the list with this file; `None`: it is not fetched.
    pub fn state_of(&self, file: &Path) -> Option<FetchState> {
        let list = self.followed.iter().find(|list| list.file == file)?;
        let failing = list.counters.failing.load(Ordering::Relaxed);
        Some(FetchState { failing, last_error: list.last_error.read() })
    }

    /// Fetches the lists of this name now, and tells the caller what came of it.
    pub fn refresh(&self, name: String, caller: Caller) {
        if self.followed.iter().any(|list| list.is_called(&name)) {
            return self.request(ListRequest::Refresh(name, caller));
        }
        let last = |list: &Followed| list.file.file_name().map(|last| last.display().to_string());
        let names = named(self.followed.iter().filter_map(last));
        let why = format!("there is no list `{name}` with a `url`; {names}");
        caller.refuse(Refusal::Unknown, why);
    }

    fn request(&self, request: ListRequest) {
        let told = self.requests.as_ref().map(|requests| requests.try_send(request));
        match told {
            Some(Err(mpsc::error::TrySendError::Full(
                ListRequest::Refresh(_, caller) | ListRequest::First { caller, .. },
            ))) => {
                let why = "lists are being fetched; try again later".to_owned();
                caller.refuse(Refusal::Busy, why);
            }
            Some(Err(_)) => {
                tracing::warn!("the thread of the lists takes no requests; reload once more")
            }
            _ => {}
        }
    }

    /// Whether the thread is to fetch and write nothing, because another process does. A fetch that is under way ends, and who
    /// waits for it is told.
    pub fn set_held(&self, is_held: bool) {
        self.is_held.send_if_modified(|before| std::mem::replace(before, is_held) != is_held);
    }

    /// Whether the thread does what it was told, or has ended.
    pub fn is_settled(&self) -> bool {
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || self.holds.load(Ordering::Acquire) == *self.is_held.borrow()
    }

    /// Whether there are new versions since the last call.
    pub fn has_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    /// The counters of each list.
    pub fn report(&self) -> Vec<(&Path, ListSnapshot)> {
        self.followed.iter().map(|list| (&*list.file, list.counters.snapshot())).collect()
    }
}

/// The lists become those of the configuration.
impl FollowConfig for FetchedLists {
    fn apply_config(&mut self, config: &Config, overlay: &Overlay) {
        let fetched = config.blocklists.iter().filter(|list| list.url.is_some());
        self.followed = fetched
            .map(|list| {
                let known = self.followed.iter().find(|one| one.file == list.file);
                let counters = known.map(|one| Arc::clone(&one.counters)).unwrap_or_default();
                let last_error = known.map(|one| one.last_error.clone()).unwrap_or_default();
                let is_added = overlay.has_list(&list.file);
                let reach = match is_added {
                    true => Reach::Public(config.control.list_networks.clone()),
                    false => Reach::Anywhere,
                };
                let source = source(list, self.system.as_ref(), reach);
                let interval = list.refresh_seconds.map_or(list::INTERVAL, Duration::from_secs);
                let (file, format) = (list.file.clone(), list.format);
                Followed { file, format, interval, source, is_added, counters, last_error }
            })
            .collect();
        self.request(ListRequest::Follow(self.followed.clone()));
    }
}

impl Drop for FetchedLists {
    fn drop(&mut self) {
        // The thread ends when its channel of requests is closed, or while it is held when nobody can end that.
        self.requests = None;
        self.is_held = watch::Sender::new(true);
        if let Some(thread) = self.thread.take()
            && !join_within(thread, STOP_PATIENCE)
        {
            tracing::warn!("the thread of the lists does not end: it is given up");
        }
    }
}

/// Where a list is, or why nobody can tell whether its server is the right one.
fn source(
    list: &Blocklist,
    system: Option<&Arc<RootCertStore>>,
    reach: Reach,
) -> Result<Source, String> {
    let server = list.url.as_ref().and_then(|url| url.server()).ok_or("it has no url")?;
    let unusable = |file: &PathBuf, why| format!("ca_file {}: {why}", file.display());
    let roots = match &list.ca_file {
        Some(file) => roots::of_file(file).map(Arc::new).map_err(|why| unusable(file, why))?,
        None => Arc::clone(system.ok_or(
            "there are no certificates of the system; set ca_file and reload, or install ca-certificates for another process",
        )?),
    };
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Source { server: server.clone(), address: list.address, tls: Arc::new(tls), reach })
}

/// Fetches lists when they are due or wanted, until the channel of requests is closed. While it is `held` it does nothing, and says
/// so.
async fn serve(
    mut requests: mpsc::Receiver<ListRequest>,
    (mut held, holds): (watch::Receiver<bool>, Arc<AtomicBool>),
    news: Arc<AtomicBool>,
) {
    let mut lists: Vec<List> = Vec::new();
    loop {
        let is_held = *held.borrow_and_update();
        holds.store(is_held, Ordering::Release);
        if is_held {
            match held.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let next = (0..lists.len()).min_by_key(|index| lists[*index].due());
        let due = next.map_or_else(Instant::now, |index| lists[index].due());
        let request = tokio::select! {
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = sleep_until(due), if next.is_some() => None,
            _ = held.changed() => continue,
        };
        match (request, next) {
            (Some(ListRequest::Follow(followed)), _) => {
                let next = followed.into_iter().map(|one| {
                    let before = lists.iter().find(|list| list.followed.file == one.file);
                    List::new(one, before)
                });
                lists = next.collect();
            }
            (Some(ListRequest::First { name, done, caller }), _) => {
                let fetched = fetch_first(&mut lists, &news, (name, done));
                caller.reply(unless_held(&mut held, fetched).await);
            }
            (Some(ListRequest::Refresh(name, caller)), _) => {
                let fetched = fetch_all(&mut lists, &news, &name);
                caller.reply(unless_held(&mut held, fetched).await);
            }
            (None, Some(index)) => {
                let room = room_for(&lists, index);
                tokio::select! {
                    _ = lists[index].refresh(&news, room) => {}
                    _ = held.changed() => {}
                }
            }
            (None, None) => {}
        }
    }
}

/// What came of a fetch.
type Fetched = Result<Done, (Refusal, String)>;

/// What comes of a fetch, unless another process keeps the lists meanwhile. What is written is written without a pause, so nothing
/// is left half done.
async fn unless_held(
    held: &mut watch::Receiver<bool>,
    fetched: impl Future<Output = Fetched>,
) -> Fetched {
    tokio::select! {
        fetched = fetched => fetched,
        _ = held.changed() => {
            Err((Refusal::Busy, "another process takes over, and fetches the lists".to_owned()))
        }
    }
}

/// Fetches the lists of this name.
async fn fetch_all(lists: &mut [List], news: &AtomicBool, name: &str) -> Fetched {
    let mut told = Vec::new();
    for index in 0..lists.len() {
        if lists[index].followed.is_called(name) {
            let room = room_for(lists, index);
            told.push(lists[index].refresh(news, room).await);
        }
    }
    let all: Result<Vec<_>, _> = told.into_iter().collect();
    match all {
        Ok(done) => Ok(Done { done: done.join("; ") }),
        Err(why) => Err((Refusal::Unable, why)),
    }
}

/// Fetches the list of this name, which was added as the sentence about it says.
async fn fetch_first(
    lists: &mut [List],
    news: &AtomicBool,
    (name, done): (String, String),
) -> Fetched {
    let Some(index) = lists.iter().position(|list| list.followed.is_called(&name)) else {
        return Err((Refusal::Unknown, format!("list {name} is not there any more")));
    };
    let room = room_for(lists, index);
    let list = &mut lists[index];
    let result = match list.last.clone() {
        Some(last) => last,
        None => list.refresh(news, room).await,
    };
    match result {
        Ok(fetched) => Ok(Done { done: format!("{done}; {fetched}") }),
        Err(why) => Err((
            Refusal::Unable,
            format!(
                "list {name} is added, but is not there yet: {why}; it is tried again; the lists tell how \
                 it goes, and it can be removed"
            ),
        )),
    }
}

/// Names that a list may have beside the other fetched lists.
fn room_for(lists: &[List], index: usize) -> usize {
    let others = lists.iter().enumerate().filter(|(other, _)| *other != index);
    let names = others.map(|(_, list)| list.followed.counters.names.load(Ordering::Relaxed));
    MAX_FETCHED_NAMES.saturating_sub(to_usize(names.sum()))
}

#[cfg(test)]
mod tests {
    use pmdns_control::CallReply;
    use pmdns_engine::testing::config;

    use super::list::LastError;
    use super::*;

    /// A list of this URL, whose file has just been written.
    fn followed(file: &std::path::Path, url: &str, names: u64) -> Followed {
        let list = format!("[[blocklist]]\nfile = {file:?}\nurl = {url:?}\n");
        let config = config(&list);
        let list = &config.blocklists[0];
        let counters = Arc::<ListCounters>::default();
        counters.names.store(names, Ordering::Relaxed);
        Followed {
            file: list.file.clone(),
            format: list.format,
            interval: list::INTERVAL,
            source: source(list, Some(&Arc::new(RootCertStore::empty())), Reach::Anywhere),
            is_added: false,
            counters,
            last_error: LastError::default(),
        }
    }

    #[test]
    fn a_list_that_comes_from_elsewhere_is_fetched_at_once() {
        let file = std::env::temp_dir().join(format!("pmdns-moved-{}", std::process::id()));
        std::fs::write(&file, "a.example\n").unwrap();
        let due_in = |list: &List| list.due().saturating_duration_since(Instant::now()).as_secs();
        let first = List::new(followed(&file, "https://a.example/ads", 1), None);
        assert!(due_in(&first) > 3600, "its file is new");
        let same = List::new(followed(&file, "https://a.example/ads", 1), Some(&first));
        assert!(due_in(&same) > 3600);
        for url in ["https://b.example/ads", "https://a.example/other"] {
            let moved = List::new(followed(&file, url, 1), Some(&first));
            assert_eq!(due_in(&moved), 0, "{url}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn who_is_held_fetches_nothing_and_begins_anew_later() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/ads", server.local_addr().unwrap());
        let name = format!("pmdns-held-{}", std::process::id());
        let file = std::env::temp_dir().join(&name);
        let config = config(&format!("[[blocklist]]\nfile = {file:?}\nurl = {url:?}\n"));
        let lists = FetchedLists::start(&config, &Overlay::default(), None).unwrap();
        assert!(lists.is_settled());
        let (caller, mut replied) = Caller::new("a test");
        lists.refresh(name, caller);
        // Who waits for a fetch and the time of it come in either order, so often at most.
        for round in 0..64 {
            lists.set_held(false);
            let (mut client, _) = server.accept().unwrap();
            lists.set_held(true);
            // The server says nothing, and is not waited for.
            let mut said = Vec::new();
            std::io::Read::read_to_end(&mut client, &mut said).unwrap();
            while !lists.is_settled() {
                std::thread::yield_now();
            }
            if round > 0
                && let Ok(reply) = replied.try_recv()
            {
                assert!(matches!(reply, CallReply::Refused(Refusal::Busy, _)), "{reply:?}");
                return;
            }
        }
        panic!("who waits for a fetch is not told");
    }

    #[test]
    fn fetched_lists_leave_room_for_others() {
        let list = |names| {
            let file = std::path::Path::new("/nonexistent/ads");
            List::new(followed(file, "https://a.example/ads", names), None)
        };
        let lists = [list(3), list(MAX_FETCHED_NAMES as u64 - 5), list(4)];
        assert_eq!([0, 1, 2].map(|index| room_for(&lists, index)), [1, MAX_FETCHED_NAMES - 7, 2]);
        let full = [list(u64::from(u32::MAX)), list(0)];
        assert_eq!(room_for(&full, 1), 0);
    }
}
