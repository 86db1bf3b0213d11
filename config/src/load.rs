//! From a file or a text to a configuration that keeps every rule.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::changes::FixedKeys;
use crate::check::{Mistake, check};
use crate::error::{ConfigError, Location};
use crate::explain::not_toml;
use crate::gather::gather;
use crate::limits::{MAX_FILE_BYTES, MAX_MISTAKES};
use crate::locate::place_of;
use crate::problem::BrokenRule;
use crate::running::WrittenConfig;
use crate::settings::Config;

impl Config {
    /// Reads the file at `path` and checks it as [`Config::from_toml`] does.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the file, the line and the key, and says what is allowed.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        ConfigText::read(path)?.into_config()
    }

    /// Reads `text` as TOML and checks every rule.
    ///
    /// # Errors
    ///
    /// Every mistake found, as a [`ConfigError`] with its line. If the text is no TOML, the first one.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        from_text(text).and_then(|(config, error)| error.map_or(Ok(config), Err))
    }

    /// Checks the rules of a configuration that was not read from a text.
    ///
    /// # Errors
    ///
    /// Every rule broken, as a [`ConfigError`] without a line.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mistakes = check(self, &BTreeSet::new()).into_iter();
        let errors = mistakes.map(|mistake| unlawful(Location::default(), mistake)).collect();
        ConfigError::of(errors).map_or(Ok(()), Err)
    }
}

/// A file as it was read once: its text, and what could be made of that.
#[derive(Debug)]
pub struct ConfigText {
    path: PathBuf,
    text: String,
    /// The settings; what could not be read has its default.
    pub config: Config,
    /// The mistakes.
    pub error: Option<ConfigError>,
}

impl ConfigText {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// Nothing could be read.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        let (config, error) = from_text(&text).map_err(|error| error.in_file(path))?;
        let error = error.map(|error| error.in_file(path));
        Ok(Self { path: path.to_owned(), text, config, error })
    }

    /// The settings, if nothing is wrong with them.
    ///
    /// # Errors
    ///
    /// Every mistake, as [`Config::load`] tells them.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        self.error.map_or(Ok(self.config), Err)
    }

    /// The keys that need another process.
    pub fn fixed_keys(&self) -> FixedKeys {
        FixedKeys::of(&self.text)
    }

    /// The settings as they were written.
    pub fn written(&self) -> WrittenConfig {
        WrittenConfig::of(&self.text)
    }

    /// A lack of the machine for the key at the path `key`.
    pub fn of_machine(&self, key: &str, problem: String) -> ConfigError {
        let (key, problem) = (key.to_owned(), BrokenRule::Machine(problem));
        unlawful(place_of(&self.text, &key), Mistake { key, problem }).in_file(&self.path)
    }
}

/// The parts of `text` that could be read, and the mistakes.
fn from_text(text: &str) -> Result<(Config, Option<ConfigError>), ConfigError> {
    let root = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
    let mut gathered = gather(text, root);
    let mut errors = std::mem::take(&mut gathered.errors);
    if let Some(config) = &gathered.config {
        let mistakes = check(config, &gathered.damaged).into_iter();
        let place = |one: &Mistake| Some(place_of(text, &gathered.written(&one.key)?));
        errors.extend(mistakes.filter_map(|one| Some(unlawful(place(&one)?, one))));
    }
    errors.truncate(MAX_MISTAKES);
    // What is missing from the whole file comes last.
    let line = |error: &ConfigError| error.place().and_then(|place| place.line);
    errors.sort_by_key(|error| line(error).unwrap_or(u32::MAX));
    Ok((gathered.config.unwrap_or_default(), ConfigError::of(errors)))
}

