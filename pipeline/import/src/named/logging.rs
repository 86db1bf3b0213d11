//! Logs of queries: `dnstap`, and the category `queries` of `logging`.

use std::path::Path;

use super::names::Names;
use super::statement::Statement;
use crate::meaning::Forwarder;
use crate::query_log::{ANSWERS, CLIENTS, IDENTITY, TEXT_LOG, VERSION};

/// The categories of queries and their answers.
const QUERIES: [&str; 2] = ["queries", "responses"];

/// `logging { ... }`. All but queries goes to pmdns' own log.
pub(super) fn map(block: &Statement, names: &Names<'_>, forwarder: &mut Forwarder) {
    let is_logged = |one: &&Statement| {
        let is_null = |channel: &Statement| channel.word(0) == "null";
        one.word(0) == "category"
            && QUERIES.contains(&one.word(1))
            && !one.block().iter().all(is_null)
    };
    let mut is_needed = false;
    for category in block.block().iter().filter(is_logged) {
        is_needed = true;
        forwarder.draft.unmapped(&category.origin(), TEXT_LOG);
        for channel in category.block() {
            let is_meant =
                |one: &&Statement| one.word(0) == "channel" && one.word(1) == channel.word(0);
            let file = block.block().iter().find(is_meant).and_then(|one| one.find("file"));
            if let Some(file) = file {
                let path = names.path(file.word(1), &file.origin(), forwarder);
                forwarder.propose_log(Path::new(&path), &file.origin());
            }
        }
    }
    if !is_needed {
        forwarder.draft.unneeded(&block.origin());
    }
}

/// The options whose names begin with `dnstap`. Without that of this name the others have no effect.
pub(super) fn dnstap(
    one: &Statement,
    options: &Statement,
    names: &Names<'_>,
    forwarder: &mut Forwarder,
) {
    let (value, origin) = (one.word(1), &one.origin());
    let Some(messages) = options.find("dnstap") else { return forwarder.draft.unneeded(origin) };
    let is_of_clients = |one: &Statement| ["all", "client"].contains(&one.word(0));
    let why = match (one.word(0), value) {
        ("dnstap", _) => return of_kinds(one, forwarder),
        ("dnstap-output", _) if !messages.block().iter().any(is_of_clients) => CLIENTS,
        ("dnstap-output", "unix") => {
            let socket = names.path(one.word(2), origin, forwarder);
            return forwarder.draft.set("query_log", "dnstap", socket, origin);
        }
        ("dnstap-output", _) => {
            "`query_log.dnstap` is the socket of a reader, such as fstrm_capture, not a file"
        }
        ("dnstap-identity", "none") => IDENTITY,
        ("dnstap-identity", "hostname") => return forwarder.draft.unneeded(origin),
        ("dnstap-identity", _) => {
            return forwarder.draft.set("query_log", "dnstap_identity", value, origin);
        }
        _ => VERSION,
    };
    forwarder.draft.unmapped(origin, why);
}

/// Which messages are logged, as in `dnstap { client response; }`.
fn of_kinds(messages: &Statement, forwarder: &mut Forwarder) {
    for one in messages.block() {
        let why = match (one.word(0), one.word(1)) {
            ("client", "response") => continue,
            ("client", _) => ANSWERS,
            _ => CLIENTS,
        };
        forwarder.draft.unmapped(&one.origin(), why);
    }
}
