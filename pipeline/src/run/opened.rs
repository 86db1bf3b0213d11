//! What is bound and read before DPDK starts, while the process still has all of its rights.

use pmdns_config::Config;
use pmdns_streams::tls::Certificate;

use super::error::RunError;
use crate::clients::OpenClients;
use crate::control::api::ApiListener;
use crate::control::metrics::server::MetricsListener;
use crate::control::socket::ControlSocket;
use crate::runtime::Runtime;
use crate::streams::{self, StreamEntry};

/// The sockets and files of the configuration.
pub(super) struct Opened {
    pub(super) control: ControlSocket,
    pub(super) metrics: Option<MetricsListener>,
    pub(super) api: Option<ApiListener>,
    pub(super) runtime: Runtime,
    pub(super) clients: Option<OpenClients>,
    /// Of clients over streams.
    pub(super) streams: Option<StreamEntry>,
}

impl Opened {
    pub(super) fn open(config: &Config) -> Result<Self, RunError> {
        Ok(Self {
            control: ControlSocket::open(&config.control)?,
            metrics: config.metrics.listen.map(MetricsListener::bind).transpose()?,
            api: ApiListener::open(config)?,
            runtime: Runtime::open(config.control.entries.as_deref())?,
            clients: OpenClients::read(config)?,
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
