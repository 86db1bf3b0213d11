//! The observer on a data core for a capture or a trace, and its ring of bytes.
//!
//! A record is a head of [`HEAD`] bytes and the frame. The head becomes visible first, so the reader waits until all of the
//! record is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pmdns_config::narrow::{low_u32, to_u8, to_u16};
use pmdns_engine::observe::{Departure, Observer, Sent};
use pmdns_stages::cache::Key;
use pmdns_stages::policy::ListNumber;
use pmdns_stages::{Answer, StageName, Step, Tick};
use rtrb::{Consumer, Producer, RingBuffer};

use super::filter::Filter;

/// Bytes of a core's ring.
const RING: usize = 1 << 20;
/// Bytes of a record before its frame.
const HEAD: usize = 51;
/// Records that a reader takes from one core before it looks at the next.
const AT_ONCE: usize = 1024;
/// The stage of an answer of the slow path.
const NO_STAGE: u8 = u8::MAX;
/// The list of a packet about which none has decided.
const NO_LIST: u8 = u8::MAX;
const _: () = assert!(ListNumber::COUNT <= NO_LIST as usize);

/// A packet that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// The stage that it left; `None`: it is an answer of the slow path.
    pub stage: Option<StageName>,
    /// Where it goes.
    pub step: Step,
    /// The port it came from, and leaves by.
    pub port: u8,
    /// The view of its client.
    pub view: u8,
    /// When it came.
    pub received: Tick,
    /// When it was seen.
    pub seen: Tick,
    /// Its share of the station's time.
    pub ticks: u32,
    /// Where its frame is in memory. Two records with the same frame and arrival are of the same packet, on any core.
    pub frame: u64,
    /// The hash of its qname.
    pub key: u64,
    /// The class asked for, and the flags of its key in the cache.
    pub class_and_flags: (u16, u8),
    /// The list whose rule has decided.
    pub list: Option<ListNumber>,
    /// What it is to be answered with.
    pub answer: RecordedAnswer,
}

/// An [`Answer`] as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedAnswer {
    /// It has none.
    #[default]
    None,
    /// Nothing but an rcode.
    Rcode(u8),
    /// TC=1.
    Truncated,
    /// An entry of the cache, by its place.
    Cached(u64),
    /// An answer of the rules, by its place.
    Local(u64),
    /// One that is the same for every name.
    Fixed,
}

impl From<Answer> for RecordedAnswer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::None => Self::None,
            Answer::Rcode(rcode) => Self::Rcode(rcode.0),
            Answer::Truncated => Self::Truncated,
            Answer::Cached(entry) => Self::Cached(entry.as_number()),
            Answer::Local(found) => Self::Local(found.as_number()),
            Answer::Fixed(_) => Self::Fixed,
        }
    }
}

impl RecordedAnswer {
    fn encode(self) -> (u8, u64) {
        match self {
            Self::None => (0, 0),
            Self::Rcode(rcode) => (1, rcode.into()),
            Self::Truncated => (2, 0),
            Self::Cached(place) => (3, place),
            Self::Local(place) => (4, place),
            Self::Fixed => (5, 0),
        }
    }

    fn decode(kind: u8, place: u64) -> Self {
        match kind {
            1 => Self::Rcode((place & 0xff) as u8),
            2 => Self::Truncated,
            3 => Self::Cached(place),
            4 => Self::Local(place),
            5 => Self::Fixed,
            _ => Self::None,
        }
    }
}

impl PacketRecord {
    fn of(departure: &Departure<'_>) -> Self {
        let Departure { packet, stage, now, ticks } = *departure;
        Self {
            stage: Some(stage),
            step: packet.step,
            port: packet.frame.port(),
            view: packet.layout.who.view(),
            received: packet.received,
            seen: now,
            ticks: u32::try_from(ticks).unwrap_or(u32::MAX),
            frame: packet.frame.bytes().as_ptr().addr() as u64,
            key: packet.key,
            class_and_flags: (packet.layout.qclass, Key::flags_of(packet.layout)),
            list: packet.extended_error.and_then(ListNumber::of_reason),
            answer: packet.answer.into(),
        }
    }

