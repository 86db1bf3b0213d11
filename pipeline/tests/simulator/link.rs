//! What comes over the link of the port by which upstreams are asked.

use crate::checks::ended_on_the_link;
use crate::history::History;

/// Turns in which each thread takes all replies from its rings, and often that many at most.
const TURNS: usize = 40;
const MOST_TURNS: usize = 100;

impl History {
    /// All replies that have got to the port are read. Whoever reads one later takes it for a fresh one.
    pub(super) fn take_in_replies(&mut self) {
        let Some(fed) = self.line.link.as_ref().map(|link| link.fed) else { return };
        for _ in 0..MOST_TURNS {
            let is_over = ended_on_the_link(self) == fed;
            for _ in 0..TURNS {
                let threads = 0..self.line.threads();
                threads.for_each(|thread| self.line.turn(thread, TURNS, &mut self.internet));
            }
            if is_over {
                return;
            }
        }
    }
}
