//! The meaning of the statements: options, views, zones.

use std::collections::BTreeSet;

use super::names::Names;
use super::scope::{Scope, is_internet, scopes};
use super::statement::Statement;
use super::zone::{Zones, usual};
use super::{kinds, logging, options};
use crate::meaning::{Forwarder, NONE};

/// Names of keys that transfers are signed with.
pub(super) type Keys = BTreeSet<String>;

pub(super) fn map(statements: &[Statement], forwarder: &mut Forwarder) {
    let names = Names::of(statements);
    statements.iter().for_each(|one| one.note_parsed(&mut forwarder.draft));
    let scopes = scopes(statements, &names, forwarder);
    let all_options = statements.iter().filter(|one| one.word(0) == "options");
    for (place, one) in all_options.rev().enumerate() {
        match place {
            0 => options::map(one, &names, forwarder),
            _ => {
                forwarder
                    .draft
                    .decisive(&one.origin(), "there are several `options`; this one is lost");
                one.note_read(&mut forwarder.draft);
            }
        }
    }
    if !statements.iter().any(|one| one.find("dnssec-validation").is_some())
        && let Some(first) = statements.first()
    {
        // `dnssec-validation auto` is the default.
        forwarder.draft.set("dnssec", "validate", true, &first.origin());
    }
    options::special_use(&scopes, forwarder);
    let mut keys = Keys::new();
    for scope in &scopes {
        map_scope(scope, statements, &names, &mut keys, forwarder);
    }
    statements.iter().for_each(|one| of_server(one, &names, &keys, forwarder));
}

/// Options and zones of a view, or of the options alone.
fn map_scope(
    scope: &Scope<'_>,
    statements: &[Statement],
    names: &Names<'_>,
    keys: &mut Keys,
    forwarder: &mut Forwarder,
) {
    if scope.is_empty {
        return;
    }
    options::of_scope(scope, names, forwarder);
    let usual = usual(scope, names, forwarder);
    let zones = match scope.view {
        Some(view) => view.block(),
        None => statements,
    };
    let mut reader = Zones { statements, names, keys, usual };
    for zone in zones.iter().filter(|one| one.word(0) == "zone") {
        reader.zone(zone, scope, forwarder);
    }
}

/// Statements beside options, views and zones.
fn of_server(one: &Statement, names: &Names<'_>, keys: &Keys, forwarder: &mut Forwarder) {
    let origin = one.origin();
    match one.word(0) {
        "options" => {}
        "view" if is_internet(one) => {}
        "view" => {
            forwarder.draft.unneeded(&origin);
            one.note_read(&mut forwarder.draft);
        }
        "zone" if !names.has_views => {}
        "zone" => {
            forwarder.draft.decisive(&origin, "with views a zone is in one of them");
            one.note_read(&mut forwarder.draft);
        }
        // What uses a list says what it cannot take over of it.
        "acl" | "primaries" | "masters" | "remote-servers" | "parental-agents" | "http" => {
            forwarder.draft.unneeded(&origin);
            one.note_read(&mut forwarder.draft);
        }
        "tls" if one.block().is_empty() => forwarder.draft.read(&origin),
        "tls" => one.block().iter().for_each(|part| {
            let known = ["remote-hostname", "ca-file", "cert-file", "key-file"];
            match known.contains(&part.word(0)) {
                true => forwarder.draft.read(&part.origin()),
                false => kinds::list(part, forwarder),
            }
        }),
        "controls" | "statistics-channels" | "dnssec-policy" | "key-store" => {
            forwarder.draft.unneeded(&origin);
            one.note_read(&mut forwarder.draft);
        }
        "trust-anchors" | "managed-keys" | "trusted-keys" => {
            forwarder.draft.unmapped(
                &origin,
                "the root's keys are built in; write others into the file `dnssec.trust_anchor`",
            );
            one.note_read(&mut forwarder.draft);
        }
        "server" => one.block().iter().for_each(|part| match (part.word(0), part.word(1)) {
            ("bogus", "no") => forwarder.draft.unneeded(&part.origin()),
            _ => kinds::list(part, forwarder),
        }),
        "logging" => {
            logging::map(one, names, forwarder);
            one.note_read(&mut forwarder.draft);
        }
        "key" => {
            key(one, keys, forwarder);
            one.note_read(&mut forwarder.draft);
        }
        _ => {
            forwarder.draft.decisive(&origin, NONE);
            one.note_read(&mut forwarder.draft);
        }
    }
}

/// A key; only those of transfers of policy zones are needed.
fn key(one: &Statement, keys: &Keys, forwarder: &mut Forwarder) {
    let origin = Some(one.origin());
    if !keys.contains(one.word(1)) {
        return forwarder.draft.unneeded(&one.origin());
    }
    let table = forwarder.draft.add("tsig", origin.clone());
    table.set("name", one.word(1), origin.clone());
    for (word, key) in [("algorithm", "algorithm"), ("secret", "secret")] {
        if let Some(value) = one.find(word) {
            table.set(key, value.word(1).trim_end_matches('.').to_owned(), origin.clone());
        }
    }
}
