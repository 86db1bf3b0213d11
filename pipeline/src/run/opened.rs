//! What is bound and read before DPDK starts, while the process still has all of its rights.

use std::io;
use std::sync::Arc;

use pmdns_changes::OperatorChange;
use pmdns_changes::overlay::Overlay;
use pmdns_config::{Config, Control};
use pmdns_streams::quic_steering::{QuicGeneration, QuicSteering};
use pmdns_streams::tls::Certificate;

use super::error::RunError;
use crate::clients::OpenClients;
use crate::control::api::ApiListener;
use crate::control::metrics::server::MetricsListener;
use crate::control::socket::{ControlSocket, SocketFile};
use crate::crashes::Crashes;
use crate::runtime::{NameOverrides, OpenChanges};
use crate::sockets::OpenSockets;
use crate::streams::{self, StreamEntry};
use crate::transfer::NotifySockets;

/// The key of the socket of operators.
const CONTROL: &str = "control.socket";

/// The configuration of the file, the changes that an earlier process has kept or passed, and what crashes have left.
pub(super) struct KeptOver {
    pub(super) base: Config,
    pub(super) overlay: Overlay,
    pub(super) limits: Vec<OperatorChange>,
    pub(super) crashes: Crashes,
}

/// The sockets of operators.
pub(super) struct OperatorSockets {
    pub(super) control: ControlSocket,
    pub(super) metrics: Option<MetricsListener>,
    pub(super) api: Option<ApiListener>,
}

/// The sockets and files of the configuration.
pub(super) struct Opened {
    pub(super) operators: OperatorSockets,
    pub(super) runtime: NameOverrides,
    pub(super) clients: Option<OpenClients>,
    pub(super) kept: KeptOver,
    /// Of clients over streams.
    pub(super) streams: Option<StreamEntry>,
    /// Of primaries that notify of new versions.
    pub(super) notifications: Option<NotifySockets>,
}

impl OperatorSockets {
    /// Opens those that are not open already.
    pub(super) fn open(config: &Config, sockets: &mut OpenSockets) -> Result<Self, RunError> {
        let Control { socket, group, .. } = &config.control;
        let inherited = sockets.take_local(CONTROL, socket);
        let open = |address| MetricsListener::open(address, sockets);
        Ok(Self {
            control: ControlSocket::open_at(CONTROL, socket, group.as_deref(), inherited)?,
            metrics: config.metrics.listen.map(open).transpose()?,
            api: ApiListener::open(config, sockets)?,
        })
    }

    /// Adds copies of them. Returns what decides about the files of local ones.
    pub(super) fn copy(
        &self,
        config: &Config,
        copies: &mut OpenSockets,
    ) -> io::Result<Vec<Arc<SocketFile>>> {
        let (socket, file) = self.control.copy()?;
        copies.add_local(CONTROL, &config.control.socket, socket);
        if let (Some(address), Some(listener)) = (config.metrics.listen, &self.metrics) {
            listener.copy(address, copies)?;
        }
        let of_api = self.api.as_ref().map(|listener| listener.copy(config, copies)).transpose()?;
        Ok([Some(file), of_api.flatten()].into_iter().flatten().collect())
    }
}

impl Opened {
    /// `config` is `base` with the changes of upstreams and lists.
    pub(super) fn open(
        (base, config): (&Config, &Config),
        changes: OpenChanges,
        sockets: &mut OpenSockets,
        generation: QuicGeneration,
    ) -> Result<Self, RunError> {
        // First: whatever follows may fail, and then the log still tells of the crash.
        let crashes = Crashes::open(config, sockets);
        let clients =
            OpenClients::read_with(config, &changes.clients, changes.passed_clients.as_deref())?;
        // The service manager names the folder of our state.
        let state_folders = std::env::var_os("STATE_DIRECTORY").unwrap_or_default();
        OpenClients::warn_of_left_journal(config, std::env::split_paths(&state_folders));
        let (overlay, limits) = (changes.overlay.clone(), changes.limits.clone());
        let listen = config.transfer.listen;
        let notifications =
            listen.map(|address| NotifySockets::open(address, sockets)).transpose()?;
        Ok(Self {
            operators: OperatorSockets::open(config, sockets)?,
            runtime: NameOverrides::start(changes)?,
            clients,
            kept: KeptOver { base: base.clone(), overlay, limits, crashes },
            streams: streams::bind(config, sockets, generation)?,
            notifications,
        })
    }

    /// Copies of all sockets that can pass to another process, and the files of local ones.
    pub(super) fn copies(
        &self,
        config: &Config,
    ) -> io::Result<(OpenSockets, Vec<Arc<SocketFile>>)> {
        let mut copies = OpenSockets::default();
        let files = self.operators.copy(config, &mut copies)?;
        if let Some(entry) = &self.streams {
            streams::copy(config, entry, &mut copies)?;
        }
        if let (Some(address), Some(sockets)) = (config.transfer.listen, &self.notifications) {
            sockets.copy(address, &mut copies)?;
        }
        self.kept.crashes.copy(&mut copies)?;
        Ok((copies, files))
    }

    /// What decides which process gets the packets of QUIC.
    pub(super) fn quic_steering(&self) -> io::Result<Option<QuicSteering>> {
        self.streams.as_ref().map(|(listeners, _)| listeners.quic_steering()).transpose()
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
        let of_api = self.operators.api.as_ref().and_then(ApiListener::certificate);
        self.certificate().iter().chain(of_api).cloned().collect()
    }
}
