//! What a command asks of an instance, and what it prints of the answer.

use std::fmt::Display;

use clap::Args;
use pmdns_control::Call;
use serde::de::DeserializeOwned;

use super::instance::Instance;

/// A listing: which instance is asked, and how it is printed.
#[derive(Args)]
pub struct Listing {
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Instance,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// An instance that is changed, and for how long.
#[derive(Args)]
pub struct Changing {
    /// The instance that is asked.
    #[command(flatten)]
    pub instance: Instance,
    /// End the change with the process; without it the change is kept over a restart.
    #[arg(long)]
    pub until_restart: bool,
}

/// The text for people of an answer in JSON.
type Show = fn(&str) -> serde_json::Result<String>;

/// A call of a command.
pub struct AskedFor {
    /// The call.
    pub call: Call,
    /// The instance that it goes to.
    pub instance: Instance,
    /// Whether the change ends with the process.
    pub until_restart: bool,
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
    /// What does something.
    pub fn done(call: Call, instance: Instance) -> Self {
        Self { call, instance, until_restart: false, printed: Printed::Done }
    }

    /// A change of run time.
    pub fn change(call: Call, Changing { instance, until_restart }: Changing) -> Self {
        Self { until_restart, ..Self::done(call, instance) }
    }

    /// A listing, whose answer is of the type `R`.
    pub fn list<R: DeserializeOwned + Display>(
        call: Call,
        Listing { instance, json }: Listing,
    ) -> Self {
        Self::shown::<R>(call, instance, json)
    }

    /// The same, of an instance.
    pub fn shown<R: DeserializeOwned + Display>(
        call: Call,
        instance: Instance,
        json: bool,
    ) -> Self {
        let show: Show = |json| Ok(serde_json::from_str::<R>(json)?.to_string());
        let printed = if json { Printed::Json } else { Printed::Text(show) };
        Self { call, instance, until_restart: false, printed }
    }
}

/// The first page of a list, after this name or prefix.
pub(super) fn first_page(after: Option<String>) -> pmdns_control::Page {
    pmdns_control::Page { after, limit: pmdns_control::MAX_PAGE }
}
