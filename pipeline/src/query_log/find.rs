//! Searches in the database, for callers of a running instance.

use std::path::PathBuf;

use pmdns_config::{Config, QueryLogSettings};
use pmdns_control::Refusal;
use pmdns_control::query_log::{LogPage, LogSearch};
use pmdns_insight::query_log::search;

use super::check::check;
use pmdns_control::Caller;
use pmdns_control::jobs::Jobs;

/// Searches of clients at a time.
const MAX_SEARCHES: usize = 4;

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
    pub fn run(&self, what: LogSearch, caller: Caller<LogPage>) {
        if let Err(why) = check(&what) {
            return caller.refuse(Refusal::Wrong, why);
        }
        let Some(path) = self.path.clone() else {
            let why = "there is no `query_log.sqlite`; set it in the config file, and reload";
            return caller.refuse(Refusal::Unknown, why.to_owned());
        };
        let (ipv4_prefix, ipv6_prefix) = self.prefixes;
        self.jobs.start("log_search", caller, move |_| match search(&path, &what) {
            Ok(entries) => Ok(LogPage { entries, ipv4_prefix, ipv6_prefix }),
            Err(error) => Err((Refusal::Unable, error.to_string())),
        });
    }
}
