//! The addresses that we ask upstreams from over our own ports, and which query waits on which of their UDP ports.
//!
//! One table for the whole node. Any thread of the slow path claims any free UDP port of any source. So each query's
//! port is drawn from all of them (RFC 5452 section 9.2). Data cores read the table to see whom a reply is for.
//! The table says where a reply goes and no more: the slow path compares every reply with the query it sent.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pmdns_config::narrow::{low_u8, to_u8};

/// Query sources of a node, at most.
pub const MAX_SOURCES: usize = 256;
/// The first UDP port that queries leave from: those below belong to services (RFC 6056 section 3.2).
pub const FIRST_PORT: u16 = 1024;

/// UDP ports of a source.
const PORTS: usize = 1 << 16;
/// An entry of the table that nobody owns.
const FREE: u32 = 0;
/// The lowest bits of an entry are the slot, those above are the thread plus one.
const SLOT_BITS: u32 = 24;

/// An address that upstreams are asked from, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Number of the NIC port it is on, as its frames carry it.
    pub port: usize,
    /// The address.
    pub address: IpAddr,
}

/// Which of the node's query sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceIndex(u8);

impl SourceIndex {
    /// Its place in [`QuerySources::sources`].
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Which query waits for the reply to a UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The thread of the slow path, at most [`Owner::MAX_THREAD`].
    pub thread: u8,
    /// The query's slot in the resolver of that thread, at most [`Owner::MAX_SLOT`].
    pub slot: u32,
}

impl Owner {
    /// The highest number of a thread.
    pub const MAX_THREAD: u8 = u8::MAX - 1;
    /// The highest number of a slot.
    pub const MAX_SLOT: u32 = (1 << SLOT_BITS) - 1;
    /// The process before this one, which still waits for replies to its own queries. No thread has so high a number.
    pub const BESIDE: Self = Self { thread: Self::MAX_THREAD, slot: 0 };

    /// The owner as an entry of the table, which is not 0. `None`: its numbers are too high.
    #[inline]
    pub(crate) const fn to_word(self) -> Option<u32> {
        if self.thread > Self::MAX_THREAD || self.slot > Self::MAX_SLOT {
            return None;
        }
        Some((self.thread as u32 + 1) << SLOT_BITS | self.slot)
    }

    /// The owner in an entry of the table; `None`: there is none.
    #[inline]
    pub(crate) fn of_word(word: u32) -> Option<Self> {
        let thread = low_u8(u64::from(word >> SLOT_BITS)).checked_sub(1)?;
        Some(Self { thread, slot: word & Self::MAX_SLOT })
    }
}

/// Every query source of the node, and the owners of their UDP ports.
///
/// Its numbers are atomic and each stands for itself, so that no access has to be ordered with another.
pub struct QuerySources {
    sources: Box<[Source]>,
    /// For each source an entry by UDP port: `FREE`, or the owner.
    owners: Box<[AtomicU32]>,
    /// Whether the process before this one may wait on the UDP ports without an owner.
    is_beside: AtomicBool,
}

impl QuerySources {
    /// A table of these sources, on which no query waits.
    ///
    /// # Panics
    /// If there are more than [`MAX_SOURCES`], which the check of the configuration refuses.
    pub fn new(sources: Vec<Source>) -> Self {
        assert!(sources.len() <= MAX_SOURCES, "the configuration bounds the query sources");
        let owners = (0..sources.len() * PORTS).map(|_| AtomicU32::new(FREE)).collect();
        Self { sources: sources.into(), owners, is_beside: AtomicBool::new(false) }
    }

    /// Every source, by index.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The indexes of every source.
    pub fn indexes(&self) -> impl Iterator<Item = SourceIndex> + use<> {
        (0..self.sources.len()).map(|index| SourceIndex(to_u8(index)))
    }

    /// The source with this index, if there is one.
    #[inline]
    pub fn source(&self, index: SourceIndex) -> Option<Source> {
        self.sources.get(index.get()).copied()
    }

    /// Which source has this address on this NIC port.
    pub fn find(&self, port: usize, address: IpAddr) -> Option<SourceIndex> {
        let wanted = Source { port, address };
        self.sources.iter().position(|source| *source == wanted).map(|at| SourceIndex(to_u8(at)))
    }

    /// The same for an IPv4 address.
    pub fn find_v4(&self, port: usize, address: [u8; 4]) -> Option<SourceIndex> {
        self.find(port, address.into())
    }

    /// The same for an IPv6 address.
    pub fn find_v6(&self, port: usize, address: [u8; 16]) -> Option<SourceIndex> {
        self.find(port, address.into())
    }

