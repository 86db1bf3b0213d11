//! Block lists, line by line: hosts files, plain names, and the `||name^` rules of ad blockers.
//!
//! Such lists come from the Internet and have lines for other programs in them: rules about parts of pages,
//! regular expressions, options. A line that is no whole name is not guessed at: it is counted, and the
//! first of them is told.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use super::list_line::{LeftOut, ListedName, read_line};
use super::{FileError, open};
use crate::limits::{MAX_LIST_BYTES, MAX_LIST_LINE};
use crate::settings::ListFormat;

/// The content of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// Names, exceptions included.
    pub names: u64,
    /// Lines that say nothing we understand.
    pub unknown: u64,
    /// How many of them are of each kind, in the order of [`LeftOut`].
    pub kinds: [u64; LeftOut::ALL.len()],
    /// The first such line and its number; the first of the exceptions, if some are among them.
    pub first_unknown: Option<(u64, String)>,
}

impl ListSummary {
    /// Notes a line that says nothing we understand.
    fn leave_out(&mut self, line: u64, bytes: &[u8]) {
        let kind = LeftOut::of(&String::from_utf8_lossy(bytes));
        let count = &mut self.kinds[kind as usize];
        // A heading of a list may look like a rule about all pages. It says nothing of the list's format.
        let may_be_comment = bytes.trim_ascii_start().starts_with(b"#");
        let is_first = !may_be_comment
            && (self.first_unknown.is_none() || kind == LeftOut::Exception && *count == 0);
        *count += 1;
        self.unknown += 1;
        if is_first {
            self.first_unknown = Some((line, shown(bytes)));
        }
    }

    /// How many lines of each kind say nothing we understand, for people: `2 exceptions, 1 rule with options`.
    pub fn kinds_left_out(&self) -> String {
        let counts = LeftOut::ALL.iter().zip(&self.kinds).filter(|(_, count)| **count > 0);
        let told = counts.map(|((_, one, many), count)| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Reads a block list and hands each of its names to `take`, which says whether there is room for more.
///
/// # Errors
///
/// The file cannot be read, is too long, or has more names than `take` has room for. Or it has lines, but
/// none that is understood.
pub fn read_list(
    path: &Path,
    format: ListFormat,
    take: impl FnMut(ListedName<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    // A file that grows while it is read still ends.
    let reader = BufReader::with_capacity(1 << 16, open(path)?.take(MAX_LIST_BYTES));
    list_from(reader, path, format, take)
}

/// The same, of text from elsewhere; `path` is what errors call it.
///
/// # Errors
///
/// As [`read_list`].
pub fn list_from(
    reader: impl BufRead,
    path: &Path,
    format: ListFormat,
    mut take: impl FnMut(ListedName<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    lines_from(reader, path, format, |_, listed| take(listed))
}

/// Reads a list and hands each of its names to `take`, with the number of its line.
pub(super) fn lines_from(
    mut reader: impl BufRead,
    path: &Path,
    format: ListFormat,
    mut take: impl FnMut(u64, ListedName<'_>) -> bool,
) -> Result<ListSummary, FileError> {
    let unreadable = |source| FileError::Unreadable { file: path.to_owned(), source };
    let mut summary = ListSummary::default();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            break;
        }
        let mut full = false;
        let mut count = |listed: ListedName<'_>| {
            summary.names += 1;
            full |= !take(line, listed);
        };
        let text = Some(&bytes).filter(|bytes| bytes.len() <= MAX_LIST_LINE);
        let text = text.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let known = text.is_some_and(|text| read_line(text, format, &mut count));
        if full {
            let problem = "there is no room for more names; leave out a list".to_owned();
            return Err(FileError::Line { file: path.to_owned(), line, problem });
        }
        if !known {
            summary.leave_out(line, &bytes);
        }
    }
    match &summary.first_unknown {
        Some((line, text)) if summary.names == 0 => {
            let problem = format!("`{text}` is no rule of this format, and no other line is one");
            Err(FileError::Line { file: path.to_owned(), line: *line, problem })
        }
        _ => Ok(summary),
    }
}

/// The beginning of a line, for people.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    text.trim().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file of this text and gives what was said of it, and the names.
    fn read(text: &str, room: usize) -> (Result<ListSummary, FileError>, usize) {
        let mut taken = 0;
        let summary = list_from(text.as_bytes(), Path::new("list"), ListFormat::Auto, |_| {
            taken += 1;
            taken <= room
        });
        (summary, taken)
    }

    #[test]
    fn lines_not_understood_are_counted_and_the_first_is_told() {
        let (summary, taken) = read("a.example\nexample##.ad\n/x/\nb.example", 9);
        let summary = summary.unwrap();
        assert_eq!((summary.names, summary.unknown, taken), (2, 2, 2));
        assert_eq!(summary.first_unknown, Some((2, "example##.ad".into())));
        assert_eq!(summary.kinds_left_out(), "1 regular expression, 1 rule about pages");
    }

    #[test]
    fn exceptions_that_are_left_out_are_told_first() {
        let text = "a.example\n^ad\\.\n@@||b.example^$client=x\n||c^$dnstype=A\n@@/d/\n192.0.2.1\nhtml\n404\n";
        let summary = read(text, 9).0.unwrap();
        assert_eq!((summary.names, summary.unknown), (1, 7));
        assert_eq!(summary.first_unknown, Some((3, "@@||b.example^$client=x".into())));
        let kinds = "2 exceptions, 1 rule with options, 1 regular expression, 1 address, 2 others";
        assert_eq!(summary.kinds_left_out(), kinds);
    }

    #[test]
    fn a_file_of_something_else_is_an_error() {
        let text = read("<html>\n<body>\n", 9).0.unwrap_err().to_string();
        assert!(text.contains("line 1: `<html>` is no rule of this format"), "{text}");
        assert_eq!(read("# nothing yet\n", 9).0.unwrap(), ListSummary::default());
        // A heading, or a rule about all pages: a list that has no name yet.
        let summary = read("##Our names\n##.banner\n", 9).0.unwrap();
        assert_eq!((summary.names, summary.unknown, summary.first_unknown), (0, 2, None));
        let text = read("##.banner\nhtml\n", 9).0.unwrap_err().to_string();
        assert!(text.contains("line 2: `html` is no rule"), "{text}");
        let error = read_list(Path::new("/nonexistent"), ListFormat::Auto, |_| true).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn trap_14_names_without_room_are_an_error_and_never_skipped() {
        let text = read("a.example\nb.example\nc.example\n", 2).0.unwrap_err().to_string();
        assert!(text.contains("line 3: there is no room for more names"), "{text}");
        assert!(read("a.example\nb.example\n", 2).0.is_ok());
    }
}
