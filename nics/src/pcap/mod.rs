//! Captures: `pmdns replay` plays them into ports made of memory, and `pmdns capture` writes them.
//!
//! This file is about classic pcap, [`ng`] about pcapng. Both byte orders and both time units are read; microseconds in this
//! machine's order are written.
//! The format is draft-ietf-opsawg-pcap: a header of 24 bytes, then records with headers of 16.

mod ng;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pmdns_config::files::{open_regular, open_to_replace};
use pmdns_config::narrow::to_u32;

pub use ng::{Direction, LinkType, NgWriter};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The first word of pcapng, the same in both byte orders.
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// The link type's bits in its word; the others tell of an FCS.
const LINK_TYPE_BITS: u32 = 0xffff;
/// The largest record anybody writes (tcpdump's limit); more means that the file is damaged.
const MAX_RECORD: usize = 262_144;
/// A capture shows who asks for what.
const MODE: u32 = 0o640;
/// The largest file that is read; it is held in memory.
const MAX_FILE: u64 = 1 << 30;

/// Why a capture cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file system says no.
    #[error("cannot {verb} the capture {path}: {source}; check the path and its permissions")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// Too large to hold in memory.
    #[error(
        "the capture {path} is larger than 1 GiB: cut it with `editcap -c 1000000 {path} part.pcap`"
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },

    /// Neither pcap nor pcapng.
    #[error("{path} is no capture: {advice}")]
    NotPcap {
        /// The file.
        path: PathBuf,
        /// How to make it one.
        advice: &'static str,
    },

    /// Not Ethernet.
    #[error(
        "the capture {path} has link type {link_type}, not Ethernet (1): capture on an Ethernet \
         interface instead of `-i any` or a tunnel"
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Its link type.
        link_type: u32,
    },

    /// A record, or a block of pcapng, is damaged or incomplete.
    #[error(
        "the capture {path} is damaged or cut short in record {record}: repair it with \
         `editcap -F pcap {path} repaired.pcap`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the record, from 1.
        record: usize,
    },
}

/// A capture in memory, all of it checked.
#[derive(Debug, Default)]
pub struct Capture {
    bytes: Vec<u8>,
    records: Vec<Entry>,
    left_out: usize,
}

#[derive(Debug)]
struct Entry {
    time_ns: u64,
    place: Range<usize>,
    original_len: u32,
}

/// A captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedFrame<'c> {
    /// When it was captured, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The captured bytes.
    pub bytes: &'c [u8],
    /// How long it was on the wire; more than was captured if the capture had a snap length.
    pub original_len: u32,
}

impl Capture {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, PcapError> {
        let failed = |source| PcapError::Io { verb: "read", path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = open_regular(path).map_err(failed)?;
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(PcapError::TooLarge { path: path.to_owned() });
        }
        Self::parse(path, bytes)
    }

    /// The frames, in the order of the file.
    pub fn records(&self) -> impl ExactSizeIterator<Item = CapturedFrame<'_>> {
        (0..self.records.len()).map(|index| self.record(index))
    }

    /// How many packets are not Ethernet, and so are none of the frames.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    fn record(&self, index: usize) -> CapturedFrame<'_> {
        let Entry { time_ns, place, original_len } = &self.records[index];
        CapturedFrame {
            time_ns: *time_ns,
            bytes: &self.bytes[place.clone()],
            original_len: *original_len,
        }
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, PcapError> {
        if bytes.starts_with(&MAGIC_PCAPNG.to_le_bytes()) {
            let damaged = |record| PcapError::Damaged { path: path.to_owned(), record };
            let (records, left_out) = ng::read(&bytes).map_err(damaged)?;
            return Ok(Self { bytes, records, left_out });
        }
        let (word, fraction_ns) = format(path, &bytes)?;
        let link_type = word(&bytes[20..]) & LINK_TYPE_BITS;
        if link_type != ETHERNET {
            return Err(PcapError::LinkType { path: path.to_owned(), link_type });
        }
        let mut records = Vec::new();
        let mut at = FILE_HEADER;
        while at < bytes.len() {
            let damaged =
                || PcapError::Damaged { path: path.to_owned(), record: records.len() + 1 };
            let header = bytes.get(at..at + RECORD_HEADER).ok_or_else(damaged)?;
            let seconds = u64::from(word(header));
            let fraction = u64::from(word(&header[4..]));
            let len = word(&header[8..]) as usize;
            let original_len = word(&header[12..]);
            let place = at + RECORD_HEADER..at + RECORD_HEADER + len;
            if len > MAX_RECORD || place.end > bytes.len() {
                return Err(damaged());
            }
            at = place.end;
            let time_ns = seconds * 1_000_000_000 + fraction * fraction_ns;
            records.push(Entry { time_ns, place, original_len });
        }
        Ok(Self { bytes, records, left_out: 0 })
    }
}

/// How the words of a file are read.
type ReadWord = fn(&[u8]) -> u32;

