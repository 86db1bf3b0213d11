//! Trouble on the link by which upstreams are asked: next hops do not answer, UDP ports are used up, strangers send frames.

use std::net::SocketAddr;

use pmdns_hierarchy::Message;
use pmdns_stages::query_sources::{FIRST_PORT, Owner};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::dns::header;
use pmdns_stages::wire::{ip, put16};

use crate::checks::ended_on_the_link;
use crate::history::History;
use crate::servers::{forged, lying};
use crate::stepping::link::Link;
use crate::stepping::port_wire::{Asked, FAR_MAC, PORT_UNREACHABLE, TOO_BIG};

/// Who forges frames on the link.
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 0x66];
/// A thread that does not exist, which has all UDP ports for a while.
const NOBODY: Owner = Owner { thread: 7, slot: 0 };
/// Turns in which each thread takes all replies from its rings, and often that many at most.
const TURNS: usize = 40;
const MOST_TURNS: usize = 100;
/// Frames that strangers send at once, at most.
const MOST: usize = 40;

impl History {
    /// Something goes wrong on the link, if upstreams are asked over it.
    pub(super) fn trouble_the_link(&mut self) {
        if self.line.link.is_none() {
            return;
        }
        match self.chance.below(12) {
            0 => self.lose_next_hops(),
            1 if self.claimed.is_empty() => self.use_up_ports(),
            1..5 => self.mend_the_link(),
            5..9 => {
                let frames = 1 + self.chance.below(MOST);
                self.note(format_args!("{frames} forged replies"));
                (0..frames).for_each(|_| self.forge_reply());
            }
            9 | 10 => (0..4).for_each(|_| self.forge_error()),
            _ => (0..4).for_each(|_| self.forge_advertisement()),
        }
    }

    /// Nobody answers for the next hops any more. Some of them forward nothing either.
    pub(super) fn lose_next_hops(&mut self) {
        let (is_dead, sleeps) = (self.chance.one_in(2), self.chance.one_in(2));
        let seconds = 20 + self.chance.below(80) as u32;
        let Some(link) = &mut self.line.link else { return };
        (link.is_deaf, link.is_dead) = (true, is_dead);
        self.note(format_args!("the next hops are deaf, and dead: {is_dead}"));
        if sleeps {
            // What is known of them gets old.
            self.jump_ahead(seconds);
        }
    }

    /// Somebody else has all UDP ports of the query sources that are free, or nearly all.
    fn use_up_ports(&mut self) {
        let left = [0, 1000][self.chance.below(2)];
        self.note(format_args!("all UDP ports but {left} have an owner"));
        let Some(Link { sources, .. }) = &self.line.link else { return };
        let ports = |source| (FIRST_PORT + left..=u16::MAX).map(move |port| (source, port));
        let all = sources.indexes().flat_map(ports);
        self.claimed = all.filter(|(source, port)| sources.claim(*source, *port, NOBODY)).collect();
    }

    /// Next hops answer, and UDP ports are free.
    pub(super) fn mend_the_link(&mut self) {
        let Some(link) = &mut self.line.link else { return };
        (link.is_deaf, link.is_dead) = (false, false);
        self.claimed.drain(..).for_each(|(source, port)| link.sources.release(source, port));
        self.note(format_args!("the link is well"));
    }

    /// All replies that have got to the port are read. Whoever reads one later takes it for a fresh one.
    pub(super) fn take_in_replies(&mut self) {
        let Some(fed) = self.line.link.as_ref().map(|link| link.fed) else { return };
        for _ in 0..MOST_TURNS {
            let is_over = ended_on_the_link(self) == fed;
            for _ in 0..TURNS {
                let threads = 0..self.line.threads();
                threads.for_each(|thread| self.line.turn(thread, TURNS, &mut self.internet));
            }
            if is_over {
                return;
            }
        }
    }

    /// Some query that is under way.
    fn under_way(&mut self) -> Option<Asked> {
        let thread = self.chance.below(self.line.slow_path.len());
        let queries = &self.line.slow_path[thread].over_port;
        let slot = self.chance.below(queries.len().max(1));
        queries.get(slot).cloned().flatten()
    }

