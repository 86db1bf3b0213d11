//! Mistakes of a configuration: each is one sentence that says what to change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::MAX_FILE_BYTES;
use crate::problem::BrokenRule;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is larger than any configuration.
    #[error("{}: has more than {MAX_FILE_BYTES} bytes; is it a configuration?", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The text breaks the rules of TOML itself.
    #[error("{place}not valid TOML: {problem}")]
    NotToml {
        /// Where.
        place: Location,
        /// What the parser says.
        problem: String,
    },
    /// A key that does not exist.
    #[error("{place}unknown key `{key}` {table};{} allowed: {}", meant(nearest), allowed.join(", "))]
    UnknownKey {
        /// Where.
        place: Location,
        /// The key as written.
        key: String,
        /// The table it stands in, as in `in [[port]]`.
        table: String,
        /// The valid key most like it.
        nearest: Option<String>,
        /// Every valid key of that table.
        allowed: Box<[String]>,
    },
    /// A key that cannot be left out.
    #[error("{place}the key `{key}` is missing {table}; add it, it has no default")]
    MissingKey {
        /// Where the table begins.
        place: Location,
        /// The key.
        key: String,
        /// The table it should stand in, as in `in [[port]]`.
        table: String,
    },
    /// A value of the wrong type, or one that cannot be read.
    #[error("{place}`{key}`: {problem}")]
    WrongValue {
        /// Where.
        place: Location,
        /// The key with its path, as in `port[0].addresses[1]`.
        key: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// A value that breaks a rule.
    #[error("{place}`{key}` {problem}")]
    Unlawful {
        /// Where.
        place: Location,
        /// The key with its path, as in `port[0].addresses[1]`.
        key: String,
        /// Which rule, and what to do.
        problem: Box<BrokenRule>,
    },
    /// More than one mistake, in the order of the file.
    #[error("{}", list_mistakes(.0))]
    Several(Box<[ConfigError]>),
}

impl ConfigError {
    /// These mistakes as one error, if there is one.
    pub(crate) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors.into())),
        }
    }

    /// Each mistake by itself.
    pub fn mistakes(&self) -> &[Self] {
        match self {
            Self::Several(errors) => errors,
            one => std::slice::from_ref(one),
        }
    }

    /// Where in the file the first mistake is, as far as it is known.
    pub fn place(&self) -> Option<&Location> {
        match self {
            Self::Unreadable { .. } | Self::TooLarge { .. } => None,
            Self::NotToml { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::MissingKey { place, .. }
            | Self::WrongValue { place, .. }
            | Self::Unlawful { place, .. } => Some(place),
            Self::Several(errors) => errors.first()?.place(),
        }
    }

    /// The same mistake, known to be in `file`.
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        match &mut self {
            Self::Unreadable { .. } | Self::TooLarge { .. } => {}
            Self::NotToml { place, .. }
            | Self::UnknownKey { place, .. }
            | Self::MissingKey { place, .. }
            | Self::WrongValue { place, .. }
            | Self::Unlawful { place, .. } => place.file = Some(path.into()),
            Self::Several(errors) => {
                let all = std::mem::take(errors).into_iter();
                *errors = all.map(|error| error.in_file(path)).collect();
            }
        }
        self
    }
}

/// Where a mistake is. Prints as `pmdns.toml, line 3, column 9: `, or nothing if nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file, if the text came from one.
    pub file: Option<Box<Path>>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let line = self.line.map(|line| format!("line {line}"));
        let column = self.column.map(|column| format!("column {column}"));
        let known: Vec<String> = [file, line, column].into_iter().flatten().collect();
        if known.is_empty() {
            return Ok(());
        }
        write!(f, "{}: ", known.join(", "))
    }
}

/// Mistakes, each on a line of its own if there are several.
pub fn list_mistakes(mistakes: &[impl fmt::Display]) -> String {
    match mistakes {
        [one] => one.to_string(),
        several => {
            let lines: String = several.iter().map(|one| format!("\n{one}")).collect();
            format!("{} mistakes:{lines}", several.len())
        }
    }
}

/// The offer of a word that exists.
pub(crate) fn meant(nearest: &Option<String>) -> String {
    match nearest {
        Some(word) => format!(" did you mean `{word}`?"),
        None => String::new(),
    }
}
