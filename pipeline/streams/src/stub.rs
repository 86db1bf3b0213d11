//! Shared parts of the tests and fuzzing of transports: a line that is a function, and certificates.

#[cfg(all(test, feature = "tls"))]
mod pem;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::PrefixLengths;
use pmdns_nics::stream::{IdleTime, STREAM_MESSAGE, STREAM_ROOM, StreamHeader, Transport};
use pmdns_nics::{Frame, FramePool, HeapPool};
use rtrb::{Consumer, RingBuffer};

use crate::answer::AnswerMessage;
use crate::budget::Budget;
use crate::client::Client;
use crate::counters::{AllCounters, StreamSnapshot};
use crate::entrances::{Entrance, Entrances};
use crate::lock::lock;
use crate::places::{ConnectionPlace, ConnectionPlaces, Lost};
use crate::query_sender::QuerySender;
use crate::service::{ConnectionLimits, Service};
use crate::table::{SharedTable, StreamQueryTable};
use crate::testing::{config, everybody};
#[cfg(all(test, feature = "tls"))]
pub(crate) use pem::{NAME, Pem};

/// A query for `example.`, type A, with id 0.
pub(crate) const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x01\0\x01";

/// The option edns-tcp-keepalive without a time.
const KEEPALIVE: &[u8] = b"\0\x0b\0\0";

/// Queries that the line can hold. One client has a part of them.
const CAPACITY: usize = 1024;

/// An answer to [`QUERY`]: one address with this TTL.
pub(crate) fn answer(query: &[u8], ttl: u32) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer[7] = 1;
    answer.extend(b"\xc0\x0c\0\x01\0\x01");
    answer.extend(ttl.to_be_bytes());
    answer.extend(b"\0\x04\xc0\0\x02\x01");
    answer
}

/// The longest answer that there is.
pub(crate) fn long_answer(query: &[u8]) -> Option<Vec<u8>> {
    let mut answer = answer(query, 60);
    answer.resize(65_535, 0);
    Some(answer)
}

/// The queries that a line has been asked.
pub(crate) type ReceivedQueries = Arc<Mutex<Vec<(Transport, Vec<u8>)>>>;

/// Where an IPv4 header has the source address, and so the header of a query.
const IPV4_SOURCE: usize = 12;

/// A line that answers by a function.
pub(crate) struct Line {
    pub(crate) service: Service,
    /// What it has been asked.
    pub(crate) asked: ReceivedQueries,
    /// The IPv4 addresses of who asked.
    pub(crate) clients: Arc<Mutex<Vec<Ipv4Addr>>>,
    table: SharedTable,
    /// The places of its clients.
    places: Mutex<Vec<(ConnectionPlace, Lost)>>,
}

impl Line {
    /// A line with these keys of `[streams]`. Where `answer` has none the query is dropped, and its client waits.
    pub(crate) fn new(
        streams: &str,
        answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        Self::with_capacity(streams, CAPACITY, answer)
    }

    /// A line that has no room.
    pub(crate) fn full() -> Self {
        let line = Self::with_capacity("", 1, |_| None);
        let client = SocketAddr::from(([192, 0, 2, 9], 9));
        let pending = line.service.sender.ask(client, Transport::Tcp, QUERY);
        std::mem::forget(pending);
        line
    }

    /// The same with room for so many queries.
    pub(crate) fn with_capacity(
        streams: &str,
        capacity: usize,
        answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Self {
        let config = config(streams);
        let counters = AllCounters::default();
        let pool = HeapPool::with_room(capacity, STREAM_ROOM);
        let (ring, queries) = RingBuffer::new(capacity);
        let entrances = Entrances {
            pool: FramePool::Heap(pool),
            lengths: PrefixLengths::of(&config.ratelimit),
            patience: Duration::from_secs(2),
            counters: counters.clone(),
            queues: Box::new([Entrance { ring: Mutex::new(ring), bell: Arc::default() }]),
            seed: [7; 16],
        };
        let table: SharedTable = Arc::new(Mutex::new(StreamQueryTable::new(0, capacity)));
        let budget = Budget::new(config.streams.max_buffered_bytes_in_all.bytes());
        let service = Service {
            sender: QuerySender::new(Arc::new(entrances), Arc::clone(&table), budget.clone()),
            places: ConnectionPlaces::new(&config, counters.clone(), IdleTime::default()),
            counters,
            limits: ConnectionLimits::of(&config),
            access: everybody(),
            proxies: config.streams.proxy_protocol.clone().into(),
        };
        let (asked, clients) = (ReceivedQueries::default(), Arc::default());
        let seen = (Arc::clone(&asked), Arc::clone(&clients));
        tokio::spawn(run(queries, (Arc::clone(&table), budget), answer, seen.0, seen.1));
        Self { service, asked, clients, table, places: Mutex::default() }
    }

    /// A client of this line.
    pub(crate) fn client(&self, transport: Transport) -> Arc<Client> {
        let address = "192.0.2.7:4000".parse().unwrap();
        let entered = self.service.places.enter(address, transport).expect("there is a place");
        let client = Client::new(address, &entered.0, self.service.clone());
        lock(&self.places).push(entered);
        client
    }

    pub(crate) fn counted(&self, transport: Transport) -> StreamSnapshot {
        self.service.counters.of(transport).snapshot()
    }

    pub(crate) fn asked(&self) -> usize {
        lock(&self.asked).len()
    }

    /// Queries that wait for an answer.
    pub(crate) fn under_way(&self) -> usize {
        lock(&self.table).len()
    }
}

/// Answers every query, as a data core and the thread's collector would.
async fn run(
    mut queries: Consumer<Frame>,
    (table, budget): (SharedTable, Budget),
    answer: impl Fn(&[u8]) -> Option<Vec<u8>>,
    asked: ReceivedQueries,
    clients: Arc<Mutex<Vec<Ipv4Addr>>>,
) {
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        while let Ok(frame) = queries.pop() {
            let header = StreamHeader::read(frame.bytes()).unwrap();
            let message = &frame.bytes()[STREAM_MESSAGE..];
            let source = frame.bytes()[IPV4_SOURCE..].first_chunk::<4>().unwrap();
            lock(&clients).push(Ipv4Addr::from(*source));
            lock(&asked).push((header.transport(), message.to_vec()));
            if let Some(answer) = answer(message)
                && let Some(waiting) = lock(&table).close(header.token())
            {
                let Some(answer) = AnswerMessage::new(&answer, &waiting, &budget) else { continue };
                // As parse notes it.
                let has_keepalive = message.ends_with(KEEPALIVE);
                // The client may have gone.
                let _ = waiting.give.send(answer.with_keepalive(has_keepalive));
            }
        }
        drop(lock(&table).expire(tokio::time::Instant::now()));
    }
}
