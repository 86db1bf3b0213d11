//! pcapng (draft-ietf-opsawg-pcapng): read by `pmdns replay`, and written by `pmdns capture`.
//!
//! A file is a row of blocks. Each says its length at both ends. Blocks and options of other kinds than ours are passed over.

use std::io::{self, Write};
use std::ops::Range;

use pmdns_config::narrow::{low_u32, to_u16, to_u32};

use super::{ETHERNET, Entry, MAX_RECORD};

/// LINKTYPE_RAW: a packet begins with its IP header.
const RAW: u16 = 101;
/// Blocks.
const SECTION: u32 = super::MAGIC_PCAPNG;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// The word that tells the byte order of a section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// A block's type and length before its body, and the length again behind it.
const BLOCK_HEADER: usize = 8;
const BLOCK_TRAILER: usize = 4;
/// The fields of an enhanced packet block before the packet.
const ENHANCED_FIELDS: usize = 20;
/// Options.
const END: u16 = 0;
const COMMENT: u16 = 1;
/// Of an interface, its name, and of a packet, its flags.
const NAME_OR_FLAGS: u16 = 2;
const TIME_UNIT: u16 = 9;
const TIME_OFFSET: u16 = 14;
/// Interfaces of a section that are read; more means that the file is damaged.
const MAX_INTERFACES: usize = 4096;
/// The unit of time without an option that says it: 10 to the power of minus 6 seconds.
const MICROSECONDS: u8 = 6;
const NANOSECONDS: u8 = 9;
const PER_SECOND_NS: u128 = 1_000_000_000;

/// The contents of an interface's block.
#[derive(Clone, Copy, Debug)]
struct Interface {
    is_ethernet: bool,
    snap_len: u32,
    /// As in the option: a power of ten, or with the highest bit of two.
    unit: u8,
    offset_seconds: i64,
}

/// The packets of a file, and how many were left out because they are not Ethernet. `Err`: the number of the block, from 1, that
/// is damaged or cut short.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<Entry>, usize), usize> {
    let (mut records, mut left_out, mut interfaces) = (Vec::new(), 0, Vec::new());
    let mut word: fn([u8; 4]) -> u32 = u32::from_le_bytes;
    let (mut at, mut number) = (0, 0);
    while at < bytes.len() {
        number += 1;
        let block = Block::at(bytes, at, &mut word).ok_or(number)?;
        match block.kind {
            SECTION => interfaces.clear(),
            INTERFACE if interfaces.len() < MAX_INTERFACES => {
                interfaces.push(block.interface().ok_or(number)?);
            }
            INTERFACE => return Err(number),
            ENHANCED | SIMPLE => {
                let (entry, is_ethernet) = block.packet(&interfaces).ok_or(number)?;
                match is_ethernet {
                    true => records.push(entry),
                    false => left_out += 1,
                }
            }
            _ => {}
        }
        at = block.end();
    }
    Ok((records, left_out))
}

/// A block in its file.
struct Block<'f> {
    kind: u32,
    body: Range<usize>,
    bytes: &'f [u8],
    word: fn([u8; 4]) -> u32,
}

impl<'f> Block<'f> {
    /// The block that starts here. One that begins a section says how its words are read.
    fn at(bytes: &'f [u8], at: usize, word: &mut fn([u8; 4]) -> u32) -> Option<Self> {
        let raw = |at: usize| bytes.get(at..)?.first_chunk::<4>().copied();
        // The same in both byte orders.
        if u32::from_le_bytes(raw(at)?) == SECTION {
            let order = raw(at + BLOCK_HEADER)?;
            *word = match (u32::from_le_bytes(order), u32::from_be_bytes(order)) {
                (BYTE_ORDER, _) => u32::from_le_bytes,
                (_, BYTE_ORDER) => u32::from_be_bytes,
                _ => return None,
            };
        } else if at == 0 {
            return None;
        }
        let (kind, len) = (word(raw(at)?), word(raw(at + 4)?) as usize);
        let body = at + BLOCK_HEADER..at.checked_add(len)?.checked_sub(BLOCK_TRAILER)?;
        let is_whole = len.is_multiple_of(4) && body.start <= body.end;
        let is_whole = is_whole && word(raw(body.end)?) as usize == len;
        is_whole.then_some(Self { kind, body, bytes, word: *word })
    }

    fn end(&self) -> usize {
        self.body.end + BLOCK_TRAILER
    }

