//! `pmdns replay`: a capture through the whole line, as an ordinary user.
//!
//! The ports use the memory driver, and this thread takes the role of the wire. It spreads the capture's frames over
//! the RX queues by source address, as RSS does, and writes the frames that the line sends. No queue or ring overflows:
//! few frames are on the line at a time, and the rings are long. So a capture gets the same answers every time.
//! Everything else, including the slow path, is as in `pmdns run`.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use pmdns_config::Config;
use pmdns_config::narrow::{to_u8, to_u16, to_usize};
use pmdns_engine::engine::{Engine, EngineError, EngineParts, FromBefore, Gauges};
use pmdns_engine::topology::{Topology, TopologyError};
use pmdns_nics::pcap::{Capture, PcapError, PcapWriter};
use pmdns_nics::{Burst, FRAME_ROOM, FramePool, HeapPool, MAX_BURST, Nic, Queues, memory};

use crate::clients::{ClientsError, OpenClients};
use pmdns_control::report::Report;

use crate::control::report;

/// The most frames of the capture that are on the line at a time.
const WINDOW: usize = 64;
/// Slots of every ring and of each queue of the wire, and frames for the slow path's answers.
const DEPTH: u32 = 1 << 16;
/// How long the line may stand still before the replay is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause when no frame comes.
const LOOK: Duration = Duration::from_micros(50);

