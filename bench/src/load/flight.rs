//! Queries under way: a table of fixed size in which an answer finds its query without searching.
//!
//! Every query has a number. Its low bits choose the slot. 31 of its bits are sent as query id and source port. So an
//! answer tells its slot, and an answer to an earlier query in the same slot is recognized.

use pmdns_config::narrow::to_u32;

/// The lowest source port.
const FIRST_PORT: u16 = 0x8000;
/// Neighbouring queries leave from this many ports, so that flows spread over a server's sockets.
const PORT_BITS: u32 = 6;
const ID_BITS: u32 = 16;
/// Further port bits: which of the queries with the same slot it is.
const ROUND_BITS: u32 = 9;
const TAG_MASK: u32 = (1 << (PORT_BITS + ID_BITS + ROUND_BITS)) - 1;

/// The most slots: what id and low port bits can tell apart.
pub const MAX_SLOTS: usize = 1 << (PORT_BITS + ID_BITS);
/// The fewest slots.
pub const MIN_SLOTS: usize = 1 << 10;
/// Taken slots that are passed over in search of a free one before the oldest is given up.
const MAX_PROBES: usize = 64;

/// The part of a query's number that its answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    /// Of no query.
    pub const NONE: Self = Self(u32::MAX);

    /// The tag that stands in an answer to UDP port `port` with query id `id`.
    #[inline]
    pub fn from_wire(port: u16, id: u16) -> Self {
        if port < FIRST_PORT {
            return Self::NONE;
        }
        let (low, high) = (u32::from(port) & ((1 << PORT_BITS) - 1), u32::from(port - FIRST_PORT));
        Self(low | u32::from(id) << PORT_BITS | (high >> PORT_BITS) << (PORT_BITS + ID_BITS))
    }
}

/// The source port of query `number`.
#[inline]
pub fn port_of(number: u32) -> u16 {
    let low = number & ((1 << PORT_BITS) - 1);
    let round = (number & TAG_MASK) >> (PORT_BITS + ID_BITS);
    FIRST_PORT | ((round << PORT_BITS | low) & 0xffff) as u16
}

/// The query id of query `number`.
#[inline]
pub fn id_of(number: u32) -> u16 {
    ((number >> PORT_BITS) & 0xffff) as u16
}

/// A query under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The tick at which it should have been sent.
    pub intended: u64,
    /// Its number.
    pub number: u32,
    /// Which template it was made from.
    pub template: u32,
}

const _: () = assert!(size_of::<Flight>() == 16, "four to a cache line");

/// A template number that stands for a free slot.
const FREE: u32 = u32::MAX;

/// The table.
#[derive(Debug)]
pub struct InFlight {
    slots: Box<[Flight]>,
    mask: u32,
    next: u32,
    count: usize,
}

impl InFlight {
    /// A table of `slots` slots, a power of two between [`MIN_SLOTS`] and [`MAX_SLOTS`].
    pub fn new(slots: usize) -> Self {
        let slots = slots.clamp(MIN_SLOTS, MAX_SLOTS).next_power_of_two();
        let free = Flight { intended: 0, number: 0, template: FREE };
        Self { slots: vec![free; slots].into(), mask: to_u32(slots - 1), next: 0, count: 0 }
    }

