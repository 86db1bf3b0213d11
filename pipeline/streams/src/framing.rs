//! DNS over a stream of bytes (RFC 7766), encrypted or not: each message behind its length.
//!
//! One task serves a connection. It reads queries while few are under way and few bytes wait to be written. It writes answers in
//! the order in which they come, with their lengths, as many at once as wait. A client that is slow to send or to read is closed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};

use pmdns_counters::count;
use pmdns_nics::stream::Transport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, split};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::counters::StreamCounters;
use crate::load::Load;
use crate::places::{ConnectionPlace, Renewal};
use crate::query_sender::{AnswerMessage, Pending};
use crate::reader::Reader;
use crate::service::{ConnectionLimits, Service};

/// The longest query that is read. Queries have less than a kilobyte. Of a longer one the line gets no more than the header, which
/// it answers with FORMERR.
pub(crate) const MAX_QUERY: usize = 4096;
/// Bytes of a DNS header.
const HEADER: usize = 12;
/// The bit of a message's third byte that says that it is a response.
const RESPONSE: u8 = 0x80;
/// Bytes that are read at a time.
const READ: usize = 4096;
/// Answers that are written at a time.
const WRITE: usize = 16;

thread_local! {
    /// Where bytes are read to, so that a connection without a query holds no memory for one.
    static SCRATCH: RefCell<[u8; READ]> = const { RefCell::new([0; READ]) };
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingEnd {
    /// The client closed it, or the network did.
    Gone,
    /// A message is no query.
    Malformed,
    /// No query came for some time.
    Idle,
    /// The rest of a query did not come in time.
    SlowQuery,
    /// The client does not read.
    SlowReader,
    /// It had as many queries as it may have.
    Exhausted,
}

/// Serves a connection until it ends, and counts why it did.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    client: SocketAddr,
    place: &ConnectionPlace,
    service: &Service,
) {
    let transport = place.transport();
    let connection = Connection {
        client,
        transport,
        renewal: place.renewal(),
        reader: Arc::default(),
        service,
        limits: service.limits,
        unread: Vec::new(),
        skipped: 0,
        asked: 0,
        pending: Vec::new(),
        answers: VecDeque::new(),
        written: 0,
        buffered: 0,
        is_read: false,
        last_query: Instant::now(),
        query_begun: None,
        write_due: None,
        written_in_all: 0,
        queued_in_all: 0,
    };
    let end = connection.run(stream).await;
    if let Some(counter) = end.counter(service.counters.of(transport)) {
        count(counter);
    }
}

struct Connection<'s> {
    client: SocketAddr,
    transport: Transport,
    renewal: Renewal,
    reader: Arc<Reader>,
    service: &'s Service,
    limits: ConnectionLimits,
    /// What was read and is not a whole query yet, or has to wait.
    unread: Vec<u8>,
    /// Bytes still to come of a query that is too long. They are not kept.
    skipped: usize,
    asked: u64,
    pending: Vec<Pending>,
    answers: VecDeque<AnswerMessage>,
    /// Bytes of the first answer that were written.
    written: usize,
    /// Bytes of all answers that wait.
    buffered: usize,
    /// Whether the client will send no more.
    is_read: bool,
    last_query: Instant,
    /// When the query began of which a part has come.
    query_begun: Option<Instant>,
    /// When the bytes must be written that are waiting, and how many bytes have been written then.
    write_due: Option<(Instant, u64)>,
    written_in_all: u64,
    queued_in_all: u64,
}