    /// A reply comes from somebody who cannot see the query, and guesses its UDP port. Some guess right.
    pub(super) fn forge_reply(&mut self) {
        let Some(asked) = self.under_way() else { return };
        let Some(query) = Message::parse(&asked.message) else { return };
        let (mut from, mut to) = (asked.to, asked.from);
        let reply = match self.chance.below(4) {
            0 => {
                from = SocketAddr::new([203, 0, 113, 9].into(), 53);
                lying(&query, &query.question.0)
            }
            1 => match forged(&query, &mut self.chance).next() {
                Some(reply) => reply,
                None => return,
            },
            _ => {
                let port = self.chance.below(1 << 16) as u16;
                to.set_port(if port == to.port() { port ^ 1 } else { port });
                lying(&query, &query.question.0)
            }
        };
        let frame = self.wire().and_then(|wire| wire.datagram(from, to, &reply.to_bytes()));
        self.feed(frame);
    }

    /// An ICMP error comes about a query. What it quotes is right, or has another id, port or source.
    fn forge_error(&mut self) {
        let Some(mut asked) = self.under_way() else { return };
        let refusal = [PORT_UNREACHABLE, TOO_BIG][self.chance.below(2)];
        let change = 1 + self.chance.below(0xffff) as u16;
        let udp = asked.packet.len() - asked.message.len() - ip::UDP_LEN;
        let at = match self.chance.below(5) {
            0 => Some(udp + ip::UDP_LEN + header::ID),
            1 => Some(udp),
            2 => Some(udp + ip::udp::DESTINATION),
            3 => Some(ip::v4::SOURCE + 2),
            _ => None,
        };
        if let Some(at) = at {
            let right = u16::from_be_bytes([asked.packet[at], asked.packet[at + 1]]);
            put16(&mut asked.packet, at, right ^ change);
        }
        self.note(format_args!("{refusal:?}, changed at {at:?}"));
        let frame = self.wire().map(|wire| wire.refusal(&asked, refusal));
        self.feed(frame);
    }

    /// A stranger claims to have an address of the link: that of the gateway, ours, or another.
    fn forge_advertisement(&mut self) {
        let last = [1, 1, 2, 9, 60][self.chance.below(5)];
        self.note(format_args!("a stranger claims to be {last}"));
        let frame = match self.chance.one_in(3) {
            true => advertisement(last),
            false => announcement(last, self.chance.one_in(2)),
        };
        self.feed(Some(frame));
    }

    fn wire(&self) -> Option<&crate::stepping::port_wire::PortWire> {
        self.line.slow_path.first()?.port.as_ref()
    }

    fn feed(&mut self, frame: Option<Vec<u8>>) {
        if let Some(frame) = frame {
            self.line.feed(&frame, 0);
        }
    }
}

/// A gratuitous ARP packet of a stranger (RFC 5227), as a request or as a reply.
fn announcement(last: u8, is_request: bool) -> Vec<u8> {
    let address = [10, 77, 0, last];
    let operation = [0, if is_request { 1 } else { 2 }];
    let fixed = [0x08, 0x06, 0, 1, 8, 0, 6, 4];
    let told = [&STRANGER[..], &address, &[0; 6], &address].concat();
    [&[0xff; 6][..], &STRANGER, &fixed, &operation, &told].concat()
}

/// An unsolicited neighbour advertisement of a stranger (RFC 4861 section 4.4).
fn advertisement(last: u8) -> Vec<u8> {
    let address = |prefix: [u8; 2], last| [&prefix[..], &[0; 13], &[last]].concat();
    let mut message = [136, 0, 0, 0, 0x20, 0, 0, 0].to_vec();
    message.extend([address([0xfd, 0x77], last), vec![2, 1], STRANGER.to_vec()].concat());
    let addresses = [address([0xfe, 0x80], 0x66), address([0xff, 0x02], 1)].concat();
    let len = message.len() as u16;
    let sum: Sum = ip::pseudo_header(&addresses, ip::PROTOCOL_ICMPV6, len);
    let checksum = sum.add_bytes(&message).checksum();
    put16(&mut message, 2, checksum);
    let header = [0x60, 0, 0, 0, 0, len as u8, ip::PROTOCOL_ICMPV6, 255];
    let ethernet = [&[0x33, 0x33, 0, 0, 0, 1][..], &STRANGER, &[0x86, 0xdd]].concat();
    [&ethernet[..], &header, &addresses, &message].concat()
}

const _: () = assert!(STRANGER[5] != FAR_MAC[5]);
