//! What stands for the servers of encrypted transports where nothing links TLS: there are none.

use tokio::task::JoinSet;

use crate::listeners::Listeners;
use crate::service::Service;

/// There is no such value.
#[derive(Clone)]
pub enum Encryption {}

impl Encryption {
    pub(crate) async fn keep_fresh(self) {
        match self {}
    }

    pub(crate) fn accept(&self, _: &Listeners, _: &Service, _: &mut JoinSet<()>) {
        match *self {}
    }
}
