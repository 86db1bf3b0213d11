//! Commands on files of configuration and on captures, which need no running instance.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pmdns_config::files::create_new;
use pmdns_config::{Config, ConfigText};
use pmdns_import::{Disk, Import as Imported, ServerKind};

use super::instance::{ConfigFile, config_file};
use crate::failure::Failure;
use crate::output::{errors, output};
use crate::program::{CheckReport, Program};
use crate::{doctor, print};

/// A configuration may have secrets.
const MODE: u32 = 0o640;

#[derive(Args)]
pub(super) struct Run {
    /// Its configuration.
    #[command(flatten)]
    file: ConfigFile,
    /// Keep a process running that serves: start the next one if it crashes, and one that takes over for `pmdns upgrade`.
    #[arg(long)]
    keeper: bool,
    /// Print all counters at the end, not a summary.
    #[arg(long)]
    counters: bool,
    /// Print the counters as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Check {
    /// Its configuration.
    #[command(flatten)]
    file: ConfigFile,
    /// Do not check this machine: the config is for another one.
    #[arg(long)]
    elsewhere: bool,
}

#[derive(Args)]
pub(super) struct Doctor {
    /// The config file; without it the default one, if there is one.
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Import {
    /// The other server's configuration; files that it includes are read too.
    file: PathBuf,
    /// The kind of the other server.
    #[arg(long, value_enum, default_value_t)]
    format: ImportFormat,
    /// The file to write; without it the configuration is printed.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Write the configuration even if it loses settings that decide which clients may ask, or which upstreams are asked.
    #[arg(long)]
    partial: bool,
}

#[derive(Args)]
pub(super) struct Replay {
    /// The capture: pcap or pcapng, Ethernet.
    input: PathBuf,
    /// The capture to write, with the answers.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Its configuration.
    #[command(flatten)]
    file: ConfigFile,
    /// Print the counters as JSON.
    #[arg(long)]
    json: bool,
}

/// The server whose configuration is imported.
#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum ImportFormat {
    /// What the file's text says.
    #[default]
    Auto,
    /// unbound.conf.
    Unbound,
    /// dnsdist.conf, in Lua.
    Dnsdist,
    /// named.conf of BIND.
    Named,
}

impl Run {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        if self.keeper {
            let chosen = [("--counters", self.counters), ("--json", self.json)];
            let arguments = chosen.into_iter().filter(|(_, is_chosen)| *is_chosen);
            let arguments = arguments.map(|(argument, _)| argument).collect();
            return Ok(program.keep(&self.file.config, arguments)?);
        }
        let report = program.run(&self.file.config)?;
        if self.counters || self.json {
            return print::print_report(&serde_json::to_value(report)?, self.json);
        }
        Ok(print::summary(&report, &mut output())?)
    }
}

impl Check {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let CheckReport { lines, error } = program.check(&self.file.config, self.elsewhere);
        let mut out = output();
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Replay {
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let config = Config::load(&self.file.config)?;
        let report = program.replay(&config, &self.input, self.output.as_deref())?;
        print::print_report(&serde_json::to_value(report)?, self.json)
    }
}

impl Doctor {
    /// Prints what suits pmdns here and what does not. The exit code tells the worst.
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let file = config_file(self.config);
        let read = file.as_deref().map(ConfigText::read).transpose()?;
        let findings = doctor::examine(read.as_ref(), program);
        let mut out = output();
        if self.json {
            writeln!(out, "{}", doctor::json(&findings))?;
        } else {
            doctor::print(&findings, &mut out)?;
        }
        match doctor::worst(&findings) {
            doctor::Level::Ok => Ok(()),
            doctor::Level::Warn => Err(Failure::Unsuited),
            doctor::Level::Fail => Err(Failure::Unfit),
        }
    }
}

impl Import {
    /// Writes what another server's configuration becomes, and lists the settings that are lost.
    pub(super) fn run(self, program: &impl Program) -> Result<(), Failure> {
        let Self { file, format, output: written, partial: is_partial } = self;
        let format = match format {
            ImportFormat::Auto => None,
            ImportFormat::Unbound => Some(ServerKind::Unbound),
            ImportFormat::Dnsdist => Some(ServerKind::Dnsdist),
            ImportFormat::Named => Some(ServerKind::Named),
        };
        let Imported { toml, unmapped, decisive, unneeded } =
            pmdns_import::import(&file, format, &Disk)?;
        let trouble = program.trouble_of(&toml)?;
        let mut told = errors();
        if !decisive.is_empty() && !is_partial {
            for one in &decisive {
                writeln!(told, "{one}")?;
            }
            return Err(Failure::Decisive);
        }
        match written {
            Some(path) => {
                let failed = |source| Failure::Write { path: path.clone(), source };
                // An existing file may be in use, and be changed by hand.
                let mut created = create_new(&path, MODE).map_err(failed)?;
                created.write_all(toml.as_bytes()).map_err(failed)?;
            }
            None => output().write_all(toml.as_bytes())?,
        }
        for one in &unmapped {
            writeln!(told, "{one}")?;
        }
        if let Some(trouble) = trouble {
            writeln!(told, "on this machine it does not load yet: {trouble}")?;
        }
        writeln!(
            told,
            "{} settings were not taken over or differ; {unneeded} need nothing",
            unmapped.len()
        )?;
        if unmapped.is_empty() { Ok(()) } else { Err(Failure::Incomplete) }
    }
}
