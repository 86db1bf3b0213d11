//! Names and addresses that pools, views and servers have here.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::meaning::{Forwarder, plain_name};
use crate::source::Origin;

/// Lists a relative path: nothing in the file says where it is.
pub(super) fn note_relative(path: &str, origin: &Origin, forwarder: &mut Forwarder) {
    if Path::new(path).is_relative() {
        let why = "this path is in the folder that dnsdist is started in; write the whole path";
        forwarder.draft.unmapped(origin, why);
    }
}

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
