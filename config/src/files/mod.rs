//! Files that a configuration names: zone files and block lists. They are read when the engine is built
//! and whenever it is told to reload.

mod anchors;
mod clients;
mod find;
mod kept;
mod list;
mod list_line;
mod open;
#[cfg(test)]
mod testing;
mod whole;
mod zone;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use anchors::read_anchors;
pub use clients::read_clients;
pub use find::{FoundRule, find_in_list, find_in_policy_zone};
pub use kept::keep_zone;
pub use list::{ListSummary, list_from, read_list};
pub use list_line::{LeftOut, ListedName, Scope};
pub use open::{create_new, hold_regular, open_regular, open_to_append, open_to_replace};
pub use whole::{WholeFile, folder_of, is_in_place, is_passing};
pub use zone::{read_zone, received_record, zone_from};

use crate::limits::MAX_LIST_BYTES;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file could not be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than any that is meant to be read.
    #[error("{}: has more than {MAX_LIST_BYTES} bytes; split it into several files", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// Something in the file is wrong.
    #[error("{}, line {line}: {problem}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The file as a whole is wrong.
    #[error("{}: {problem}", file.display())]
    Whole {
        /// The file.
        file: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// Opens a file whose length is within bounds.
fn open(path: &Path) -> Result<File, FileError> {
    let unreadable = |source| FileError::Unreadable { file: path.to_owned(), source };
    let file = open_regular(path).map_err(unreadable)?;
    match file.metadata().map_err(unreadable)?.len() > MAX_LIST_BYTES {
        true => Err(FileError::TooLarge { file: path.to_owned() }),
        false => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ListFormat;

    #[test]
    fn audit_12_a_pipe_in_place_of_a_file_is_told_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("pmdns-fifo-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let errors = [
            read_zone(&path, None).unwrap_err(),
            read_anchors(&path).unwrap_err(),
            read_list(&path, ListFormat::Auto, |_| true).unwrap_err(),
        ];
        std::fs::remove_file(&path).unwrap();
        for error in errors.map(|error| error.to_string()) {
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert!(error.contains("no regular file"), "{error}");
        }
    }
}