/// How this file's words are read, and how many nanoseconds its unit of time has.
fn format(path: &Path, bytes: &[u8]) -> Result<(ReadWord, u64), PcapError> {
    let not_pcap = |advice| PcapError::NotPcap { path: path.to_owned(), advice };
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(not_pcap("it is compressed, unpack it with gunzip"));
    }
    if bytes.len() < FILE_HEADER {
        return Err(not_pcap("it is too short; capture with `tcpdump -i IFACE -w FILE`"));
    }
    match (little_endian(bytes), big_endian(bytes)) {
        (MAGIC_MICROSECONDS, _) => Ok((little_endian, 1000)),
        (MAGIC_NANOSECONDS, _) => Ok((little_endian, 1)),
        (_, MAGIC_MICROSECONDS) => Ok((big_endian, 1000)),
        (_, MAGIC_NANOSECONDS) => Ok((big_endian, 1)),
        _ => Err(not_pcap("its first bytes are wrong; capture with `tcpdump -i IFACE -w FILE`")),
    }
}

/// The first word, which the caller knows is there.
fn little_endian(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn big_endian(bytes: &[u8]) -> u32 {
    little_endian(bytes).swap_bytes()
}

/// Writes a capture.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    output: W,
}

impl PcapWriter<BufWriter<File>> {
    /// Begins a file, replacing what was there.
    pub fn create(path: &Path) -> Result<Self, PcapError> {
        let failed = |source| PcapError::Io { verb: "write", path: path.to_owned(), source };
        let file = open_to_replace(path, MODE).map_err(failed)?;
        Self::new(BufWriter::new(file)).map_err(failed)
    }
}

impl<W: Write> PcapWriter<W> {
    /// Begins a capture.
    pub fn new(mut output: W) -> io::Result<Self> {
        let version: u32 = 2 | 4 << 16;
        let header = [MAGIC_MICROSECONDS, version, 0, 0, to_u32(MAX_RECORD), ETHERNET];
        for word in header {
            output.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { output })
    }

    /// Adds a frame that was seen this many microseconds after 1970.
    pub fn write(&mut self, time_us: u64, frame: &[u8]) -> io::Result<()> {
        let len = u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let seconds = u32::try_from(time_us / 1_000_000).unwrap_or(u32::MAX);
        for word in [seconds, (time_us % 1_000_000) as u32, len, len] {
            self.output.write_all(&word.to_le_bytes())?;
        }
        self.output.write_all(frame)
    }

    /// Passes on what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: Vec<u8>) -> Result<Capture, PcapError> {
        Capture::parse(Path::new("test.pcap"), bytes)
    }

    fn written(frames: &[&[u8]]) -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        for (index, frame) in frames.iter().enumerate() {
            writer.write(1_500_000 + index as u64, frame).unwrap();
        }
        writer.output
    }

    /// The same capture with each word of its headers turned round, and another magic number.
    fn big_endian_nanoseconds(frame: &[u8]) -> Vec<u8> {
        let len = to_u32(frame.len());
        let mut bytes = Vec::new();
        for word in [MAGIC_NANOSECONDS, 2 << 16 | 4, 0, 0, 65_535, ETHERNET, 7, 123, len, len + 4] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(frame);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let capture = parse(written(&[b"one", b"", b"three"])).unwrap();
        let records: Vec<CapturedFrame<'_>> = capture.records().collect();
        assert_eq!(records.len(), 3);
        assert_eq!(records[2].bytes, b"three");
        assert_eq!(records[2].time_ns, 1_500_002_000);
        assert_eq!(
            records[1],
            CapturedFrame { time_ns: 1_500_001_000, bytes: b"", original_len: 0 }
        );
    }

    #[test]
    fn the_other_byte_order_and_nanoseconds_are_read() {
        let capture = parse(big_endian_nanoseconds(b"frame")).unwrap();
        let record = capture.records().next().unwrap();
        assert_eq!(
            record,
            CapturedFrame { time_ns: 7_000_000_123, bytes: b"frame", original_len: 9 }
        );
    }

    #[test]
    fn other_files_are_refused_with_a_fix() {
        let cases = [
            (vec![0x1f, 0x8b, 8, 0], "gunzip"),
            (vec![7; 64], "first bytes are wrong"),
            (Vec::new(), "too short"),
        ];
        for (bytes, fix) in cases {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(fix), "{error}");
        }
        let mut cooked = written(&[b"one"]);
        cooked[20] = 113;
        let error = parse(cooked).unwrap_err().to_string();
        assert!(error.contains("link type 113, not Ethernet"), "{error}");
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error_and_not_a_panic() {
        let whole = written(&[b"one", b"two"]);
        let second = FILE_HEADER + RECORD_HEADER + 3;
        for len in 0..whole.len() {
            let outcome = parse(whole[..len].to_vec());
            match len {
                FILE_HEADER => assert_eq!(outcome.unwrap().records().len(), 0),
                _ if len == second => assert_eq!(outcome.unwrap().records().len(), 1),
                _ if len > second => {
                    assert!(matches!(outcome, Err(PcapError::Damaged { record: 2, .. })));
                }
                _ => assert!(outcome.is_err()),
            }
        }
    }

    #[test]
    fn an_absurd_record_length_is_damage() {
        let mut bytes = written(&[b"one"]);
        bytes[FILE_HEADER + 8..FILE_HEADER + 12].fill(0xff);
        assert!(matches!(parse(bytes), Err(PcapError::Damaged { record: 1, .. })));
    }
}
