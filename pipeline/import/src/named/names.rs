//! Statements that others refer to by name.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use super::access::Lists;
use super::statement::Statement;
use crate::meaning::Forwarder;
use crate::source::Origin;

/// Elements of all lists of clients, each counted wherever its list is used. A list may contain itself.
const MAX_ELEMENTS: usize = 1_000_000;

/// Statements that have trust anchors.
const ANCHORS: [&str; 3] = ["trust-anchors", "managed-keys", "trusted-keys"];

/// Statements with names that others refer to.
pub(super) struct Names<'s> {
    pub(super) lists: Lists<'s>,
    pub(super) tls: BTreeMap<String, &'s Statement>,
    pub(super) http: BTreeMap<String, &'s Statement>,
    /// Lists of servers.
    pub(super) servers: BTreeMap<String, &'s Statement>,
    /// The folder of relative paths.
    directory: String,
    /// Whether there are views.
    pub(super) has_views: bool,
    /// Whether anchors are written down. Those that are built in count with `dnssec-validation auto` alone.
    pub(super) has_anchors: bool,
    views: Vec<&'s Statement>,
    elements_left: Cell<usize>,
}

impl<'s> Names<'s> {
    pub(super) fn of(statements: &'s [Statement]) -> Self {
        let named = |words: &[&str]| -> BTreeMap<String, &'s Statement> {
            let of_word = statements.iter().filter(|one| words.contains(&one.word(0)));
            of_word.map(|one| (one.word(1).to_owned(), one)).collect()
        };
        let options = statements.iter().filter(|one| one.word(0) == "options");
        let directory = options.rev().find_map(|one| one.find("directory"));
        Self {
            lists: named(&["acl"]),
            tls: named(&["tls"]),
            http: named(&["http"]),
            servers: named(&["primaries", "masters", "remote-servers", "parental-agents"]),
            directory: directory.map_or_else(String::new, |one| one.word(1).to_owned()),
            has_anchors: statements.iter().any(|one| {
                let has_anchors = |one: &Statement| ANCHORS.contains(&one.word(0));
                has_anchors(one) || one.word(0) == "view" && one.block().iter().any(has_anchors)
            }),
            views: statements.iter().filter(|one| one.word(0) == "view").collect(),
            has_views: statements.iter().any(|one| one.word(0) == "view"),
            elements_left: Cell::new(MAX_ELEMENTS),
        }
    }

    /// A file of named, which may be relative to its directory.
    pub(super) fn path(&self, file: &str, origin: &Origin, forwarder: &mut Forwarder) -> String {
        if self.directory.is_empty() && Path::new(file).is_relative() {
            let why = "without `directory` it is in the folder that named is started in; write the whole path";
            forwarder.draft.unmapped(origin, why);
        }
        self.whole(file)
    }

    /// The whole path of a file.
    pub(super) fn whole(&self, file: &str) -> String {
        Path::new(&self.directory).join(file).display().to_string()
    }

    /// Whether there are views, and each has such a statement of its own.
    pub(super) fn all_views_have(&self, word: &str) -> bool {
        self.has_views && self.views.iter().all(|view| view.find(word).is_some())
    }

    /// Takes from the elements that may still be read. Whether there were any.
    pub(super) fn take_elements(&self, count: usize) -> bool {
        let left = self.elements_left.get();
        self.elements_left.set(left.saturating_sub(count));
        left > 0
    }
}