/// Why a capture could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The capture, or the file for the answers.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Answers cannot be written.
    #[error("cannot write the answers: {0}; is the disk full?")]
    Write(#[from] std::io::Error),
    /// The plan.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The client table.
    #[error(transparent)]
    Clients(#[from] ClientsError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A frame of the capture fits no buffer.
    #[error("frame {0} of the capture is longer than {FRAME_ROOM} bytes; leave it out")]
    TooLong(usize),
    /// Frames were not captured whole.
    #[error("frame {0} was not captured whole; capture again without a snap length (tcpdump -s 0)")]
    CutOff(usize),
    /// The line does not move.
    #[error("the line took no frame for {PATIENCE:?}; please report this")]
    Stuck,
}

/// Runs `input` through the line of `config`, writes the answers to `output`, and returns the counters.
pub fn replay(config: &Config, input: &Path, output: Option<&Path>) -> Result<Report, ReplayError> {
    let capture = Capture::read(input)?;
    if capture.left_out() > 0 {
        tracing::warn!("{} packets are left out: they are not Ethernet", capture.left_out());
    }
    let writer = output.map(PcapWriter::create).transpose()?;
    let config = &without_overflow(config);
    // Threads are not pinned here, so any core number is fine.
    let cores: Vec<usize> =
        config.placements.iter().flat_map(|placement| placement.cores.clone()).chain([0]).collect();
    let queues = to_u16(cores.len());
    let (mut nics, mut near, mut far) = (Vec::<Box<dyn Nic>>::new(), Vec::new(), Vec::new());
    for (number, port) in config.ports.iter().enumerate() {
        let (nic, near_end, far_end) =
            memory::link(&port.name, to_u8(number), queues, DEPTH as usize);
        nics.push(Box::new(nic));
        near.push(near_end);
        far.push(far_end);
    }
    let facts: Vec<_> = nics.iter().map(|nic| nic.facts().clone()).collect();
    let topology = Topology::plan(config, &facts, &cores)?;
    let pool = FramePool::Heap(HeapPool::new(topology.frames));
    let clients = OpenClients::read(config)?;
    let mut engine = Engine::build(EngineParts {
        config,
        topology: topology.clone(),
        facts: &facts,
        queues: near,
        pool,
        streams: None,
        load_encrypted: pmdns_encrypted::load,
        passed: FromBefore::default(),
    })?;
    let clients = clients.zip(engine.clients.take());
    let start = |(open, table): (OpenClients, _)| open.without_journal().start(table, None, None);
    let _clients = clients.map(start).transpose()?;
    let gauges = engine.gauges.clone();
    let running = engine.start(config, false)?;
    let rx_queues = usize::from(topology.ports[0].rx_queues);
    let mut wire =
        Wire { far, pool: HeapPool::new(WINDOW), gauges: gauges.clone(), writer, sent: 0 };
    let played = wire.play(&capture, rx_queues, Duration::from_millis(config.slowpath.deadline_ms));
    running.stop();
    wire.collect()?;
    played?;
    if let Some(mut writer) = wire.writer {
        writer.flush()?;
    }
    Ok(report::read(&gauges, &topology, &nics))
}

/// The same config, with rings and tables too long to overflow.
fn without_overflow(config: &Config) -> Config {
    let mut config = config.clone();
    // The slow path's limits are for all its threads together, and one thread may get all misses.
    let limit = DEPTH as usize * config.slow_path_shards();
    config.slowpath.max_pending = limit;
    config.slowpath.max_waiting = limit;
    config.slowpath.max_waiting_per_client = limit;
    config.frames.ring = DEPTH;
    config.frames.count = DEPTH;
    config.slowpath.ring = DEPTH;
    config
}

/// The far ends of the ports, and the file for the answers.
struct Wire {
    far: Vec<Queues>,
    pool: HeapPool,
    gauges: Gauges,
    writer: Option<PcapWriter<BufWriter<File>>>,
    sent: u64,
}

impl Wire {
    /// Sends every frame of the capture into the first port, and waits until all are dealt with. A miss takes
    /// `deadline` at most.
    fn play(
        &mut self,
        capture: &Capture,
        queues: usize,
        deadline: Duration,
    ) -> Result<(), ReplayError> {
        for (index, record) in capture.records().enumerate() {
            // Misses give their frames back early, so from time to time wait for the slow path.
            if index > 0 && index % (DEPTH as usize / 2) == 0 {
                self.await_quiet(index as u64, deadline)?;
            }
            if record.original_len as usize > record.bytes.len() {
                return Err(ReplayError::CutOff(index + 1));
            }
            let mut frame = self.until(|wire| wire.pool.take())?;
            frame.resize(record.bytes.len()).map_err(|_| ReplayError::TooLong(index + 1))?;
            frame.bytes_mut().copy_from_slice(record.bytes);
            let mut burst = Burst::new();
            burst.push(frame);
            let queue = queue_of(record.bytes, queues);
            self.until(|wire| {
                wire.far[0].tx[queue].transmit(&mut burst);
                burst.is_empty().then_some(())
            })?;
        }
        self.await_quiet(capture.records().len() as u64, deadline)
    }

    /// Waits until all of the first `frames` frames have been dealt with.
    fn await_quiet(&mut self, frames: u64, deadline: Duration) -> Result<(), ReplayError> {
        let start = Instant::now();
        while start.elapsed() < deadline + PATIENCE {
            self.collect()?;
            let workers: Vec<_> = self.gauges.workers.iter().map(|worker| worker.read()).collect();
            let totals = pmdns_engine::counters::totals(&workers);
            let threads = self.gauges.slow_path.iter().map(|thread| thread.snapshot());
            let ended: u64 = threads.map(|thread| thread.ended()).sum();
            let under_way = totals.held + totals.slow_path - ended.min(totals.slow_path);
            if totals.received == frames && totals.balance() && under_way == 0 {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(ReplayError::Stuck)
    }

    /// Collects answers until `attempt` succeeds.
    fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, ReplayError> {
        let start = Instant::now();
        loop {
            if let Some(done) = attempt(self) {
                return Ok(done);
            }
            self.collect()?;
            if start.elapsed() > PATIENCE {
                return Err(ReplayError::Stuck);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Writes the frames that the line has sent.
    fn collect(&mut self) -> Result<(), ReplayError> {
        for queue in self.far.iter_mut().flat_map(|port| &mut port.rx) {
            let mut burst = Burst::new();
            while queue.receive(&mut burst, MAX_BURST) > 0 {
                for frame in burst.drain(..) {
                    if let Some(writer) = &mut self.writer {
                        writer.write(self.sent, frame.bytes())?;
                    }
                    self.sent += 1;
                }
            }
        }
        Ok(())
    }
}

/// The RX queue of a frame. It is chosen by the source address of untagged IP, so that a client stays on its queue.
fn queue_of(frame: &[u8], queues: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    let source = if frame.get(12..14) == Some(&[0x86, 0xdd]) { 22..38 } else { 26..30 };
    frame.get(source).hash(&mut hasher);
    to_usize(hasher.finish() % queues.max(1) as u64)
}
