//! The port that data cores poll: rings instead of wires.
//!
//! A query goes by the ring of the data core that serves its client's prefix. Its answer comes back by the ring between the
//! core that sends and the thread that serves the client. No ring has fewer slots than there are frames, so none is ever full.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pmdns_config::narrow::to_u8;
use pmdns_config::{Config, PrefixLengths, Streams};
use pmdns_counters::count;
use pmdns_nics::stream::{AnswerOption, STREAM_MESSAGE, STREAM_ROOM, StreamHeader};
use pmdns_nics::{
    Burst, Frame, FramePool, HeapPool, MAX_BURST, Nic, PortFacts, PortPlan, PortStats, Queues,
    RxQueue, Sleeper, TxQueue,
};
use rtrb::{Consumer, Producer, RingBuffer};
use tokio::time::{Instant, interval};

use crate::answer::AnswerMessage;
use crate::budget::Budget;
use crate::counters::AllCounters;
use crate::entrances::{Bell, Entrance, Entrances};
use crate::lock::lock;
use crate::query_sender::QuerySender;
use crate::table::{SharedTable, StreamQueryTable};

/// The name of the port in reports.
pub const PORT_NAME: &str = "streams";
/// How often queries whose time has passed are looked for.
const EXPIRY: Duration = Duration::from_millis(250);
/// Rings of the doorbell that are heard at once.
const RINGS: usize = 64;
/// A query waits longer than the line takes at most, so that the line's own SERVFAIL comes first.
const EXTRA_PATIENCE: Duration = Duration::from_millis(500);

/// How a thread that waits for answers is woken. A data core rings, which is all it ever does for it. Tokio waits for a socket
/// without `unsafe`, but not for an eventfd.
struct Exit {
    doorbell: UnixStream,
    is_waiting: AtomicBool,
}

/// The port, for reports.
pub struct StreamsNic {
    facts: PortFacts,
    counters: AllCounters,
}

/// One thread's share of the port: where its queries go in, and its answers come out.
pub struct ThreadEnds {
    /// The way in.
    pub sender: QuerySender,
    /// The way out, to be [run](Collector::run) on the thread.
    pub collector: Collector,
}

/// The parts of a port that was made.
pub struct StreamPortParts {
    /// For reports.
    pub nic: StreamsNic,
    /// For the data cores.
    pub queues: Queues,
    /// For the threads that serve clients.
    pub threads: Vec<ThreadEnds>,
    /// Where frames of this port come from.
    pub pool: FramePool,
    /// The counters of its clients.
    pub counters: AllCounters,
}

/// The facts of the port, before it is made.
pub fn facts() -> PortFacts {
    PortFacts {
        name: PORT_NAME.to_owned(),
        driver: PORT_NAME.to_owned(),
        mac: [0; 6],
        max_rx_queues: u16::MAX,
        max_tx_queues: u16::MAX,
        // Its frames are not those of the wires' pool.
        rx_descriptors: 0,
        tx_descriptors: 0,
        mtu: u16::MAX,
        checksum_offload: false,
        keeps_clients: true,
        spreads_flows: false,
        partial_checksums: false,
        numa_node: None,
    }
}

/// Makes the port of this number with the queues of `plan`. `seed` decides which data core serves whom.
pub fn open(
    config: &Config,
    plan: &PortPlan,
    number: u8,
    seed: [u8; 16],
) -> io::Result<StreamPortParts> {
    let settings = &config.streams;
    // Answers to queries that were given up meanwhile are on their way for one turn of a core.
    let frames = settings.max_queries + MAX_BURST * usize::from(plan.rx_queues + plan.tx_queues);
    let pool = FramePool::Heap(HeapPool::with_room(frames, STREAM_ROOM));
    let counters = AllCounters::default();
    let mut queues = Queues::default();
    let mut entrances = Vec::new();
    for _ in 0..plan.rx_queues {
        let (producer, consumer) = RingBuffer::new(frames);
        let bell = Arc::<Bell>::default();
        let queue = Rx { ring: consumer, bell: Arc::clone(&bell), port: number };
        queues.rx.push(Box::new(queue));
        entrances.push(Entrance { ring: Mutex::new(producer), bell });
    }
    let entrances = Arc::new(Entrances {
        pool: pool.clone(),
        lengths: PrefixLengths::of(&config.ratelimit),
        patience: Duration::from_millis(config.slowpath.deadline_ms) + EXTRA_PATIENCE,
        counters: counters.clone(),
        queues: entrances.into(),
        seed,
    });
    let (exits, threads) = exits(settings, plan, frames, &entrances)?;
    for rings in exits {
        queues.tx.push(Box::new(Tx { rings }));
    }
    let nic = StreamsNic { facts: facts(), counters: counters.clone() };
    Ok(StreamPortParts { nic, queues, threads, pool, counters })
}

/// The way out of one TX queue to each thread.
type TxRings = Vec<(Producer<Frame>, Arc<Exit>)>;

