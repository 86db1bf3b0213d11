//! The errors of a command, and the exit codes of the process.

use std::io;
use std::path::PathBuf;

use pmdns::capture::client::CaptureError;
#[cfg(feature = "dpdk")]
use pmdns::clients::ClientsError;
#[cfg(feature = "dpdk")]
use pmdns::control::api::ApiError;
#[cfg(feature = "dpdk")]
use pmdns::control::metrics::server::MetricsError;
use pmdns::control::profile::ProfileError;
use pmdns::control::top::TopError;
use pmdns::health::watch::WatchError;
use pmdns::log::LogError;
#[cfg(feature = "dpdk")]
use pmdns::query_log::QueryLogError;
use pmdns::query_log::find::FindError;
use pmdns::replay::ReplayError;
#[cfg(feature = "dpdk")]
use pmdns::run::RunError;
#[cfg(feature = "dpdk")]
use pmdns::streams::StreamsError;
#[cfg(feature = "dpdk")]
use pmdns::transfer::TransferError;
use pmdns_config::{ConfigError, told};
use pmdns_control::client::ClientError;
use pmdns_engine::engine::EngineError;
use pmdns_engine::snapshot::SnapshotError;
use pmdns_import::ImportError;
use pmdns_stages::policy::RulesetError;

/// An error of a command, which decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}", told(.0))]
    Wrong(Vec<String>),
    #[error("{}", told(.0))]
    Unmet(Vec<String>, u8),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error("the configuration that was made is not all of it: see the lines above, and its end")]
    Incomplete,
    #[error(
        "nothing was written: the settings above decide who may ask, what they are told, or whom we ask, and have no \
         counterpart; --partial writes the rest"
    )]
    Decisive,
    #[error("what the import made does not load; please report this: {0}")]
    Unloadable(#[source] RulesetError),
    #[error("{}: cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] LogError),
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Run(#[from] RunError),
    #[cfg(not(feature = "dpdk"))]
    #[error("this pmdns was built without DPDK: `replay` and `check` work, `run` does not")]
    NoDpdk,
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Ask(#[from] ClientError),
    #[error("the instance sent no answer that this pmdns can read: {0}; is it the same version?")]
    Answer(#[from] serde_json::Error),
    #[error(transparent)]
    Top(#[from] TopError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("not reloaded, the rules in use stay: {0}")]
    Reload(String),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error("this machine could suit pmdns better: see the lines that begin with `warn`")]
    Unsuited,
    #[error("pmdns does not run well here: see the lines that begin with `fail`")]
    Unfit,
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("this node is not fit to serve")]
    Unhealthy,
    #[error("this node is drained; `pmdns resume` undoes it")]
    Drained,
    #[error("queries still come, {0} in the last second; the node stays drained")]
    Traffic(u64),
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failure {
    /// Whether the reader of the output has closed it, as `head` does.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let (Self::Print(error)
        | Self::Top(TopError::Terminal(error))
        | Self::Find(FindError::Print(error))) = self
        else {
            return false;
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }

    /// Exit codes are documented in docs/operations.md.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Wrong(_) | Self::Log(_) => 2,
            Self::Unmet(_, code) => *code,
            Self::Import(_) | Self::Unloadable(_) | Self::Write { .. } => 2,
            Self::Find(FindError::Config(_) | FindError::NoDatabase(_) | FindError::Wrong(_)) => 2,
            Self::Find(FindError::Search(_) | FindError::Print(_)) => 1,
            #[cfg(feature = "dpdk")]
            Self::Run(error) => match error {
                RunError::Engine(error) => of_engine(error),
                RunError::Topology(_)
                | RunError::Journal(_)
                | RunError::Clients(ClientsError::File(_) | ClientsError::Journal(_))
                | RunError::Api(
                    ApiError::Tokens(_) | ApiError::Certificate(_) | ApiError::ClientCa { .. },
                )
                | RunError::QueryLog(QueryLogError::Secret(_) | QueryLogError::File { .. })
                | RunError::Streams(StreamsError::Certificate(_))
                | RunError::Transfer(TransferError::Key(_) | TransferError::Name(_)) => 2,
                RunError::Eal(_) | RunError::Pool(_) => 3,
                RunError::Port(_) | RunError::Tap(_) | RunError::NoPortLeft => 4,
                RunError::Api(ApiError::Listen { .. } | ApiError::Socket(_))
                | RunError::Socket(_)
                | RunError::Metrics(MetricsError::Listen { .. })
                | RunError::Streams(StreamsError::Listen(_))
                | RunError::Transfer(TransferError::Listen { .. }) => 5,
                RunError::Metrics(MetricsError::Thread(_))
                | RunError::Clients(ClientsError::Thread(_))
                | RunError::Api(ApiError::Thread(_))
                | RunError::QueryLog(QueryLogError::Observers(_) | QueryLogError::Thread(_))
                | RunError::Transfer(TransferError::Thread(_))
                | RunError::Streams(StreamsError::System(_))
                | RunError::Hitters(_)
                | RunError::Signal(_)
                | RunError::ThreadEnded => 1,
            },
            #[cfg(not(feature = "dpdk"))]
            Self::NoDpdk => 3,
            Self::Replay(error) => match error {
                ReplayError::Engine(error) => of_engine(error),
                ReplayError::Write(_) | ReplayError::Stuck => 1,
                _ => 2,
            },
            Self::Reload(_) => 2,
            Self::Ask(error)
            | Self::Capture(CaptureError::Ask(error))
            | Self::Top(TopError::Ask(error))
            | Self::Profile(ProfileError::Ask(TopError::Ask(error))) => of_client(error),
            Self::Watch(WatchError::Interface(_)) => 4,
            Self::Unhealthy => 8,
            Self::Drained => 9,
            Self::Watch(_) | Self::Traffic(_) => 1,
            Self::Unsuited | Self::Incomplete => 6,
            Self::Unfit => 7,
            Self::Decisive => 10,
            Self::Top(TopError::NoTerminal) => 2,
            Self::Top(_) | Self::Profile(_) => 1,
            Self::Answer(_) | Self::Capture(CaptureError::File(_)) | Self::File(_) => 1,
            Self::Signal(_) | Self::Print(_) => 1,
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

/// Errors in files named by the config, and missing parts of the machine, are for the operator to change.
fn of_engine(error: &EngineError) -> u8 {
    match error {
        EngineError::Arena(_)
        | EngineError::Clients(_)
        | EngineError::Cache(_)
        | EngineError::Rules(_)
        | EngineError::Cookies(_)
        | EngineError::Encrypted(_)
        | EngineError::Anchors(_) => 2,
        EngineError::Random(_) | EngineError::Thread(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmdns_nics::hugepage::ArenaError;

    #[test]
    fn a_reader_that_has_enough_of_a_list_is_no_error() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(Failure::Print(closed()).is_closed_pipe());
        assert!(Failure::Find(FindError::Print(closed())).is_closed_pipe());
        assert!(!Failure::Print(io::ErrorKind::StorageFull.into()).is_closed_pipe());
    }

    #[test]
    fn d11_a_cache_that_does_not_fit_exits_with_2() {
        assert_eq!(of_engine(&EngineError::Arena(ArenaError::Empty)), 2);
        let failure = Failure::Replay(ReplayError::Engine(ArenaError::Empty.into()));
        assert_eq!(failure.exit_code(), 2);
        assert_eq!(Failure::Replay(ReplayError::Stuck).exit_code(), 1);
    }
}
