//! What crashes have left: the packets that data cores had in hand.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::date::date;

/// Crashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CrashList {
    /// The newest first, at most eight.
    pub crashes: Vec<Crash>,
}

/// A crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Crash {
    /// Seconds since 1970.
    pub time: u64,
    /// The number of the process that has crashed.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// The signal: `SIGSEGV`, `SIGABRT` and others.
    pub signal: String,
    /// The data core that got it; absent: another thread, or it came from outside.
    pub core: Option<u32>,
    /// What the data cores had in hand; those of that core come first.
    pub packets: Vec<CrashedPacket>,
}

/// A packet as it was at the crash. Answers are written over their queries, so it may be half of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CrashedPacket {
    /// The data core that had it.
    pub core: u32,
    /// The port that it came by.
    pub port: String,
    /// Who sent it, if it is IP.
    #[schema(value_type = Option<String>)]
    pub client: Option<IpAddr>,
    /// Its name and type, if it is a query.
    pub question: Option<String>,
    /// How many crashes in a row had such a packet in hand: this one, and those before it. The ID does not count.
    pub in_a_row: u32,
    /// How many bytes it had.
    pub length: u32,
    /// Whether the bytes begin with an IP header that is made up: it came over a stream.
    pub is_stream: bool,
    /// Its first bytes, in hexadecimal digits.
    pub bytes: String,
}

impl fmt::Display for CrashList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for crash in &self.crashes {
            write!(f, "{crash}")?;
        }
        writeln!(f, "{} in all", self.crashes.len())
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, process, version, signal, core, packets } = self;
        let core = core.map(|core| format!(" on core {core}")).unwrap_or_default();
        let count = packets.len();
        writeln!(
            f,
            "{}Z process {process}, pmdns {version}: {signal}{core}, packets in hand: {count}",
            date(*time)
        )?;
        packets.iter().try_for_each(|packet| write!(f, "{packet}"))
    }
}

impl fmt::Display for CrashedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { core, port, client, question, in_a_row, length, .. } = self;
        let client = client.map(|client| format!(", client {client}")).unwrap_or_default();
        let question = question.as_ref().map(|text| format!(", {text}")).unwrap_or_default();
        let in_a_row = match in_a_row {
            0 | 1 => String::new(),
            count => format!(", in {count} crashes in a row"),
        };
        writeln!(f, "  core {core}, {port}{client}{question}, {length} bytes{in_a_row}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_what_was_in_hand_and_how_often() {
        let packet = |in_a_row| CrashedPacket {
            core: 3,
            port: "lan".to_owned(),
            client: Some([192, 0, 2, 7].into()),
            question: Some("a.example A".to_owned()),
            in_a_row,
            length: 71,
            ..CrashedPacket::default()
        };
        let crash = Crash {
            time: 951_827_696,
            process: 7,
            version: "1.2.3".to_owned(),
            signal: "SIGABRT".to_owned(),
            core: Some(3),
            packets: vec![packet(3), packet(1)],
        };
        assert_eq!(
            CrashList { crashes: vec![crash] }.to_string(),
            "2000-02-29T12:34:56Z process 7, pmdns 1.2.3: SIGABRT on core 3, packets in hand: 2\n\
             \x20 core 3, lan, client 192.0.2.7, a.example A, 71 bytes, in 3 crashes in a row\n\
             \x20 core 3, lan, client 192.0.2.7, a.example A, 71 bytes\n1 in all\n"
        );
    }
}
