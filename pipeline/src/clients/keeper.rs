//! The journal of the client table: a line for each change at run time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pmdns_config::{Prefix, View, view_name, view_number};
use serde::{Deserialize, Serialize};

use super::book::Book;
use crate::journal::{JournalError, JournalKind, is_in_place, line_of};
use crate::sinks::is_passing;

const KIND: JournalKind = JournalKind {
    head: "pmdns clients 1\n",
    key: "clients.journal",
    what: "changes of run time",
    max_bytes: 8 << 30,
};
/// Lines that are more than the book needs, before the file is written anew.
const SLACK: usize = 1 << 16;

/// A change, as the journal has it. Views are named, for their numbers depend on the configuration.
#[derive(Serialize, Deserialize)]
struct Line {
    prefix: String,
    /// `None`: it is removed.
    view: Option<String>,
}

impl Line {
    fn of((prefix, view): (Prefix, Option<u8>), views: &[View]) -> Self {
        let view = view.map(|view| view_name(view, views).to_owned());
        Self { prefix: prefix.to_string(), view }
    }
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The view of each prefix; `None`: it is removed.
    pub(super) said: BTreeMap<Prefix, Option<u8>>,
    /// Changes that are left out: their views are no more.
    pub(super) left_out: usize,
}

/// The entries of each prefix that the file at `path` has kept.
pub(super) fn read(path: &Path, views: &[View]) -> Result<Kept, JournalError> {
    let (mut said, mut unknown) = (BTreeMap::new(), 0);
    KIND.read(path, |Line { prefix, view }| {
        let prefix = prefix.parse::<Prefix>().map_err(|error| error.to_string())?;
        match view {
            None => drop(said.insert(prefix, None)),
            Some(name) => match view_number(&name, views) {
                Some(view) => drop(said.insert(prefix, Some(view))),
                None => {
                    said.remove(&prefix);
                    unknown += 1;
                }
            },
        }
        Ok(())
    })?;
    if unknown > 0 {
        tracing::warn!(
            "{}: {unknown} changes are left out: there are no views of their names",
            path.display()
        );
    }
    Ok(Kept { said, left_out: unknown })
}

/// Keeps a file that has more than comes into use, before another one takes its name.
fn set_aside(path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".left-out");
    let aside = PathBuf::from(aside);
    let _ = std::fs::remove_file(&aside);
    std::fs::hard_link(path, &aside)?;
    tracing::warn!("{} is kept as {}", path.display(), aside.display());
    Ok(())
}

/// Writes the journal.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    /// `None`: the last write has failed, so the file's end is not known.
    file: Option<File>,
    lines: usize,
    /// What the file has is more than what it gets next, so a copy of it stays.
    is_set_aside_first: bool,
}

impl Keeper {
    /// Writes the file anew with what the book says, and appends to it from then on. If that is not all of the file, a copy
    /// stays. A disk that refuses is asked again with the next change.
    pub(super) fn start(
        path: PathBuf,
        book: &Book,
        views: &[View],
        is_all: bool,
    ) -> Result<Self, JournalError> {
        let mut keeper = Self { path, file: None, lines: 0, is_set_aside_first: !is_all };
        match keeper.rewrite(book, views) {
            Err(error) if !is_passing(&error) => return Err(KIND.failed(&keeper.path, error)),
            written => drop(keeper.told(&written)),
        }
        Ok(keeper)
    }

    /// Whether the disk has what was to be written.
    pub(super) fn is_well(&self) -> bool {
        self.file.is_some()
    }

    /// Says in the log why something could not be written, and returns whether it was.
    fn told(&mut self, written: &io::Result<()>) -> bool {
        if let Err(error) = written {
            tracing::error!("cannot keep changes of clients in {}: {error}", self.path.display());
            self.file = None;
        }
        written.is_ok()
    }

    /// Has the disk confirm changes that the book has already. Says whether it did; if not, the log says why.
    pub(super) fn keep(
        &mut self,
        changes: &[(Prefix, Option<u8>)],
        book: &Book,
        views: &[View],
    ) -> bool {
        let is_long = self.lines + changes.len() > 2 * book.at_run_time() + SLACK;
        let path = &self.path;
        let kept = match self.file.as_mut().filter(|file| !is_long && is_in_place(file, path)) {
            Some(file) => {
                self.lines += changes.len();
                let lines = changes.iter().map(|change| line_of(&Line::of(*change, views)));
                let text: String = lines.collect();
                file.write_all(text.as_bytes()).and_then(|()| file.sync_data())
            }
            None => self.rewrite(book, views),
        };
        self.told(&kept)
    }

    /// Writes the file anew with less than it has; a copy stays.
    pub(super) fn forget(&mut self, book: &Book, views: &[View]) {
        self.is_set_aside_first = true;
        let written = self.rewrite(book, views);
        self.told(&written);
    }

    fn rewrite(&mut self, book: &Book, views: &[View]) -> io::Result<()> {
        if self.is_set_aside_first {
            set_aside(&self.path)?;
            self.is_set_aside_first = false;
        }
        let lines = book.history().map(|said| Line::of(said, views));
        let (file, lines) = KIND.rewrite(&self.path, lines)?;
        (self.file, self.lines) = (Some(file), lines);
        Ok(())
    }
}
