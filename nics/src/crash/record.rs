//! The bytes of the record. Whoever reads them believes none.
//!
//! ```text
//! magic, how many crashes were known before | crash | crash | ...
//! crash: head | packet | packet | ...
//! ```
//!
//! Numbers are in the order of this machine. The memory is zero at first.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use pmdns_config::narrow::to_u8;

/// Crashes that are kept.
pub const MAX_CRASHES: usize = 8;
/// Packets that are kept of a crash.
pub const MAX_CRASH_PACKETS: usize = 256;
/// Bytes that are kept of a packet.
pub const PACKET_BYTES: usize = PACKET - PACKET_HEAD;

/// What the memory begins with. Its last byte is the number of the layout.
const MAGIC: [u8; 8] = *b"pmdnscr\x01";
const KNOWN: usize = 8;
const HEADER: usize = 64;

/// The fields of a crash.
const SIGNAL: usize = 0;
const CORE: usize = 4;
const TIME: usize = 8;
const COUNT: usize = 16;
const PROCESS: usize = 20;
const VERSION: usize = 24;
const MAX_VERSION: usize = 32;
const WIRES: usize = 56;
const HEAD: usize = 64;
const CRASH: usize = HEAD + MAX_CRASH_PACKETS * PACKET;

/// The fields of a packet.
const PACKET_CORE: usize = 0;
const PACKET_LEN: usize = 4;
const PACKET_PORT: usize = 6;
const PACKET_HEAD: usize = 8;
const PACKET: usize = 1536;

/// All of the memory.
pub(super) const SIZE: usize = HEADER + MAX_CRASHES * CRASH;

/// In the place of a number: no core.
const NO_CORE: u32 = u32::MAX;

/// A crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashRecord {
    /// The signal that has ended the process.
    pub signal: u32,
    /// The core whose thread got it; `None`: another thread.
    pub core: Option<u32>,
    /// Seconds since 1970.
    pub time: u64,
    /// The number of the process.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// How many ports it had. Those behind them are of streams.
    pub wires: u32,
    /// What the cores had in hand; those of that core come first.
    pub packets: Vec<PacketInHand>,
}

/// A packet as it was when the process ended. Its core may have changed it: answers are written over their queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketInHand {
    /// The core that had it.
    pub core: u32,
    /// The number of its port.
    pub port: u8,
    /// How long it was.
    pub len: u16,
    /// Its first bytes.
    pub bytes: Vec<u8>,
}

/// The head of a crash, as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'h> {
    pub(super) signal: u32,
    pub(super) core: Option<u32>,
    pub(super) time: u64,
    pub(super) process: u32,
    pub(super) version: &'h str,
    pub(super) wires: u32,
}

/// Writes a crash piece by piece by `put`, which is told where. It takes nothing and asks for nothing, so a handler of signals may
/// use it. What has been written when that ends too can be read.
pub(super) struct CrashWriter<P: FnMut(usize, &[u8])> {
    put: P,
    start: usize,
    count: u32,
}

impl<P: FnMut(usize, &[u8])> CrashWriter<P> {
    /// Begins the crash of this place. `None`: there is no such place.
    pub(super) fn begin(put: P, place: usize, head: Head<'_>) -> Option<Self> {
        let start = (place < MAX_CRASHES).then_some(HEADER + place * CRASH)?;
        let mut writer = Self { put, start, count: 0 };
        let version = head.version.as_bytes();
        writer.put(VERSION, &version[..version.len().min(MAX_VERSION)]);
        writer.put(WIRES, &head.wires.to_ne_bytes());
        writer.put(PROCESS, &head.process.to_ne_bytes());
        writer.put(TIME, &head.time.to_ne_bytes());
        writer.put(CORE, &head.core.unwrap_or(NO_CORE).to_ne_bytes());
        // From now on there is a crash to read.
        compiler_fence(Ordering::Release);
        writer.put(SIGNAL, &head.signal.to_ne_bytes());
        Some(writer)
    }

