//! What keeps changes of the client table: a journal of its own, or the one of all changes.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pmdns_changes::{
    Author, ChangeJournal, JournalError, JournalFile, JournalKind, JournalLine, OperatorChange,
    Receipt, Subject, What,
};
use pmdns_config::files::{is_passing, open_regular};
use pmdns_config::{Prefix, View, view_name, view_number};
use pmdns_control::ClientChange;
use serde::Deserialize;

use super::book::{Book, Whose};

const KIND: JournalKind = JournalKind {
    head: "pmdns clients 2\n",
    old_head: "pmdns clients 1\n",
    key: "clients.journal",
    what: "changes of run time",
    max_bytes: 8 << 30,
    slack: 1 << 16,
};

/// Files that are looked at for a journal that is left from before.
const MAX_LOOKED_AT: usize = 256;

/// A change, as a journal of before has it.
#[derive(Deserialize)]
struct OldLine {
    prefix: String,
    /// `None`: it is removed.
    view: Option<String>,
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The view of each prefix; `None`: it is removed.
    pub(super) said: BTreeMap<Prefix, (Option<u8>, Whose)>,
    /// Changes that are left out: their views are no more.
    pub(super) left_out: usize,
}

impl Kept {
    /// What these say of clients.
    pub(super) fn of(changes: &[OperatorChange], views: &[View]) -> Self {
        let mut kept = Self::default();
        for OperatorChange { what, author } in changes {
            if let What::Client(change) = what
                && let Err(why) = kept.set(change, author, views)
            {
                tracing::warn!("a change of a client is left out: {why}");
            }
        }
        kept
    }

    /// Takes in what holds. Views are named, for their numbers depend on the configuration.
    pub(super) fn set(
        &mut self,
        ClientChange { prefix, view }: &ClientChange,
        author: &Author,
        views: &[View],
    ) -> Result<(), String> {
        let prefix = prefix.parse::<Prefix>().map_err(|error| error.to_string())?;
        let view = match view.as_deref().map(|name| view_number(name, views)) {
            None => None,
            Some(Some(view)) => Some(view),
            Some(None) => {
                self.said.remove(&prefix);
                self.left_out += 1;
                return Ok(());
            }
        };
        self.said.insert(prefix, (view, whose(author)));
        Ok(())
    }

    /// Takes in what another file has. Of two changes of a prefix the newer one holds.
    pub(super) fn merge(&mut self, other: Self) {
        for (prefix, (view, whose)) in other.said {
            let ours = self.said.get(&prefix);
            if ours.is_none_or(|(_, ours)| ours.since <= whose.since) {
                self.said.insert(prefix, (view, whose));
            }
        }
        self.left_out += other.left_out;
    }

    fn take(&mut self, line: JournalLine, views: &[View]) -> Result<(), String> {
        match line {
            JournalLine::Set(change) => match &change.what {
                What::Client(client) => self.set(client, &change.author, views),
                other => Err(format!("it is about no client: {other}")),
            },
            JournalLine::Unset(Subject::Client(prefix)) => {
                let prefix = prefix.parse::<Prefix>().map_err(|error| error.to_string())?;
                self.said.remove(&prefix);
                Ok(())
            }
            JournalLine::Unset(_) => Err("it is about no client".to_owned()),
        }
    }
}

/// The entries of each prefix that the file at `path` has kept.
pub(super) fn read(path: &Path, views: &[View]) -> Result<Kept, JournalError> {
    let mut kept = Kept::default();
    KIND.read(path, |is_old, json| {
        let wrong = |error: serde_json::Error| error.to_string();
        if !is_old {
            return kept.take(serde_json::from_str(json).map_err(wrong)?, views);
        }
        let OldLine { prefix, view } = serde_json::from_str(json).map_err(wrong)?;
        // Nobody wrote down who said it.
        let author = Author { by: "unknown".to_owned(), since: 0, until_restart: false };
        kept.set(&ClientChange { prefix, view }, &author, views)
    })?;
    let unknown = kept.left_out;
    if unknown > 0 {
        tracing::warn!(
            "{}: {unknown} changes are left out: there are no views of their names",
            path.display()
        );
    }
    Ok(kept)
}

