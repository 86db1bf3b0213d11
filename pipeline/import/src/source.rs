//! The files of an import: which there are, and where in them a setting stands.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pmdns_config::files::open_regular;

use crate::limits::{MAX_BYTES, MAX_DEPTH, MAX_FILES};

/// The longest text of a setting that is repeated in a comment, in characters.
const MAX_SHOWN: usize = 100;

/// Where the files of an import are read.
pub trait Files {
    /// The first `limit` bytes of the file at `path`, which people name on the command line. It may be a pipe.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// The first `limit` bytes of a file that another one includes. A pipe is none: reading it could wait without end.
    ///
    /// # Errors
    ///
    /// What the system says, or that it is no regular file.
    fn read_included(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// The paths of the files in `folder`.
    ///
    /// # Errors
    ///
    /// What the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The files of this machine.
#[derive(Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        first_bytes(File::open(path)?, limit)
    }

    fn read_included(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        first_bytes(open_regular(path)?, limit)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.take(MAX_FILES + 1);
        entries.map(|entry| Ok(entry?.path())).collect()
    }
}

fn first_bytes(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A setting's place in one of the files. No two settings have the same, also if they stand on one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SettingPosition {
    file: usize,
    pub(crate) line: u32,
    /// Counts the settings of the file.
    number: u32,
}

/// A setting, as it stands in a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) place: SettingPosition,
    /// Its text, for people.
    pub(crate) text: String,
}

impl Origin {
    pub(crate) fn new(place: SettingPosition, text: &str) -> Self {
        Self { place, text: shown(text) }
    }
}

/// `text` on one line that is not long.
pub(crate) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(MAX_SHOWN).map(plain).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push_str("...");
    }
    shown.trim_end().to_owned()
}

/// An open file: its number, and its text.
pub(crate) struct Text {
    number: usize,
    pub(crate) text: String,
    places: Cell<u32>,
}

impl Text {
    /// A place of its own at this line, from 1.
    pub(crate) fn at(&self, line: u32) -> SettingPosition {
        let number = self.places.get().saturating_add(1);
        self.places.set(number);
        SettingPosition { file: self.number, line, number }
    }
}

/// The files that were read so far.
pub(crate) struct Sources<'f> {
    files: &'f dyn Files,
    paths: Vec<PathBuf>,
    bytes_left: u64,
    /// Those that are being read, each included by the one before.
    open: Vec<PathBuf>,
}

impl<'f> Sources<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, paths: Vec::new(), bytes_left: MAX_BYTES, open: Vec::new() }
    }

    /// Where a place is, as `FILE:LINE`.
    pub(crate) fn show(&self, place: SettingPosition) -> String {
        let path = self.paths.get(place.file).map(|path| path.display().to_string());
        format!("{}:{}", shown(&path.unwrap_or_default()), place.line)
    }

    /// Reads a file. [`Sources::close`] has to follow once everything in it has been read.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Text, String> {
        let why = |why: &str| format!("{} {why}", path.display());
        if self.open.iter().any(|open| open == path) {
            return Err(why("includes itself"));
        }
        if self.open.len() >= MAX_DEPTH || self.paths.len() >= MAX_FILES {
            return Err(why("is one file too many, or included too deep"));
        }
        let limit = self.bytes_left + 1;
        let read = match self.open.is_empty() {
            true => self.files.read(path, limit),
            false => self.files.read_included(path, limit),
        };
        let bytes = read.map_err(|error| why(&format!("cannot be read: {error}")))?;
        let Some(left) = self.bytes_left.checked_sub(bytes.len() as u64) else {
            return Err(why("is too large"));
        };
        self.bytes_left = left;
        self.open.push(path.to_owned());
        self.paths.push(path.to_owned());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Text { number: self.paths.len() - 1, text, places: Cell::new(0) })
    }

    /// The file that was opened last has been read.
    pub(crate) fn close(&mut self) {
        self.open.pop();
    }

    /// The files that `pattern` means, in order. Relative ones are beside the first file.
    pub(crate) fn find(&self, pattern: &str) -> Result<Vec<PathBuf>, String> {
        let folder =
            self.paths.first().and_then(|first| first.parent()).unwrap_or_else(|| Path::new(""));
        let path = folder.join(pattern);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if pattern.contains(['[', '{', '~']) {
            return Err(format!("{pattern}: name the files; of patterns, `*` and `?` are known"));
        }
        if !name.contains(['*', '?']) {
            return Ok(vec![path]);
        }
        let fits = |file: &PathBuf| {
            let other = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !other.starts_with('.') && matches(name.as_bytes(), other.as_bytes())
        };
        self.in_folder(path.parent().unwrap_or_else(|| Path::new("")), fits)
    }

    /// The files of a folder that end so, in order.
    pub(crate) fn in_folder(
        &self,
        folder: &Path,
        fits: impl Fn(&PathBuf) -> bool,
    ) -> Result<Vec<PathBuf>, String> {
        let listed = self.files.list(folder);
        let mut found =
            listed.map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
        found.retain(fits);
        found.sort();
        Ok(found)
    }
}

/// Whether `name` is one that `pattern` means, with `*` and `?`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // The place to go on from if what follows the last star does not fit.
    let (mut at, mut seen, mut again) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, seen));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match &mut again {
                Some((after, from)) => {
                    *from += 1;
                    (at, seen) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_what_they_do_in_a_shell() {
        for (pattern, name, fits) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a*b*c", "aXbXbc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
