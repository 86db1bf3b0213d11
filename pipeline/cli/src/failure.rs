//! The errors of a command, and the exit codes of the process.

use std::io::{self, Write};
use std::path::PathBuf;

use pmdns_config::ConfigError;
use pmdns_control::client::ClientError;
use pmdns_import::ImportError;

use crate::capture::CaptureError;
use crate::output::errors;
use crate::profile::ProfileError;
use crate::program::ProgramError;
use crate::top::TopError;

/// An error of a command, which decides the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something that the program does itself.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration of another server.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Settings of another server were left out.
    #[error("the configuration that was made is not all of it: see the lines above, and its end")]
    Incomplete,
    /// Settings of another server that decide have no counterpart.
    #[error(
        "nothing was written: the settings above decide who may ask, what they are told, or whom we ask, and have no \
         counterpart; --partial writes the rest"
    )]
    Decisive,
    /// A configuration or a capture cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to write.
    #[error("no crash has left packets, so nothing was written; only a keeper has them kept")]
    NoCrash,
    /// The instance does not do it.
    #[error(transparent)]
    Ask(#[from] ClientError),
    /// What the instance answers cannot be read.
    #[error("the instance sent no answer that this pmdns can read: {0}; is it the same version?")]
    Answer(#[from] serde_json::Error),
    /// `top`.
    #[error(transparent)]
    Top(#[from] TopError),
    /// `profile`.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The new configuration is refused.
    #[error("not reloaded, the rules in use stay: {0}")]
    Reload(String),
    /// No other process takes over.
    #[error("the running process serves on, as the next one has not taken over: {0}")]
    Upgrade(String),
    /// `capture`.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A dump of the cache cannot be written.
    #[error(
        "cannot write the snapshot {}: {source}; is there room, and may this user write there?", path.display()
    )]
    Dump {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A dump of the cache cannot be read.
    #[error("cannot read the snapshot {}: {source}", path.display())]
    Load {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `doctor` warns.
    #[error("this machine could suit pmdns better: see the lines that begin with `warn`")]
    Unsuited,
    /// `doctor` fails.
    #[error("pmdns does not run well here: see the lines that begin with `fail`")]
    Unfit,
    /// The node has a problem.
    #[error("this node is not fit to serve")]
    Unhealthy,
    /// The node is drained.
    #[error("this node is drained; `pmdns resume` undoes it")]
    Drained,
    /// Clients do not go.
    #[error("queries still come, {0} in the last second; the node stays drained")]
    Traffic(u64),
    /// Signals.
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    /// Standard output.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failure {
    /// Says on standard error why the command failed.
    pub fn report(&self) -> io::Result<()> {
        self.print(&mut errors())
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "pmdns: {self}")
    }

    /// Whether the reader of the output has closed it, as `head` does.
    pub fn is_closed_pipe(&self) -> bool {
        let (Self::Print(error) | Self::Top(TopError::Terminal(error))) = self else {
            return false;
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }

    /// Exit codes are documented in docs/operations.md.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Program(error) => error.exit_code,
            Self::Config(_) | Self::Import(_) | Self::Write { .. } | Self::Reload(_) => 2,
            Self::Upgrade(_) | Self::NoCrash => 1,
            Self::Ask(error)
            | Self::Capture(CaptureError::Ask(error))
            | Self::Top(TopError::Ask(error))
            | Self::Profile(ProfileError::Ask(TopError::Ask(error))) => of_client(error),
            Self::Unhealthy => 8,
            Self::Drained => 9,
            Self::Traffic(_) => 1,
            Self::Unsuited | Self::Incomplete => 6,
            Self::Unfit => 7,
            Self::Decisive => 10,
            Self::Top(TopError::NoTerminal) => 2,
            Self::Top(_) | Self::Profile(_) => 1,
            Self::Answer(_) | Self::Capture(CaptureError::File(_)) => 1,
            Self::Dump { .. } | Self::Load { .. } | Self::Signal(_) | Self::Print(_) => 1,
        }
    }
}

/// Nobody answers, or not to us; or what was asked is not done.
fn of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::Server(_) => 2,
        ClientError::Ask { .. }
        | ClientError::Unreached { .. }
        | ClientError::Denied(_)
        | ClientError::Token { .. } => 5,
        ClientError::Refused(_)
        | ClientError::CutOff { .. }
        | ClientError::Answer { .. }
        | ClientError::File(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_enough_of_a_list_is_no_error() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(Failure::Print(closed()).is_closed_pipe());
        assert!(!Failure::Print(io::ErrorKind::StorageFull.into()).is_closed_pipe());
        assert!(!Failure::Signal(closed()).is_closed_pipe());
    }
}
