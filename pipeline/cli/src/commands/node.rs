//! Commands on a running instance as a whole.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use pmdns_config::Config as LoadedConfig;
use pmdns_control::answers::{HandOverState, InstanceState};
use pmdns_control::client::{ANSWER_PATIENCE, ApiClient, ClientError};
use pmdns_control::health::NodeState;
use pmdns_control::{Call, ask};

use super::instance::{ConfigFile, Instance, Listing, config_file};
use crate::failure::Failure;
use crate::output::output;
use crate::program::Program;
use crate::{drain, print, upgrade};

#[derive(Args)]
pub(super) struct Health {
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Check again and again. While the instance is fit, there is the `anycast.interface`, which routing daemons announce.
    #[arg(long, conflicts_with_all = ["json", "socket", "api"])]
    watch: bool,
    /// The config file, for `--watch`, which finds the instance's socket there.
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Args)]
pub(super) struct Drain {
    /// Wait until no more queries come, at most this many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(drain::SECONDS))]
    wait: Option<u64>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct Reload {
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct Upgrade {
    /// The config file, which is checked first; without it the default one, if there is one. Its instance is asked.
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct StateCommand {
    /// Where it is asked, and how it is printed.
    #[command(flatten)]
    listed: Listing,
}

#[derive(Args)]
pub(super) struct Stats {
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Config {
    /// Print the configuration in use, without secrets.
    #[arg(long, required_unless_present = "diff", conflicts_with = "diff")]
    running: bool,
    /// Print where the file differs from the configuration in use.
    #[arg(long)]
    diff: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

impl Health {
    /// Prints the result of a check. The exit code tells it as well.
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        if self.watch {
            return Ok(program.watch(&LoadedConfig::load(&self.file.config)?)?);
        }
        let client = self.instance.client()?;
        let health = client.get_within(ask::Health, ANSWER_PATIENCE)?;
        let mut out = output();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&health)?)?;
        } else {
            write!(out, "{health}")?;
        }
        match health.state {
            NodeState::Drained => Err(Failure::Drained),
            NodeState::Serving if health.healthy => Ok(()),
            NodeState::Serving => Err(Failure::Unhealthy),
        }
    }
}

impl Drain {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        writeln!(output(), "{}", client.done(ask::Drain)?)?;
        match self.wait.map(|seconds| drain::wait(&client, seconds)).transpose()? {
            Some(Err(queries)) => Err(Failure::Traffic(queries)),
            _ => Ok(()),
        }
    }
}

impl Reload {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        let before = client.get(ask::State)?;
        match client.done(ask::Reload) {
            Ok(done) => writeln!(output(), "reloaded: {done}")?,
            Err(ClientError::Refused(why)) => return Err(Failure::Reload(why)),
            Err(error) => return Err(error.into()),
        }
        match client.get(ask::State) {
            Ok(after) if is_unmoved(&before, &after) => Ok(()),
            _ => wait_for_next(&client, &before),
        }
    }
}

impl Upgrade {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        // This is the program that takes over, if it is on the same machine.
        let here = self.instance.api.is_none();
        let config = config_file(self.config).filter(|_| here);
        if let Some(config) = &config {
            program.check(config, false).error.map_or(Ok(()), Err)?;
        }
        let client = self.instance.client_of(config.as_deref())?;
        let before = client.get(ask::State)?;
        client.done(ask::Upgrade)?;
        wait_for_next(&client, &before)
    }
}

/// Whether no other process takes over. The last one that did not may be long ago.
fn is_unmoved(before: &InstanceState, after: &InstanceState) -> bool {
    let waits =
        matches!(after.hand_over, Some(HandOverState::Starting | HandOverState::UnderWay(_)));
    !waits && (before.process, &before.hand_over) == (after.process, &after.hand_over)
}

/// Waits until another process than that of `before` serves, and says which one.
fn wait_for_next(client: &ApiClient, before: &InstanceState) -> Result<(), Failure> {
    match upgrade::wait(client, before.process) {
        Ok(InstanceState { version, process, .. }) => {
            Ok(writeln!(output(), "pmdns {version} has taken over as process {process}")?)
        }
        Err(why) => Err(Failure::Upgrade(why)),
    }
}

impl StateCommand {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.listed.show(ask::State)
    }
}

impl Stats {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        // As it came: an instance of another version may count what a report does not have.
        let report = client.ask_within(&Call::Stats, ANSWER_PATIENCE)?;
        print::print_report(&serde_json::from_str(&report)?, self.json)
    }
}

impl Config {
    /// Prints the configuration in use, or where the file differs from it.
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { diff, json, instance, .. } = self;
        if !diff {
            return instance.show(ask::Config, json);
        }
        let shown = instance.client()?.get(ask::ConfigDiff)?;
        match json {
            true => writeln!(output(), "{}", serde_json::to_string(&shown)?)?,
            false => write!(output(), "{shown}")?,
        }
        shown.error.map_or(Ok(()), |error| Err(ClientError::Refused(error).into()))
    }
}
