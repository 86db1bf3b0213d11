//! DNS over TLS (RFC 7858): messages with their length before them, many under way at once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use pmdns_config::narrow::to_u16;
use pmdns_stages::wire::dns::{HEADER_LEN, header};
use pmdns_stages::wire::{be16, put16};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::query::QueryFailure;

/// The most messages that wait to be written. A query beyond that waits for room.
const QUEUE: usize = 64;
/// The most bytes that are written at once.
const WRITE: usize = 16 << 10;
/// How long a server may take to accept written bytes.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// A connection.
pub(crate) struct Dot {
    waiting: Rc<Waiting>,
    outgoing: mpsc::Sender<Vec<u8>>,
    reader: AbortHandle,
}

/// The queries that wait for a reply, by id.
#[derive(Default)]
struct Waiting {
    seats: RefCell<HashMap<u16, oneshot::Sender<Vec<u8>>>>,
    /// Ids are used one after the other. So the id of a query that was given up is used again only after 65,535 others,
    /// when its late reply can hardly come any more. They need not be random: only the server can send over this
    /// connection.
    next_id: Cell<u16>,
    ended: RefCell<Option<String>>,
}

/// The id of a query under way.
struct Seat<'w> {
    waiting: &'w Waiting,
    id: u16,
}

impl Dot {
    /// Starts DNS over TLS on `stream`.
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> Self {
        let (reading, writing) = tokio::io::split(stream);
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let waiting: Rc<Waiting> = Rc::default();
        tokio::task::spawn_local(write(writing, queue, Rc::clone(&waiting)));
        let reader = tokio::task::spawn_local(read(reading, Rc::clone(&waiting))).abort_handle();
        Self { waiting, outgoing, reader }
    }

    /// Sends a query and waits for its reply.
    pub(crate) async fn ask(&self, query: &[u8]) -> Result<Vec<u8>, QueryFailure> {
        let (sender, reply) = oneshot::channel();
        let Some(seat) = self.waiting.seat(sender) else { return Err(self.waiting.end()) };
        // RFC 7766 section 8: length and message in one write.
        let mut message = to_u16(query.len()).to_be_bytes().to_vec();
        message.extend(query);
        put16(&mut message[2..], header::ID, seat.id);
        if self.outgoing.send(message).await.is_err() {
            return Err(self.waiting.end());
        }
        reply.await.map_err(|_| self.waiting.end())
    }

    /// Whether it has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.waiting.ended.borrow().is_none()
    }
}

impl Drop for Dot {
    /// Without the sender, the writer ends and closes the stream. The reader is stopped.
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Waiting {
    /// An id for a query whose reply goes to `sender`. `None`: the connection has ended, or every id is taken.
    fn seat(&self, sender: oneshot::Sender<Vec<u8>>) -> Option<Seat<'_>> {
        let mut seats = self.seats.borrow_mut();
        if self.ended.borrow().is_some() || seats.len() > usize::from(u16::MAX) {
            return None;
        }
        let mut id = self.next_id.get();
        while seats.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.next_id.set(id.wrapping_add(1));
        seats.insert(id, sender);
        Some(Seat { waiting: self, id })
    }

    /// Passes a message to the query that waits for it. A message without such a query is late.
    fn deliver(&self, mut message: Vec<u8>) {
        let id = be16(&message, header::ID);
        let Some(seat) = id.and_then(|id| self.seats.borrow_mut().remove(&id)) else { return };
        put16(&mut message, header::ID, 0);
        // The waiting query may have been given up just now.
        let _ = seat.send(message);
    }

    /// No more replies will come, so all waiting queries fail.
    fn close(&self, why: &io::Error) {
        self.ended.borrow_mut().get_or_insert_with(|| why.to_string());
        self.seats.borrow_mut().clear();
    }

    fn end(&self) -> QueryFailure {
        let why = self.ended.borrow().clone();
        QueryFailure::Ended(io::Error::other(
            why.unwrap_or_else(|| "the connection ended".to_owned()),
        ))
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.waiting.seats.borrow_mut().remove(&self.id);
    }
}

/// Writes the queued messages, as many at once as possible.
async fn write(
    mut stream: WriteHalf<TlsStream<TcpStream>>,
    mut queue: mpsc::Receiver<Vec<u8>>,
    waiting: Rc<Waiting>,
) {
    while let Some(mut bytes) = queue.recv().await {
        while bytes.len() < WRITE
            && let Ok(more) = queue.try_recv()
        {
            bytes.extend(more);
        }
        let written = timeout(WRITE_PATIENCE, write_all(&mut stream, &bytes)).await;
        if let Err(error) = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            return waiting.close(&error);
        }
    }
    // The result does not matter: the connection is over.
    let _ = timeout(WRITE_PATIENCE, stream.shutdown()).await;
}

/// Writes all of it, through to the socket.
async fn write_all(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Reads messages until the connection ends.
async fn read(stream: ReadHalf<TlsStream<TcpStream>>, waiting: Rc<Waiting>) {
    let mut stream = BufReader::new(stream);
    let error = loop {
        match read_message(&mut stream).await {
            // Its id cannot be read, so its query would wait in vain.
            Ok(message) if message.len() < HEADER_LEN => {
                break io::Error::new(io::ErrorKind::InvalidData, "a message without a header");
            }
            Ok(message) => waiting.deliver(message),
            Err(error) => break error,
        }
    };
    waiting.close(&error);
}

/// Reads one message; its length bounds it to 65,535 bytes.
async fn read_message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_taken_twice_and_not_taken_again_at_once() {
        let waiting = Waiting::default();
        let seat = || waiting.seat(oneshot::channel().0).unwrap();
        let (first, second) = (seat(), seat());
        assert_eq!((first.id, second.id), (0, 1));
        drop(second);
        assert_eq!(seat().id, 2, "a late reply to 1 is nobody's");
        waiting.next_id.set(u16::MAX);
        let last = seat();
        assert_eq!(last.id, u16::MAX);
        assert_eq!(seat().id, 1, "0 is under way");
        drop(first);
        assert_eq!(waiting.seats.borrow().len(), 1);
    }

    #[test]
    fn a_message_goes_to_who_waits_for_it() {
        let waiting = Waiting::default();
        let (sender, mut reply) = oneshot::channel();
        waiting.next_id.set(0x1234);
        let _seat = waiting.seat(sender).unwrap();
        waiting.deliver(vec![0x12, 0x35, 1]);
        waiting.deliver(vec![0x12]);
        waiting.deliver(Vec::new());
        assert!(reply.try_recv().is_err());
        waiting.deliver(vec![0x12, 0x34, 1]);
        assert_eq!(reply.try_recv().unwrap(), [0, 0, 1]);
    }

    #[test]
    fn nobody_waits_on_a_connection_that_ended() {
        let waiting = Waiting::default();
        let (sender, mut reply) = oneshot::channel();
        let seat = waiting.seat(sender);
        waiting.close(&io::ErrorKind::UnexpectedEof.into());
        assert_eq!(reply.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(waiting.seat(oneshot::channel().0).is_none());
        drop(seat);
    }
}
