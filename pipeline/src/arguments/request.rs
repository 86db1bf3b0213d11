//! What a command asks of an instance, and what it prints of the answer.

use std::fmt::Display;

use clap::Args;
use serde::de::DeserializeOwned;

use super::Line;
use super::instance::Instance;

/// A listing: which instance is asked, and how it is printed.
#[derive(Args)]
pub struct Listed {
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Instance,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The text for people of an answer in JSON.
type Show = fn(&str) -> serde_json::Result<String>;

/// A request of a command.
pub struct AskedFor {
    /// The request.
    pub line: Line,
    /// The instance that it goes to.
    pub instance: Instance,
    /// What is printed.
    pub printed: Printed,
}

/// What is printed of an answer.
pub enum Printed {
    /// The sentence that says what was done.
    Done,
    /// The JSON that came.
    Json,
    /// This text of it.
    Text(Show),
}

impl AskedFor {
    /// A change.
    pub fn done(line: Line, instance: Instance) -> Self {
        Self { line, instance, printed: Printed::Done }
    }

    /// A listing.
    pub fn list(line: Line, Listed { instance, json }: Listed, show: Show) -> Self {
        let printed = if json { Printed::Json } else { Printed::Text(show) };
        Self { line, instance, printed }
    }
}

/// The text for people of an answer of this type.
///
/// # Errors
///
/// The JSON is of another type.
pub fn shown<R: DeserializeOwned + Display>(json: &str) -> serde_json::Result<String> {
    Ok(serde_json::from_str::<R>(json)?.to_string())
}
