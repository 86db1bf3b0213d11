//! The door between the transports and the driver: queries go in, answers come out.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pmdns_nics::counters::count;
use pmdns_nics::stream::{StreamToken, write_stream_query};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use pmdns_nics::stream::Transport;

pub use crate::answer::Answer;
use crate::entrances::Entrances;
use crate::lock::lock;
use crate::table::{SharedTable, Waiting};

/// Where queries of stream clients go into the line. Cheap to clone.
#[derive(Clone)]
pub struct Door {
    entrances: Arc<Entrances>,
    table: SharedTable,
}

/// There is no room for a query now. It was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for another query")]
pub struct Full;

impl Door {
    pub(crate) fn new(entrances: Arc<Entrances>, table: SharedTable) -> Self {
        Self { entrances, table }
    }

    /// Gives a query to the line. An error: there is no room for it now, and it was counted.
    pub fn ask(
        &self,
        client: SocketAddr,
        transport: Transport,
        message: &[u8],
    ) -> Result<Pending, Full> {
        let counters = self.entrances.counters.of(transport);
        let asked = self.try_ask(client, transport, message);
        count(if asked.is_some() { &counters.queries } else { &counters.no_room });
        asked.ok_or(Full)
    }

    fn try_ask(&self, client: SocketAddr, transport: Transport, message: &[u8]) -> Option<Pending> {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let prefix = self.entrances.lengths.prefix(client);
        let (give, answer) = oneshot::channel();
        let expires = Instant::now() + self.entrances.patience;
        let token = lock(&self.table).open(Waiting { give, expires, prefix, transport })?;
        // Dropping it gives the place back.
        let pending = Pending { answer, token, table: Arc::clone(&self.table) };
        let mut frame = self.entrances.pool.take()?;
        write_stream_query(&mut frame, token, transport, client, message).ok()?;
        self.entrances.push(&prefix, frame)?;
        Some(pending)
    }
}

/// An answer that is under way: a future of the whole DNS message, without length prefix.
///
/// It is `None` if the line drops the query (access list, limit), or gives no answer before the client deadline. Dropping it
/// forgets the query; its answer is then discarded.
#[derive(Debug)]
pub struct Pending {
    answer: oneshot::Receiver<Answer>,
    token: StreamToken,
    table: SharedTable,
}

impl Future for Pending {
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        drop(lock(&self.table).close(self.token));
    }
}