fn unlawful(place: Location, Mistake { key, problem }: Mistake) -> ConfigError {
    ConfigError::Unlawful { place, key, problem: Box::new(problem) }
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
        assert!(text.lines().nth(1).unwrap().starts_with(&start), "{text}");
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
        assert!(error.to_string().starts_with("2 mistakes:\n`port` is missing"), "{error}");
    }

    #[test]
    fn d06_all_mistakes_are_told_at_once() {
        let text = "[cache]\nsiez = 1\n\n[frames]\nbatch = 0\nring = 100\n\n[[port]]\nname = \"a b\"\ndevice = \"net_tap0\"\n\
            addresses = [\"192.0.2.1\", \"here\"]\n\n[acl]\nallow = 1\n\n[[upstream]]\naddress = \"127.0.0.1:0\"\n";
        let told = Config::from_toml(text).unwrap_err().to_string();
        let starts = [
            "6 mistakes:",
            "line 2, column 1: unknown key `siez` in [cache]; did you mean `size`?",
            "line 5: `frames.batch` is 0; allowed: 1 to",
            "line 6: `frames.ring` is 100; allowed: powers of two, so write 128",
            "line 11, column 27: `port[0].addresses[1]`: ",
            "line 14, column 9: `acl.allow`: ",
            "line 17: `upstream[0].address` is empty; write a port",
        ];
        assert_eq!(told.lines().count(), starts.len(), "{told}");
        for (line, start) in told.lines().zip(starts) {
            assert!(line.starts_with(start), "{start:?} in {told}");
        }
    }

    #[test]
    fn d24_a_key_of_nobody_hides_no_other_mistake_of_its_table() {
        let text = "[frames]\nlog_queries = true\nbatch = 0\n[[port]]\nname = \"a\"\ndevice = \"replay\"\n\
            addresses = [\"192.0.2.2\"]\n[[upstream]]\naddress = \"192.0.2.1:53\"\n";
        let told = Config::from_toml(text).unwrap_err().to_string();
        assert!(
            told.contains("line 2, column 1: unknown key `log_queries` in [frames];"),
            "{told}"
        );
        assert!(told.contains("line 3: `frames.batch` is 0;"), "{told}");
    }

    #[test]
    fn d24_a_slip_in_a_name_hides_no_other_mistake_of_its_table() {
        let port = "[[port]]\nname = \"a\"\ndevice = \"replay\"\naddresses = [\"192.0.2.2\"]\n";
        let upstream = "[[upstream]]\naddress = \"192.0.2.1:53\"\n";
        for (text, told) in [
            // The rules of the table are checked, with the value that was meant.
            (
                format!("[frames]\nbtach = 8\nring = 100\n{port}{upstream}"),
                ["line 2, column 1: unknown key `btach`", "line 3: `frames.ring` is 100;"],
            ),
            // So are other values that cannot be read, and other slips.
            (
                format!("[frames]\nbtach = 8\nring = \"x\"\n{port}{upstream}"),
                ["line 2, column 1: unknown key `btach`", "line 3, column 8: `frames.ring`: "],
            ),
            (
                format!("[frames]\nbtach = 8\nrnig = 100\n{port}{upstream}"),
                ["line 2, column 1: unknown key `btach`", "line 3, column 1: unknown key `rnig`"],
            ),
            // A key that is there as well keeps its value.
            (
                format!("[frames]\nbatch = 0\nbtach = 8\n{port}{upstream}"),
                ["line 2: `frames.batch` is 0;", "line 3, column 1: unknown key `btach`"],
            ),
            // Tables are told with the lines on which they are written.
            (
                format!("{port}[[upstraem]]\naddress = \"192.0.2.1:0\"\n"),
                ["line 5, column 3: unknown key `upstraem`", "line 6: `upstream[0].address` is"],
            ),
            (
                format!("{port}[[upstraem]]\naddress = 7\n"),
                [
                    "line 5, column 3: unknown key `upstraem`",
                    "line 6, column 11: `upstraem[0].address`",
                ],
            ),
        ] {
            let mistakes = Config::from_toml(&text).unwrap_err().to_string();
            let lines: Vec<&str> = mistakes.lines().collect();
            assert_eq!((lines.len(), lines[0]), (3, "2 mistakes:"), "{mistakes}");
            for (line, start) in lines[1..].iter().zip(told) {
                assert!(line.starts_with(start), "{start:?} in {mistakes}");
            }
        }
    }

    #[test]
    fn d24_a_value_under_a_wrong_name_is_told_once() {
        let rest = "[[port]]\nname = \"a\"\ndevice = \"replay\"\naddresses = [\"192.0.2.2\"]\n\
            [[upstream]]\naddress = \"192.0.2.1:53\"\n";
        for value in ["0", "\"x\"", "[1]", "{ a = 1 }"] {
            let told =
                Config::from_toml(&format!("[frames]\nbtach = {value}\n{rest}")).unwrap_err();
            let told = told.to_string();
            assert!(told.starts_with("line 2, column 1: unknown key `btach`"), "{told}");
        }
    }

    #[test]
    fn d06_what_follows_from_a_mistake_is_none() {
        for (text, first) in [
            (
                "[[upstream]]\naddress = 7\ngroup = \"x\"\n",
                "line 2, column 11: `upstream[0].address`",
            ),
            (
                "[[upstraem]]\naddress = \"192.0.2.1:53\"\n",
                "line 1, column 3: unknown key `upstraem`",
            ),
            (
                "[upstream]\naddress = \"192.0.2.1:53\"\n",
                "line 1, column 1: `upstream`: there can be several",
            ),
        ] {
            let port = "[[port]]\nname = \"a\"\ndevice = \"replay\"\naddresses = [\"192.0.2.2\"]\n";
            let told = Config::from_toml(&format!("{text}{port}")).unwrap_err().to_string();
            assert!(told.starts_with(first) && told.lines().count() == 1, "{told}");
        }
    }

    #[test]
    fn d06_mistakes_without_end_are_told_up_to_a_bound() {
        let text = "[[local]]\nnmae = 1\n".repeat(100);
        let told = Config::from_toml(&text).unwrap_err().to_string();
        assert_eq!(told.lines().count(), 1 + MAX_MISTAKES, "{told}");
    }
}
