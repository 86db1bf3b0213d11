//! The rings of one data core to the threads of the slow path. They carry what came over a port for the queries of these
//! threads: replies of upstreams, ICMP errors, and advertisements of next hops. In a hand-over some are for the process before.

use pmdns_stages::arrival::Arrival;
use pmdns_stages::query_sources::Owner;
use pmdns_stages::{Batch, Packet};

use crate::counters::Tally;
use crate::ring::RingSender;

/// The most messages of next hops between two calls of [`ReplyRings::renew`]. A host on the link that says more
/// must not take the ring from replies.
const MAX_ADVERTISEMENTS: u32 = 32;

/// Rings by thread, and the packets to be sent this turn.
pub(crate) struct ReplyRings {
    rings: Vec<(RingSender<Packet>, Batch)>,
    /// That of what is for the process before.
    beside: Option<(RingSender<Packet>, Batch)>,
    /// Advertisements that may still pass.
    advertisements: u32,
}

impl Default for ReplyRings {
    fn default() -> Self {
        Self { rings: Vec::new(), beside: None, advertisements: MAX_ADVERTISEMENTS }
    }
}

impl ReplyRings {
    /// Adds the ring to the next thread.
    pub(crate) fn push(&mut self, ring: RingSender<Packet>) {
        self.rings.push((ring, Batch::new()));
    }

    /// Sets the ring of what is for the process before.
    pub(crate) fn set_beside(&mut self, ring: RingSender<Packet>) {
        self.beside = Some((ring, Batch::new()));
    }

    /// Lets next hops speak again.
    pub(crate) fn renew(&mut self) {
        self.advertisements = MAX_ADVERTISEMENTS;
    }

    /// Drops the senders, so that the slow path sees the end of the rings.
    pub(crate) fn clear(&mut self) {
        self.rings.clear();
    }

    /// Keeps a packet for the thread that it is for. A turn has no more packets than a batch holds.
    pub(crate) fn stage(&mut self, packet: Packet, tally: &mut Tally) {
        let arrival = Arrival::of_key(packet.key);
        if arrival == Some(Arrival::Neighbor) {
            let Some(left) = self.advertisements.checked_sub(1) else {
                return tally.replies_lost += 1;
            };
            self.advertisements = left;
        }
        let lane = match arrival {
            Some(arrival) if arrival.owner() == Some(Owner::BESIDE) => self.beside.as_mut(),
            Some(arrival) => self.rings.get_mut(usize::from(arrival.thread())),
            None => None,
        };
        match lane {
            Some((_, staged)) if !staged.is_full() => staged.push(packet),
            _ => tally.replies_lost += 1,
        }
    }

    /// Sends what was kept. If a ring is full, the newest packets are dropped: their queries are tried again.
    #[inline]
    pub(crate) fn flush(&mut self, tally: &mut Tally) {
        for (ring, staged) in self.rings.iter_mut().chain(&mut self.beside) {
            if !staged.is_empty() {
                tally.replies += ring.push_batch(staged) as u64;
                tally.replies_lost += staged.len() as u64;
                staged.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pmdns_stages::testing::frame_of;

    use super::*;
    use crate::ring::{RingReceiver, ring};

    /// Rings to so many threads, of so many slots each.
    fn rings(threads: usize, slots: usize) -> (ReplyRings, Vec<RingReceiver<Packet>>) {
        let mut rings = ReplyRings::default();
        let ends = (0..threads).map(|_| {
            let (sender, receiver) = ring(slots);
            rings.push(sender);
            receiver
        });
        let receivers = ends.collect();
        (rings, receivers)
    }

    fn packet(key: u64) -> Packet {
        Packet { key, ..Packet::arrived(frame_of(&[0; 60]), 0) }
    }

    fn reply(thread: u8) -> Packet {
        packet(Arrival::Reply(Owner { thread, slot: 7 }).key())
    }

    #[test]
    fn a_flood_of_advertisements_leaves_the_ring_to_replies() {
        let (mut rings, mut receivers) = rings(1, 64);
        let mut tally = Tally::default();
        for _ in 0..1000 {
            rings.stage(packet(Arrival::Neighbor.key()), &mut tally);
            rings.flush(&mut tally);
        }
        assert_eq!((tally.replies, tally.replies_lost), (32, 968));
        for _ in 0..32 {
            rings.stage(reply(0), &mut tally);
            rings.flush(&mut tally);
        }
        assert_eq!((tally.replies, tally.replies_lost), (64, 968), "there is room for all of them");
        while receivers[0].pop().is_some() {}
        rings.renew();
        for _ in 0..40 {
            rings.stage(packet(Arrival::Neighbor.key()), &mut tally);
            rings.flush(&mut tally);
        }
        assert_eq!((tally.replies, tally.replies_lost), (96, 976), "a while later 32 more pass");
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_other_threads_get_theirs() {
        let (mut rings, mut receivers) = rings(2, 8);
        let mut tally = Tally::default();
        for _ in 0..20 {
            rings.stage(reply(0), &mut tally);
            rings.flush(&mut tally);
        }
        rings.stage(reply(1), &mut tally);
        rings.flush(&mut tally);
        let arrived = receivers.iter_mut().map(|ring| std::iter::from_fn(|| ring.pop()).count());
        assert_eq!(arrived.collect::<Vec<_>>(), [8, 1]);
        assert_eq!((tally.replies, tally.replies_lost), (9, 12));
    }

    #[test]
    fn what_is_for_the_process_before_has_a_ring_of_its_own() {
        let (mut rings, mut receivers) = rings(1, 8);
        let (sender, mut before) = ring(8);
        rings.set_beside(sender);
        let mut tally = Tally::default();
        for key in [reply(0).key, Arrival::TooBig(Owner::BESIDE).key(), reply(1).key] {
            rings.stage(packet(key), &mut tally);
        }
        rings.flush(&mut tally);
        assert_eq!((tally.replies, tally.replies_lost), (2, 1));
        assert!(receivers[0].pop().is_some() && before.pop().is_some());
    }

    #[test]
    fn what_no_thread_owns_is_dropped_and_counted() {
        let (mut rings, _receivers) = rings(1, 8);
        let mut tally = Tally::default();
        for key in [0, u64::MAX, reply(1).key, reply(Owner::MAX_THREAD).key] {
            rings.stage(packet(key), &mut tally);
        }
        rings.flush(&mut tally);
        assert_eq!((tally.replies, tally.replies_lost), (0, 4));
    }
}