    /// Queries under way.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Notes a query. Returns its number, and the query that was given up for it, if any. That one was intended before
    /// `deadline`, or was the last of many in the way.
    #[inline]
    pub fn insert(&mut self, intended: u64, template: u32, deadline: u64) -> (u32, Option<Flight>) {
        for _ in 1..MAX_PROBES {
            let held = self.slots[(self.next & self.mask) as usize];
            if held.template == FREE || held.intended < deadline {
                break;
            }
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        let slot = &mut self.slots[(number & self.mask) as usize];
        let held = std::mem::replace(slot, Flight { intended, number, template });
        if held.template == FREE {
            self.count += 1;
            return (number, None);
        }
        (number, Some(held))
    }

    /// The query that `tag` may belong to, for what can be loaded ahead; and starts nothing.
    #[inline]
    pub fn peek(&self, tag: Tag) -> Option<u32> {
        let template = self.slots[(tag.0 & self.mask) as usize].template;
        (template != FREE).then_some(template)
    }

    /// Starts loading what [`InFlight::take`] will read.
    #[inline]
    pub fn prefetch(&self, tag: Tag) {
        pmdns_nics::prefetch(&raw const self.slots[(tag.0 & self.mask) as usize]);
    }

    /// Takes out the query that `tag` belongs to; `None` if it is not, or no longer, under way.
    #[inline]
    pub fn take(&mut self, tag: Tag) -> Option<Flight> {
        let slot = &mut self.slots[(tag.0 & self.mask) as usize];
        let flight = *slot;
        if flight.template == FREE || flight.number & TAG_MASK != tag.0 {
            return None;
        }
        slot.template = FREE;
        self.count -= 1;
        Some(flight)
    }

    /// Takes out query `number`, which was never sent.
    pub fn cancel(&mut self, number: u32) {
        self.take(Tag(number & TAG_MASK));
    }

    /// Takes out every query.
    pub fn sweep(&mut self, mut gone: impl FnMut(Flight)) {
        if self.count == 0 {
            return;
        }
        for slot in &mut self.slots {
            if slot.template != FREE {
                gone(*slot);
                slot.template = FREE;
            }
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(number: u32) -> Tag {
        Tag::from_wire(port_of(number), id_of(number))
    }

    #[test]
    fn a_tag_travels_in_port_and_id() {
        for number in [0, 1, 63, 64, 65_535, 65_536, 0x3f_ffff, 0x40_0000, 0x7fff_ffff] {
            assert_eq!(tag(number), Tag(number));
            assert!(port_of(number) >= FIRST_PORT);
        }
        assert_eq!(tag(u32::MAX), Tag(TAG_MASK), "the top bit stays at home");
        assert_eq!(Tag::from_wire(53, 7), Tag::NONE);
        let ports: std::collections::HashSet<u16> = (0..64).map(port_of).collect();
        assert_eq!(ports.len(), 64);
    }

    #[test]
    fn an_answer_finds_its_query_once() {
        let mut flying = InFlight::new(MIN_SLOTS);
        let (number, gone) = flying.insert(77, 5, 0);
        assert_eq!((gone, flying.count()), (None, 1));
        assert_eq!(flying.peek(tag(number)), Some(5));
        assert_eq!(flying.take(tag(number + 1)), None, "another id");
        assert_eq!(flying.take(Tag::NONE), None);
        assert_eq!(flying.take(tag(number)), Some(Flight { intended: 77, number, template: 5 }));
        assert_eq!(flying.take(tag(number)), None, "a second answer");
        assert_eq!(flying.count(), 0);
    }

    #[test]
    fn an_answer_that_comes_a_round_late_is_not_taken_for_another() {
        let mut flying = InFlight::new(MIN_SLOTS);
        let (first, _) = flying.insert(1, 1, 0);
        for turn in 1..MIN_SLOTS as u64 {
            flying.insert(turn, 2, 0);
        }
        let (second, gone) = flying.insert(5000, 3, 2);
        assert_eq!(second, first + MIN_SLOTS as u32);
        assert_eq!(gone.map(|flight| flight.number), Some(first), "its time was over");
        assert_eq!(flying.take(tag(first)), None);
        assert_eq!(flying.take(tag(second)).map(|flight| flight.template), Some(3));
    }

    #[test]
    fn young_queries_are_passed_over_until_the_bound() {
        let mut flying = InFlight::new(MIN_SLOTS);
        for turn in 0..MIN_SLOTS {
            flying.insert(100 + turn as u64, 1, 0);
        }
        let slots = MIN_SLOTS as u32;
        assert_eq!(flying.take(tag(10)).map(|flight| flight.number), Some(10));
        assert_eq!(flying.insert(9000, 2, 50), (slots + 10, None), "the free slot");
        let (number, gone) = flying.insert(9001, 2, 50);
        assert_eq!(number, slots + 10 + MAX_PROBES as u32);
        assert_eq!(gone.map(|flight| flight.number), Some(10 + MAX_PROBES as u32));
        assert_eq!(flying.count(), MIN_SLOTS);
    }

    #[test]
    fn a_sweep_finds_what_is_left() {
        let mut flying = InFlight::new(MIN_SLOTS);
        let numbers: Vec<u32> = (0..5).map(|turn| flying.insert(turn, 9, 0).0).collect();
        flying.cancel(numbers[2]);
        let mut left = Vec::new();
        flying.sweep(|flight| left.push(flight.number));
        assert_eq!(left, [0, 1, 3, 4]);
        assert_eq!(flying.count(), 0);
        flying.sweep(|_| panic!("nothing is left"));
    }
}
