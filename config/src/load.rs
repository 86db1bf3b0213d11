//! From a file or a text to a configuration that keeps every rule.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize as _;
use toml::de::{DeTable, Deserializer};

use crate::check::{Mistake, check};
use crate::error::{ConfigError, Location};
use crate::explain::{check_brackets, not_toml, wrong_value};
use crate::limits::MAX_FILE_BYTES;
use crate::locate::place_of;
use crate::settings::Config;

impl Config {
    /// Reads the file at `path` and checks it as [`Config::from_toml`] does.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the file, the line and the key, and says what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        Self::from_toml(&text).map_err(|error| error.in_file(path))
    }

    /// Reads `text` as TOML and checks every rule.
    ///
    /// # Errors
    ///
    /// The first mistake found, as a [`ConfigError`] with its line.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let root = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
        check_brackets(text, root.get_ref())?;
        let config = Self::deserialize(Deserializer::from(root))
            .map_err(|error| wrong_value(text, &error))?;
        check(&config).map_err(|Mistake { key, problem }| ConfigError::Unlawful {
            place: place_of(text, &key),
            key,
            problem: Box::new(problem),
        })?;
        Ok(config)
    }

    /// Checks the rules of a configuration that was not read from a text.
    ///
    /// # Errors
    ///
    /// The first rule broken, as a [`ConfigError`] without a line.
    pub fn check(&self) -> Result<(), ConfigError> {
        check(self).map_err(|Mistake { key, problem }| ConfigError::Unlawful {
            place: Location::default(),
            key,
            problem: Box::new(problem),
        })
    }
}

/// The text of the file at `path`, if it is not too long.
fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { file: path.to_owned(), source };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge { file: path.to_owned() });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = Config::load(Path::new("/nonexistent/pmdns.toml")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("/nonexistent/pmdns.toml: cannot be read: No such file"),
            "{text}"
        );
    }

    #[test]
    fn a_mistake_in_a_file_is_told_with_file_line_and_column() {
        let path = std::env::temp_dir().join(format!("pmdns-config-{}.toml", std::process::id()));
        std::fs::write(&path, "[cache]\nsiez = \"1MiB\"\n").unwrap();
        let text = Config::load(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let start = format!("{}, line 2, column 1: unknown key `siez`", path.display());
        assert!(text.starts_with(&start), "{text}");
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let error = Config::load(Path::new("/dev/zero")).unwrap_err();
        assert!(matches!(error, ConfigError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn a_configuration_that_was_built_is_checked_too() {
        let error = Config::default().check().unwrap_err();
        assert_eq!(error.place(), Some(&Location::default()));
        assert!(error.to_string().starts_with("`port` is missing"), "{error}");
    }
}
