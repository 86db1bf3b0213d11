//! `webserver` and `setWebserverConfig`: where the counters are read, and by whom.

use std::net::SocketAddr;

use super::call::Call;
use super::lua::Value;
use crate::meaning::Forwarder;
use crate::source::Origin;

/// What else is at the address in dnsdist.
const METRICS: &str = "metrics alone are at this address; for the HTTP API and the console see `[api]` and `[[token]]`";
/// Why an address is only proposed.
const OPEN: &str = "everyone who can connect to `metrics.listen` reads every counter; set it to an address on loopback, \
    or in a management network";
const PASSWORD: &str = "`metrics.listen` asks for no password";
const KEY: &str = "the HTTP API is `[api]`, and its keys are `[[token]]`";
const ACCESS: &str = "`metrics.listen` has no access list; keep it on loopback, or let a firewall say who may connect";

/// `webserver("127.0.0.1:8083", "password", "key", {headers}, "networks")`.
pub(super) fn address(call: &Call<'_>, origin: &Origin, forwarder: &mut Forwarder) {
    let text = call.text(0).unwrap_or_default();
    let Ok(address) = text.parse::<SocketAddr>() else {
        return forwarder.draft.unmapped(origin, "this is no address and port");
    };
    match address.ip().to_canonical().is_loopback() {
        true => forwarder.draft.set("metrics", "listen", text, origin),
        false => {
            forwarder.draft.propose("metrics", "listen", text, origin);
            forwarder.draft.unmapped(origin, OPEN);
        }
    }
    forwarder.draft.unmapped(origin, METRICS);
    for (at, why) in [(1, PASSWORD), (2, KEY), (4, ACCESS)] {
        if call.argument(at).is_some() {
            forwarder.draft.unmapped(origin, why);
        }
    }
}

/// `setWebserverConfig({password="...", acl="...", ...})`.
pub(super) fn access(call: &Call<'_>, origin: &Origin, forwarder: &mut Forwarder) {
    let lost = [("password", PASSWORD), ("apiKey", KEY), ("acl", ACCESS)];
    let lost: Vec<&str> = lost
        .into_iter()
        .filter(|(option, _)| call.option(0, option).is_some())
        .map(|(_, why)| why)
        .collect();
    if lost.is_empty() && matches!(call.argument(0), Some(Value::Table(_))) {
        return forwarder.draft.unneeded(origin);
    }
    // What is no table may be anything.
    let lost = if lost.is_empty() { vec![PASSWORD, ACCESS] } else { lost };
    lost.into_iter().for_each(|why| forwarder.draft.unmapped(origin, why));
}
