//! Rings that are full and that nobody empties.

use pmdns_engine::engine::{RingEnds, RingGauges};

/// The counts of the rings at the last check.
pub(super) struct StuckRings {
    rings: RingGauges,
    /// By ring: values refused, and values taken.
    last: Vec<(u64, u64)>,
}

impl StuckRings {
    pub(super) fn new(rings: &RingGauges) -> Self {
        Self { rings: rings.clone(), last: vec![(0, 0); rings.len()] }
    }

    /// The rings that have refused values since the last check, while their other end took none.
    pub(super) fn poll(&mut self) -> Vec<RingEnds> {
        let mut stuck = Vec::new();
        for ((ends, gauge), last) in self.rings.iter().zip(&mut self.last) {
            let counts = (gauge.refused(), gauge.occupancy().taken);
            let (refused, taken) = std::mem::replace(last, counts);
            if is_needed(*ends) && counts.0 > refused && counts.1 == taken {
                stuck.push(*ends);
            }
        }
        stuck
    }
}

/// Whether clients get no answers without it. What goes to the kernel and notes of hits are shed under load.
fn is_needed(ends: RingEnds) -> bool {
    matches!(
        ends,
        RingEnds::Packets(..)
            | RingEnds::Misses(..)
            | RingEnds::Answers(..)
            | RingEnds::Queries(..)
            | RingEnds::Replies(..)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pmdns_counters::{Occupancy, RingGauge};

    use super::*;

    #[test]
    fn a_ring_that_refuses_and_is_not_emptied_is_stuck() {
        let gauge = || Arc::new(RingGauge::new(4));
        let rings: RingGauges =
            [(RingEnds::Misses(0, 0), gauge()), (RingEnds::Hits(0, 0), gauge())].into();
        let mut stuck = StuckRings::new(&rings);
        let mut occupancy = Occupancy::default();
        for (refused, taken, is_stuck) in
            [(0, 0, false), (3, 2, false), (3, 0, true), (0, 0, false), (1, 1, false)]
        {
            occupancy.sample(4, taken);
            for (_, gauge) in rings.iter() {
                gauge.refuse(refused);
                gauge.publish(&occupancy);
            }
            let wanted = if is_stuck { vec![RingEnds::Misses(0, 0)] } else { vec![] };
            assert_eq!(stuck.poll(), wanted, "{refused} {taken}");
        }
    }
}