/// The first journal of clients alone in these folders, but for copies of one.
pub(super) fn journal_in(folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_journal = |path: &PathBuf| {
        let mut head = [0; KIND.head.len()];
        let read = open_regular(path).and_then(|mut file| file.read_exact(&mut head));
        let is_copy = path.to_string_lossy().contains(".left-out");
        !is_copy
            && read.is_ok()
            && [KIND.head, KIND.old_head].map(str::as_bytes).contains(&&head[..])
    };
    let files = folders.into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    files.take(MAX_LOOKED_AT).map(|file| file.path()).find(is_journal)
}

pub(super) fn whose(Author { by, since, until_restart }: &Author) -> Whose {
    Whose { by: by.as_str().into(), since: *since, until_restart: *until_restart }
}

/// What is said of a prefix, as a change.
pub(super) fn change_of(
    prefix: Prefix,
    view: Option<u8>,
    whose: &Whose,
    views: &[View],
) -> OperatorChange {
    let view = view.map(|view| view_name(view, views).to_owned());
    let what = What::Client(ClientChange { prefix: prefix.to_string(), view });
    let Whose { by, since, until_restart } = whose;
    let author = Author { by: by.to_string(), since: *since, until_restart: *until_restart };
    OperatorChange { what, author }
}

/// Where changes go.
#[derive(Debug)]
pub(super) enum Keeper {
    /// A file of clients alone.
    Own(JournalFile),
    /// The file of all changes.
    Shared(ChangeJournal),
}

impl Keeper {
    /// Writes a file anew with what the book says, and appends to it from then on. If that is not all of the file, a copy
    /// stays. A disk that refuses is asked again with the next change.
    pub(super) fn start(
        path: PathBuf,
        book: &Book,
        views: &[View],
        is_all: bool,
    ) -> Result<Self, JournalError> {
        let mut file = JournalFile::new(KIND, path, is_all);
        match file.write(&[], 0, || history(book, views)) {
            Err(error) if !is_passing(&error) => Err(KIND.failed(file.path(), error)),
            written => {
                log_result(&file, &written);
                Ok(Self::Own(file))
            }
        }
    }

    /// Whether the disk has what was to be written.
    pub(super) fn is_well(&self) -> bool {
        match self {
            Self::Own(file) => file.is_well(),
            Self::Shared(_) => true,
        }
    }

    /// Has the disk confirm changes of these prefixes, which the book has already. Says whether it did; if not, the log says why.
    pub(super) fn keep(&mut self, changed: &[Prefix], book: &Book, views: &[View]) -> bool {
        let line = |prefix: &Prefix| match book.kept_of(prefix) {
            Some((view, whose)) => line_of(*prefix, view, whose, views),
            None => JournalLine::Unset(Subject::Client(prefix.to_string())),
        };
        let lines: Vec<JournalLine> = changed.iter().map(line).collect();
        let refused = |(_, why)| tracing::error!("a change of clients is not kept: {why}");
        match self {
            Self::Own(file) => {
                let written = file.write(&lines, book.at_run_time(), || history(book, views));
                log_result(file, &written)
            }
            Self::Shared(journal) => journal.keep(lines).map_err(refused).is_ok_and(Receipt::wait),
        }
    }

    /// Forgets what was said of these prefixes. A file of clients alone stays as a copy.
    pub(super) fn forget(&mut self, forgotten: &[Prefix], book: &Book, views: &[View]) {
        match self {
            Self::Own(file) => {
                let written = file.forget(history(book, views));
                log_result(file, &written);
            }
            Self::Shared(_) => drop(self.keep(forgotten, book, views)),
        }
    }
}

fn line_of(prefix: Prefix, view: Option<u8>, whose: &Whose, views: &[View]) -> JournalLine {
    JournalLine::Set(Box::new(change_of(prefix, view, whose, views)))
}

/// Every line that leads to what the book keeps.
fn history<'b>(book: &'b Book, views: &'b [View]) -> impl Iterator<Item = JournalLine> + 'b {
    book.kept().map(|(prefix, view, whose)| line_of(prefix, view, whose, views))
}

/// Says in the log why something could not be written, and returns whether it was.
fn log_result(file: &JournalFile, written: &std::io::Result<()>) -> bool {
    if let Err(error) = written {
        tracing::error!("cannot keep changes of clients in {}: {error}", file.path().display());
    }
    written.is_ok()
}
