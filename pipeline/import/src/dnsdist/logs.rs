//! Actions that log: dnstap, protobuf and text.

use std::path::Path;

use super::lua::{PROGRAM, Value};
use super::names::note_relative;
use crate::meaning::Forwarder;
use crate::query_log::{ANSWERS, TEXT_LOG};
use crate::source::Origin;

/// Why a protobuf logger is not connected to.
pub(super) const PROTOBUF: &str =
    "there is no such protobuf stream; `[query_log]` has dnstap, JSON lines and a database";

/// Maps an action if it is one that logs. Whether it was.
pub(super) fn action(forwarder: &mut Forwarder, arguments: &[Value], origin: &Origin) -> bool {
    let [rule, Value::Call(action, of_action), ..] = arguments else { return false };
    match &**action {
        "DnstapLogAction" | "DnstapLogResponseAction" => {
            if dnstap(forwarder, rule, of_action, origin) && action == "DnstapLogAction" {
                forwarder.draft.unmapped(origin, ANSWERS);
            }
        }
        "RemoteLogAction" | "RemoteLogResponseAction" => {
            forwarder.draft.unmapped(origin, PROTOBUF);
        }
        "LogAction" | "LogResponseAction" => {
            let file = of_action.first().and_then(Value::text).filter(|file| !file.is_empty());
            if let Some(file) = file {
                note_relative(file, origin, forwarder);
                forwarder.propose_log(Path::new(file), origin);
            }
            forwarder.draft.unmapped(origin, TEXT_LOG);
        }
        _ => return false,
    }
    true
}

/// `DnstapLogAction(identity, logger, function)`. Whether it could be taken over.
fn dnstap(forwarder: &mut Forwarder, rule: &Value, of_action: &[Value], origin: &Origin) -> bool {
    let is_all = matches!(rule, Value::Call(name, _) if name == "AllRule");
    let reader = match of_action.get(1) {
        Some(Value::Call(name, arguments)) if name.starts_with("newFrameStream") => {
            let reader = arguments.first().and_then(Value::text);
            if let Some(path) = reader.filter(|_| name == "newFrameStreamUnixLogger") {
                note_relative(path, origin, forwarder);
            }
            reader
        }
        Some(Value::Call(..)) => {
            forwarder.draft.unmapped(origin, PROTOBUF);
            return false;
        }
        _ => None,
    };
    let Some(reader) = reader else {
        forwarder.draft.unmapped(origin, PROGRAM);
        return false;
    };
    if !is_all {
        let why = "`[query_log]` has the answers to all clients; `sample` takes one in so many";
        forwarder.draft.propose("query_log", "dnstap", reader, origin);
        forwarder.draft.unmapped(origin, why);
        return false;
    }
    forwarder.draft.set("query_log", "dnstap", reader, origin);
    if let Some(identity) = of_action.first().and_then(Value::text).filter(|it| !it.is_empty()) {
        forwarder.draft.set("query_log", "dnstap_identity", identity, origin);
    }
    if of_action.len() > 2 {
        forwarder.draft.unmapped(origin, "the function that changes messages is not executed");
    }
    true
}