impl Connection<'_> {
    async fn run(mut self, stream: impl AsyncRead + AsyncWrite) -> FramingEnd {
        let (mut reader, mut writer) = split(stream);
        let (mut load, mut arrived) = (self.service.places.load(), Vec::new());
        loop {
            if let Err(end) = self.ask() {
                return end;
            }
            let is_done = self.is_read && self.pending.is_empty() && self.answers.is_empty();
            if is_done {
                return if self.is_exhausted() { FramingEnd::Exhausted } else { FramingEnd::Gone };
            }
            let (due, late) = self.due(&mut load);
            let (reads, takes) = (self.may_read(), self.may_take());
            tokio::select! {
                biased;
                () = poll_fn(|context| poll_all(&mut self.pending, &mut arrived, context)), if takes => {
                    arrived.drain(..).for_each(|answer| self.queue(answer));
                    arrived = Vec::new();
                }
                written = poll_fn(|context| poll_write(Pin::new(&mut writer), &self.answers, self.written, context)),
                    if !self.answers.is_empty() => {
                    match written {
                        Ok(1..) => self.note_written(written.unwrap_or(0)),
                        _ => return FramingEnd::Gone,
                    }
                }
                read = poll_fn(|context| poll_read(Pin::new(&mut reader), &mut self.unread, context)), if reads => {
                    match read {
                        Ok(0) => self.is_read = true,
                        Ok(_) => self.note_read(),
                        Err(_) => return FramingEnd::Gone,
                    }
                }
                () = self.reader.lost() => return FramingEnd::SlowReader,
                () = sleep_until(due) => return late,
                news = load.changed() => if news.is_err() { return FramingEnd::Gone },
            }
        }
    }

    fn is_exhausted(&self) -> bool {
        self.asked >= self.limits.max_queries_per_connection
    }

    fn may_read(&self) -> bool {
        !self.is_read && self.may_ask()
    }

    fn may_ask(&self) -> bool {
        self.pending.len() < self.limits.max_queries_in_flight
            && self.buffered < self.limits.max_buffered_bytes
    }

    /// Answers that are not taken stay where they are, and count against the same bound of all connections.
    fn may_take(&self) -> bool {
        !self.pending.is_empty() && self.buffered < self.limits.max_buffered_bytes
    }

    /// When the connection ends if nothing happens before, and why.
    fn due(&self, load: &mut watch::Receiver<Load>) -> (Instant, FramingEnd) {
        let load = *load.borrow_and_update();
        if let Some((due, _)) = self.write_due {
            return (due, FramingEnd::SlowReader);
        }
        if let Some(begun) = self.query_begun {
            return (begun + load.first_time(self.limits.io_timeout), FramingEnd::SlowQuery);
        }
        let idle = self.limits.idle_time(load, self.asked > 0);
        match self.pending.is_empty() {
            true => (self.last_query + idle, FramingEnd::Idle),
            // Every query under way ends by itself.
            false => (Instant::now() + self.limits.longest_wait, FramingEnd::Idle),
        }
    }

    /// Gives the whole queries that were read to the line, as many as may be under way.
    fn ask(&mut self) -> Result<(), FramingEnd> {
        let mut start = self.skipped.min(self.unread.len());
        self.skipped -= start;
        // Whether a query has ended here, so that the next one has time of its own.
        let mut has_ended = start > 0 && self.skipped == 0;
        while self.may_ask()
            && !self.is_read
            && let Some(length) = self.unread.get(start..start + 2)
        {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            if length < HEADER {
                return Err(FramingEnd::Malformed);
            }
            let kept = if length > MAX_QUERY { HEADER } else { length };
            let Some(message) = self.unread.get(start + 2..start + 2 + kept) else { break };
            if !is_query(message) {
                return Err(FramingEnd::Malformed);
            }
            let sender = &self.service.sender;
            self.pending.push(sender.ask_for(&self.reader, self.client, self.transport, message));
            self.renewal.renew(self.asked == 0);
            self.asked += 1;
            self.is_read = self.is_exhausted();
            self.last_query = Instant::now();
            let end = (start + 2 + length).min(self.unread.len());
            self.skipped = start + 2 + length - end;
            has_ended |= self.skipped == 0;
            start = end;
        }
        self.unread.drain(..start);
        let is_between = self.unread.is_empty() && self.skipped == 0;
        if self.unread.is_empty() {
            self.unread = Vec::new();
        }
        if is_between || has_ended {
            self.query_begun = None;
        }
        if !is_between && has_ended {
            self.note_read();
        }
        Ok(())
    }

    /// The rest of a query must come in time, however many pieces it comes in. The time shrinks as places get few.
    fn note_read(&mut self) {
        if self.query_begun.is_none() && self.may_ask() {
            self.query_begun = Some(Instant::now());
        }
    }

    fn queue(&mut self, answer: AnswerMessage) {
        self.buffered += answer.framed().len();
        self.queued_in_all += answer.framed().len() as u64;
        self.answers.push_back(answer);
        self.set_write_due();
    }

    fn note_written(&mut self, bytes: usize) {
        self.written += bytes;
        self.written_in_all += bytes as u64;
        while let Some(first) = self.answers.front().map(|answer| answer.framed().len())
            && self.written >= first
        {
            self.buffered -= first;
            self.written -= first;
            self.answers.pop_front();
        }
        self.last_query = Instant::now();
        if self.write_due.is_some_and(|(_, goal)| self.written_in_all >= goal) {
            self.write_due = None;
        }
        self.set_write_due();
    }

    /// All that waits now must be written in time. What comes later has its own time.
    fn set_write_due(&mut self) {
        if self.write_due.is_none() && !self.answers.is_empty() {
            self.write_due = Some((Instant::now() + self.limits.io_timeout, self.queued_in_all));
        }
    }
}

impl FramingEnd {
    fn counter(self, counters: &StreamCounters) -> Option<&AtomicU64> {
        match self {
            Self::Gone => None,
            Self::Malformed => Some(&counters.malformed),
            Self::Idle => Some(&counters.idle),
            Self::SlowQuery => Some(&counters.slow_queries),
            Self::SlowReader => Some(&counters.slow_readers),
            Self::Exhausted => Some(&counters.exhausted),
        }
    }
}

/// Whether a message has a header, which does not say that it is a response.
pub(crate) fn is_query(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & RESPONSE == 0
}

/// Writes what waits, but for the bytes of the first answer that are `written`.
fn poll_write(
    writer: Pin<&mut impl AsyncWrite>,
    answers: &VecDeque<AnswerMessage>,
    written: usize,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); WRITE];
    for (slice, answer) in slices.iter_mut().zip(answers) {
        *slice = IoSlice::new(answer.framed());
    }
    let mut waiting = &mut slices[..answers.len().min(WRITE)];
    IoSlice::advance_slices(&mut waiting, written);
    writer.poll_write_vectored(context, waiting)
}

/// Moves the answers that have come to `arrived`. Ready: at least one query has ended. There are few of them.
fn poll_all(
    pending: &mut Vec<Pending>,
    arrived: &mut Vec<AnswerMessage>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let before = pending.len();
    pending.retain_mut(|query| match Pin::new(query).poll(context) {
        Poll::Ready(answer) => {
            arrived.extend(answer);
            false
        }
        Poll::Pending => true,
    });
    if pending.len() < before { Poll::Ready(()) } else { Poll::Pending }
}

/// Reads what there is behind the bytes of `unread`, and says how much that was. 0: there will be no more.
fn poll_read(
    reader: Pin<&mut impl AsyncRead>,
    unread: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<usize>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        reader.poll_read(context, &mut buffer).map_ok(|()| {
            unread.extend_from_slice(buffer.filled());
            buffer.filled().len()
        })
    })
}

#[cfg(test)]
mod tests;
