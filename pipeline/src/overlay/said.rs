//! Changes of lists and upstreams at run time.

use std::fmt::{self, Display};

use pmdns_config::{Blocklist, UpstreamAddress};
use pmdns_control::answers::RuntimeChange;

/// A change that holds, whose it is, and since when.
#[derive(Clone, Debug)]
pub(super) struct Said<T> {
    pub(super) what: T,
    pub(super) by: String,
    /// Seconds since 1970.
    pub(super) since: u64,
}

impl<T: Display> Said<T> {
    pub(super) fn told(&self) -> RuntimeChange {
        let Self { what, by, since } = self;
        RuntimeChange { change: what.to_string(), by: by.clone(), since: *since }
    }
}

/// A list that was added. No two have the same name.
#[derive(Clone, Debug)]
pub(super) struct ListSaid {
    pub(super) name: String,
    pub(super) list: Box<Blocklist>,
}

impl fmt::Display for ListSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {} added", self.name)?;
        self.list.url.iter().try_for_each(|url| write!(f, " from {url}"))
    }
}

/// The changes of the upstream at an address. No two have the same address.
#[derive(Clone, Debug)]
pub(super) struct UpstreamSaid {
    pub(super) address: UpstreamAddress,
    pub(super) presence: Presence,
    pub(super) is_drained: bool,
    /// `None`: as the file says.
    pub(super) weight: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// As the file says.
    AsInFile,
    /// It is none of the file, and in this group.
    Added(String),
    /// It is one of the file.
    Removed,
}

impl fmt::Display for UpstreamSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream {}", self.address)?;
        let mut parts = Vec::new();
        match &self.presence {
            Presence::AsInFile => {}
            Presence::Added(group) => parts.push(format!("added to group {group}")),
            Presence::Removed => parts.push("removed".to_owned()),
        }
        parts.extend(self.is_drained.then(|| "drained".to_owned()));
        parts.extend(self.weight.map(|weight| format!("weight {weight}")));
        write!(f, " {}", parts.join(", "))
    }
}