    fn of_sent(sent: &Sent<'_>) -> Self {
        Self {
            stage: None,
            step: Step::TRANSMIT,
            port: sent.frame.port(),
            view: 0,
            received: sent.received,
            seen: sent.now,
            ticks: 0,
            frame: sent.frame.bytes().as_ptr().addr() as u64,
            key: 0,
            class_and_flags: (0, 0),
            list: None,
            answer: RecordedAnswer::None,
        }
    }

    fn encode(&self, len: u16) -> [u8; HEAD] {
        let (kind, place) = self.answer.encode();
        let stage = self.stage.map_or(NO_STAGE, |stage| stage as u8);
        // A packet waits for less time than 32 bits of ticks can say; if not, it says the most.
        let waited = u32::try_from(self.seen.saturating_sub(self.received)).unwrap_or(u32::MAX);
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&self.seen.to_le_bytes());
        head[8..16].copy_from_slice(&self.frame.to_le_bytes());
        head[16..24].copy_from_slice(&self.key.to_le_bytes());
        head[24..32].copy_from_slice(&place.to_le_bytes());
        head[32..36].copy_from_slice(&waited.to_le_bytes());
        head[36..40].copy_from_slice(&self.ticks.to_le_bytes());
        head[40..42].copy_from_slice(&len.to_le_bytes());
        head[42..47].copy_from_slice(&[
            stage,
            to_u8(self.step.index()),
            self.port,
            self.view,
            kind,
        ]);
        let (class, flags) = self.class_and_flags;
        head[47..49].copy_from_slice(&class.to_le_bytes());
        head[49] = flags;
        head[50] = self.list.map_or(NO_LIST, |list| to_u8(list.index()));
        head
    }

    /// The record, and the length of the frame behind it.
    fn decode(head: &[u8; HEAD]) -> (Self, usize) {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let [stage, step, port, view, kind] = std::array::from_fn(|index| head[42 + index]);
        let seen = long(0);
        let record = Self {
            stage: StageName::ALL.get(usize::from(stage)).copied(),
            step: Step::all().nth(step.into()).unwrap_or(Step::TRANSMIT),
            port,
            view,
            received: seen.saturating_sub(low_u32(long(32)).into()),
            seen,
            ticks: low_u32(long(32) >> 32),
            frame: long(8),
            key: long(16),
            class_and_flags: (u16::from_le_bytes([head[47], head[48]]), head[49]),
            list: Some(head[50]).filter(|list| *list != NO_LIST).map(ListNumber::at),
            answer: RecordedAnswer::decode(kind, long(24)),
        };
        (record, usize::from(u16::from_le_bytes([head[40], head[41]])))
    }
}

/// The counts of a recorder.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Packets that the filter let pass.
    pub(super) captured: AtomicU64,
    /// Those for which the ring had no room.
    pub(super) dropped: AtomicU64,
}

/// The end on the data core.
pub(super) struct Recorder {
    filter: Filter,
    ring: Producer<u8>,
    counts: Arc<Counts>,
    ended: Arc<AtomicBool>,
}

/// The end on the thread that reads.
pub(super) struct Reader {
    ring: Consumer<u8>,
    pub(super) counts: Arc<Counts>,
    frame: Vec<u8>,
}

/// A recorder and its reader. It records until `ended` is set.
pub(super) fn recorder(filter: Filter, ended: Arc<AtomicBool>) -> (Recorder, Reader) {
    let (producer, consumer) = RingBuffer::new(RING);
    let counts = Arc::<Counts>::default();
    let reader = Reader { ring: consumer, counts: Arc::clone(&counts), frame: Vec::new() };
    (Recorder { filter, ring: producer, counts, ended }, reader)
}

impl Recorder {
    fn keep(&mut self, record: &PacketRecord, frame: &[u8]) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        // Only this core adds to them.
        let add = |counter: &AtomicU64| {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        add(&self.counts.captured);
        let head = record.encode(to_u16(frame.len()));
        let has_room = self.ring.slots() >= HEAD + frame.len();
        let is_kept = has_room
            && self.ring.push_entire_slice(&head).is_ok()
            && self.ring.push_entire_slice(frame).is_ok();
        if !is_kept {
            add(&self.counts.dropped);
        }
    }
}

