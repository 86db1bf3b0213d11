//! Commands on the cache.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use pmdns_config::files::{WholeFile, open_regular};
use pmdns_control::cache::{CacheSearch, MAX_SHOWN};
use pmdns_control::client::ClientError;
use pmdns_control::{Call, PurgeOrder, ask};

use super::instance::Instance;
use crate::failure::Failure;
use crate::output::output;
use crate::program::Program;

/// A dump shows what clients have asked for.
const MODE: u32 = 0o600;

#[derive(Args)]
pub(super) struct Purge {
    /// The name whose answers are taken out.
    name: String,
    /// Also take out answers for names below this one.
    #[arg(long)]
    suffix: bool,
    /// Take out only answers of this record type.
    #[arg(long = "type", value_name = "TYPE")]
    record_type: Option<String>,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct Dump {
    /// The file.
    file: PathBuf,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

#[derive(Args)]
pub(super) struct Cache {
    /// Show only answers for this name and names below it.
    name: Option<String>,
    /// Show only answers of this record type.
    #[arg(long = "type", value_name = "TYPE")]
    record_type: Option<String>,
    /// How many answers, 1 to 10000.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SHOWN)))]
    limit: u32,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Load {
    /// The file.
    file: PathBuf,
    /// The instance that is asked.
    #[command(flatten)]
    instance: Instance,
}

impl Purge {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, suffix, record_type: r#type, instance } = self;
        instance.has_done(ask::Purge(PurgeOrder { name, suffix, r#type }))
    }
}

impl Cache {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Self { name, record_type: r#type, limit, instance, json } = self;
        instance.show(ask::Cache(CacheSearch { name, r#type, limit }), json)
    }
}

impl Dump {
    /// Writes the cache of an instance into a file with the user's own rights, which gets its name at the end.
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = self.instance.client()?;
        let failed = |source| Failure::Dump { path: self.file.clone(), source };
        let whole = WholeFile::create(&self.file, MODE).map_err(failed)?;
        let done = client.download(&Call::CacheDump, &mut whole.file(), || false);
        let done = done.map_err(|error| match error {
            ClientError::File(source) => failed(source),
            error => Failure::from(error),
        })?;
        whole.finish().map_err(failed)?;
        Ok(writeln!(output(), "{done}")?)
    }
}

impl Load {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let failed = |source| Failure::Load { path: self.file.clone(), source };
        let mut opened = open_regular(&self.file).map_err(failed)?;
        // Before anything of it is taken in.
        program.check_dump(&opened, &self.file)?;
        let done = self.instance.client()?.upload(ask::CacheLoad, &mut opened)?;
        Ok(writeln!(output(), "{done}")?)
    }
}
