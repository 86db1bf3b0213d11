//! The log on standard error: which lines, set by `PMDNS_LOG`, and in which form, set by `PMDNS_LOG_FORMAT`.

mod output;

use std::fmt::{self, Display};
use std::str::FromStr;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::sinks::SinkCounters;
use output::{OUTPUT, StandardError};

/// The variable that sets the level.
pub const VARIABLE: &str = "PMDNS_LOG";
/// The level without it.
const DEFAULT: &str = "info";

/// The variable that sets the form.
pub const FORMAT_VARIABLE: &str = "PMDNS_LOG_FORMAT";
/// systemd sets it where standard error goes to its journal (systemd.exec(5)).
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, text.
    Text,
    /// For the journal: a priority, text.
    Journal,
    /// One JSON object each.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text.trim() {
            "text" => Ok(Self::Text),
            "journal" => Ok(Self::Journal),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format(text.to_owned())),
        }
    }
}

/// A variable has a value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The level.
    #[error(
        "{VARIABLE} is `{0}`; allowed: off, error, warn, info, debug, trace, and levels of a part, as in \
         `info,pmdns::transfer=debug`"
    )]
    Level(String),
    /// The form.
    #[error("{FORMAT_VARIABLE} is `{0}`; allowed: text, journal, json")]
    Format(String),
}

/// Sets the log up by the values of its variables.
pub fn set_up(variable: impl Fn(&str) -> Option<String>) -> Result<(), LogError> {
    let filter = filter(variable(VARIABLE).as_deref())?;
    let format = match variable(FORMAT_VARIABLE).filter(|text| !text.trim().is_empty()) {
        Some(text) => text.parse()?,
        None if variable(JOURNAL_VARIABLE).is_some() => LogFormat::Journal,
        None => LogFormat::Text,
    };
    // Its own report of an error would go to standard error by `eprintln!`, which panics when that cannot be written.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| StandardError)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.with_target(false).init(),
        LogFormat::Journal => log.event_format(JournalLine).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// The counters of the log.
pub fn counters() -> &'static SinkCounters {
    &OUTPUT.counters
}

/// Says how many lines were lost, once lines can be written again.
pub fn report_losses() {
    if let Some(lost) = OUTPUT.take_lost() {
        tracing::warn!("{lost} lines of the log are lost: standard error could not be written");
    }
}

/// A line for the journal, which has the time itself.
struct JournalLine;

impl<S, N> FormatEvent<S, N> for JournalLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The priority of a level, as in sd-daemon(3).
fn priority(level: Level) -> impl Display {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// The filter for the text of [`VARIABLE`]. An unknown word is an error: it would silence everything, even errors.
pub fn filter(text: Option<&str>) -> Result<EnvFilter, LogError> {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or(DEFAULT);
    let wrong = || LogError::Level(text.to_owned());
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

    #[test]
    fn a_wrong_form_is_refused_with_those_there_are() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        let told = "xml".parse::<LogFormat>().unwrap_err().to_string();
        assert!(told.contains("`xml`; allowed: text, journal, json"), "{told}");
    }
}
