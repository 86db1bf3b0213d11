//! `private-address:` and `private-domain:`: addresses that public names do not lead to.

use super::clause::Conf;
use crate::meaning::{Forwarder, network};

/// How an alias is judged. Unbound judges each record by its own name.
const ALIAS: &str = "the name that a client asks for decides, also if it is an alias: one that leads from another name \
     to these is not excepted";

pub(super) fn map(conf: &Conf, forwarder: &mut Forwarder) {
    let mut has_addresses = false;
    for one in conf.server.all("private-address") {
        match network(one.value()) {
            Some(network) => {
                has_addresses = true;
                forwarder.draft.push("rebinding", "addresses", network.to_string(), &one.origin);
            }
            None => forwarder.draft.decisive(&one.origin, "this is no network"),
        }
    }
    for (place, one) in conf.server.all("private-domain").enumerate() {
        if !has_addresses {
            // Every name may lead anywhere.
            forwarder.draft.unneeded(&one.origin);
            continue;
        }
        if place == 0 {
            forwarder.draft.unmapped(&one.origin, ALIAS);
        }
        forwarder.draft.push("rebinding", "except", one.value(), &one.origin);
    }
}
