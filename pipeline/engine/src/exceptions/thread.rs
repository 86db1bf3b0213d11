//! The thread of a TAP. It moves frames between the kernel and the data cores, and tells the kernel of the port's link.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pmdns_config::narrow::to_u8;
use pmdns_counters::{add, counters};
use pmdns_nics::{Burst, Frame, FramePool, KernelEnd, MAX_BURST, release};
use pmdns_stages::Packet;
use pmdns_stages::exceptions::{ExceptionClass, KnownRouters, finish_checksum};

use crate::news::AllPortNews;
use crate::ring::{RingReceiver, RingSender};
use crate::threads;

/// The wait of a thread that found nothing to do grows by this much each time, up to the most. Data cores make no system
/// calls, so they cannot wake it.
const WAIT: Duration = Duration::from_micros(100);
const MAX_WAITS: u32 = 10;

/// The ends of the rings that the thread of a TAP holds.
pub(crate) struct TapRings {
    /// The port's number.
    pub(crate) port: usize,
    /// From each core, a ring for each class.
    pub(crate) exceptions: Vec<Vec<RingReceiver<Packet>>>,
    /// To the core that sends what the kernel sends; `None` at the end.
    pub(crate) frames: Option<RingSender<Frame>>,
}

counters! {
    /// The counters of one TAP, while its thread counts.
    TapCounters,
    /// The counters of one TAP.
    TapSnapshot {
        /// Frames that the kernel took.
        to_kernel: counter,
        /// Frames that the kernel did not take: the interface is down or gone.
        refused: counter,
        /// Frames that the kernel sent, and that went to a data core.
        from_kernel: counter,
        /// Frames that the kernel sent and that are too long for a packet buffer.
        too_long: counter,
        /// Whether the interface has carrier, as the port's link: 1 or 0.
        link_up: gauge,
        /// Whether the interface was deleted by somebody else: 1 or 0. Then nothing passes until another process starts.
        gone: gauge,
    }
}

/// The thread of one TAP.
pub struct TapThread {
    pub(crate) rings: TapRings,
    /// The interface. `None`: nobody made one, and the thread is not started.
    pub(crate) kernel: Option<Box<dyn KernelEnd>>,
    /// Whether it reads what the kernel sends. Of two processes that have the interface one does.
    pub(crate) reads: Arc<AtomicBool>,
    /// What it has told the kernel of the link.
    pub(crate) told: Option<bool>,
    /// By class, what found no room with the kernel.
    pub(crate) left: [Burst; ExceptionClass::ALL.len()],
    /// Where its frames come from.
    pub(crate) pool: FramePool,
    /// Whether frames of the port may have unfinished checksums without saying so.
    pub(crate) partial_checksums: bool,
    /// The routers that the kernel has sessions with, as far as its frames tell.
    pub(crate) peers: Arc<KnownRouters>,
    /// The news of the ports.
    pub(crate) news: AllPortNews,
    /// What it counts.
    pub(crate) counters: Arc<TapCounters>,
    /// Whether it is to end.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Works until `stop` is set and the data cores have ended.
pub fn run(mut thread: TapThread) {
    let Some(mut kernel) = thread.kernel.take() else { return };
    let mut idle_turns = 0;
    loop {
        if thread.stop.load(Ordering::Relaxed) {
            // The cores end when no more frames can come.
            thread.rings.frames = None;
            if thread.rings.exceptions.iter().flatten().all(RingReceiver::has_ended) {
                return;
            }
        }
        if thread.turn(kernel.as_mut()) > 0 {
            idle_turns = 0;
            continue;
        }
        idle_turns = (idle_turns + 1).min(MAX_WAITS);
        thread.rings.exceptions.iter().flatten().for_each(RingReceiver::publish);
        thread.wait(kernel.as_ref(), WAIT * idle_turns);
    }
}

impl TapThread {
    /// The number of its port.
    pub fn port(&self) -> usize {
        self.rings.port
    }

    /// Whether it has been given an interface.
    pub fn has_interface(&self) -> bool {
        self.kernel.is_some()
    }

