//! Packets as they went through the stages.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::lookup::RuleReport;

/// The longest time, in seconds, for which a token may have packets watched. Few may watch at a time.
pub const MAX_SECONDS: u32 = 300;
/// The same for users of this machine, who need no token.
pub const MAX_SECONDS_OF_USERS: u32 = 3600;

/// Which packets are watched, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PacketSearch {
    /// Only those of this port, by name or number; `streams`: clients over TCP, TLS, HTTPS and QUIC.
    pub port: Option<String>,
    /// All those that leave this stage, and none where another stage decides.
    pub stage: Option<String>,
    /// Only those that leave a stage to there: `blocked` and other reasons to drop, `encode`, `slow_path`, an exception.
    pub reason: Option<String>,
    /// Only those of clients with such an address: `10.0.0.0/8`, or one address.
    pub client: Option<String>,
    /// Only those about this name and names below it.
    pub name: Option<String>,
    /// How many at most; absent: 10 of a trace, 1,000 of a capture.
    #[param(minimum = 1)]
    pub count: Option<u32>,
    /// For how many seconds at most: 300, and 3600 over the unix socket.
    #[param(required = false, minimum = 1, maximum = 3600, default = 10)]
    pub seconds: u32,
    /// Of a capture: the answers too, as they leave.
    #[param(required = false, default = false)]
    pub answers: bool,
}

impl Default for PacketSearch {
    fn default() -> Self {
        Self {
            port: None,
            stage: None,
            reason: None,
            client: None,
            name: None,
            count: None,
            seconds: 10,
            answers: false,
        }
    }
}

/// Packets, stage by stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceReport {
    /// In the order of their arrival.
    pub packets: Vec<TracedPacket>,
    /// Records for which a core had no room. Steps may be missing.
    pub dropped: u64,
}

/// A packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TracedPacket {
    /// The port that it came by.
    pub port: String,
    /// Who sent it, if it is IP.
    #[schema(value_type = Option<String>)]
    pub client: Option<IpAddr>,
    /// Its name and type, if it is a query.
    pub question: Option<String>,
    /// The number of its client's view; 0: none.
    pub view: u8,
    /// The address of its frame.
    pub frame: u64,
    /// The hash of its name; 0: it is no query.
    pub key: u64,
    /// The shard of the cache that was searched; absent: none was.
    #[serde(default)]
    pub shard: Option<u64>,
    /// The bucket of its key in the index of that shard.
    #[serde(default)]
    pub bucket: Option<u64>,
    /// The rule that has decided, with its line in the file as it is now; absent: none has.
    #[serde(default)]
    pub rule: Option<RuleReport>,
    /// Its way through the stages.
    pub steps: Vec<TracedStep>,
}

/// The work of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TracedStep {
    /// The stage; `slow_path` for its answer.
    pub stage: String,
    /// Where the packet went from there.
    pub exit: String,
    /// Its share of the cycles that the stage took for its batch.
    pub cycles: u32,
    /// Nanoseconds from the arrival until it left the stage.
    pub after_ns: u64,
    /// Its answer, if that is decided.
    pub answer: Option<String>,
}

impl fmt::Display for TraceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for packet in &self.packets {
            write!(f, "{packet}")?;
        }
        match self.dropped {
            0 => Ok(()),
            dropped => writeln!(f, "{dropped} records had no room, so steps may be missing"),
        }
    }
}

impl fmt::Display for TracedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, view, frame, key, shard, bucket, .. } = self;
        let client = self.client.map(|client| format!(", client {client}")).unwrap_or_default();
        let question = self.question.as_ref().map(|text| format!(", {text}")).unwrap_or_default();
        write!(f, "{port}{client}{question}, view {view}, frame {frame:#x}, key {key:#x}")?;
        if let (Some(shard), Some(bucket)) = (shard, bucket) {
            write!(f, ", shard {shard} bucket {bucket}")?;
        }
        writeln!(f)?;
        for TracedStep { stage, exit, cycles, after_ns, answer } in &self.steps {
            let answer = answer.as_ref().map(|answer| format!(", {answer}")).unwrap_or_default();
            let after = Duration::from_nanos(*after_ns);
            writeln!(f, "  {stage:<10} {cycles:>8} cycles  {exit}, after {after:.1?}{answer}")?;
        }
        self.rule.iter().try_for_each(|rule| writeln!(f, "  rule: {rule}"))
    }
}
