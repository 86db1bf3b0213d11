//! Files that keep changes: one a line as JSON, each behind its checksum. A process that ends at any moment leaves
//! at most its last line torn.

use std::fs::{File, copy, hard_link, remove_file, symlink_metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use pmdns_config::files::{WholeFile, is_in_place, open_regular};
use serde::{Deserialize, Serialize};

use crate::change::{OperatorChange, Subject};

/// Only its owner and group may read it: it says who is blocked from what.
const MODE: u32 = 0o640;
/// The longest line that is read. None that is longer is written.
const MAX_LINE: u64 = 1 << 20;
/// Copies of a file with what was left out.
const MAX_ASIDE: usize = 8;

/// A kind of journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalKind {
    /// The first line of a file, with its end.
    pub head: &'static str,
    /// The first line of a file of before, when each kind of changes had a form of its own.
    pub old_head: &'static str,
    /// The key that names the file.
    pub key: &'static str,
    /// Its contents, in a word.
    pub what: &'static str,
    /// The largest file that is read.
    pub max_bytes: u64,
    /// Lines that are more than needed, before the file is written anew.
    pub slack: usize,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalLine {
    /// This holds, and what was said of its subject before does not.
    Set(Box<OperatorChange>),
    /// Nothing holds of this subject.
    Unset(Subject),
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

/// The bytes of a line.
pub(crate) fn text_of(line: &JournalLine) -> String {
    let json = serde_json::to_string(line).expect("a change holds only strings and numbers");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// Whether a line can be read again.
pub(crate) fn is_readable(line: &JournalLine) -> bool {
    text_of(line).len() as u64 <= MAX_LINE
}

/// The JSON of a line behind its checksum.
fn json_of(line: &[u8]) -> Result<&str, String> {
    let line = line.strip_suffix(b"\n").ok_or("its end is missing")?;
    let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let (sum, json) = line.split_once(' ').ok_or("it has no checksum")?;
    match u32::from_str_radix(sum, 16) == Ok(crc32fast::hash(json.as_bytes())) {
        true => Ok(json),
        false => Err("its checksum is another one".to_owned()),
    }
}

impl JournalKind {
    /// An error of the system about the file at `path`.
    pub fn failed(self, path: &Path, source: io::Error) -> JournalError {
        JournalError::File { key: self.key, path: path.to_owned(), source }
    }

    /// Has each line taken in that a text keeps: as JSON, with whether it has the form of before. A last line that is torn was
    /// never confirmed to anybody, and is left out: then the result is `true`.
    ///
    /// # Errors
    ///
    /// The text cannot be read, or is damaged.
    pub(crate) fn parse(
        self,
        mut text: impl io::BufRead,
        path: &Path,
        mut take: impl FnMut(bool, &str) -> Result<(), String>,
    ) -> Result<bool, JournalError> {
        let corrupt = |line, why| JournalError::Corrupt {
            key: self.key,
            path: path.to_owned(),
            what: self.what,
            line,
            why,
        };
        let heads = [self.head.as_bytes(), self.old_head.as_bytes()];
        let (mut line, mut next, mut number, mut is_old) = (Vec::new(), Vec::new(), 0, false);
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
            if number == 1 {
                if !heads.contains(&&*line) {
                    // Not even the first line was confirmed.
                    let is_torn = is_last && heads.iter().any(|head| head.starts_with(&line));
                    let why = format!("it is no file of {}", self.what);
                    return if is_torn { Ok(true) } else { Err(corrupt(1, why)) };
                }
                is_old = line != self.head.as_bytes();
            } else {
                match json_of(&line) {
                    Ok(json) => take(is_old, json).map_err(|why| corrupt(number, why))?,
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
    pub fn read(
        self,
        path: &Path,
        take: impl FnMut(bool, &str) -> Result<(), String>,
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
        if self.parse(BufReader::new(file), path, take)? && length > 0 {
            tracing::warn!("{}: the last line is torn, and left out", path.display());
        }
        Ok(())
    }
}

/// A file that is written. Who has it says what it is to keep, whenever it has to be written anew.
#[derive(Debug)]
pub struct JournalFile {
    kind: JournalKind,
    path: PathBuf,
    /// `None`: nothing is written yet, or the last write has failed, so the file's end is not known.
    file: Option<File>,
    lines: usize,
    /// At most as many as are read.
    bytes: u64,
    /// What the file has is more than what it gets next, so a copy of it stays.
    is_set_aside_first: bool,
}

impl JournalFile {
    /// The file at `path`, which the first write makes anew. If that is not all of what it had, a copy stays.
    pub fn new(kind: JournalKind, path: PathBuf, is_all: bool) -> Self {
        Self { kind, path, file: None, lines: 0, bytes: 0, is_set_aside_first: !is_all }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the disk has what was to be written.
    pub fn is_well(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_in_place(file, &self.path))
    }

    /// Has the disk confirm these lines. If the file has far more than the `needed` ones, or is not there any more, it is written
    /// anew with `all`, which has these lines too. If a file that is only long cannot be written anew, it becomes longer. Else each
    /// write fails until the disk takes all of it.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn write<I: Iterator<Item = JournalLine>>(
        &mut self,
        lines: &[JournalLine],
        needed: usize,
        all: impl Fn() -> I,
    ) -> io::Result<()> {
        let path = &self.path;
        let Some(mut file) = self.file.take().filter(|file| is_in_place(file, path)) else {
            return self.rewrite(all());
        };
        if self.lines + lines.len() > 2 * needed + self.kind.slack {
            match self.rewrite(all()) {
                Err(error) if is_in_place(&file, &self.path) => {
                    tracing::warn!("{} becomes longer: {error}", self.path.display());
                }
                done => return done,
            }
        }
        let text: String = lines.iter().map(text_of).collect();
        if self.bytes + text.len() as u64 > self.kind.max_bytes {
            return self.rewrite(all());
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.lines += lines.len();
        self.bytes += text.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Writes the file anew with less than it has; a copy stays.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn forget(&mut self, all: impl Iterator<Item = JournalLine>) -> io::Result<()> {
        self.is_set_aside_first = true;
        self.rewrite(all)
    }

    fn rewrite(&mut self, all: impl Iterator<Item = JournalLine>) -> io::Result<()> {
        self.file = None;
        if self.is_set_aside_first {
            self.set_aside()?;
            self.is_set_aside_first = false;
        }
        let mut whole = WholeFile::create(&self.path, MODE)?;
        whole.write_all(self.kind.head.as_bytes())?;
        let (mut lines, mut bytes) = (0, self.kind.head.len() as u64);
        for line in all {
            let text = text_of(&line);
            lines += 1;
            bytes += text.len() as u64;
            if bytes > self.kind.max_bytes {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            whole.write_all(text.as_bytes())?;
        }
        self.file = Some(whole.finish()?);
        (self.lines, self.bytes) = (lines, bytes);
        Ok(())
    }

    /// Keeps a file that has more than comes into use, before another one takes its name.
    fn set_aside(&self) -> io::Result<()> {
        let copies = (1..=MAX_ASIDE).map(|number| {
            let mut aside = self.path.as_os_str().to_owned();
            aside.push(".left-out");
            (number > 1).then(|| aside.push(format!(".{number}")));
            PathBuf::from(aside)
        });
        let mut aside = PathBuf::new();
        for copy in copies {
            aside = copy;
            if symlink_metadata(&aside).is_err() {
                break;
            }
        }
        // If there are so many, the last one goes.
        let _ = remove_file(&aside);
        // Not every file system has links, and not every file may be linked to.
        match hard_link(&self.path, &aside).or_else(|_| copy(&self.path, &aside).map(drop)) {
            Ok(()) => {
                tracing::warn!("{} is kept as {}", self.path.display(), aside.display());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
