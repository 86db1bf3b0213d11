//! Points of observation: where packets leave the stations of a core, and where the slow path's answers leave it.
//!
//! An [`Observer`] sees each packet that has left a station: the packet, the stage, and by its step where it goes. It also sees
//! the batches that leave the line, and the slow path's answers when they leave. Without observers this costs a core two branches
//! for each batch.
//!
//! Observers are lent to the cores as rules are ([`rules`](crate::rules)). [`ObserverLender::lend`] puts a box for each core into
//! that core's ring. The core takes it in its next housekeeping. When [`Observer::has_ended`] says so, the core gives the box back,
//! and [`ObserverLender::collect`] frees it. So a data core allocates and frees nothing.
//!
//! # Another observer
//!
//! 1. A type that implements [`Observer`]. It runs on a data core: it must not allocate, lock, log, or call the kernel. What it
//!    wants to keep it puts into a ring that was made with it. If the ring is full, it counts and forgets
//!    (a capture does this).
//! 2. A thread of its own, which takes from these rings.
//! 3. `lender.lend(|core| Box::new(...))`, with the lender of [`Engine`](crate::engine::Engine). It stays until it says that it has
//!    ended. One that is configured is lent at the start and never ends.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use pmdns_nics::Frame;
use pmdns_resolver::Origin;
use pmdns_stages::wire::layout::Layout;
use pmdns_stages::{Batch, Packet, StageName, Step, Tick};

use crate::ring::{RingReceiver, RingSender, ring};
use crate::station::StageTimer;

/// Observers of a core at a time, at most.
pub const MAX_OBSERVERS: usize = 8;

/// A packet that has left a station. Its step says where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'p> {
    /// The packet. Behind the stage `encode` its frame is the answer.
    pub packet: &'p Packet,
    /// The stage that it leaves.
    pub stage: StageName,
    /// When.
    pub now: Tick,
    /// Its share of the time that the station took for the whole batch; 0 if the stage is not timed.
    pub ticks: u64,
}

/// An answer of the slow path that leaves by this core.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'f> {
    /// The answer.
    pub frame: &'f Frame,
    /// When its query came.
    pub received: Tick,
    /// When it leaves.
    pub now: Tick,
    /// Where its headers are and what was asked.
    pub layout: Layout,
    /// Where the answer came from.
    pub origin: Origin,
}

