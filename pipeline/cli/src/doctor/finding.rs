//! Findings: the results of checks.

use serde::Serialize;

/// How good a finding is, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Nothing has to be changed.
    Ok,
    /// pmdns runs, but slower or less safely than it could.
    Warn,
    /// pmdns does not run, or does not answer.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The check, in a word.
    pub(crate) check: &'static str,
    /// How good it is.
    pub(crate) level: Level,
    /// The finding.
    pub(crate) found: String,
    /// The remedy, mostly a command. `None` if nothing has to be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), fix: None }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { check, level: Level::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Fail, ..Self::warn(check, found, fix) }
    }

    /// A failure if this configuration cannot do without, a warning if no configuration tells.
    pub(super) fn lacks(
        is_needed: Option<bool>,
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        match is_needed {
            Some(true) => Self::fail(check, found, fix),
            Some(false) => Self::ok(check, format!("{}; not needed here", found.into())),
            None => Self::warn(check, found, fix),
        }
    }
}
