//! Files that keep changes: one a line as JSON, each behind its checksum. A process that ends at any moment leaves
//! at most its last line torn.

use std::fs::{File, Metadata, symlink_metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pmdns_config::files::{WholeFile, open_regular};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Only its owner and group may read it: it says who is blocked from what.
const MODE: u32 = 0o640;
/// The longest line that is read.
const MAX_LINE: u64 = 1 << 20;

/// A kind of journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalKind {
    /// The first line, with its end.
    pub head: &'static str,
    /// The key that names the file.
    pub key: &'static str,
    /// Its contents, in a word.
    pub what: &'static str,
    /// The largest file that is read.
    pub max_bytes: u64,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error(
        "{key}: cannot use {}: {source}; set it to a file in a folder that pmdns may write to",
        path.display()
    )]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what was written.
    #[error(
        "{key}: {}, line {line}: {why}; restore the file from a copy, or move it away to begin without {what}",
        path.display()
    )]
    Corrupt {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What it keeps.
        what: &'static str,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// The line of a change.
pub fn line_of(change: &impl Serialize) -> String {
    let json = serde_json::to_string(change).expect("a change holds only strings and numbers");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// Whether `path` still leads to this file. What is appended to a file that was removed is lost.
pub(crate) fn is_in_place(file: &File, path: &Path) -> bool {
    let identity = |facts: Metadata| (facts.dev(), facts.ino());
    let (ours, there) = (file.metadata().ok(), symlink_metadata(path).ok());
    there.is_some() && ours.map(identity) == there.map(identity)
}

fn change_of<C: DeserializeOwned>(line: &[u8]) -> Result<C, String> {
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let (sum, json) = line.split_once(' ').ok_or("it has no checksum")?;
    if u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(json.as_bytes())) {
        return Err("its checksum is another one".to_owned());
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}

impl JournalKind {
    pub(crate) fn failed(self, path: &Path, source: io::Error) -> JournalError {
        JournalError::File { key: self.key, path: path.to_owned(), source }
    }

    /// Has every change `made` that a text keeps. A last line that is torn was never confirmed to anybody, and is left
    /// out: then the result is `true`.
    ///
    /// # Errors
    ///
    /// The text cannot be read, or is damaged.
    pub fn parse<C: DeserializeOwned>(
        self,
        mut text: impl io::BufRead,
        path: &Path,
        mut make: impl FnMut(C) -> Result<(), String>,
    ) -> Result<bool, JournalError> {
        let corrupt = |line, why| JournalError::Corrupt {
            key: self.key,
            path: path.to_owned(),
            what: self.what,
            line,
            why,
        };
        let (mut line, mut next, mut number) = (Vec::new(), Vec::new(), 0);
        let mut read_line = |line: &mut Vec<u8>| {
            line.clear();
            let read = (&mut text).take(MAX_LINE).read_until(b'\n', line);
            read.map(drop).map_err(|source| self.failed(path, source))
        };
        read_line(&mut line)?;
        while !line.is_empty() {
            number += 1;
            read_line(&mut next)?;
            let is_last = next.is_empty();
            if number == 1 && line != self.head.as_bytes() {
                // Not even the first line was confirmed.
                let is_torn = is_last && self.head.as_bytes().starts_with(&line);
                let why = format!("it is no file of {}", self.what);
                return if is_torn { Ok(true) } else { Err(corrupt(1, why)) };
            }
            if number > 1 {
                let whole = line.strip_suffix(b"\n").ok_or_else(|| "its end is missing".to_owned());
                match whole.and_then(change_of) {
                    Ok(change) => make(change).map_err(|why| corrupt(number, why))?,
                    Err(_) if is_last => return Ok(true),
                    Err(why) => return Err(corrupt(number, why)),
                }
            }
            std::mem::swap(&mut line, &mut next);
        }
        Ok(number == 0)
    }

    /// The same with the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged.
    pub fn read<C: DeserializeOwned>(
        self,
        path: &Path,
        make: impl FnMut(C) -> Result<(), String>,
    ) -> Result<(), JournalError> {
        let file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed(path, error)),
        };
        let length = file.metadata().map_err(|error| self.failed(path, error))?.len();
        if length > self.max_bytes {
            let error = io::Error::other(format!("it has more than {} bytes", self.max_bytes));
            return Err(self.failed(path, error));
        }
        if self.parse(BufReader::new(file), path, make)? && length > 0 {
            tracing::warn!("{}: the last line is torn, and left out", path.display());
        }
        Ok(())
    }

    /// Writes the file anew with these changes. Returns it for appending, with the number of changes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn rewrite<C: Serialize>(
        self,
        path: &Path,
        changes: impl Iterator<Item = C>,
    ) -> io::Result<(File, usize)> {
        let mut whole = WholeFile::create(path, MODE)?;
        whole.write_all(self.head.as_bytes())?;
        let mut lines = 0;
        for change in changes {
            whole.write_all(line_of(&change).as_bytes())?;
            lines += 1;
        }
        Ok((whole.finish()?, lines))
    }
}