    /// Adds a packet of this length. Returns where its first bytes belong, of which there are [`PACKET_BYTES`] at most. `None`:
    /// there is no more room.
    pub(super) fn add(&mut self, core: u32, port: u8, len: u16) -> Option<usize> {
        let at = HEAD + self.count as usize * PACKET;
        if at + PACKET > CRASH {
            return None;
        }
        self.put(at + PACKET_CORE, &core.to_ne_bytes());
        self.put(at + PACKET_LEN, &len.to_ne_bytes());
        self.put(at + PACKET_PORT, &[port]);
        self.count += 1;
        compiler_fence(Ordering::Release);
        self.put(COUNT, &self.count.to_ne_bytes());
        Some(self.start + at + PACKET_HEAD)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        (self.put)(self.start + at, bytes);
    }
}

/// The bytes of memory that begins with these crashes, as far as there is room for one more: the newest ones. The second number is
/// the place of that one.
pub(super) fn written(crashes: &[CrashRecord]) -> (Vec<u8>, usize) {
    let known = &crashes[crashes.len().saturating_sub(MAX_CRASHES - 1)..];
    let mut bytes = vec![0; SIZE];
    bytes[..KNOWN].copy_from_slice(&MAGIC);
    bytes[KNOWN] = to_u8(known.len());
    for (place, crash) in known.iter().enumerate() {
        let CrashRecord { signal, core, time, process, version, wires, packets } = crash;
        let (signal, core, time) = (*signal, *core, *time);
        let bytes = Cell::from_mut(&mut bytes[..]).as_slice_of_cells();
        let put = |at: usize, field: &[u8]| {
            bytes[at..].iter().zip(field).for_each(|(to, from)| to.set(*from));
        };
        let head = Head { signal, core, time, process: *process, version, wires: *wires };
        if let Some(mut writer) = CrashWriter::begin(put, place, head) {
            for PacketInHand { core, port, len, bytes } in packets {
                if let Some(at) = writer.add(*core, *port, *len) {
                    put(at, &bytes[..bytes.len().min(PACKET_BYTES)]);
                }
            }
        }
    }
    (bytes, known.len())
}

/// The crashes in such bytes, the newest one last, and how many of them were known to the process that has made the memory.
/// `None`: they are no such bytes.
pub(super) fn read(bytes: &[u8]) -> Option<(Vec<CrashRecord>, usize)> {
    if bytes.len() != SIZE || !bytes.starts_with(&MAGIC) {
        return None;
    }
    let known = usize::from(bytes[KNOWN]).min(MAX_CRASHES);
    let crashes = bytes[HEADER..].chunks_exact(CRASH).map_while(read_crash).collect();
    Some((crashes, known))
}

/// `None`: there is none. What does not fit is as long as it could be.
fn read_crash(bytes: &[u8]) -> Option<CrashRecord> {
    let signal = number(bytes, SIGNAL);
    if signal == 0 {
        return None;
    }
    let count = (number(bytes, COUNT) as usize).min(MAX_CRASH_PACKETS);
    let version = bytes[VERSION..VERSION + MAX_VERSION].iter().map(|byte| char::from(*byte));
    let packets = bytes[HEAD..].chunks_exact(PACKET).take(count).map(|packet| {
        let len = u16::from_ne_bytes([packet[PACKET_LEN], packet[PACKET_LEN + 1]]);
        let kept = usize::from(len).min(PACKET_BYTES);
        PacketInHand {
            core: number(packet, PACKET_CORE),
            port: packet[PACKET_PORT],
            len,
            bytes: packet[PACKET_HEAD..][..kept].to_vec(),
        }
    });
    Some(CrashRecord {
        signal,
        core: Some(number(bytes, CORE)).filter(|core| *core != NO_CORE),
        time: u64::from_ne_bytes(array::from_fn(|at| bytes[TIME + at])),
        process: number(bytes, PROCESS),
        wires: number(bytes, WIRES),
        version: version.take_while(char::is_ascii_graphic).collect(),
        packets: packets.collect(),
    })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array::from_fn(|byte| bytes[at + byte]))
}

