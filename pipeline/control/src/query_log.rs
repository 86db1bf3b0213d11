//! Searches in the query log.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::date::date;

/// Entries that one search gives, at most.
pub const MAX_FOUND: u32 = 10_000;

/// A search. The newest entries come first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct LogSearch {
    /// No older ones than this: a number with s, m, h or d.
    #[param(value_type = Option<String>, example = "10m")]
    pub since: Option<Age>,
    /// The same, in microseconds since 1970.
    pub since_us: Option<u64>,
    /// No newer ones than this, in microseconds since 1970. The time of the last entry leads to older ones.
    pub until_us: Option<u64>,
    /// Of this client, as the log names it.
    pub client: Option<String>,
    /// About this name and those below it.
    pub name: Option<String>,
    /// Of this record type.
    #[serde(rename = "type")]
    pub record_type: Option<String>,
    /// Answered with this rcode.
    pub rcode: Option<String>,
    /// Decided by a list, or not.
    pub blocked: Option<bool>,
    /// So many; absent: 100.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
}

/// How long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Age(pub Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no time; write a number with s, m, h or d, as in 10m");
        let (number, unit) =
            text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let number: u32 = number.parse().map_err(|_| wrong())?;
        Ok(Self(Duration::from_secs(u64::from(number) * seconds)))
    }
}

impl From<Age> for String {
    fn from(Age(time): Age) -> Self {
        format!("{}s", time.as_secs())
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    /// The newest first.
    pub entries: Vec<LogEntry>,
    /// Bits of IPv4 addresses that the instance logs; less than 32: `client` is the first address of a network.
    pub ipv4_prefix: u8,
    /// The same of IPv6 addresses; less than 128: of a network.
    pub ipv6_prefix: u8,
}

/// A query and how it was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// When it came, in microseconds since 1970.
    pub time_us: u64,
    /// The client: its address, the beginning of its address, or `#` and a hash.
    pub client: String,
    /// The client's view; empty: it is in none.
    pub view: String,
    /// `udp`, `tcp`, `tls`, `https` or `quic`.
    pub transport: String,
    /// The name asked for, in small letters, without the last dot; `.`: the root; empty: there was no question.
    pub name: String,
    /// The type asked for.
    #[serde(rename = "type")]
    pub record_type: String,
    /// The answer's rcode; empty: there was no answer.
    pub rcode: String,
    /// Where the answer came from: `hit`, `forward`, `stale`, `local`, `policy`, `truncated`, `error`, `failure` or `drop`.
    pub source: String,
    /// Whether the answer had expired.
    pub stale: bool,
    /// Whether a block list or policy zone decided the answer.
    pub blocked: bool,
    /// Which list, by its file or zone; absent: none, or the rules have changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The upstream that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The time from the query to its answer in microseconds.
    pub latency_us: u64,
}

impl fmt::Display for LogPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, transport, name, record_type, source, latency_us, .. } = self;
        let (seconds, part) = (self.time_us / 1_000_000, self.time_us % 1_000_000);
        let rcode = if self.rcode.is_empty() { "-" } else { &self.rcode };
        write!(f, "{}.{part:06}Z {client} {transport} {name} ", date(seconds))?;
        write!(f, "{record_type} {rcode} {source}")?;
        if let Some(by) = self.list.as_ref().or(self.upstream.as_ref()) {
            write!(f, " by {by}")?;
        }
        write!(f, " {latency_us} us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_line() {
        let blocked = LogEntry {
            time_us: 951_827_696_000_001,
            client: "192.0.2.7".to_owned(),
            transport: "udp".to_owned(),
            name: "ads.example".to_owned(),
            record_type: "A".to_owned(),
            source: "drop".to_owned(),
            list: Some("/etc/ads".to_owned()),
            ..LogEntry::default()
        };
        let passed = LogEntry {
            time_us: 1_735_689_599_999_999,
            rcode: "NOERROR".to_owned(),
            source: "hit".to_owned(),
            list: None,
            latency_us: 3,
            ..blocked.clone()
        };
        let page = LogPage { entries: vec![passed, blocked], ..LogPage::default() };
        assert_eq!(
            page.to_string(),
            "2024-12-31T23:59:59.999999Z 192.0.2.7 udp ads.example A NOERROR hit 3 us\n\
             2000-02-29T12:34:56.000001Z 192.0.2.7 udp ads.example A - drop by /etc/ads 0 us\n"
        );
        assert_eq!(LogPage::default().to_string(), "");
        let first = LogEntry::default().to_string();
        assert!(first.starts_with("1970-01-01T00:00:00.000000Z "), "{first}");
    }

    #[test]
    fn an_age_is_a_number_with_a_unit() {
        let seconds = |text: &str| text.parse::<Age>().ok().map(|age| age.0.as_secs());
        assert_eq!(
            ["5s", "10m", "2h", "7d"].map(seconds),
            [Some(5), Some(600), Some(7200), Some(604_800)]
        );
        for wrong in ["", "m", "10", "-1s", "1.5h", "10 m", "ä", "99999999999s"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