/// Makes the rings from each TX queue to each thread.
fn exits(
    settings: &Streams,
    plan: &PortPlan,
    frames: usize,
    entrances: &Arc<Entrances>,
) -> io::Result<(Vec<TxRings>, Vec<ThreadEnds>)> {
    let mut queues: Vec<TxRings> = (0..plan.tx_queues).map(|_| Vec::new()).collect();
    let mut threads = Vec::new();
    let budget = Budget::new(settings.max_buffered_bytes_in_all.bytes());
    let capacity = settings.max_queries.div_ceil(settings.threads);
    for thread in 0..settings.threads {
        let (doorbell, heard) = UnixStream::pair()?;
        doorbell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let exit = Arc::new(Exit { doorbell, is_waiting: AtomicBool::new(false) });
        let mut rings = Vec::new();
        for queue in &mut queues {
            let (producer, consumer) = RingBuffer::new(frames);
            queue.push((producer, Arc::clone(&exit)));
            rings.push(consumer);
        }
        let table: SharedTable =
            Arc::new(Mutex::new(StreamQueryTable::new(to_u8(thread), capacity)));
        let sender = QuerySender::new(Arc::clone(entrances), Arc::clone(&table), budget.clone());
        let counters = entrances.counters.clone();
        let budget = budget.clone();
        let collector = Collector { rings, exit, heard, table, budget, counters };
        threads.push(ThreadEnds { sender, collector });
    }
    Ok((queues, threads))
}

impl Nic for StreamsNic {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn stats(&self) -> PortStats {
        let mut stats = PortStats::default();
        for (_, counters) in self.counters.read() {
            stats.rx_frames += counters.queries;
            stats.rx_missed += counters.no_room;
            stats.tx_frames += counters.answers;
            stats.tx_errors += counters.no_memory;
        }
        stats
    }

    fn close(self: Box<Self>) {}
}

struct Rx {
    ring: Consumer<Frame>,
    bell: Arc<Bell>,
    port: u8,
}

impl RxQueue for Rx {
    fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let count = self.ring.slots().min(limit).min(burst.remaining_capacity());
        if count == 0 {
            return 0;
        }
        let Ok(frames) = self.ring.read_chunk(count) else { return 0 };
        for mut frame in frames {
            frame.set_port(self.port);
            burst.push(frame);
        }
        count
    }

    fn wake(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        *lock(&self.bell.sleeper) = Some(Arc::clone(sleeper));
        true
    }

    fn arm(&mut self) {
        self.bell.is_armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn disarm(&mut self) {
        self.bell.is_armed.store(false, Ordering::Relaxed);
    }
}

struct Tx {
    rings: TxRings,
}

impl TxQueue for Tx {
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        let count = burst.len();
        for frame in burst.drain(..) {
            let thread = StreamHeader::read(frame.bytes()).map(|header| header.token().thread);
            let ring = thread.and_then(|thread| self.rings.get_mut(usize::from(thread)));
            // Every frame here has a header that we have written, and the ring has a slot for every frame.
            let pushed = ring.map(|(ring, _)| ring.push(frame));
            debug_assert!(matches!(pushed, Some(Ok(()))), "an answer finds its thread");
        }
        // The thread says that it waits before it looks into its rings for the last time.
        fence(Ordering::SeqCst);
        for (_, exit) in &self.rings {
            if exit.is_waiting.load(Ordering::Relaxed)
                && exit.is_waiting.swap(false, Ordering::Relaxed)
            {
                // It fails if it has rung so often that nobody can miss it.
                let _ = (&exit.doorbell).write(&[1]);
            }
        }
        count
    }
}

/// Takes one thread's answers out of the rings and gives them to their connections.
pub struct Collector {
    rings: Vec<Consumer<Frame>>,
    exit: Arc<Exit>,
    heard: UnixStream,
    table: SharedTable,
    budget: Budget,
    counters: AllCounters,
}

impl Collector {
    /// Collects for ever. An error: the doorbell cannot be waited for.
    pub async fn run(mut self) -> io::Result<()> {
        let doorbell = tokio::net::UnixStream::from_std(self.heard.try_clone()?)?;
        let mut expiry = interval(EXPIRY);
        loop {
            if self.collect() > 0 {
                tokio::task::yield_now().await;
                continue;
            }
            self.exit.is_waiting.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.collect() > 0 {
                continue;
            }
            tokio::select! {
                ready = doorbell.readable() => {
                    ready?;
                    // It fails if it has not rung.
                    let _ = doorbell.try_read(&mut [0; RINGS]);
                }
                _ = expiry.tick() => self.expire(),
            }
        }
    }

    /// Gives the next answers to their connections, and returns how many there were.
    pub fn collect(&mut self) -> usize {
        let mut collected = 0;
        for ring in &mut self.rings {
            let Ok(frames) = ring.read_chunk(ring.slots().min(MAX_BURST)) else { continue };
            for frame in frames {
                collected += 1;
                give(&frame, &self.table, &self.budget, &self.counters);
            }
        }
        collected
    }

    /// Forgets queries whose time has passed.
    fn expire(&self) {
        for waiting in lock(&self.table).expire(Instant::now()) {
            count(&self.counters.of(waiting.transport).unanswered);
        }
    }
}

/// Gives an answer to whom it is for, if anybody still waits for it.
fn give(frame: &Frame, table: &SharedTable, budget: &Budget, counters: &AllCounters) {
    let Some(header) = StreamHeader::read(frame.bytes()) else { return };
    let Some(waiting) = lock(table).close(header.token()) else { return };
    let counters = counters.of(waiting.transport);
    let message = &frame.bytes()[STREAM_MESSAGE..];
    let has_keepalive = header.requests(AnswerOption::Keepalive);
    if message.is_empty() {
        // Dropping `waiting` tells the connection.
        return count(&counters.dropped);
    }
    match AnswerMessage::new(message, &waiting, budget) {
        // The connection may have been closed just now.
        Some(answer) => match waiting.give.send(answer.with_keepalive(has_keepalive)) {
            Ok(()) => count(&counters.answers),
            Err(_gone) => {}
        },
        None => count(&counters.no_memory),
    }
}