impl Observer for Recorder {
    fn left(&mut self, departure: &Departure<'_>) {
        if self.filter.wants(departure) {
            self.keep(&PacketRecord::of(departure), departure.packet.frame.bytes());
        }
    }

    fn sent(&mut self, sent: &Sent<'_>) {
        if self.filter.wants_sent(sent) {
            self.keep(&PacketRecord::of_sent(sent), sent.frame.bytes());
        }
    }

    fn watches_stations(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.ring.is_abandoned()
    }
}

impl Reader {
    /// Takes records until `see` returns `false`, there are no more, or it were many. Returns how many.
    pub(super) fn take(&mut self, mut see: impl FnMut(&PacketRecord, &[u8]) -> bool) -> usize {
        for count in 0..AT_ONCE {
            let Some(record) = self.pop() else { return count };
            if !see(&record, &self.frame) {
                return count + 1;
            }
        }
        AT_ONCE
    }

    fn pop(&mut self) -> Option<PacketRecord> {
        let mut head = [0; HEAD];
        copy(&self.ring.read_chunk(HEAD).ok()?, 0, &mut head);
        let (record, len) = PacketRecord::decode(&head);
        let chunk = self.ring.read_chunk(HEAD + len).ok()?;
        self.frame.resize(len, 0);
        copy(&chunk, HEAD, &mut self.frame);
        chunk.commit_all();
        Some(record)
    }
}

/// Copies the bytes from `start` of a chunk on.
fn copy(chunk: &rtrb::chunks::ReadChunk<'_, u8>, start: usize, to: &mut [u8]) {
    let (first, second) = chunk.as_slices();
    let from = first.iter().chain(second).skip(start);
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Selection;

    fn record() -> PacketRecord {
        PacketRecord {
            stage: Some(StageName::Lookup),
            step: Step::ANSWER,
            port: 3,
            view: 31,
            received: 1000,
            seen: 1700,
            ticks: 42,
            frame: 0xfeed_0000_1234,
            key: u64::MAX - 7,
            class_and_flags: (0x0102, 0xa5),
            list: Some(ListNumber::Zone(3)),
            answer: RecordedAnswer::Cached(5 << 32 | 9),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let answers = [
            RecordedAnswer::None,
            RecordedAnswer::Rcode(5),
            RecordedAnswer::Truncated,
            RecordedAnswer::Cached(1),
            RecordedAnswer::Local(2),
            RecordedAnswer::Fixed,
        ];
        for answer in answers {
            for stage in [None, Some(StageName::Parse)] {
                let record = PacketRecord { answer, stage, ..record() };
                assert_eq!(PacketRecord::decode(&record.encode(77)), (record, 77));
            }
        }
        for list in ListNumber::all().map(Some).chain([None]) {
            let record = PacketRecord { list, ..record() };
            assert_eq!(PacketRecord::decode(&record.encode(0)), (record, 0));
        }
    }

    #[test]
    fn a_full_ring_drops_what_is_new_and_counts_it() {
        let filter = Selection::default().filter(&["p0".to_owned()], 1).unwrap();
        let ended = Arc::<AtomicBool>::default();
        let (mut recorder, mut reader) = recorder(filter, Arc::clone(&ended));
        let frame = vec![7; 1000];
        let room = RING / (HEAD + frame.len());
        for round in 1..=3_u64 {
            // Round the end of the ring as well.
            for _ in 0..room + 5 {
                recorder.keep(&record(), &frame);
            }
            let mut seen = 0;
            let mut see = |read: &PacketRecord, bytes: &[u8]| {
                assert_eq!((*read, bytes), (record(), &frame[..]));
                seen += 1;
                true
            };
            while reader.take(&mut see) > 0 {}
            assert_eq!(seen, room);
            let counts = &reader.counts;
            assert_eq!(counts.dropped.load(Ordering::Relaxed), 5 * round);
            assert_eq!(counts.captured.load(Ordering::Relaxed), (room as u64 + 5) * round);
        }
        assert!(!recorder.has_ended());
        ended.store(true, Ordering::Relaxed);
        assert!(recorder.has_ended());
        recorder.keep(&record(), &frame);
        assert_eq!(reader.take(|_, _| true), 0, "nothing is kept after the end");
    }
}
