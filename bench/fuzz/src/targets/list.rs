//! Fuzz target: block lists, up to what becomes of the names in them. The first byte says the format, the rest is the file.

use std::path::Path;

use crate::input::Input;
use crate::judge::{Judge, Judged, file, no_rules};
use pmdns_config::files::{Scope, list_from};
use pmdns_config::{BlockAction, Blocklist, Config, ListFormat};
use pmdns_stages::testing::{QueryFrame, query};
use pmdns_stages::wire::name;

/// Names that are asked for, at most.
const MAX_NAMES: usize = 64;

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let format = match input.byte() % 4 {
        0 => ListFormat::Auto,
        1 => ListFormat::Hosts,
        2 => ListFormat::Domains,
        _ => ListFormat::Adblock,
    };
    let mut names: Vec<(Vec<u8>, Scope)> = Vec::new();
    let summary = list_from(input.rest(), Path::new("fuzzed"), format, |listed| {
        assert_eq!(name::length(listed.name), Some(listed.name.len()), "one whole name");
        assert_eq!(listed.name, listed.name.to_ascii_lowercase());
        names.push((listed.name.to_vec(), listed.scope));
        true
    });
    let Ok(summary) = summary else { return };
    assert_eq!(summary.names, names.len() as u64);
    let action = BlockAction::default();
    let blocklists =
        vec![Blocklist { file: file(input.rest()), format, action, ..Blocklist::default() }];
    let mut judge = Judge::new(&Config { blocklists, ..no_rules() }).expect("it was just read");
    // An exception counts against all other lines.
    if names.iter().any(|(_, scope)| scope.is_exception()) {
        return;
    }
    for (listed, scope) in names.iter().take(MAX_NAMES) {
        let mut blocks = |name: Vec<u8>| {
            let asked = QueryFrame { name, ..query("a. A") };
            let blocked = matches!(judge.ask(&asked), Judged::OutgoingAnswer(_));
            assert!(blocked, "{} is listed", asked.name.escape_ascii());
        };
        blocks(listed.to_ascii_uppercase());
        let below = [b"\x01x".as_slice(), listed].concat();
        if *scope == Scope::Below && name::length(&below).is_some() {
            blocks(below);
        }
    }
}
