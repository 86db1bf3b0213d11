//! The rules of `[query_log]`.

use std::os::unix::ffi::OsStrExt as _;

use super::rules::{Mistakes, at_most, broken, in_range, listen, power_of_two};
use crate::limits::{
    MAX_LOG_DAYS, MAX_LOG_FILE, MAX_LOG_FILES, MAX_LOG_RING, MAX_LOG_ROWS, MAX_LOG_SAMPLE,
    MAX_SOCKET_PATH, MAX_TEXT, MIN_LOG_FILE, MIN_LOG_RING, MIN_LOG_ROWS,
};
use crate::problem::BrokenRule;
use crate::settings::{DnstapReader, QueryLogSettings};

pub(super) fn check(log: &QueryLogSettings, found: &mut Mistakes) {
    match &log.dnstap {
        Some(DnstapReader::Unix(path)) => {
            let length = path.as_os_str().as_bytes().len();
            found.note(at_most("query_log.dnstap", "bytes", length, MAX_SOCKET_PATH));
        }
        Some(DnstapReader::Tcp(address)) => {
            let fix = "a port other than 0, as in \"192.0.2.1:6000\"";
            found.note(listen("query_log.dnstap", Some(*address), fix));
        }
        None => {}
    }
    if let Some(bytes) = log.dnstap_identity.as_ref().map(String::len)
        && !(1..=MAX_TEXT).contains(&bytes)
    {
        let problem = BrokenRule::TextLength { bytes, max: MAX_TEXT };
        found.note(broken("query_log.dnstap_identity", problem));
    }
    for (key, path) in [("query_log.json", &log.json), ("query_log.sqlite", &log.sqlite)] {
        if path.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            found.note(broken(key, BrokenRule::Empty("the path of a file, or leave it out")));
        }
    }
    found.note(in_range("query_log.json_size", log.json_size, MIN_LOG_FILE, MAX_LOG_FILE));
    found.note(in_range("query_log.json_files", log.json_files, 0, MAX_LOG_FILES));
    found.note(in_range("query_log.sqlite_days", log.sqlite_days, 1, MAX_LOG_DAYS));
    found.note(in_range("query_log.sqlite_rows", log.sqlite_rows, MIN_LOG_ROWS, MAX_LOG_ROWS));
    found.note(in_range("query_log.sample", log.sample, 1, MAX_LOG_SAMPLE));
    found.note(in_range("query_log.ipv4_prefix", log.ipv4_prefix, 0, 32));
    found.note(in_range("query_log.ipv6_prefix", log.ipv6_prefix, 0, 128));
    found.note(power_of_two("query_log.ring", log.ring, MIN_LOG_RING, MAX_LOG_RING));
    if let Err(problem) = log.client_secret() {
        found.note(broken("query_log.client_secret_file", problem));
    }
}