/// An observer of packets on one core. It runs there, so it must not allocate, lock, log, or call the kernel.
pub trait Observer: Send {
    /// A packet has left a station of this core. It is told to observers that watch stations.
    fn left(&mut self, _departure: &Departure<'_>) {}

    /// An answer of the slow path leaves.
    fn sent(&mut self, sent: &Sent<'_>);

    /// The packets of a batch leave the line. If this core `sends`, those whose step says so leave by a port.
    fn leave(&mut self, _batch: &Batch, _sends: bool, _now: Tick) {}

    /// Whether it wants to see packets leave single stations. If no observer does, stations run as without observers.
    fn watches_stations(&self) -> bool {
        false
    }

    /// Whether it is to be given back. Asked every 10 ms.
    fn has_ended(&self) -> bool {
        false
    }
}

type Lent = Box<dyn Observer>;

/// A core's end: the observers that it has.
pub struct Observers {
    here: ArrayVec<Lent, MAX_OBSERVERS>,
    fresh: RingReceiver<Lent>,
    used: RingSender<Lent>,
    /// Whether one of them watches stations.
    watch: bool,
}

impl Observers {
    /// Whether nobody observes.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.here.is_empty()
    }

    /// Whether nobody watches the stations.
    #[inline]
    pub(crate) fn watch_no_stations(&self) -> bool {
        !self.watch
    }

    /// Takes observers that were lent, and gives back those that have ended.
    #[inline]
    pub(crate) fn poll(&mut self) {
        while let Some(observer) = self.fresh.pop() {
            // There is room: the lender counts what is lent.
            self.watch |= observer.watches_stations();
            self.here.push(observer);
        }
        if !self.here.is_empty() {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        for index in (0..self.here.len()).rev() {
            if self.here[index].has_ended() {
                let given_back = self.used.push(self.here.swap_remove(index)).is_ok();
                debug_assert!(given_back, "there are no more slots than observers");
            }
        }
        self.watch = self.here.iter().any(|observer| observer.watches_stations());
    }

    /// Has the station of `stage` do its work by `run`, and shows the packets that have left it.
    #[cold]
    pub(crate) fn watch(
        &mut self,
        batch: &mut Batch,
        stage: StageName,
        lap: &mut StageTimer,
        run: impl FnOnce(&mut Batch, &mut StageTimer),
    ) {
        let here = Step::at(stage);
        let stood = batch.iter().enumerate().filter(|(_, packet)| packet.step == here);
        // A batch has no more packets than the word has bits.
        let (places, count) =
            stood.fold((0_u64, 0), |(places, count), (place, _)| (places | 1 << place, count + 1));
        if count == 0 {
            return;
        }
        let start = lap.end();
        run(batch, lap);
        let (now, ticks) = (lap.end(), lap.end().saturating_sub(start) / count);
        for (place, packet) in batch.iter().enumerate() {
            if places & 1 << place != 0 && packet.step != here {
                let departure = Departure { packet, stage, now, ticks };
                self.here.iter_mut().for_each(|observer| observer.left(&departure));
            }
        }
        // The next station's time begins when all have seen.
        lap.split();
    }

    /// Shows the packets of a batch that leave the line.
    #[cold]
    pub(crate) fn show_leaving(&mut self, batch: &Batch, sends: bool, now: Tick) {
        self.here.iter_mut().for_each(|observer| observer.leave(batch, sends, now));
    }

    /// Shows an answer of the slow path.
    #[cold]
    pub(crate) fn show(&mut self, sent: &Sent<'_>) {
        self.here.iter_mut().for_each(|observer| observer.sent(sent));
    }
}

const _: () = assert!(pmdns_stages::MAX_BATCH <= u64::BITS as usize);

/// Lends observers to all data cores. Copies lend to the same cores.
#[derive(Clone)]
pub struct ObserverLender {
    cores: Arc<Mutex<Vec<Lender>>>,
}

/// The other end of one core's rings.
struct Lender {
    fresh: RingSender<Lent>,
    used: RingReceiver<Lent>,
    lent: usize,
}

/// No core has room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packets are observed {MAX_OBSERVERS} times already; end another capture or trace")]
pub struct TooManyObservers;

impl ObserverLender {
    /// A lender to so many cores, and the cores' ends.
    pub fn new(cores: usize) -> (Self, Vec<Observers>) {
        let ends = (0..cores).map(|_| {
            let ((fresh, taken), (given_back, used)) = (ring(MAX_OBSERVERS), ring(MAX_OBSERVERS));
            let core =
                Observers { here: ArrayVec::new(), fresh: taken, used: given_back, watch: false };
            (Lender { fresh, used, lent: 0 }, core)
        });
        let (lenders, cores) = ends.unzip();
        (Self { cores: Arc::new(Mutex::new(lenders)) }, cores)
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Lends an observer to each core, which `make` makes for the core's number.
    pub fn lend(&self, mut make: impl FnMut(usize) -> Lent) -> Result<(), TooManyObservers> {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.iter_mut().for_each(Lender::collect);
        if cores.iter().any(|core| core.lent >= MAX_OBSERVERS) {
            return Err(TooManyObservers);
        }
        for (index, core) in cores.iter_mut().enumerate() {
            let is_lent = core.fresh.push(make(index)).is_ok();
            debug_assert!(is_lent, "there are no more slots than observers");
            core.lent += usize::from(is_lent);
        }
        Ok(())
    }

    /// Whether every core has taken what was lent to it.
    pub fn are_taken(&self) -> bool {
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.iter().all(|core| core.fresh.free(MAX_OBSERVERS) == MAX_OBSERVERS)
    }

    /// Frees the observers that have come back. Returns how many are lent, on the core that has most.
    pub fn collect(&self) -> usize {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.iter_mut().for_each(Lender::collect);
        cores.iter().map(|core| core.lent).max().unwrap_or(0)
    }
}

impl Lender {
    fn collect(&mut self) {
        while self.used.pop().is_some() {
            self.lent -= 1;
        }
    }
}

impl fmt::Debug for ObserverLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserverLender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
