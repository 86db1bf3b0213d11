//! The query log: queries of clients and their answers, to a dnstap reader, a file of JSON lines and a database.
//!
//! ```text
//!  recorder on each data core ─ ring of cells ─► collector ─ channel of batches ─► thread of each sink
//! ```
//!
//! Read [`records`](crate::records) first. The collector gives the same batches to all sinks, each over a bounded channel. So a
//! sink that is slow, or whose reader or disk is not there, loses records of its own and delays no other. See
//! docs/adr/0048-query-log.md.

mod batch;
mod clients;
mod collector;
mod dnstap;
mod entry;
mod json;
mod sink;
mod sqlite;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pmdns_config::{BrokenRule, Config};
use pmdns_engine::clock::Clock;
use pmdns_engine::observe::{ObserverLender, TooManyObservers};
use pmdns_engine::rule_names::RuleNames;
use pmdns_engine::threads::{join_within, pin};
use pmdns_engine::upstreams::UpstreamsInUse;

use self::clients::Clients;
use self::collector::Collector;
use self::dnstap::Dnstap;
use self::entry::EntryMaker;
pub use self::entry::LogEntry;
use self::json::JsonLines;
pub use self::sink::{LogCounters, LogSnapshot};
use self::sink::{Sink, Tap, sink_thread};
use self::sqlite::Database;
pub use self::sqlite::OpenError;
pub use self::sqlite::is_database;
pub use self::sqlite::search::{SearchError, search};
use crate::records::{Recording, Rings};

/// Batches that wait for one sink.
const WAITING: usize = 16;
/// How long a sink may take to write the last records at a stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Why queries cannot be logged.
#[derive(Debug, thiserror::Error)]
pub enum QueryLogError {
    /// The secret for clients' addresses.
    #[error("query_log.client_secret_file {0}")]
    Secret(BrokenRule),
    /// A file.
    #[error("query_log.{key}: cannot write {}: {why}", path.display())]
    File {
        /// Its key in the configuration.
        key: &'static str,
        /// Where it is.
        path: PathBuf,
        /// The system's or SQLite's reason.
        why: String,
    },
    /// The data cores have no room for it.
    #[error(transparent)]
    Observers(#[from] TooManyObservers),
    /// A thread could not be started.
    #[error("cannot start a thread of the query log: {0}")]
    Thread(#[from] io::Error),
}

/// The sinks, open but not yet running, so that privileges can be given up in between.
pub struct OpenLog {
    sinks: Vec<(&'static str, Box<dyn Sink>, Arc<LogCounters>)>,
}

/// The log that runs. Dropping it writes what is left and ends its threads.
#[derive(Debug)]
pub struct QueryLogger {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    parts: Vec<(&'static str, Arc<LogCounters>)>,
}

impl OpenLog {
    /// Opens what `config` names. `None`: nothing is logged.
    pub fn open(
        config: &Config,
        in_use: (RuleNames, UpstreamsInUse),
    ) -> Result<Option<Self>, QueryLogError> {
        let log = &config.query_log;
        if !log.is_on() {
            return Ok(None);
        }
        let clients = Clients::new(log).map_err(QueryLogError::Secret)?;
        let words = EntryMaker::new(clients.clone(), in_use);
        let mut sinks: Vec<(_, Box<dyn Sink>, _)> = Vec::new();
        if let Some(reader) = &log.dnstap {
            let counters = Arc::new(LogCounters::default());
            let identity = log.dnstap_identity.clone();
            let sink = Dnstap::new(reader.clone(), identity, clients, Arc::clone(&counters));
            sinks.push(("dnstap", Box::new(sink), counters));
        }
        let failed =
            |key, path: &PathBuf, why: String| QueryLogError::File { key, path: path.clone(), why };
        if let Some(path) = &log.json {
            let counters = Arc::new(LogCounters::default());
            let sink = JsonLines::open(log, path, words.clone(), Arc::clone(&counters))
                .map_err(|error| failed("json", path, error.to_string()))?;
            sinks.push(("json", Box::new(sink), counters));
        }
        if let Some(path) = &log.sqlite {
            let counters = Arc::new(LogCounters::default());
            let sink = Database::open(log, path, words, Arc::clone(&counters))
                .map_err(|error| failed("sqlite", path, error.to_string()))?;
            sinks.push(("sqlite", Box::new(sink), counters));
        }
        Ok(Some(Self { sinks }))
    }

    /// Starts the threads, pinned to the CPU `core` if one is given, and lends recorders to the data cores.
    pub fn start(
        self,
        config: &Config,
        lender: &ObserverLender,
        clock: Clock,
        core: Option<usize>,
    ) -> Result<QueryLogger, QueryLogError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut log =
            QueryLogger { stop: Arc::clone(&stop), threads: Vec::new(), parts: Vec::new() };
        let mut taps = Vec::new();
        for (name, sink, counters) in self.sinks {
            let (give, batches) = crossbeam_channel::bounded(WAITING);
            taps.push(Tap { batches: give, counters: Arc::clone(&counters) });
            log.parts.push((name, Arc::clone(&counters)));
            let stop = Arc::clone(&stop);
            log.spawn(format!("log-{name}"), core, move || {
                sink_thread(sink, &batches, &stop, &counters);
            })?;
        }
        let rings = lend(config, lender)?;
        log.parts.insert(0, ("rings", Arc::clone(&rings.counters)));
        let collector = Collector::new(rings, taps, clock);
        log.spawn("log-rings".to_owned(), core, move || collector.run(&stop))?;
        Ok(log)
    }
}

/// Lends a recorder of the log to each data core.
pub fn lend(
    config: &Config,
    lender: &ObserverLender,
) -> Result<Rings<LogCounters>, TooManyObservers> {
    let log = &config.query_log;
    let (slots, whole) = (log.ring as usize, log.dnstap.is_some());
    Rings::lend(Recording { slots, sample: log.sample, whole, every_miss: false }, lender)
}

impl QueryLogger {
    fn spawn(
        &mut self,
        name: String,
        core: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let body = move || {
            pin(core);
            body();
        };
        self.threads.push(std::thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// The counts, part by part.
    pub fn report(&self) -> Vec<(&'static str, LogSnapshot)> {
        self.parts.iter().map(|(part, counters)| (*part, counters.snapshot())).collect()
    }
}

impl Drop for QueryLogger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The collector was started last, and the sinks end when it has.
        for thread in self.threads.drain(..).rev() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if !join_within(thread, STOP_PATIENCE) {
                tracing::warn!("{name} has not written its last records after {STOP_PATIENCE:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