    fn body(&self) -> &'f [u8] {
        &self.bytes[self.body.clone()]
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some((self.word)(*self.body().get(at..)?.first_chunk()?))
    }

    fn is_little_endian(&self) -> bool {
        (self.word)([1, 0, 0, 0]) == 1
    }

    /// Two numbers of 16 bits that stand next to each other.
    fn halves(&self, at: usize) -> Option<(u16, u16)> {
        let [a, b, c, d] = *self.body().get(at..)?.first_chunk()?;
        let half = if self.is_little_endian() { u16::from_le_bytes } else { u16::from_be_bytes };
        Some((half([a, b]), half([c, d])))
    }

    fn interface(&self) -> Option<Interface> {
        let (link_type, _) = self.halves(0)?;
        let (mut unit, mut offset_seconds) = (MICROSECONDS, 0);
        let mut at = 8;
        // Each option is at least as long as its header, so this ends.
        while let Some((code, len)) = self.halves(at).filter(|(code, _)| *code != END) {
            let value = self.body().get(at + 4..at + 4 + usize::from(len))?;
            match (code, value) {
                (TIME_UNIT, [one]) => unit = *one,
                (TIME_OFFSET, &[..]) if value.len() == 8 => {
                    let (first, second) = (self.word(at + 4)?, self.word(at + 8)?);
                    let (high, low) = match self.is_little_endian() {
                        true => (second, first),
                        false => (first, second),
                    };
                    offset_seconds = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        let is_ethernet = u32::from(link_type) == ETHERNET;
        Some(Interface { is_ethernet, snap_len: self.word(4)?, unit, offset_seconds })
    }

    /// The packet of this block, and whether it is Ethernet.
    fn packet(&self, interfaces: &[Interface]) -> Option<(Entry, bool)> {
        let (interface, time_ns, from, len, original_len) = match self.kind {
            ENHANCED => {
                let interface = interfaces.get(self.word(0)? as usize)?;
                let units = u64::from(self.word(4)?) << 32 | u64::from(self.word(8)?);
                (
                    interface,
                    interface.time_ns(units),
                    ENHANCED_FIELDS,
                    self.word(12)?,
                    self.word(16)?,
                )
            }
            _ => {
                let (interface, original_len) = (interfaces.first()?, self.word(0)?);
                let most = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
                (interface, 0, 4, original_len.min(most), original_len)
            }
        };
        let start = self.body.start + from;
        let place = start..start.checked_add(len as usize)?;
        let fits = len as usize <= MAX_RECORD && place.end <= self.body.end;
        fits.then_some((Entry { time_ns, place, original_len }, interface.is_ethernet))
    }
}

impl Interface {
    /// A time in this interface's units as nanoseconds since 1970; as late as can be said if it is later.
    fn time_ns(&self, units: u64) -> u64 {
        let exponent = u32::from(self.unit & 0x7f);
        let base: u128 = if self.unit & 0x80 == 0 { 10 } else { 2 };
        // No file has such a fine unit that there is no number for it. Its times are all 0.
        let per_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
        let ns = (u128::from(units) * PER_SECOND_NS / per_second).cast_signed();
        let ns = ns + i128::from(self.offset_seconds) * PER_SECOND_NS.cast_signed();
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// How the packets of an interface begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// With an Ethernet header.
    Ethernet,
    /// With an IP header.
    Raw,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came.
    In = 1,
    /// It left.
    Out = 2,
}

/// Writes pcapng, in little-endian words, with times in nanoseconds.
#[derive(Debug)]
pub struct NgWriter<W: Write> {
    output: W,
    /// A block's body, which is written at once.
    body: Vec<u8>,
    written: u64,
}

impl<W: Write> NgWriter<W> {
    /// Begins a section that was written by `program`, with these interfaces.
    pub fn new<'n>(
        output: W,
        program: &str,
        interfaces: impl IntoIterator<Item = (&'n str, LinkType)>,
    ) -> io::Result<Self> {
        const PROGRAM: u16 = 4;
        let mut writer = Self { output, body: Vec::new(), written: 0 };
        // Version 1.0, and a length that is not known.
        for word in [BYTE_ORDER, 1, u32::MAX, u32::MAX] {
            writer.word(word);
        }
        writer.option(PROGRAM, program.as_bytes());
        writer.finish(SECTION)?;
        for (name, link_type) in interfaces {
            let link_type = match link_type {
                LinkType::Ethernet => ETHERNET,
                LinkType::Raw => RAW.into(),
            };
            writer.word(link_type);
            writer.word(to_u32(MAX_RECORD));
            writer.option(NAME_OR_FLAGS, name.as_bytes());
            writer.option(TIME_UNIT, &[NANOSECONDS]);
            writer.finish(INTERFACE)?;
        }
        Ok(writer)
    }

    /// Adds a packet of the interface of this number, as it was so many nanoseconds after 1970. `length` is that of all of it: of a
    /// longer one these are the first bytes.
    pub fn write(
        &mut self,
        interface: usize,
        time_ns: u64,
        (packet, length): (&[u8], usize),
        direction: Direction,
        comment: &str,
    ) -> io::Result<()> {
        let [kept, length] = [packet.len(), length.max(packet.len())].map(u32::try_from);
        let (Ok(kept), Ok(length)) = (kept, length) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        for word in [to_u32(interface), low_u32(time_ns >> 32), low_u32(time_ns), kept, length] {
            self.word(word);
        }
        self.padded(packet);
        self.option(COMMENT, comment.as_bytes());
        self.option(NAME_OR_FLAGS, &(direction as u32).to_le_bytes());
        self.finish(ENHANCED)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Passes on what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn word(&mut self, word: u32) {
        self.body.extend(word.to_le_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.body.extend(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(u16::MAX.into())];
        self.body.extend(code.to_le_bytes());
        self.body.extend(to_u16(value.len()).to_le_bytes());
        self.padded(value);
    }

    /// Ends the options, and writes the block.
    fn finish(&mut self, kind: u32) -> io::Result<()> {
        self.word(END.into());
        let len = to_u32(BLOCK_HEADER + self.body.len() + BLOCK_TRAILER);
        self.output.write_all(&kind.to_le_bytes())?;
        self.output.write_all(&len.to_le_bytes())?;
        self.output.write_all(&self.body)?;
        self.output.write_all(&len.to_le_bytes())?;
        self.written += u64::from(len);
        self.body.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
