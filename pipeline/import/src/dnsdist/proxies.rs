//! `setProxyProtocolACL`: proxies whose PROXY headers say who the client is.

use super::lua::{PROGRAM, Value};
use crate::meaning::{Forwarder, network};
use crate::source::{Origin, shown};

/// What of their headers is not read.
const DATAGRAMS: &str = "PROXY headers are read over TCP, TLS and HTTPS, not over UDP; have the proxies send queries over \
    UDP without one";
/// The difference of the two access lists.
const ACCESS: &str = "dnsdist answers all clients of these proxies, and `[acl]` is about the clients in the headers; write \
    those who may ask into `setACL`, and add `setProxyProtocolApplyACLToProxiedClients(true)`";

/// The proxies that calls name.
#[derive(Default)]
pub(super) struct Proxies {
    /// Their prefixes, and the call. The last call counts.
    listed: Option<(Vec<String>, Origin)>,
    /// Whether the access list is about the clients in the headers.
    judges_clients: bool,
}

impl Proxies {
    /// `setProxyProtocolACL({...})`.
    pub(super) fn list(
        &mut self,
        listed: Option<&Value>,
        origin: &Origin,
        forwarder: &mut Forwarder,
    ) {
        let Some(texts) = listed.and_then(Value::texts) else {
            return forwarder.draft.decisive(origin, PROGRAM);
        };
        forwarder.draft.read(origin);
        let texts = texts.into_iter().map(str::to_owned).collect();
        if let Some((_, before)) = self.listed.replace((texts, origin.clone())) {
            forwarder.draft.unneeded(&before);
        }
    }

    /// `setProxyProtocolApplyACLToProxiedClients(true)`.
    pub(super) fn judge_clients(
        &mut self,
        said: Option<&Value>,
        origin: &Origin,
        forwarder: &mut Forwarder,
    ) {
        self.judges_clients = said == Some(&Value::Name("true".to_owned()));
        match said {
            Some(Value::Name(name)) if ["true", "false"].contains(&&**name) => {
                forwarder.draft.read(origin)
            }
            _ => forwarder.draft.unmapped(origin, PROGRAM),
        }
    }

    /// Writes the proxies, and what differs.
    pub(super) fn finish(self, forwarder: &mut Forwarder) {
        let Some((texts, origin)) = self.listed.filter(|(texts, _)| !texts.is_empty()) else {
            return;
        };
        for text in texts {
            match network(&text) {
                Some(prefix) => {
                    forwarder.draft.push("streams", "proxy_protocol", prefix.to_string(), &origin);
                }
                // It may be an exception, as in `!192.0.2.1`, and those of others are not believed.
                None => {
                    let why = format!("`{}` is no network", shown(&text));
                    forwarder.draft.decisive(&origin, why);
                }
            }
        }
        forwarder.draft.unmapped(&origin, DATAGRAMS);
        if !self.judges_clients {
            forwarder.draft.decisive(&origin, ACCESS);
        }
    }
}
