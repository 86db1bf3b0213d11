//! Names and addresses that pools, views and servers have here.

use std::net::{IpAddr, SocketAddr};

use crate::import::meaning::plain_name;

/// An address, with a port or with the usual one.
pub(super) fn socket(text: &str, port: u16) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, port));
    address.ok().or_else(|| text.parse().ok()).filter(|address| address.port() != 0)
}

/// The name of a view for clients of a pool.
pub(super) fn view_of(pool: &str) -> String {
    plain_name(&format!("pool-{pool}"))
}

/// The group of a pool.
pub(super) fn group(pool: &str) -> String {
    if pool.is_empty() { "default".to_owned() } else { plain_name(pool) }
}