/// The signals that leave a record, with their names.
pub(super) const SIGNALS: [(i32, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// The name of a signal that leaves a record, or its number.
pub fn signal_name(signal: u32) -> String {
    let named = SIGNALS.iter().find(|(number, _)| number.cast_unsigned() == signal);
    named.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::iter;

    use pmdns_config::narrow::to_u16;
    use proptest::prelude::*;

    use super::*;

    fn packet() -> impl Strategy<Value = PacketInHand> {
        let bytes = prop::collection::vec(any::<u8>(), 0..2 * PACKET_BYTES);
        (0u32..99, any::<u8>(), bytes).prop_map(|(core, port, mut bytes)| {
            let len = to_u16(bytes.len());
            bytes.truncate(PACKET_BYTES);
            PacketInHand { core, port, len, bytes }
        })
    }

    fn crash() -> impl Strategy<Value = CrashRecord> {
        let packets = prop::collection::vec(packet(), 0..9);
        let core = prop::option::of(0u32..99);
        (1u32..64, core, any::<u64>(), any::<[u32; 2]>(), "[!-~]{0,32}", packets).prop_map(
            |(signal, core, time, [process, wires], version, packets)| CrashRecord {
                signal,
                core,
                time,
                process,
                version,
                wires,
                packets,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read_and_there_is_room_for_one_more(
            crashes in prop::collection::vec(crash(), 0..MAX_CRASHES + 3),
        ) {
            let (bytes, place) = written(&crashes);
            let kept = &crashes[crashes.len() - place..];
            prop_assert_eq!(place, crashes.len().min(MAX_CRASHES - 1));
            prop_assert_eq!(read(&bytes), Some((kept.to_vec(), place)));
        }

        #[test]
        fn no_bytes_stop_the_reader(
            crashes in prop::collection::vec(crash(), 0..3),
            places in prop::collection::vec((0..SIZE, any::<u8>()), 0..9),
            heads in prop::collection::vec((0..MAX_CRASHES, 0..HEAD, any::<u8>()), 0..99),
        ) {
            let (mut bytes, _) = written(&crashes);
            places.iter().for_each(|(at, byte)| bytes[*at] = *byte);
            heads.iter().for_each(|(place, at, byte)| bytes[HEADER + place * CRASH + at] = *byte);
            if let Some((crashes, known)) = read(&bytes) {
                prop_assert!(crashes.len() <= MAX_CRASHES && known <= MAX_CRASHES);
                for crash in crashes {
                    prop_assert!(crash.packets.len() <= MAX_CRASH_PACKETS);
                    prop_assert!(crash.version.chars().all(|one| one.is_ascii_graphic()));
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let (bytes, _) = written(&[]);
        assert_eq!(read(&bytes), Some((Vec::new(), 0)));
        assert_eq!(read(&bytes[..SIZE - 1]), None);
        assert_eq!(read(&[]), None);
        let mut other = bytes;
        other[7] += 1;
        assert_eq!(read(&other), None, "another layout");
        assert!(read(&vec![0xff; SIZE]).is_none());
    }

    #[test]
    fn no_crash_writes_beyond_its_place() {
        let head = Head {
            signal: 11,
            core: None,
            time: 1,
            process: 2,
            version: &"v".repeat(99),
            wires: 1,
        };
        let mut last = 0;
        let put = |at: usize, bytes: &[u8]| last = last.max(at + bytes.len());
        let mut writer = CrashWriter::begin(put, 1, head).unwrap();
        let (added, place) =
            iter::from_fn(|| writer.add(0, 0, 9)).fold((0, 0), |(n, _), at| (n + 1, at));
        assert_eq!((added, place + PACKET_BYTES), (MAX_CRASH_PACKETS, HEADER + 2 * CRASH));
        assert!(last <= place);
        assert!(CrashWriter::begin(|_, _| {}, MAX_CRASHES, head).is_none());
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(6), "SIGABRT");
        assert_eq!(signal_name(99), "signal 99");
    }
}
