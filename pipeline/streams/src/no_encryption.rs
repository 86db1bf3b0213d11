//! What stands for the servers of encrypted transports where nothing links TLS: there are none.

use tokio::task::JoinSet;

use crate::listeners::Listeners;
use crate::service::Service;

/// There is no such value.
#[derive(Clone)]
pub enum Encryption {}

/// There is none.
pub(crate) enum QuicEndpoints {}

impl QuicEndpoints {
    pub(crate) async fn close(self) {
        match self {}
    }
}

impl Encryption {
    pub(crate) async fn keep_fresh(self) {
        match self {}
    }

    pub(crate) fn accept(&self, _: &Listeners, _: &Service, _: &mut JoinSet<()>) {
        match *self {}
    }

    pub(crate) fn begin_quic(&self, _: &Listeners, _: &Service) -> QuicEndpoints {
        match *self {}
    }
}
