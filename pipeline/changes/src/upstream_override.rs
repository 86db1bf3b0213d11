//! How an upstream is asked otherwise than the file says.

use std::fmt;

use pmdns_config::UpstreamAddress;
use serde::{Deserialize, Serialize};

/// The changes of the upstream at an address. No two have the same address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpstreamOverride {
    /// Its address.
    #[serde(with = "text")]
    pub address: UpstreamAddress,
    /// Whether it is there.
    #[serde(default, skip_serializing_if = "Presence::is_as_in_file")]
    pub presence: Presence,
    /// Whether it gets no new questions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
    /// Its share of the questions of its group; `None`: as the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

/// Whether an upstream is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// As the file says.
    #[default]
    AsInFile,
    /// It is none of the file, and in this group.
    Added(String),
    /// It is one of the file.
    Removed,
}

impl Presence {
    fn is_as_in_file(&self) -> bool {
        *self == Self::AsInFile
    }
}

impl UpstreamOverride {
    /// Nothing else is said of this upstream.
    pub(crate) fn new(address: UpstreamAddress, presence: Presence) -> Self {
        Self { address, presence, drained: false, weight: None }
    }

    /// Whether it says nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.presence.is_as_in_file() && !self.drained && self.weight.is_none()
    }
}

impl PartialEq for UpstreamOverride {
    fn eq(&self, other: &Self) -> bool {
        self.address.endpoint() == other.address.endpoint()
            && (&self.presence, self.drained, self.weight)
                == (&other.presence, other.drained, other.weight)
    }
}

impl Eq for UpstreamOverride {}

impl fmt::Display for UpstreamOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream {}", self.address)?;
        let mut parts = Vec::new();
        match &self.presence {
            Presence::AsInFile => {}
            Presence::Added(group) => parts.push(format!("added to group {group}")),
            Presence::Removed => parts.push("removed".to_owned()),
        }
        parts.extend(self.drained.then(|| "drained".to_owned()));
        parts.extend(self.weight.map(|weight| format!("weight {weight}")));
        write!(f, " {}", parts.join(", "))
    }
}

/// An address as it was written.
mod text {
    use pmdns_config::UpstreamAddress;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        address: &UpstreamAddress,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(address)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<UpstreamAddress, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
