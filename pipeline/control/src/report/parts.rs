//! The parts of an instance that have a table of counters each.

use pmdns_counters::Named;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

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
            #[serde(flatten, deserialize_with = "numbers")]
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
    #[serde(flatten, deserialize_with = "numbers")]
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

/// The counters among the fields of a part. A later instance may have fields that are no numbers: they are left out.
pub(super) fn numbers<'de, D: Deserializer<'de>>(part: D) -> Result<Named, D::Error> {
    let fields = Map::<String, Value>::deserialize(part)?;
    Ok(fields.into_iter().filter_map(|(name, value)| Some((name, value.as_u64()?))).collect())
}

/// A part that is nothing but its counters.
#[derive(Deserialize)]
struct PartCounters(#[serde(deserialize_with = "numbers")] Named);

/// The counters of parts that have numbers.
pub(super) fn tables<'de, D: Deserializer<'de>>(parts: D) -> Result<Vec<Named>, D::Error> {
    let tables = Vec::<PartCounters>::deserialize(parts)?;
    Ok(tables.into_iter().map(|PartCounters(counters)| counters).collect())
}

/// The counters of a part that there may be.
pub(super) fn table<'de, D: Deserializer<'de>>(part: D) -> Result<Option<Named>, D::Error> {
    let table = Option::<PartCounters>::deserialize(part)?;
    Ok(table.map(|PartCounters(counters)| counters))
}

/// The counter of this name. An instance of another version may not have it: then it is zero.
pub fn count(counters: &Named, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn a_field_of_a_later_instance_makes_no_report_unreadable() {
        let (_, report) = crate::testing::reports();
        let mut sent = serde_json::to_value(&report).unwrap();
        let parts = sent.as_object_mut().unwrap().values_mut().filter_map(Value::as_array_mut);
        let mut later = 0;
        for part in parts.flatten().filter_map(Value::as_object_mut) {
            part.insert("later".to_owned(), Value::from("text"));
            part.insert("later_still".to_owned(), Value::Null);
            later += 1;
        }
        assert!(later > 12, "{later} parts have another field");
        sent["clients"]["later"] = Value::from(true);
        let read: Report = serde_json::from_value(sent).unwrap();
        assert_eq!(read.clients, report.clients);
        assert_eq!(read.streams, report.streams);
        assert_eq!(read.upstreams[1].counter("queries"), report.upstreams[1].counter("queries"));
        assert_eq!(read.ports[0].stats, report.ports[0].stats);
    }
}