    /// Gives it its interface. The kernel's frames are read while `reads` says so.
    pub fn attach(&mut self, kernel: Box<dyn KernelEnd>, reads: Arc<AtomicBool>) {
        (self.kernel, self.reads) = (Some(kernel), reads);
    }

    /// One pass: news, frames to the kernel, frames from it. Returns how many frames it moved.
    pub(crate) fn turn(&mut self, kernel: &mut dyn KernelEnd) -> usize {
        self.apply_link_state(kernel);
        self.write(kernel) + self.read(kernel)
    }

    /// The interface's carrier is that of the port. While another process reads what the kernel sends, that one says so.
    fn apply_link_state(&mut self, kernel: &mut dyn KernelEnd) {
        if !self.reads.load(Ordering::Relaxed) {
            self.told = None;
            return;
        }
        let is_up = self.news[self.rings.port].is_up();
        if self.told == Some(is_up) {
            return;
        }
        self.told = Some(is_up);
        self.counters.link_up.store(is_up.into(), Ordering::Relaxed);
        if let Err(error) = kernel.set_link(is_up) {
            note(&self.counters, &error);
        }
    }

    /// Writes what waits: a burst of each ring, those of the first class first. What finds no room with the kernel stays, and
    /// so does what comes after it.
    fn write(&mut self, kernel: &mut dyn KernelEnd) -> usize {
        let mut moved = 0;
        for (class, left) in self.left.iter_mut().enumerate() {
            for rings in &mut self.rings.exceptions {
                let mut packets = pmdns_stages::Batch::new();
                rings[class].pop_batch(&mut packets, left.remaining_capacity());
                packets.iter_mut().for_each(|one| finish_checksum(one, self.partial_checksums));
                left.extend(packets.into_iter().map(|packet| packet.frame));
                let offered = left.len();
                let outcome = if offered > 0 { kernel.transmit(left) } else { Ok(()) };
                add(&self.counters.to_kernel, (offered - left.len()) as u64);
                if let Err(error) = outcome
                    && error.kind() != io::ErrorKind::WouldBlock
                {
                    note(&self.counters, &error);
                    add(&self.counters.refused, left.len() as u64);
                    release(left);
                }
                moved += offered - left.len();
                if !left.is_empty() {
                    return moved;
                }
            }
        }
        moved
    }

    /// Reads a burst, as far as the ring has room: what stays with the kernel slows its senders down.
    fn read(&mut self, kernel: &mut dyn KernelEnd) -> usize {
        let reads = self.reads.load(Ordering::Relaxed);
        let Some(ring) = self.rings.frames.as_mut().filter(|_| reads) else { return 0 };
        let mut burst = Burst::new();
        let room = ring.free(MAX_BURST).min(MAX_BURST);
        match kernel.receive(&self.pool, &mut burst, room) {
            Ok(too_long) => add(&self.counters.too_long, too_long as u64),
            Err(error) => note(&self.counters, &error),
        }
        for frame in &mut burst {
            frame.set_port(to_u8(self.rings.port));
            self.peers.note_sent(frame.bytes());
        }
        let passed = ring.push_batch(&mut burst);
        add(&self.counters.from_kernel, passed as u64);
        passed
    }

    /// Waits for the kernel, unless it could wake this thread for nothing.
    fn wait(&self, kernel: &dyn KernelEnd, time: Duration) {
        let has_room = self.rings.frames.as_ref().is_some_and(|ring| ring.free(1) > 0);
        let is_gone = self.counters.gone.load(Ordering::Relaxed) != 0;
        let reads = self.reads.load(Ordering::Relaxed);
        if reads && has_room && !is_gone && self.pool.in_use() < self.pool.capacity() {
            kernel.wait(time);
        } else {
            threads::nap(time);
        }
    }
}

/// Notes the end of the interface. Other errors pass.
fn note(counters: &TapCounters, error: &io::Error) {
    if error.raw_os_error() == Some(libc::EBADFD) && counters.gone.swap(1, Ordering::Relaxed) == 0 {
        tracing::error!("a TAP was deleted; nothing passes between its port and the kernel");
    }
}

#[cfg(test)]
mod tests;
