//! Where names of upstreams are looked up: at the forwarders that Unbound itself asks for them, if these are plain.

use std::net::SocketAddr;

use super::clause::{Conf, Setting};
use super::forward::{asked, is_encrypted, key_of, parts};
use crate::meaning::Forwarder;

/// Resolvers that names of upstreams are looked up at. There is one list for all names.
#[derive(Default)]
pub(super) struct Bootstrap(Option<Vec<SocketAddr>>);

impl Bootstrap {
    /// Whether the name of an upstream is looked up where Unbound does. If it is not, the reason is listed.
    pub(super) fn knows(
        &mut self,
        host: &str,
        one: &Setting,
        conf: &Conf,
        forwarder: &mut Forwarder,
    ) -> bool {
        let Some(resolvers) = resolvers(host, conf) else {
            let why = "no `forward-zone` without TLS has this name, so it is not known where to look it up; \
                       write an address, or add the server with resolvers in `slowpath.bootstrap`";
            forwarder.draft.decisive(&one.origin, why);
            return false;
        };
        let known = self.0.get_or_insert_with(|| resolvers.clone());
        if *known != resolvers {
            let why = "names of upstreams are all looked up at the same resolvers (`slowpath.bootstrap`), \
                       and these of another zone are others";
            forwarder.draft.decisive(&one.origin, why);
            return false;
        }
        for resolver in resolvers {
            forwarder.draft.push("slowpath", "bootstrap", resolver.to_string(), &one.origin);
        }
        true
    }
}

/// The servers that Unbound asks for a name; `None`: some are no addresses, or behind TLS, or it resolves from the root.
fn resolvers(name: &str, conf: &Conf) -> Option<Vec<SocketAddr>> {
    let name = key_of(name);
    let zones = asked(conf);
    let ends = name.match_indices('.').map(|(at, _)| at + 1).chain([name.len()]);
    let mut around = std::iter::once(0).chain(ends).map(|at| &name[at..]);
    let (_, zone) = around.find_map(|suffix| zones.get(suffix))?;
    let has_hosts = zone.all("forward-host").next().is_some();
    if zone.name != "forward-zone" || has_hosts || is_encrypted(zone, conf) {
        return None;
    }
    let servers = zone.all("forward-addr").map(|one| {
        let (address, port, _) = parts(one.value());
        Some(SocketAddr::new(address.parse().ok()?, port.unwrap_or(Some(53))?))
    });
    servers.collect::<Option<Vec<_>>>().filter(|servers| !servers.is_empty())
}
