//! Commands that show the figures of a running instance.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::instance::Instance;
use crate::failure::Failure;
use crate::output::output;
use crate::{profile, top};

#[derive(Args)]
pub(super) struct Top {
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Seconds between two updates, 0.1 to 3600.
    #[arg(long, default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one frame as text, for files and pipes.
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
pub(super) struct Profile {
    /// How many seconds to watch, 1 to 3600.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(profile::SECONDS))]
    seconds: u64,
    /// The page to write: one HTML file that needs no other files.
    #[arg(short, long)]
    output: PathBuf,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

impl Top {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        match self.once {
            true => Ok(top::print_once(&client, self.interval, &mut output())?),
            false => Ok(top::run(&client, self.interval)?),
        }
    }
}

/// Seconds between two updates.
fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = top::INTERVALS;
    let seconds =
        text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| (least..=most).contains(seconds))
        .ok_or_else(|| format!("write seconds, {} to {}", least.as_secs_f64(), most.as_secs()))
}

impl Profile {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        Ok(profile::run(&client, Duration::from_secs(self.seconds), &self.output)?)
    }
}
