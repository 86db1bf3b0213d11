//! Whether this node is fit to serve. Routers are told to send clients elsewhere while it is not, or while it is drained.
//!
//! The main thread checks when it is asked ([`HealthChecks`]). A process beside it asks again and again, and holds the
//! interface whose addresses are announced ([`watch`]).

mod checks;
pub mod drain;
mod hysteresis;
mod rings;
pub mod watch;

use std::fmt;

pub use checks::{Asker, HealthChecks};
use serde::{Deserialize, Serialize};

/// Whether clients shall come to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// They shall.
    #[default]
    Serving,
    /// Those that come are served, but no more shall come.
    Drained,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Drained => "drained",
        })
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Whether clients shall come to this node: it serves, and nothing is wrong.
    pub healthy: bool,
    /// What the operator wants.
    pub state: State,
    /// Everything that makes the node unfit, in sentences.
    pub problems: Vec<String>,
    /// The data cores.
    pub cores: Vec<CoreHealth>,
    /// The ports.
    pub ports: Vec<PortHealth>,
    /// The groups of upstreams.
    pub groups: Vec<GroupHealth>,
    /// Rings that stay full, by the threads at their ends.
    pub stuck_rings: Vec<String>,
}

/// A data core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreHealth {
    /// Its CPU.
    pub core: usize,
    /// The rcode of the answer to the probe through its line. Absent: none came, or the core polls no port.
    pub rcode: Option<u8>,
    /// Whether it polls ports, so that it is asked.
    pub is_asked: bool,
    /// How long ago it published its counters.
    pub silent_ms: u64,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortHealth {
    /// Its name in the config.
    pub port: String,
    /// Whether its device is there, with a link.
    pub link_up: bool,
}

/// A group of upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupHealth {
    /// Its name in the config.
    pub group: String,
    /// Its upstreams.
    pub upstreams: usize,
    /// Those that do not rest after failures.
    pub alive: usize,
    /// Whether the node is unfit without it.
    pub is_needed: bool,
}
