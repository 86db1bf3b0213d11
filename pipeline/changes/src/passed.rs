//! Changes on their way to the next process: lines as those of a file, of all that holds, whether a file keeps it or not.

use std::io::{self, BufRead, Write};
use std::path::Path;

use crate::journal::{JournalError, JournalLine, is_readable, text_of};
use crate::keeper::Reading;
use crate::{CHANGES, KeptChanges, OperatorChange};

/// The most that passes, in bytes.
pub const MAX_PASSED_BYTES: u64 = 256 << 20;

/// A text that gets changes.
#[derive(Debug)]
pub struct PassedText<W> {
    to: W,
    bytes: u64,
}

impl<W: Write> PassedText<W> {
    /// There is none yet.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(CHANGES.head.as_bytes())?;
        Ok(Self { to, bytes: CHANGES.head.len() as u64 })
    }

    /// One more.
    ///
    /// # Errors
    ///
    /// It cannot be written, or nobody would read that much.
    pub fn add(&mut self, change: OperatorChange) -> io::Result<()> {
        let line = JournalLine::Set(Box::new(change));
        let text = text_of(&line);
        self.bytes += text.len() as u64;
        let is_too_long = self.bytes > MAX_PASSED_BYTES;
        match () {
            () if is_too_long => Err(too_long()),
            () if !is_readable(&line) => Err(io::Error::other("one of them is too long")),
            () => self.to.write_all(text.as_bytes()),
        }
    }

    /// All of it is there.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn end(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn too_long() -> io::Error {
    let most = MAX_PASSED_BYTES >> 20;
    io::Error::new(io::ErrorKind::FileTooLarge, format!("they take more than {most} MiB"))
}

/// The changes of a text that another process has written.
///
/// # Errors
///
/// It is not whole; the text says what is wrong.
pub fn read_passed(text: impl BufRead) -> Result<KeptChanges, String> {
    let (mut reading, nowhere) = (Reading::default(), Path::new(""));
    let is_torn = CHANGES.parse(text, nowhere, |is_old, json| match is_old {
        true => Err("it is of an older version".to_owned()),
        false => reading.take(false, json),
    });
    // There is no file that could be restored.
    let wrong = |error| match error {
        JournalError::File { source, .. } => source.to_string(),
        JournalError::Corrupt { line, why, .. } => format!("line {line}: {why}"),
    };
    match is_torn.map_err(wrong)? {
        true => Err("the end is missing".to_owned()),
        false => reading.end(nowhere).map_err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::limit;

    fn text(changes: &[OperatorChange]) -> Vec<u8> {
        let mut text = PassedText::begin(Vec::new()).unwrap();
        changes.iter().for_each(|change| text.add(change.clone()).unwrap());
        text.end().unwrap()
    }

    #[test]
    fn what_is_written_is_read_with_whose_it_is() {
        let mut changes = [limit("b.example", 1), limit("a.example", 2)];
        changes[0].author.until_restart = true;
        let read = read_passed(&*text(&changes)).unwrap();
        assert!(read.iter().eq(&changes));
        assert!(read_passed(&*text(&[])).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let whole = text(&[limit("a.example", 1), limit("b.example", 2)]);
        let old = whole.len() - CHANGES.head.len();
        let old = [CHANGES.old_head.as_bytes(), &whole[whole.len() - old..]].concat();
        let mut other = whole.clone();
        other[CHANGES.head.len() + 20] ^= 1;
        for (wrong, why) in [
            (&whole[..0], "the end is missing"),
            (&whole[..4], "the end is missing"),
            (&whole[..whole.len() - 1], "the end is missing"),
            (&whole[1..], "line 1: it is no file of changes"),
            (&old, "line 2: it is of an older version"),
            (&other, "line 2: its checksum is another one"),
        ] {
            assert_eq!(read_passed(wrong).unwrap_err(), why);
        }
    }

    #[test]
    fn no_more_is_written_than_is_read() {
        let mut text = PassedText::begin(io::sink()).unwrap();
        text.bytes = MAX_PASSED_BYTES - 150;
        text.add(limit("a.example", 1)).unwrap();
        let full = text.add(limit("b.example", 1)).unwrap_err();
        assert_eq!(full.to_string(), "they take more than 256 MiB");
        let mut text = PassedText::begin(io::sink()).unwrap();
        let long = text.add(limit(&"a".repeat(1 << 20), 1)).unwrap_err();
        assert_eq!(long.to_string(), "one of them is too long");
    }
}