    /// Makes `owner` the owner of a source's UDP port. `false`: somebody owns it, or no query may leave from there.
    #[inline]
    #[must_use]
    pub fn claim(&self, source: SourceIndex, udp_port: u16, owner: Owner) -> bool {
        debug_assert!(owner.to_word().is_some(), "threads and slots are bounded");
        let (Some(entry), Some(word)) = (self.entry(source, udp_port), owner.to_word()) else {
            return false;
        };
        udp_port >= FIRST_PORT
            && entry.compare_exchange(FREE, word, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives up a UDP port, which only its owner may do.
    #[inline]
    pub fn release(&self, source: SourceIndex, udp_port: u16) {
        if let Some(entry) = self.entry(source, udp_port) {
            debug_assert_ne!(entry.load(Ordering::Relaxed), FREE, "its owner gives it up, once");
            entry.store(FREE, Ordering::Relaxed);
        }
    }

    /// Which query waits on a UDP port.
    #[inline]
    pub fn owner(&self, source: SourceIndex, udp_port: u16) -> Option<Owner> {
        Owner::of_word(self.entry(source, udp_port)?.load(Ordering::Relaxed)).or_else(|| {
            let is_beside = udp_port >= FIRST_PORT && self.is_beside.load(Ordering::Relaxed);
            is_beside.then_some(Owner::BESIDE)
        })
    }

    /// Whether the process before this one may wait on the UDP ports that have no owner: then it is the [owner](Owner::BESIDE).
    pub fn set_beside(&self, is_beside: bool) {
        self.is_beside.store(is_beside, Ordering::Relaxed);
    }

    /// How many UDP ports have an owner. It reads the whole table.
    pub fn claimed(&self) -> usize {
        self.owners.iter().filter(|entry| entry.load(Ordering::Relaxed) != FREE).count()
    }

    #[inline]
    fn entry(&self, source: SourceIndex, udp_port: u16) -> Option<&AtomicU32> {
        self.owners.get(source.get() * PORTS + usize::from(udp_port))
    }
}

impl fmt::Debug for QuerySources {
    /// Without the owners, of which there are 65,536 for each source.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuerySources").field("sources", &self.sources).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use proptest::prelude::*;

    use super::*;

    /// Two sources on port 0, one on port 1 whose address port 0 has as well.
    fn table() -> QuerySources {
        let source = |port, address: &str| Source { port, address: address.parse().unwrap() };
        QuerySources::new(vec![
            source(0, "10.9.0.60"),
            source(0, "fd09::60"),
            source(1, "10.9.0.60"),
        ])
    }

    const ME: Owner = Owner { thread: 3, slot: 70_000 };
    const OTHER: Owner = Owner { thread: 0, slot: 0 };

    #[test]
    fn a_source_is_an_address_on_a_port() {
        let table = table();
        let indexes: Vec<_> = table.indexes().collect();
        assert_eq!(table.find_v4(0, [10, 9, 0, 60]), Some(indexes[0]));
        assert_eq!(table.find_v4(1, [10, 9, 0, 60]), Some(indexes[2]));
        assert_eq!(table.find_v4(2, [10, 9, 0, 60]), None);
        let ipv6 = "fd09::60".parse::<std::net::Ipv6Addr>().unwrap().octets();
        assert_eq!(table.find_v6(0, ipv6), Some(indexes[1]));
        assert_eq!(table.find_v6(1, ipv6), None);
        for index in indexes {
            assert_eq!(table.source(index), Some(table.sources()[index.get()]));
        }
    }

    #[test]
    fn a_udp_port_has_one_owner_until_it_is_released() {
        let table = table();
        let source = SourceIndex(1);
        assert_eq!(table.owner(source, 5000), None);
        assert!(table.claim(source, 5000, ME));
        assert!(!table.claim(source, 5000, OTHER), "it is taken");
        assert!(!table.claim(source, 5000, ME), "even for its owner");
        assert_eq!((table.owner(source, 5000), table.claimed()), (Some(ME), 1));
        assert_eq!(table.owner(SourceIndex(0), 5000), None, "of another source");
        assert!(table.claim(SourceIndex(0), 5000, OTHER));
        table.release(source, 5000);
        assert_eq!((table.owner(source, 5000), table.claimed()), (None, 1));
        assert!(table.claim(source, 5000, OTHER));
        assert_eq!(table.owner(source, 5000), Some(OTHER), "slot 0 of thread 0 is somebody");
    }

    #[test]
    fn ports_of_services_are_nobody_s() {
        let table = table();
        for port in [0, 53, FIRST_PORT - 1] {
            assert!(!table.claim(SourceIndex(0), port, ME), "{port}");
        }
        assert!(table.claim(SourceIndex(0), FIRST_PORT, ME));
        assert!(table.claim(SourceIndex(0), u16::MAX, ME));
        assert_eq!(table.claimed(), 2);
    }

    #[test]
    fn what_nobody_waits_for_here_is_for_the_process_before_as_long_as_it_is_there() {
        let table = table();
        let source = SourceIndex(0);
        assert!(table.claim(source, 5000, ME));
        table.set_beside(true);
        let owner = |port| table.owner(source, port);
        assert_eq!([owner(5000), owner(5001), owner(53)], [Some(ME), Some(Owner::BESIDE), None]);
        assert_eq!(table.owner(SourceIndex(3), 5001), None, "there is no such source");
        assert!(table.claim(source, 5001, OTHER), "it is free here");
        table.set_beside(false);
        assert_eq!([owner(5001), owner(5002)], [Some(OTHER), None]);
    }

    #[test]
    fn a_source_that_is_not_there_has_no_ports() {
        let table = table();
        let nowhere = SourceIndex(3);
        assert_eq!((table.source(nowhere), table.owner(nowhere, 5000)), (None, None));
        assert!(!table.claim(nowhere, 5000, ME));
        table.release(nowhere, 5000);
        let empty = QuerySources::new(Vec::new());
        assert!(!empty.claim(SourceIndex(0), 5000, ME));
        assert_eq!(empty.find_v4(0, [0; 4]), None);
    }

    /// CVE-2026-50252 was a range of ports for each thread.
    #[test]
    fn each_thread_may_claim_every_port_of_every_source() {
        let table = table();
        for source in table.indexes() {
            for port in (FIRST_PORT..=u16::MAX).step_by(997) {
                let thread = low_u8(port.into()) % 4;
                assert!(table.claim(source, port, Owner { thread, slot: port.into() }));
            }
        }
    }

    /// Threads claim and release the same few ports. A thread that has one finds itself the owner until it gives it up.
    #[test]
    fn threads_never_own_the_same_port() {
        const ROUNDS: u32 = if cfg!(miri) { 100 } else { 50_000 };
        const CONTESTED: u16 = 3;
        let table = table();
        let source = SourceIndex(0);
        let start = Barrier::new(3);
        let work = |thread: u8| {
            start.wait();
            let mut won = 0;
            for round in 0..ROUNDS {
                let me = Owner { thread, slot: round };
                let port = 2000 + (round % u32::from(CONTESTED)) as u16;
                if table.claim(source, port, me) {
                    won += 1;
                    assert_eq!(table.owner(source, port), Some(me));
                    std::hint::spin_loop();
                    assert_eq!(table.owner(source, port), Some(me));
                    table.release(source, port);
                }
            }
            won
        };
        let won: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(won.iter().sum::<u32>() > 0, "somebody gets on: {won:?}");
        assert_eq!(table.claimed(), 0);
    }

    proptest! {
        #[test]
        fn the_table_does_what_a_map_would(
            steps in proptest::collection::vec((any::<bool>(), 0u8..4, 1020u16..1030, 0u8..3), 0..60),
        ) {
            let table = table();
            let mut map = std::collections::HashMap::new();
            for (number, (claims, source, port, thread)) in steps.into_iter().enumerate() {
                let (source, owner) = (SourceIndex(source), Owner { thread, slot: number as u32 });
                if claims {
                    let is_port = port >= FIRST_PORT && source.get() < 3;
                    let expected = is_port && !map.contains_key(&(source, port));
                    prop_assert_eq!(table.claim(source, port, owner), expected);
                    if expected {
                        map.insert((source, port), owner);
                    }
                } else if map.remove(&(source, port)).is_some() {
                    table.release(source, port);
                }
                prop_assert_eq!(table.owner(source, port), map.get(&(source, port)).copied());
            }
            prop_assert_eq!(table.claimed(), map.len());
        }

        #[test]
        fn an_owner_is_read_as_it_was_written(thread: u8, slot in 0..Owner::MAX_SLOT * 2) {
            let owner = Owner { thread, slot };
            let fits = thread <= Owner::MAX_THREAD && slot <= Owner::MAX_SLOT;
            prop_assert_eq!(owner.to_word().and_then(Owner::of_word), fits.then_some(owner));
            prop_assert_ne!(owner.to_word(), Some(FREE));
        }
    }
}
