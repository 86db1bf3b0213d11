//! Statements that others refer to by name.

use std::collections::BTreeMap;
use std::path::Path;

use super::access::Lists;
use super::statement::Statement;

/// Statements with names that others refer to.
pub(super) struct Names<'s> {
    pub(super) lists: Lists<'s>,
    pub(super) tls: BTreeMap<String, &'s Statement>,
    pub(super) http: BTreeMap<String, &'s Statement>,
    /// The folder of relative paths.
    directory: String,
    /// Whether there are views.
    pub(super) has_views: bool,
}

impl<'s> Names<'s> {
    pub(super) fn of(statements: &'s [Statement]) -> Self {
        let named = |word: &str| -> BTreeMap<String, &'s Statement> {
            let of_word = statements.iter().filter(|one| one.word(0) == word);
            of_word.map(|one| (one.word(1).to_owned(), one)).collect()
        };
        let options = statements.iter().filter(|one| one.word(0) == "options");
        let directory = options.rev().find_map(|one| one.find("directory"));
        Self {
            lists: named("acl"),
            tls: named("tls"),
            http: named("http"),
            directory: directory.map_or_else(String::new, |one| one.word(1).to_owned()),
            has_views: statements.iter().any(|one| one.word(0) == "view"),
        }
    }

    /// A file of named, which may be relative to its directory.
    pub(super) fn path(&self, file: &str) -> String {
        Path::new(&self.directory).join(file).display().to_string()
    }
}
