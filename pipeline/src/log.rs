//! The log filter, set by `PMDNS_LOG`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The variable that sets the level.
pub const VARIABLE: &str = "PMDNS_LOG";
/// The level without it.
const DEFAULT: &str = "info";

/// The variable has another value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{VARIABLE} is `{0}`; allowed: off, error, warn, info, debug, trace, and levels of a part, as in \
     `info,pmdns::transfer=debug`"
)]
pub struct LogError(String);

/// The filter for the text of [`VARIABLE`]. An unknown word is an error: it would silence everything, even errors.
pub fn filter(text: Option<&str>) -> Result<EnvFilter, LogError> {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(DEFAULT);
    let wrong = || LogError(text.to_owned());
    if !text.split(',').all(is_directive) {
        return Err(wrong());
    }
    EnvFilter::try_new(text).map_err(|_| wrong())
}

/// A level, or a part with its level.
fn is_directive(text: &str) -> bool {
    let (part, level) = text.rsplit_once('=').unwrap_or(("pmdns", text));
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let is_word = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_alphabetic());
    !part.is_empty() && part.chars().all(is_part) && is_word && level.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d03_a_wrong_level_is_refused_with_those_there_are() {
        for right in ["error", "WARN", "off", "info,pmdns::transfer=debug", "", " debug "] {
            assert!(filter(Some(right)).is_ok(), "{right}");
        }
        assert_eq!(filter(None).unwrap().to_string(), "info");
        for wrong in ["bogus", "info,bogus", "pmdns=loud", "=info", "info=", "debug,", "3"] {
            let told = filter(Some(wrong)).unwrap_err().to_string();
            assert!(
                told.contains(&format!("`{wrong}`")) && told.contains("error, warn, info"),
                "{told}"
            );
        }
    }
}
