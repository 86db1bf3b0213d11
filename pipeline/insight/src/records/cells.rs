//! A record of one answer, which a data core makes in cells of a cache line.
//!
//! The first cell is the head. The DNS message follows in as many cells as it takes, so most records have two or three.
//!
//! ```text
//!  0 received | 8 left | 16 client | 32 server | 48 their ports | 52 message length, upstream | 56 view, source, transport, marks
//! ```

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pmdns_config::narrow::{to_u8, to_u16};
use pmdns_engine::answers::ClientTransport;
use pmdns_engine::ring::RingSender;
use pmdns_engine::rule_names::RuleNames;
use pmdns_stages::Tick;
use pmdns_stages::wire::be16;
use pmdns_stages::wire::ip::{udp, v4, v6};
use pmdns_stages::wire::layout::{Flags, Layout};

use super::source::{Facts, Source};

/// Bytes of a cell.
pub(crate) const CELL: usize = 64;
/// The longest message that is kept whole. Of longer ones only the question is kept.
pub(crate) const MAX_WHOLE: usize = 1280;
/// Cells of the longest record.
pub(crate) const MAX_CELLS: usize = 1 + MAX_WHOLE.div_ceil(CELL);

/// A part of a record, in a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Cell(pub(crate) [u8; CELL]);

impl Default for Cell {
    fn default() -> Self {
        Self([0; CELL])
    }
}

const NO_UPSTREAM: u16 = u16::MAX;
const IPV6: u8 = 1;
const CUT: u8 = 2;
const SUBNET: u8 = 4;

/// Everything about an answer but its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryRecordHead {
    pub(crate) received: Tick,
    pub(crate) left: Tick,
    pub(crate) client: IpAddr,
    pub(crate) client_port: u16,
    /// Where the client asked; of a client over a stream it is not known.
    pub(crate) server: Option<(IpAddr, u16)>,
    pub(crate) asked: ClientTransport,
    pub(crate) view: u8,
    pub(crate) source: Source,
    /// The upstream that answered, by its place in the configuration.
    pub(crate) upstream: Option<u16>,
    /// Whether the message was cut behind its question.
    pub(crate) is_cut: bool,
    /// Whether the message says which network the client is in.
    pub(crate) has_subnet: bool,
}

impl QueryRecordHead {
    /// The list whose rule has decided about this question of the client. The rules in use now are asked, which may be others.
    pub(crate) fn list_in(&self, rules: &RuleNames, name: &[u8], qtype: u16) -> Option<String> {
        match self.client {
            IpAddr::V4(v4) => rules.list_of(name, qtype, &v4.octets(), self.view),
            IpAddr::V6(v6) => rules.list_of(name, qtype, &v6.octets(), self.view),
        }
    }
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryRecord<'m> {
    pub(crate) head: QueryRecordHead,
    /// The message from its header on, at least to the end of the question, if there is one.
    pub(crate) message: &'m [u8],
}

/// Puts the record of a frame into the ring. `false`: there is no room for all of it.
#[inline]
pub(crate) fn push(
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
    ring.push_all(count, |number, Cell(cell)| match number {
        0 => write_head(cell, facts, layout, frame, is_cut, to_u16(message.len())),
        _ => {
            let rest = message.get((number - 1) * CELL..).unwrap_or_default();
            let part = rest.get(..CELL).unwrap_or(rest);
            cell[..part.len()].copy_from_slice(part);
        }
    })
}

#[inline]
fn write_head(
    cell: &mut [u8; CELL],
    facts: &Facts,
    layout: Layout,
    frame: &[u8],
    is_cut: bool,
    len: u16,
) {
    cell[..8].copy_from_slice(&facts.received.to_le_bytes());
    cell[8..16].copy_from_slice(&facts.left.to_le_bytes());
    let is_ipv6 = layout.flags.has(Flags::IPV6);
    let asked = to_u8(ClientTransport::index_of(layout, frame));
    if layout.is_stream() {
        let client = layout.client(frame);
        cell[16..16 + client.len()].copy_from_slice(client);
    } else {
        let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
        let [mut server, mut client] = match is_ipv6 {
            true => [part(frame, l3 + v6::SOURCE), part(frame, l3 + v6::DESTINATION)],
            false => [v4::SOURCE, v4::DESTINATION].map(|at| wide(part(frame, l3 + at))),
        };
        let [mut server_port, mut client_port]: [[u8; 2]; 2] =
            [udp::SOURCE, udp::DESTINATION].map(|at| part(frame, l4 + at));
        // Encode has turned the headers round: the client is the destination. A query without an answer has them as they came.
        if matches!(facts.source, Source::Drop | Source::Miss) {
            mem::swap(&mut server, &mut client);
            mem::swap(&mut server_port, &mut client_port);
        }
        cell[16..32].copy_from_slice(&client);
        cell[32..48].copy_from_slice(&server);
        cell[48..50].copy_from_slice(&client_port);
        cell[50..52].copy_from_slice(&server_port);
    }
    cell[52..54].copy_from_slice(&len.to_le_bytes());
    cell[54..56].copy_from_slice(&facts.upstream.unwrap_or(NO_UPSTREAM).to_le_bytes());
    let subnet = layout.flags.has(Flags::SUBNET);
    let mark = |is: bool, bit: u8| if is { bit } else { 0 };
    let marks = mark(is_ipv6, IPV6) | mark(is_cut, CUT) | mark(subnet, SUBNET);
    cell[56..60].copy_from_slice(&[layout.who.view(), facts.source as u8, asked, marks]);
}

/// So many bytes from a place on, or zeros if there are fewer.
#[inline]
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// An IPv4 address at the start of a field for IPv6 addresses.
#[inline]
fn wide([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// How many cells a record has that starts with this one.
pub(crate) fn cells_of(head: &[u8; CELL]) -> usize {
    1 + usize::from(u16::from_le_bytes([head[52], head[53]])).div_ceil(CELL)
}

/// Reads the records in these cells, which begin with a head.
pub(crate) fn records(mut cells: &[[u8; CELL]]) -> impl Iterator<Item = QueryRecord<'_>> {
    std::iter::from_fn(move || {
        let head = cells.first()?;
        let (record, rest) = cells.split_at_checked(cells_of(head))?;
        cells = rest;
        let len = usize::from(u16::from_le_bytes([head[52], head[53]]));
        Some(QueryRecord { head: read(head), message: record[1..].as_flattened().get(..len)? })
    })
}

fn read(head: &[u8; CELL]) -> QueryRecordHead {
    let marks = head[59];
    let address = |at| -> IpAddr {
        match marks & IPV6 != 0 {
            true => Ipv6Addr::from(part::<16>(head, at)).into(),
            false => Ipv4Addr::from(part::<4>(head, at)).into(),
        }
    };
    let port = |at| be16(head, at).unwrap_or(0);
    let asked =
        ClientTransport::ALL.get(usize::from(head[58])).copied().unwrap_or(ClientTransport::Tcp);
    let upstream = u16::from_le_bytes(part(head, 54));
    QueryRecordHead {
        received: u64::from_le_bytes(part(head, 0)),
        left: u64::from_le_bytes(part(head, 8)),
        client: address(16),
        client_port: port(48),
        server: (asked == ClientTransport::Udp).then(|| (address(32), port(50))),
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
