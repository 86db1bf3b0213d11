//! What the program does itself: the parts of commands that need the engine, which this crate does not know.

use std::fs::File;
use std::path::{Path, PathBuf};

use pmdns_config::Config;
use pmdns_control::report::Report;
use pmdns_nics::machine::{Machine, UnmetCondition};

/// The parts of commands that the program hands in.
pub trait Program {
    /// Serves until the process is told to stop, and returns the last counters.
    ///
    /// # Errors
    ///
    /// Something is missing or wrong, or it cannot serve any more.
    fn run(&self, config: &Path) -> Result<Report, ProgramError>;

    /// Keeps a process that serves running, with these arguments beside, until this one is told to stop.
    ///
    /// # Errors
    ///
    /// The first process could not start, or the last one could not serve any more.
    fn keep(&self, config: &Path, arguments: Vec<&'static str>) -> Result<(), ProgramError>;

    /// Checks a configuration, and whether this machine has what it asks for, unless it is for one that is `elsewhere`.
    fn check(&self, config: &Path, elsewhere: bool) -> CheckReport;

    /// Runs a capture through the line, writes the answers to `output`, and returns the counters.
    ///
    /// # Errors
    ///
    /// One of the files cannot be used, or there is no line of this configuration.
    fn replay(
        &self,
        config: &Config,
        input: &Path,
        output: Option<&Path>,
    ) -> Result<Report, ProgramError>;

    /// Checks the health of the instance of `config` again and again, and has its addresses announced while it is fit.
    ///
    /// # Errors
    ///
    /// There is no interface for it, or signals cannot be caught.
    fn watch(&self, config: &Config) -> Result<(), ProgramError>;

    /// Checks a dump of the cache from beginning to end.
    ///
    /// # Errors
    ///
    /// It is none, or not whole.
    fn check_dump(&self, dump: &File, path: &Path) -> Result<(), ProgramError>;

    /// Makes the rules of an imported configuration. Returned is what is wrong with the files that it names, which may be on
    /// another machine.
    ///
    /// # Errors
    ///
    /// It does not load without these files either.
    fn trouble_of(&self, toml: &str) -> Result<Option<String>, ProgramError>;

    /// The conditions of `config` that a machine does not meet.
    fn unmet(&self, machine: &Machine, config: &Config) -> Vec<UnmetCondition>;

    /// The DPDK that the program uses; `None`: it was built without.
    fn dpdk(&self) -> Option<Dpdk>;
}

/// The DPDK that the program uses.
#[derive(Clone, Debug)]
pub struct Dpdk {
    /// Its version, as it tells.
    pub version: String,
    /// The folder with its drivers.
    pub drivers: PathBuf,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// What is printed: warnings, and of a good configuration what it has.
    pub lines: Vec<String>,
    /// All that is wrong.
    pub error: Option<ProgramError>,
}

/// An error of what the program does itself.
#[derive(Debug, thiserror::Error)]
#[error("{told}")]
pub struct ProgramError {
    /// What is wrong, and what to do.
    pub told: String,
    /// The exit code of the process (docs/operations.md).
    pub exit_code: u8,
}
