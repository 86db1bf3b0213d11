//! The parts of an instance that have a table of counters each.

use pmdns_counters::Named;
use serde::{Deserialize, Serialize};

/// Declares the report of a part: its name, and its counters by the names of their table.
macro_rules! parts {
    ($($(#[doc = $text:literal])* $report:ident { $(#[doc = $name_text:literal])* $name:ident })*) => {$(
        $(#[doc = $text])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $report {
            $(#[doc = $name_text])*
            pub $name: String,
            /// The counters, by name.
            #[serde(flatten)]
            pub counters: Named,
        }

        impl $report {
            /// The report of this part, with its counters.
            pub fn of($name: impl Into<String>, counters: Named) -> Self {
                Self { $name: $name.into(), counters }
            }

            /// The counter of this name.
            pub fn counter(&self, name: &str) -> u64 {
                count(&self.counters, name)
            }
        }
    )*};
}

parts! {
    /// The kernel's end of a port.
    TapReport {
        /// The port's name in the config.
        port
    }
    /// An upstream resolver.
    UpstreamReport {
        /// Its address and port.
        address
    }
    /// A part of the query log.
    LogReport {
        /// `rings`, `dnstap`, `json` or `sqlite`.
        part
    }
    /// A sink: where the process writes for others.
    SinkReport {
        /// `log`, `entries` or `snapshot`.
        sink
    }
    /// Heavy hitters, floods and limits of zones.
    HitterReport {
        /// `all`.
        part
    }
    /// A policy zone that is transferred.
    ZoneReport {
        /// Its name.
        zone
    }
    /// A list that is fetched.
    FetchReport {
        /// Its file.
        list
    }
    /// A listener's connections.
    ConnectionReport {
        /// The service: `control`, `metrics`, `api` or `notify`.
        service
    }
    /// Clients over a stream transport.
    StreamReport {
        /// The transport: `tcp`, `tls`, `https` or `quic`.
        transport
    }
}

/// A next hop of queries to upstreams that leave by a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NextHopReport {
    /// The port it is on.
    pub port: String,
    /// Its address.
    pub address: String,
    /// `incomplete`, `reachable`, `stale` or `failed`.
    pub state: String,
    /// Its hardware address while it is used.
    pub mac: Option<String>,
    /// Seconds since it last answered; `None`: never.
    pub age_seconds: Option<u64>,
    /// The counters, by name.
    #[serde(flatten)]
    pub counters: Named,
}

impl NextHopReport {
    /// Whether queries go there.
    pub fn is_usable(&self) -> bool {
        self.mac.is_some()
    }

    /// Whether it has answered not long ago.
    pub fn is_reachable(&self) -> bool {
        self.state == "reachable"
    }

    /// The counter of this name.
    pub fn counter(&self, name: &str) -> u64 {
        count(&self.counters, name)
    }
}

/// The counter of this name. An instance of another version may not have it: then it is zero.
pub fn count(counters: &Named, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}
