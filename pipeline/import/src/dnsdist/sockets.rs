//! The calls that name addresses for queries to come to.

use super::call::Call;
use super::lua::Value;
use super::names::{note_relative, socket};
use crate::meaning::Forwarder;
use crate::source::Origin;

/// Options of sockets that need no counterpart.
const OF_SOCKETS: [&str; 27] = [
    "doTCP",
    "reusePort",
    "tcpFastOpenQueueSize",
    "interface",
    "cpus",
    "tcpListenQueueSize",
    "maxInFlight",
    "maxConcurrentTCPConnections",
    "provider",
    "library",
    "ticketKeyFile",
    "ticketsKeysRotationDelay",
    "numberOfTicketsKeys",
    "sessionTickets",
    "numberOfStoredSessions",
    "idleTimeout",
    "serverTokens",
    "internalPipeBufferSize",
    "releaseBuffers",
    "enableRenegotiation",
    "ktls",
    "tlsAsyncMode",
    "readAhead",
    "preferServerCiphers",
    "keyLogFile",
    "exactPathMatching",
    "maxConcurrentQueriesPerConnection",
];

/// An address of `setLocal` or `addLocal`: UDP, and TCP unless it is refused.
pub(super) fn plain(call: &Call<'_>, origin: &Origin, forwarder: &mut Forwarder) {
    let Some(address) = socket(call.text(0).unwrap_or_default(), 53) else {
        return forwarder.draft.unmapped(origin, "this is no address");
    };
    let is_udp_only = call.option(1, "doTCP") == Some(&Value::Name("false".into()));
    if forwarder.listen(address, origin) && !is_udp_only {
        forwarder.stream("tcp", address, origin);
    }
    call.skip(1, &OF_SOCKETS);
    call.list_rest(origin, forwarder);
}

/// An address of `addTLSLocal` and its kin, with certificates, keys and paths.
pub(super) fn encrypted(
    transport: &'static str,
    port: u16,
    call: &Call<'_>,
    origin: &Origin,
    forwarder: &mut Forwarder,
) {
    let Some(address) = socket(call.text(0).unwrap_or_default(), port) else {
        return forwarder.draft.unmapped(origin, "this is no address");
    };
    let [certificates, keys] = [1, 2].map(|at| call.texts(at).unwrap_or_default());
    if transport == "https" && certificates.is_empty() {
        return forwarder.draft.unmapped(origin, "HTTP without TLS is not served");
    }
    forwarder.stream(transport, address, origin);
    for (files, key) in [(certificates, "certificate"), (keys, "key")] {
        if let Some(file) = files.first() {
            note_relative(file, origin, forwarder);
            forwarder.draft.set("streams", key, *file, origin);
        }
        if files.len() > 1 {
            forwarder.draft.unmapped(origin, format!("there is one `streams.{key}`"));
        }
    }
    if transport == "https" {
        let paths = call.texts(3).unwrap_or_default();
        if let Some(path) = paths.first() {
            forwarder.draft.set("streams", "https_path", *path, origin);
        }
        if paths.len() > 1 {
            forwarder.draft.unmapped(origin, "there is one `streams.https_path`");
        }
    }
    call.skip(if transport == "https" { 4 } else { 3 }, &OF_SOCKETS);
    call.list_rest(origin, forwarder);
}
