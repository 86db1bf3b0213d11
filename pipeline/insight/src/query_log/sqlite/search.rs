//! Searching the database. Any process may, while pmdns writes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pmdns_control::query_log::{Age, LogSearch, MAX_FOUND};
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use super::VERSION;
use super::file::{OpenError, open_to_read};
use crate::query_log::entry::LogEntry;

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Instructions of SQLite's machine between two looks at the clock.
const STEPS: i32 = 100_000;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The database cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Database {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: OpenError,
    },
    /// It is none of a query log, or of another version.
    #[error("{} is no query log of this version of pmdns", .0.display())]
    OtherVersion(PathBuf),
    /// It took too long.
    #[error("the search took longer than {PATIENCE:?}; narrow it, as with a time or a client")]
    TooLong,
}

/// Searches the database at `path`.
pub fn search(path: &Path, what: &LogSearch) -> Result<Vec<LogEntry>, SearchError> {
    let unreadable = |error| SearchError::Database { path: path.to_owned(), error };
    let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => SearchError::TooLong,
        _ => unreadable(error.into()),
    };
    let connection = open_to_read(path).map_err(unreadable)?;
    let version: i32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if version != VERSION {
        return Err(SearchError::OtherVersion(path.to_owned()));
    }
    let deadline = Instant::now() + PATIENCE;
    connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline));
    let (text, values) = statement(what);
    let found = connection.prepare(&text).and_then(|mut select| {
        select.query_map(params_from_iter(values), entry)?.collect::<Result<Vec<_>, _>>()
    });
    found.map_err(failed)
}

/// The statement of a search. What the searcher writes is in its values only.
fn statement(what: &LogSearch) -> (String, Vec<Value>) {
    let mut text = "SELECT time_us, client, view, transport, name, type, rcode, source, blocked, list, upstream, latency_us \
        FROM query WHERE 1"
        .to_owned();
    let mut values = Vec::new();
    let mut also = |condition: &str, value: Value| {
        values.push(value);
        text.push_str(" AND ");
        text.push_str(&condition.replace('?', &format!("?{}", values.len())));
    };
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    if let Some(Age(age)) = what.since {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = now.saturating_sub(age).as_micros();
        also("time_us >= ?", number(u64::try_from(since).unwrap_or(u64::MAX)));
    }
    if let Some(since) = what.since_us {
        also("time_us >= ?", number(since));
    }
    if let Some(until) = what.until_us {
        also("time_us <= ?", number(until));
    }
    if let Some(client) = &what.client {
        also("client = ?", client.clone().into());
    }
    if let Some(name) = &what.name {
        let name = name.to_ascii_lowercase();
        let name = if name == "." { name } else { name.trim_end_matches('.').to_owned() };
        also("(name = ? OR substr(name, -length(?) - 1) = '.' || ? OR ? = '.')", name.into());
    }
    if let Some(record_type) = &what.record_type {
        also("type = ?", record_type.to_ascii_uppercase().into());
    }
    if let Some(rcode) = &what.rcode {
        also("rcode = ?", rcode.to_ascii_uppercase().into());
    }
    if let Some(blocked) = what.blocked {
        also(
            if blocked { "blocked AND 1 = ?" } else { "NOT blocked AND 1 = ?" },
            Value::Integer(1),
        );
    }
    let limit = what.limit.unwrap_or(100).min(MAX_FOUND);
    text.push_str(&format!(" ORDER BY time_us DESC, id DESC LIMIT {limit}"));
    (text, values)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
    let source: String = row.get(7)?;
    Ok(LogEntry {
        time_us: row.get::<_, i64>(0)?.cast_unsigned(),
        client: row.get(1)?,
        view: row.get(2)?,
        transport: row.get(3)?,
        name: row.get(4)?,
        record_type: row.get(5)?,
        rcode: row.get(6)?,
        stale: source == "stale",
        source,
        blocked: row.get(8)?,
        list: row.get(9)?,
        upstream: row.get(10)?,
        latency_us: row.get::<_, i64>(11)?.cast_unsigned(),
    })
}
