//! The program: it joins the [command line](pmdns_cli) and the [instance](pmdns).

#![deny(clippy::print_stderr, clippy::print_stdout)] // They panic when nobody reads.

mod check;
mod failure;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[cfg(feature = "dpdk")]
use pmdns::control::reload::Written;
#[cfg(feature = "dpdk")]
use pmdns::handover::{LeftByCrash, TakeOver};
use pmdns::health::watch;
#[cfg(feature = "dpdk")]
use pmdns::keeper;
#[cfg(feature = "dpdk")]
use pmdns::run::{self, Before, RunError};
use pmdns::{log, machine, replay, supervisor};
use pmdns_cli::{Arguments, CheckReport, Dpdk, Program, ProgramError};
use pmdns_config::{Config, ConfigText};
use pmdns_control::report::Report;
use pmdns_engine::snapshot;
#[cfg(feature = "dpdk")]
use pmdns_nics::dpdk;
use pmdns_nics::machine::{Machine, UnmetCondition};

use failure::Failure;

fn main() -> ExitCode {
    let ready = outlive_limits().and_then(|()| set_up_log()).map_err(ProgramError::from);
    let done = ready.map_err(pmdns_cli::Failure::from);
    match done.and_then(|()| Arguments::of_process().execute(&Pmdns)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = failure.report();
            ExitCode::from(failure.exit_code())
        }
    }
}

/// A file that may grow no longer (SIGXFSZ) is refused like one on a full disk. It ends nothing, nor does a log in such a file.
fn outlive_limits() -> Result<(), Failure> {
    let noticed = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGXFSZ, noticed).map(|_| ()).map_err(Failure::Signal)
}

fn set_up_log() -> Result<(), Failure> {
    Ok(log::set_up(|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))?)
}

#[cfg(feature = "dpdk")]
fn keep(config: &Path, arguments: Vec<&'static str>) -> Result<(), Failure> {
    match keeper::run(config, arguments)? {
        0 => Ok(()),
        code => Err(Failure::Child(code)),
    }
}

#[cfg(not(feature = "dpdk"))]
fn keep(_: &Path, _: Vec<&'static str>) -> Result<(), Failure> {
    Err(Failure::NoDpdk)
}

/// The parts of commands that need the engine.
struct Pmdns;

impl Program for Pmdns {
    fn run(&self, config: &Path) -> Result<Report, ProgramError> {
        Ok(run(config).inspect_err(|why| supervisor::report_failure(why))?)
    }

    fn keep(&self, config: &Path, arguments: Vec<&'static str>) -> Result<(), ProgramError> {
        Ok(keep(config, arguments)?)
    }

    fn check(&self, config: &Path, elsewhere: bool) -> CheckReport {
        check::check(config, elsewhere)
    }

    fn replay(
        &self,
        config: &Config,
        input: &Path,
        output: Option<&Path>,
    ) -> Result<Report, ProgramError> {
        Ok(replay::replay(config, input, output).map_err(Failure::from)?)
    }

    fn watch(&self, config: &Config) -> Result<(), ProgramError> {
        Ok(watch::run(config).map_err(Failure::from)?)
    }

    fn check_dump(&self, dump: &File, path: &Path) -> Result<(), ProgramError> {
        Ok(snapshot::check(dump, path).map_err(Failure::from)?)
    }

    fn trouble_of(&self, toml: &str) -> Result<Option<String>, ProgramError> {
        Ok(check::trouble_of(toml)?)
    }

    fn unmet(&self, machine: &Machine, config: &Config) -> Vec<UnmetCondition> {
        machine::unmet(machine, config)
    }

    #[cfg(feature = "dpdk")]
    fn dpdk(&self) -> Option<Dpdk> {
        Some(Dpdk { version: dpdk::version(), drivers: dpdk::driver_folder() })
    }

    #[cfg(not(feature = "dpdk"))]
    fn dpdk(&self) -> Option<Dpdk> {
        None
    }
}

#[cfg(feature = "dpdk")]
fn run(config: &Path) -> Result<Report, Failure> {
    // Before anything is opened.
    let left = LeftByCrash::of_environment().map_err(Failure::Left)?;
    let text = ConfigText::read(config)?;
    let written = Written::of(&text);
    // Of a crash it was checked, and what that has left is not free. What a process has that runs counts as free.
    if left.is_none() && text.error.is_none() {
        TakeOver::check(&text.config).map_err(RunError::from)?;
        check::require(&text)?;
    }
    let before = match (left, &text.error) {
        (Some(left), _) => Before::Crash(left),
        (None, Some(_)) => Before::Nothing,
        (None, None) => TakeOver::begin(&text.config)
            .map_err(RunError::from)?
            .map_or(Before::Nothing, Before::Process),
    };
    Ok(run::run(&text.into_config()?, written, config, before)?)
}

#[cfg(not(feature = "dpdk"))]
fn run(config: &Path) -> Result<Report, Failure> {
    let text = ConfigText::read(config)?;
    check::require(&text)?;
    text.into_config()?;
    Err(Failure::NoDpdk)
}
