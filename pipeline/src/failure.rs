//! The errors of what the program does itself, and their exit codes.

use std::io;

#[cfg(feature = "dpdk")]
use pmdns::clients::ClientsError;
#[cfg(feature = "dpdk")]
use pmdns::control::api::ApiError;
#[cfg(feature = "dpdk")]
use pmdns::control::metrics::server::MetricsError;
use pmdns::health::watch::WatchError;
#[cfg(feature = "dpdk")]
use pmdns::keeper::KeeperError;
use pmdns::log::LogError;
use pmdns::replay::ReplayError;
#[cfg(feature = "dpdk")]
use pmdns::run::RunError;
#[cfg(feature = "dpdk")]
use pmdns::streams::StreamsError;
#[cfg(feature = "dpdk")]
use pmdns::transfer::TransferError;
use pmdns_cli::ProgramError;
use pmdns_config::{ConfigError, list_mistakes};
use pmdns_engine::engine::EngineError;
use pmdns_engine::snapshot::SnapshotError;
#[cfg(feature = "dpdk")]
use pmdns_insight::query_log::QueryLogError;
use pmdns_stages::policy::RulesetError;

/// An error of what the program does itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}", list_mistakes(.0))]
    Wrong(Vec<String>),
    #[error("{}", list_mistakes(.0))]
    Unmet(Vec<String>, u8),
    #[error("what the import made does not load; please report this: {0}")]
    Unloadable(#[source] RulesetError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Run(#[from] RunError),
    #[cfg(feature = "dpdk")]
    #[error("cannot use what a process before has left: {0}; stop its keeper, then start it again")]
    Left(String),
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[cfg(feature = "dpdk")]
    #[error("the process that serves has ended with exit code {0}; the lines above say why")]
    Child(u8),
    #[cfg(not(feature = "dpdk"))]
    #[error("this pmdns was built without DPDK: `replay` and `check` work, `run` does not")]
    NoDpdk,
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("cannot catch signals: {0}")]
    Signal(io::Error),
}

impl Failure {
    /// Exit codes are documented in docs/operations.md.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Wrong(_) | Self::Log(_) => 2,
            Self::Unmet(_, code) => *code,
            Self::Unloadable(_) => 2,
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
                | RunError::Handover(_)
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
                | RunError::Copy(_)
                | RunError::ThreadEnded => 1,
            },
            #[cfg(feature = "dpdk")]
            Self::Child(code) => *code,
            #[cfg(feature = "dpdk")]
            Self::Left(_) | Self::Keeper(_) => 1,
            #[cfg(not(feature = "dpdk"))]
            Self::NoDpdk => 3,
            Self::Replay(error) => match error {
                ReplayError::Engine(error) => of_engine(error),
                ReplayError::Write(_) | ReplayError::Stuck => 1,
                _ => 2,
            },
            Self::Watch(WatchError::Interface(_)) => 4,
            Self::Watch(_) | Self::File(_) | Self::Signal(_) => 1,
        }
    }
}

impl From<Failure> for ProgramError {
    fn from(failure: Failure) -> Self {
        Self { told: failure.to_string(), exit_code: failure.exit_code() }
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
        EngineError::Random(_)
        | EngineError::Lock(_)
        | EngineError::Locked
        | EngineError::Thread(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmdns_nics::hugepage::ArenaError;

    #[test]
    fn d11_a_cache_that_does_not_fit_exits_with_2() {
        assert_eq!(of_engine(&EngineError::Arena(ArenaError::Empty)), 2);
        let failure = Failure::Replay(ReplayError::Engine(ArenaError::Empty.into()));
        assert_eq!(failure.exit_code(), 2);
        assert_eq!(Failure::Replay(ReplayError::Stuck).exit_code(), 1);
    }
}
