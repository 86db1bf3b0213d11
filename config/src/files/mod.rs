//! Files that a configuration names: zone files and block lists. They are read when the engine is built
//! and whenever it is told to reload.

mod anchors;
mod kept;
mod list;
mod text;
mod whole;
mod zone;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use anchors::read_anchors;
pub use kept::keep_zone;
pub use list::{ListSummary, Listed, Scope, list_from, read_list};
pub use whole::WholeFile;
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
    let file = File::open(path).map_err(unreadable)?;
    match file.metadata().map_err(unreadable)?.len() > MAX_LIST_BYTES {
        true => Err(FileError::TooLarge { file: path.to_owned() }),
        false => Ok(file),
    }
}
