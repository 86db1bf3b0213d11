//! The way between the transports and the driver: queries go in, answers come out.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pmdns_config::ClientPrefix;
use pmdns_counters::count;
use pmdns_nics::stream::{StreamToken, write_stream_query};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use pmdns_nics::stream::Transport;

pub use crate::answer::AnswerMessage;
use crate::budget::Budget;
use crate::entrances::Entrances;
use crate::lock::lock;
use crate::reader::Reader;
use crate::refusal::{kept, servfail};
use crate::table::{SharedTable, Waiting};

/// Where queries of stream clients go into the line. Cheap to clone.
#[derive(Clone)]
pub struct QuerySender {
    entrances: Arc<Entrances>,
    table: SharedTable,
    budget: Budget,
}

impl QuerySender {
    pub(crate) fn new(entrances: Arc<Entrances>, table: SharedTable, budget: Budget) -> Self {
        Self { entrances, table, budget }
    }

    /// Gives a query to the line, alone on its connection.
    pub fn ask(&self, client: SocketAddr, transport: Transport, message: &[u8]) -> Pending {
        self.ask_for(&Arc::default(), client, transport, message)
    }

    /// Gives a query to the line. If there is no room for it, its answer is SERVFAIL. If it takes the room of another, that is
    /// the answer of the other.
    pub(crate) fn ask_for(
        &self,
        reader: &Arc<Reader>,
        client: SocketAddr,
        transport: Transport,
        message: &[u8],
    ) -> Pending {
        let counters = self.entrances.counters.of(transport);
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let prefix = self.entrances.lengths.of_peer(client);
        let (give, answer) = oneshot::channel();
        let expires = Instant::now() + self.entrances.patience;
        let (reader, query) = (Arc::clone(reader), kept(message));
        let waiting = Waiting { give, expires, prefix, transport, reader, query };
        let opened = lock(&self.table).open(waiting);
        for displaced in opened.displaced {
            count(&self.entrances.counters.of(displaced.transport).shed);
            self.refuse(displaced);
        }
        let table = Arc::clone(&self.table);
        match opened.result {
            Ok(token) => {
                let pending = Pending { answer, token: Some(token), table };
                match self.push(token, prefix, transport, client, message) {
                    Some(()) => count(&counters.queries),
                    None => {
                        count(&counters.no_room);
                        let waiting = lock(&self.table).close(token);
                        waiting.into_iter().for_each(|waiting| self.refuse(waiting));
                    }
                }
                pending
            }
            Err(waiting) => {
                count(&counters.no_room);
                self.refuse(waiting);
                Pending { answer, token: None, table }
            }
        }
    }

    /// Puts a query into the ring of its data core. `None`: there is no frame, or the core has gone.
    fn push(
        &self,
        token: StreamToken,
        prefix: ClientPrefix,
        transport: Transport,
        client: SocketAddr,
        message: &[u8],
    ) -> Option<()> {
        let mut frame = self.entrances.pool.take()?;
        write_stream_query(&mut frame, token, transport, client, message).ok()?;
        self.entrances.push(&prefix, frame)
    }

    /// Tells a client that there was no room for its query.
    fn refuse(&self, waiting: Waiting) {
        if let Some(answer) = AnswerMessage::new(&servfail(&waiting.query), &waiting, &self.budget)
        {
            // The connection may have been closed just now.
            let _ = waiting.give.send(answer);
        }
    }
}

/// An answer that is under way: a future of the whole DNS message, without length prefix.
///
/// It is `None` if the line drops the query (access list, limit), or gives no answer before the client deadline. Dropping it
/// forgets the query; its answer is then discarded.
#[derive(Debug)]
pub struct Pending {
    answer: oneshot::Receiver<AnswerMessage>,
    /// `None`: it has been answered already.
    token: Option<StreamToken>,
    table: SharedTable,
}

impl Future for Pending {
    type Output = Option<AnswerMessage>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(Result::ok)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            drop(lock(&self.table).close(token));
        }
    }
}
