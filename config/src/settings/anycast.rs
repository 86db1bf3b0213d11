//! Whether this node is fit to serve, and the interface that tells routers so.

use std::net::IpAddr;

use serde::Deserialize;

use crate::prefix::InterfaceAddress;

/// `[anycast]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Anycast {
    /// The name whose address is asked for through the line of each data core.
    pub probe: String,
    /// The client that seems to ask; absent: the first one of `acl.allow`.
    pub client: Option<IpAddr>,
    /// How often `pmdns health --watch` asks.
    pub interval_ms: u64,
    /// How long a data core may take to answer, and how old its last sign of life may be.
    pub timeout_ms: u64,
    /// Bad checks in a row after which the addresses are withdrawn.
    pub failures: u32,
    /// Good checks in a row after which they are announced again.
    pub successes: u32,
    /// Whether a node without a living upstream is unfit.
    pub upstreams: bool,
    /// The interface that `pmdns health --watch` makes while the node is fit.
    pub interface: Option<String>,
    /// The addresses of that interface: those that clients ask, and that routers hear of.
    pub addresses: Vec<InterfaceAddress>,
}

impl Default for Anycast {
    fn default() -> Self {
        Self {
            probe: "localhost".to_owned(),
            client: None,
            interval_ms: 200,
            timeout_ms: 200,
            failures: 2,
            successes: 5,
            upstreams: true,
            interface: None,
            addresses: Vec::new(),
        }
    }
}

/// `[standby]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Standby {
    /// Whether this node starts without a claim to the addresses of its ports, until `pmdns activate`.
    pub at_start: bool,
}
