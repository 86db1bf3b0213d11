//! A record: what a data core keeps of one answer, in cells of a cache line.
//!
//! The first cell is the head. The DNS message follows in as many cells as it takes, so most records have two or three.
//!
//! ```text
//!  0 received | 8 left | 16 client | 32 server | 48 their ports | 52 message length, upstream | 56 view, source, transport, marks
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::narrow::to_u16;
use pmdns_nics::stream::StreamHeader;
use pmdns_stages::Tick;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::ip::{udp, v4, v6};
use pmdns_stages::wire::layout::{Flags, Layout};

use crate::ring::RingSender;

/// Bytes of a cell.
pub(super) const CELL: usize = 64;
/// The longest message that is kept whole. Of longer ones only the question is kept.
pub(super) const MAX_WHOLE: usize = 1280;
/// Cells of the longest record.
pub(super) const MAX_CELLS: usize = 1 + MAX_WHOLE.div_ceil(CELL);

/// A part of a record, in a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Cell(pub(super) [u8; CELL]);

const NO_UPSTREAM: u16 = u16::MAX;
const IPV6: u8 = 1;
const CUT: u8 = 2;
const SUBNET: u8 = 4;

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Source {
    Hit,
    Local,
    Policy,
    Truncated,
    Error,
    Forward,
    Late,
    Stale,
    Failure,
    Drop,
}

impl Source {
    const ALL: [Self; 10] = [
        Self::Hit,
        Self::Local,
        Self::Policy,
        Self::Truncated,
        Self::Error,
        Self::Forward,
        Self::Late,
        Self::Stale,
        Self::Failure,
        Self::Drop,
    ];
}

/// How a client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Udp,
    Tcp,
    Tls,
    Https,
    Quic,
}

impl Asked {
    const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        ["udp", "tcp", "tls", "https", "quic"][self as usize]
    }
}

/// Everything about an answer but its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) received: Tick,
    pub(super) left: Tick,
    pub(super) client: IpAddr,
    pub(super) client_port: u16,
    /// Where the client asked; of a client over a stream it is not known.
    pub(super) server: Option<(IpAddr, u16)>,
    pub(super) asked: Asked,
    pub(super) view: u8,
    pub(super) source: Source,
    /// The upstream that answered, by its place in the configuration.
    pub(super) upstream: Option<u16>,
    /// Whether the message was cut behind its question.
    pub(super) is_cut: bool,
    /// Whether the message says which network the client is in.
    pub(super) has_subnet: bool,
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'m> {
    pub(super) head: Head,
    /// The message from its header on, at least to the end of the question, if there is one.
    pub(super) message: &'m [u8],
}

/// Puts the record of a frame into the ring. `false`: there is no room for all of it.
#[inline]
pub(super) fn push(
    ring: &mut RingSender<Cell>,
    facts: &Facts,
    layout: Layout,
    frame: &[u8],
    whole: bool,
) -> bool {
    let message = frame.get(layout.dns()..).unwrap_or_default();
    let question = frame.get(layout.dns()..layout.question_end()).unwrap_or_default();
    let is_cut = !whole || facts.source == Source::Drop || message.len() > MAX_WHOLE;
    let message = if is_cut { question } else { message };
    let count = 1 + message.len().div_ceil(CELL);
    if ring.free(count) < count {
        return false;
    }
    let head = head(facts, layout, frame, is_cut, to_u16(message.len()));
    let cells = message.chunks(CELL).map(|chunk| {
        let mut cell = [0; CELL];
        cell[..chunk.len()].copy_from_slice(chunk);
        Cell(cell)
    });
    ring.push_from(std::iter::once(head).chain(cells), count) == count
}

/// What the packet does not say of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) received: Tick,
    pub(super) left: Tick,
    pub(super) source: Source,
    pub(super) upstream: Option<u16>,
}

