//! The way out of one slow path thread: rings to the workers that transmit its answers. Answers of one turn are pushed
//! together, because each push alone would take the ring's position away from the core at the other end.

use arrayvec::ArrayVec;
use pmdns_resolver::Answered;

use crate::ring::RingSender;

/// The most answers that are pushed together.
const MAX_STAGED: usize = 32;

/// The rings of answers of one thread.
pub(super) struct Outlets {
    outlets: Vec<Outlet>,
    /// The outlet that answers a worker's misses, by worker.
    by_worker: Vec<usize>,
}

struct Outlet {
    ring: RingSender<Answered>,
    /// Answers for which the ring has room.
    staged: ArrayVec<Answered, MAX_STAGED>,
}

impl Outlets {
    /// These rings, and which of them answers each worker's misses.
    pub(super) fn new(rings: Vec<RingSender<Answered>>, by_worker: Vec<usize>) -> Self {
        let outlet = |ring| Outlet { ring, staged: ArrayVec::new() };
        Self { outlets: rings.into_iter().map(outlet).collect(), by_worker }
    }

    /// Takes an answer to a miss of `worker`, which leaves with the next [`Outlets::flush`] at the latest. If its ring is
    /// full, the answer is returned.
    pub(super) fn push(&mut self, worker: usize, answer: Answered) -> Result<(), Answered> {
        let Outlet { ring, staged } = &mut self.outlets[self.by_worker[worker]];
        // Nobody else pushes, so what is free now is free when these are pushed.
        if ring.free(staged.len() + 1) <= staged.len() {
            ring.refuse(1);
            return Err(answer);
        }
        staged.push(answer);
        if staged.is_full() {
            ring.push_batch(staged);
        }
        Ok(())
    }

    /// Pushes what waits.
    pub(super) fn flush(&mut self) {
        for Outlet { ring, staged } in &mut self.outlets {
            ring.push_batch(staged);
            debug_assert!(staged.is_empty(), "there was room for them");
        }
    }
}
