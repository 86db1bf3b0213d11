//! What is bound and read before DPDK starts, while the process still has all of its rights.

use pmdns_changes::OperatorChange;
use pmdns_changes::overlay::Overlay;
use pmdns_config::Config;
use pmdns_streams::tls::Certificate;

use super::error::RunError;
use crate::clients::OpenClients;
use crate::control::api::ApiListener;
use crate::control::metrics::server::MetricsListener;
use crate::control::socket::ControlSocket;
use crate::runtime::{OpenChanges, Runtime};
use crate::streams::{self, StreamEntry};

/// The configuration of the file, and the changes that an earlier process has kept.
pub(super) struct KeptOver {
    pub(super) base: Config,
    pub(super) overlay: Overlay,
    pub(super) limits: Vec<OperatorChange>,
}

/// The sockets and files of the configuration.
pub(super) struct Opened {
    pub(super) control: ControlSocket,
    pub(super) metrics: Option<MetricsListener>,
    pub(super) api: Option<ApiListener>,
    pub(super) runtime: Runtime,
    pub(super) clients: Option<OpenClients>,
    pub(super) kept: KeptOver,
    /// Of clients over streams.
    pub(super) streams: Option<StreamEntry>,
}

impl Opened {
    /// `config` is `base` with the changes of upstreams and lists.
    pub(super) fn open(
        (base, config): (&Config, &Config),
        changes: OpenChanges,
    ) -> Result<Self, RunError> {
        let clients = OpenClients::read_with(config, &changes.clients)?;
        // The service manager names the folder of our state.
        let state_folders = std::env::var_os("STATE_DIRECTORY").unwrap_or_default();
        OpenClients::warn_of_left_journal(config, std::env::split_paths(&state_folders));
        let (overlay, limits) = (changes.overlay.clone(), changes.limits.clone());
        Ok(Self {
            control: ControlSocket::open(&config.control)?,
            metrics: config.metrics.listen.map(MetricsListener::bind).transpose()?,
            api: ApiListener::open(config)?,
            runtime: Runtime::start(changes)?,
            clients,
            kept: KeptOver { base: base.clone(), overlay, limits },
            streams: streams::bind(config)?,
        })
    }

    pub(super) fn has_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// The certificate of clients over streams.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        streams::certificate(self.streams.as_ref())
    }

    /// All certificates, which expire.
    pub(super) fn certificates(&self) -> Vec<Certificate> {
        let of_api = self.api.as_ref().and_then(ApiListener::certificate);
        self.certificate().iter().chain(of_api).cloned().collect()
    }
}