#[inline]
fn head(facts: &Facts, layout: Layout, frame: &[u8], is_cut: bool, len: u16) -> Cell {
    let mut cell = [0; CELL];
    let mut put = |at: usize, bytes: &[u8]| cell[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &facts.received.to_le_bytes());
    put(8, &facts.left.to_le_bytes());
    let is_ipv6 = layout.flags.has(Flags::IPV6);
    let mut asked = Asked::Udp as u8;
    if layout.is_stream() {
        put(16, layout.client(frame));
        asked = StreamHeader::read(frame).map_or(1, |header| 1 + header.transport() as u8);
    } else {
        // Encode has turned the headers round: the client is the destination. A query that was dropped has them as they came.
        let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
        let (from, to, width) = match is_ipv6 {
            true => (v6::SOURCE, v6::DESTINATION, 16),
            false => (v4::SOURCE, v4::DESTINATION, 4),
        };
        let ends = [(l3 + from, l4 + udp::SOURCE), (l3 + to, l4 + udp::DESTINATION)];
        let [server, client] = match facts.source {
            Source::Drop => [ends[1], ends[0]],
            _ => ends,
        };
        for (at, (address, port)) in [(16, client), (32, server)] {
            put(at, frame.get(address..address + width).unwrap_or_default());
            put(48 + (at - 16) / 8, frame.get(port..port + 2).unwrap_or_default());
        }
    }
    put(52, &len.to_le_bytes());
    put(54, &facts.upstream.unwrap_or(NO_UPSTREAM).to_le_bytes());
    let subnet = layout.flags.has(Flags::SUBNET);
    let mark = |is: bool, bit: u8| if is { bit } else { 0 };
    let marks = mark(is_ipv6, IPV6) | mark(is_cut, CUT) | mark(subnet, SUBNET);
    put(56, &[layout.who.view(), facts.source as u8, asked, marks]);
    Cell(cell)
}

/// How many cells a record has that starts with this one.
pub(super) fn cells_of(head: &[u8; CELL]) -> usize {
    1 + usize::from(u16::from_le_bytes([head[52], head[53]])).div_ceil(CELL)
}

/// Reads the records in these cells, which begin with a head.
pub(super) fn records(mut cells: &[[u8; CELL]]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let head = cells.first()?;
        let (record, rest) = cells.split_at_checked(cells_of(head))?;
        cells = rest;
        let len = usize::from(u16::from_le_bytes([head[52], head[53]]));
        Some(Record { head: read(head), message: record[1..].as_flattened().get(..len)? })
    })
}

fn read(head: &[u8; CELL]) -> Head {
    fn part<const N: usize>(head: &[u8; CELL], at: usize) -> [u8; N] {
        head[at..].first_chunk().copied().unwrap_or([0; N])
    }
    let marks = head[59];
    let address = |at| -> IpAddr {
        match marks & IPV6 != 0 {
            true => Ipv6Addr::from(part::<16>(head, at)).into(),
            false => Ipv4Addr::from(part::<4>(head, at)).into(),
        }
    };
    let port = |at| be16(head, at).unwrap_or(0);
    let asked = Asked::ALL.get(usize::from(head[58])).copied().unwrap_or(Asked::Tcp);
    let upstream = u16::from_le_bytes(part(head, 54));
    Head {
        received: u64::from_le_bytes(part(head, 0)),
        left: u64::from_le_bytes(part(head, 8)),
        client: address(16),
        client_port: port(48),
        server: (asked == Asked::Udp).then(|| (address(32), port(50))),
        asked,
        view: head[56],
        source: Source::ALL.get(usize::from(head[57])).copied().unwrap_or(Source::Error),
        upstream: Some(upstream).filter(|number| *number != NO_UPSTREAM),
        is_cut: marks & CUT != 0,
        has_subnet: marks & SUBNET != 0,
    }
}

/// The most bytes of a record, in cells.
const _: () = assert!(MAX_CELLS <= pmdns_config::limits::MIN_LOG_RING as usize);
