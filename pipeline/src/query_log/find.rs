//! `pmdns log`: a search in the database, printed for people or as JSON lines.

use std::io::{self, Write};
use std::path::PathBuf;

use pmdns_config::{Config, ConfigError, QueryLogSettings};
use pmdns_control::date::date;
use pmdns_control::query_log::{LogPage, LogSearch};
use pmdns_control::{CallReply, Refusal};

use super::check::check;
use super::entry::LogEntry;
use super::sqlite::search::{SearchError, search};
use crate::arguments::LogArguments;
use pmdns_control::Caller;
use pmdns_control::jobs::Jobs;

/// Searches of clients at a time.
const MAX_SEARCHES: usize = 4;

/// Why nothing is printed.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The config file that was to name the database.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It names none.
    #[error("{0} has no `query_log.sqlite`; write --file DATABASE, or set it and restart")]
    NoDatabase(String),
    /// It is no search.
    #[error("{0}")]
    Wrong(String),
    /// The search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Printing.
    #[error(transparent)]
    Print(#[from] io::Error),
}

/// Searches, and prints what is found.
pub fn run(asked: &LogArguments, out: &mut impl Write) -> Result<(), FindError> {
    let path = match &asked.file {
        Some(path) => path.clone(),
        None => {
            let config = &asked.config.config;
            let found = Config::load(config)?.query_log.sqlite;
            found.ok_or_else(|| FindError::NoDatabase(config.display().to_string()))?
        }
    };
    let what = LogSearch {
        since: asked.since,
        client: asked.client.clone(),
        name: asked.name.clone(),
        record_type: asked.record_type.clone(),
        rcode: asked.rcode.clone(),
        blocked: asked.blocked.then_some(true),
        limit: Some(asked.limit),
        ..LogSearch::default()
    };
    check(&what).map_err(FindError::Wrong)?;
    for entry in search(&path, &what)? {
        if asked.json {
            serde_json::to_writer(&mut *out, &entry).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", line(&entry))?;
        }
    }
    Ok(())
}

/// Searches that callers of a running instance ask for, each on a thread of its own.
#[derive(Clone, Debug)]
pub struct LogSearches {
    path: Option<PathBuf>,
    /// Bits of IPv4 and IPv6 addresses that are logged.
    prefixes: (u8, u8),
    jobs: Jobs,
}

impl LogSearches {
    /// Searches in the database of this configuration.
    pub fn new(config: &Config) -> Self {
        let QueryLogSettings { sqlite, ipv4_prefix, ipv6_prefix, .. } = &config.query_log;
        let prefixes = (*ipv4_prefix, *ipv6_prefix);
        Self { path: sqlite.clone(), prefixes, jobs: Jobs::new(MAX_SEARCHES) }
    }

    /// Searches, and sends the caller what is found.
    pub fn run(&self, what: LogSearch, caller: Caller) {
        if let Err(why) = check(&what) {
            return caller.refuse(Refusal::Wrong, why);
        }
        let Some(path) = self.path.clone() else {
            let why = "there is no `query_log.sqlite`; set it in the config file and restart";
            return caller.refuse(Refusal::Unknown, why.to_owned());
        };
        let (ipv4_prefix, ipv6_prefix) = self.prefixes;
        self.jobs.start("log_search", caller, move |_| match search(&path, &what) {
            Ok(entries) => CallReply::of(&LogPage { entries, ipv4_prefix, ipv6_prefix }),
            Err(error) => CallReply::Refused(Refusal::Unable, error.to_string()),
        });
    }
}

/// An entry in a line.
fn line(entry: &LogEntry) -> String {
    let LogEntry { client, transport, name, record_type, source, latency_us, .. } = entry;
    let rcode = if entry.rcode.is_empty() { "-" } else { &entry.rcode };
    let time = time_of_day(entry.time_us);
    let by = entry.list.as_ref().or(entry.upstream.as_ref());
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{time} {client} {transport} {name} {record_type} {rcode} {source}{by} {latency_us} us")
}

fn time_of_day(time_us: u64) -> String {
    format!("{}.{:06}Z", date(time_us / 1_000_000), time_us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_line() {
        let entry = LogEntry {
            time_us: 951_827_696_000_001,
            client: "192.0.2.7".to_owned(),
            transport: "udp".to_owned(),
            name: "ads.example".to_owned(),
            record_type: "A".to_owned(),
            source: "drop".to_owned(),
            list: Some("/etc/ads".to_owned()),
            ..LogEntry::default()
        };
        let expected =
            "2000-02-29T12:34:56.000001Z 192.0.2.7 udp ads.example A - drop by /etc/ads 0 us";
        assert_eq!(line(&entry), expected);
        assert_eq!(time_of_day(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time_of_day(1_735_689_599_999_999), "2024-12-31T23:59:59.999999Z");
    }
}
