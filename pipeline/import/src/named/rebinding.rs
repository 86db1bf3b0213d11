//! `deny-answer-addresses { ... } except-from { ... }`: addresses that public names do not lead to.

use super::access::{self, Unknown};
use super::names::Names;
use super::scope::Scope;
use super::statement::Statement;
use crate::meaning::Forwarder;

/// How the answer differs.
const ANSWER: &str = "the answer is REFUSED, where named has SERVFAIL; and the name that a client asks for decides, \
     also if it is an alias";

pub(super) fn map(
    one: &Statement,
    scope: &Scope<'_>,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) {
    let origin = one.origin();
    let block = one.block();
    let (denied, except) = block.split_at(one.second.unwrap_or(block.len()));
    let list = Statement { block: Some(denied.to_vec()), ..one.clone() };
    let denied = access::clients(&list, names, Unknown::NoMatch, forwarder);
    one.note_read(&mut forwarder.draft);
    let Some(denied) = denied.without(|said| said.value != Some(true)) else {
        return forwarder.draft.decisive(&origin, "these are too many networks");
    };
    if denied.is_empty() {
        return;
    }
    forwarder.draft.unmapped(&origin, ANSWER);
    let table = forwarder.draft.add("rebinding", Some(origin.clone()));
    table.set("action", "refuse", Some(origin.clone()));
    for (network, said) in denied {
        table.push("addresses", network.to_string(), said.origin.clone());
    }
    for name in except {
        table.push("except", name.word(0), Some(name.origin()));
    }
    table.in_views(&scope.views, &origin);
}
