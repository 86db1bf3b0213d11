//! Captures: what the cores have recorded, in a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant, SystemTime};

use pmdns_engine::clock::Clock;
use pmdns_engine::threads::nap;
use pmdns_nics::pcap::{Direction, LinkType, NgWriter};
use pmdns_stages::{StageName, Step, Tick};

use super::PacketWatch;
use super::filter::{Filter, Selection};
use super::pipe::Pipe;
use super::recorder::PacketRecord;
use super::session::{Counted, Session};
use super::stream::packet_of;

/// How many bytes a capture writes at most.
const MAX_BYTES: u64 = 1 << 30;
/// How long to wait if nothing has come.
const LOOK: Duration = Duration::from_millis(5);

/// Why a capture has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureEnd {
    Count,
    Left,
    Reader,
    Time,
    Size,
}

impl PacketWatch {
    /// Writes the packets of a selection into the pipe of a call, until its caller has left or something else ends it.
    ///
    /// # Errors
    ///
    /// Why nothing is written.
    pub fn write(
        &self,
        selection: &Selection,
        file: Option<File>,
        has_left: impl FnMut() -> bool,
    ) -> Result<String, String> {
        let filter = selection.filter(&self.ports, self.wires)?;
        let pipe = Pipe::new(file).map_err(|error| error.to_string())?;
        let mut session = self.session(&filter)?;
        let link_type = |port| match port < self.wires {
            true => LinkType::Ethernet,
            false => LinkType::Raw,
        };
        let ports = self.ports.iter().enumerate().map(|(port, name)| (&**name, link_type(port)));
        let program = concat!("pmdns ", env!("CARGO_PKG_VERSION"));
        let failed = |error: io::Error| format!("cannot write the capture: {error}");
        let writer = NgWriter::new(BufWriter::new(pipe), program, ports).map_err(failed)?;
        let mut file =
            CaptureFile { writer, filter, calendar: Calendar::new(self.clock), packets: 0 };
        let count = selection.count.unwrap_or(u64::MAX);
        let end = match file.fill(&mut session, count, selection.longest(), has_left) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => CaptureEnd::Reader,
            end => end.map_err(failed)?,
        };
        let Counted { captured, dropped } = session.end();
        if end != CaptureEnd::Reader {
            file.take(&mut session, count).map_err(failed)?;
            file.writer.flush().map_err(failed)?;
        }
        let written = file.packets;
        let why = match end {
            CaptureEnd::Count => "as many as asked for",
            CaptureEnd::Left => "ended by its client",
            CaptureEnd::Reader => "the reader of the pipe has left",
            CaptureEnd::Time => "its time is over",
            CaptureEnd::Size => "it is as large as a capture may be",
        };
        Ok(format!("{captured} packets captured, {written} written, {dropped} dropped; {why}"))
    }
}

/// The date of a tick.
struct Calendar {
    clock: Clock,
    start: Tick,
    start_ns: u128,
}

impl Calendar {
    fn new(clock: Clock) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { clock, start: clock.now(), start_ns: now.as_nanos() }
    }

    /// In nanoseconds since 1970. A packet may have come before the capture began.
    fn date_ns(&self, tick: Tick) -> u64 {
        let span = |ticks| self.clock.duration_of(ticks).as_nanos();
        let date = match tick.checked_sub(self.start) {
            Some(later) => self.start_ns + span(later),
            None => self.start_ns.saturating_sub(span(self.start - tick)),
        };
        u64::try_from(date).unwrap_or(u64::MAX)
    }
}

/// A capture on its way into a file.
struct CaptureFile<W: Write> {
    writer: NgWriter<BufWriter<W>>,
    filter: Filter,
    calendar: Calendar,
    packets: u64,
}

impl<W: Write> CaptureFile<W> {
    /// Writes packets until there are `count`, or something else ends it.
    fn fill(
        &mut self,
        session: &mut Session,
        count: u64,
        longest: Duration,
        mut has_left: impl FnMut() -> bool,
    ) -> io::Result<CaptureEnd> {
        let start = Instant::now();
        loop {
            let taken = self.take(session, count)?;
            let end = [
                (self.packets >= count, CaptureEnd::Count),
                (has_left(), CaptureEnd::Left),
                (start.elapsed() > longest, CaptureEnd::Time),
                (self.writer.written() > MAX_BYTES, CaptureEnd::Size),
            ];
            if let Some((_, end)) = end.into_iter().find(|(is_over, _)| *is_over) {
                return Ok(end);
            }
            if taken == 0 {
                self.writer.flush()?;
                nap(LOOK);
            }
        }
    }

    /// Writes what has come, up to `count` packets in all. Returns how many came.
    fn take(&mut self, session: &mut Session, count: u64) -> io::Result<usize> {
        let mut written = Ok(());
        let taken = session.take(|record, frame| {
            if self.packets < count && written.is_ok() {
                written = self.add(record, frame);
            }
            self.packets < count && written.is_ok()
        });
        written.map(|()| taken)
    }

    fn add(&mut self, record: &PacketRecord, frame: &[u8]) -> io::Result<()> {
        self.packets += 1;
        let leaves = record.step == Step::TRANSMIT;
        let (direction, time) = match leaves {
            true => (Direction::Out, record.seen),
            false => (Direction::In, record.received),
        };
        let (time, mut comment) = (self.calendar.date_ns(time), self.comment(record));
        let port = usize::from(record.port);
        if !self.filter.is_stream(record.port) {
            return self.writer.write(port, time, (frame, frame.len()), direction, &comment);
        }
        let Some((packet, transport)) = packet_of(frame, leaves) else { return Ok(()) };
        comment += &format!(", over {transport}: its IP and UDP headers are made up");
        self.writer.write(port, time, (&packet, packet.len()), direction, &comment)
    }

    /// What pmdns did with a packet.
    fn comment(&self, record: &PacketRecord) -> String {
        let after = self.calendar.clock.duration_of(record.seen.saturating_sub(record.received));
        match record.stage {
            None => format!("answer of the slow path, after {after:.1?}"),
            Some(StageName::Encode) if record.step == Step::TRANSMIT => {
                format!(
                    "answer: stage encode, exit transmit, {} cycles, after {after:.1?}",
                    record.ticks
                )
            }
            Some(stage) => {
                format!("stage {}, exit {}, {} cycles", stage.name(), record.step, record.ticks)
            }
        }
    }
}

#[cfg(test)]
mod tests;
