//! `pmdns log`: a search in the database of the query log, printed for people or as JSON lines.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use pmdns_config::Config;
use pmdns_control::date::date;
use pmdns_control::query_log::{Age, LogEntry, LogSearch};

use super::instance::ConfigFile;
use crate::failure::Failure;
use crate::output::output;
use crate::program::Program;

#[derive(Args)]
pub(super) struct Log {
    /// The database; without it `query_log.sqlite` of the config file.
    #[arg(long)]
    file: Option<PathBuf>,
    /// The config file.
    #[command(flatten)]
    config: ConfigFile,
    /// Only entries that are not older than this: a number with s, m, h or d.
    #[arg(long, value_name = "TIME")]
    since: Option<Age>,
    /// Only entries of this client, as the log names it.
    #[arg(long)]
    client: Option<String>,
    /// Only entries about this name and names below it.
    #[arg(long)]
    name: Option<String>,
    /// Only entries of this record type.
    #[arg(long = "type", value_name = "TYPE")]
    record_type: Option<String>,
    /// Only entries with this rcode in the answer.
    #[arg(long)]
    rcode: Option<String>,
    /// Only entries that a list has decided.
    #[arg(long)]
    blocked: bool,
    /// How many entries, 1 to 10000.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
}

impl Log {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let Self { file, config, since, client, name, record_type, rcode, blocked, limit, json } =
            self;
        let path = match file {
            Some(path) => path,
            None => {
                let config = &config.config;
                let found = Config::load(config)?.query_log.sqlite;
                found.ok_or_else(|| Failure::NoDatabase(config.clone()))?
            }
        };
        let search = LogSearch {
            since,
            client,
            name,
            record_type,
            rcode,
            blocked: blocked.then_some(true),
            limit: Some(limit),
            ..LogSearch::default()
        };
        let mut out = output();
        for entry in program.search_log(&path, &search)? {
            if json {
                serde_json::to_writer(&mut out, &entry).map_err(io::Error::from)?;
                writeln!(out)?;
            } else {
                writeln!(out, "{}", line(&entry))?;
            }
        }
        Ok(())
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
