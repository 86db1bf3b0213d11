//! A link for queries over a port: the real driver writes and reads frames, which become datagrams of the test's network. The far
//! end answers for the addresses of all next hops, as hosts would.
//!
//! If the driver has rings of an engine, they stay, and [`super::link`] has the far end. If not, it gets rings that end here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pmdns_engine::ring::{RingReceiver, RingSender, ring};
use pmdns_engine::slowpath::{Hops, PortDriver, PortParts};
use pmdns_nics::Frame;
use pmdns_resolver::{Random, Resolver, Route, Time};
use pmdns_stages::Step;
use pmdns_stages::datagram::{self, Endpoints};
use pmdns_stages::next_hop::HopTable;
use pmdns_stages::packet::Packet;
use pmdns_stages::ports::{Port, Ports};
use pmdns_stages::query_sources::QuerySources;
use pmdns_stages::testing::{Hosts, frame_of};
use pmdns_stages::wire::checksum::Sum;
use pmdns_stages::wire::{be16, ip, put16};

/// The hardware address of the first next hop; those of the others follow. In an engine's simulated link all have this one.
pub(crate) const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0xfa, 0];
/// Types and codes of ICMP for IPv4 and IPv6 (RFC 792, RFC 4443), and the four bytes behind the checksum.
pub(crate) type IcmpKind = ([[u8; 2]; 2], [u8; 4]);
/// Nobody listens there.
pub(crate) const PORT_UNREACHABLE: IcmpKind = ([[3, 3], [1, 4]], [0; 4]);
/// It is too long for a link on its way (RFC 1191, RFC 4443 section 3.2).
pub(crate) const TOO_BIG: IcmpKind = ([[3, 4], [2, 0]], [0, 0, 5, 0]);
/// Slots of each ring.
const SLOTS: usize = 4096;

/// The ends of the driver's rings that data cores would have.
type Rings = (RingReceiver<Frame>, RingSender<Packet>);

/// The driver, and the ends of its rings if there are no data cores.
pub(crate) struct PortWire {
    driver: PortDriver,
    rings: Option<Rings>,
    near: Hosts,
    /// The next hops by number.
    far: Vec<Hosts>,
    /// The UDP ports of all query sources.
    pub(crate) sources: Arc<QuerySources>,
    /// What is known of the next hops.
    pub(crate) table: Arc<HopTable>,
    /// Whether nobody answers for the next hops.
    pub(crate) is_deaf: bool,
    /// The next hop that is dead: it answers for itself no more, and what goes over it is lost.
    pub(crate) dead: Option<usize>,
    /// Questions for next hops that left so far.
    pub(crate) questions: usize,
}

/// A query as the far end gets it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Our end.
    pub(crate) from: SocketAddr,
    /// The upstream.
    pub(crate) to: SocketAddr,
    /// The query.
    pub(crate) message: Vec<u8>,
    /// All of the packet, which ICMP errors quote.
    pub(crate) packet: Vec<u8>,
    /// The queue that it left by.
    pub(crate) queue: usize,
}

impl PortWire {
    /// A link to so many upstreams, or to the gateways to them.
    pub(crate) fn new(
        (mut parts, hops): (PortParts, Hops),
        upstreams: usize,
        random: Random,
    ) -> Self {
        let mut rings = None;
        if parts.replies.is_empty() {
            let ((queries_in, queries), (replies, replies_out)) = (ring(SLOTS), ring(SLOTS));
            rings = Some((queries, replies));
            (parts.queries, parts.replies) = (queries_in, vec![replies_out]);
        }
        let near = Hosts::new(Ports::clone(&parts.ports));
        let hosts = hops.routes.plans().iter().zip(0..).map(|(plan, number)| {
            let [a, b, c, d, e, first] = FAR_MAC;
            let mac = [a, b, c, d, e, first + number];
            Hosts::new([Port::new(mac, [plan.address])].into())
        });
        let far = hosts.collect();
        let (sources, table) = (Arc::clone(&parts.sources), Arc::clone(&hops.table));
        let driver = PortDriver::new(parts, hops, upstreams, random);
        let (is_deaf, dead, questions) = (false, None, 0);
        Self { driver, rings, near, far, sources, table, is_deaf, dead, questions }
    }

    /// Queries that may be under way at once over each port and family, with so many threads.
    pub(crate) fn max_queries(&self, threads: usize) -> Vec<[usize; 2]> {
        self.driver.max_queries(threads).collect()
    }

    /// Sends what is in a batch, and returns the queries that reach the far end. Those that an engine sends do so later.
    pub(crate) fn send(
        &mut self,
        now: Time,
        slot: usize,
        route: Route,
        resolver: &mut Resolver,
    ) -> Vec<Asked> {
        self.driver.send_batch(now, slot, route, resolver);
        self.driver.flush();
        self.carry()
    }

    /// A batch has ended.
    pub(crate) fn close(&mut self, slot: usize) {
        self.driver.close_batch(slot);
    }

    /// Has the driver read what has arrived, and ask for next hops.
    pub(crate) fn receive(&mut self, now: Time, resolver: &mut Resolver) -> usize {
        let heard = self.driver.receive(now, resolver);
        assert!(self.carry().is_empty(), "only next hops are asked for");
        heard + self.driver.receive(now, resolver)
    }

    /// A datagram of an upstream arrives.
    pub(crate) fn arrive(&mut self, from: SocketAddr, to: SocketAddr, message: &[u8]) {
        if let Some(frame) = self.datagram(from, to, message) {
            self.feed(&frame);
        }
    }

    /// The upstream's host says by ICMP that nobody listens there.
    pub(crate) fn refuse(&mut self, asked: &Asked) {
        self.refuse_with(asked, PORT_UNREACHABLE);
    }

    /// An ICMP error of this kind comes about a query.
    pub(crate) fn refuse_with(&mut self, asked: &Asked, kind: IcmpKind) {
        let frame = self.refusal(asked, kind);
        self.feed(&frame);
    }

    /// The frame of a datagram to us; `None`: it is too long for one.
    pub(crate) fn datagram(
        &self,
        from: SocketAddr,
        to: SocketAddr,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let mut frame = frame_of(&[0; 64]);
        let ends = Endpoints { next_hop: self.near.ports[0].mac, from, to };
        datagram::write(&mut frame, &self.far[0].ports[0], ends, message).ok()?;
        Some(frame.bytes().to_vec())
    }

    /// The frame of an ICMP error of this kind about a query.
    pub(crate) fn refusal(&self, asked: &Asked, kind: IcmpKind) -> Vec<u8> {
        icmp_error(asked, self.near.ports[0].mac, kind)
    }

    /// Carries what the driver has sent to the far end, which answers for the upstreams' addresses at once.
    fn carry(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        while let Some(frame) = self.rings.as_mut().and_then(|(queries, _)| queries.pop()) {
            let bytes = frame.bytes().to_vec();
            drop(frame);
            let query = read(&bytes, 0);
            self.questions += usize::from(query.is_none());
            let alive = self.far.iter_mut().enumerate().filter(|(hop, _)| Some(*hop) != self.dead);
            let mut alive = alive.map(|(_, host)| host);
            if let Some(query) = query {
                asked.extend(
                    alive.any(|host| bytes.starts_with(&host.ports[0].mac)).then_some(query),
                );
            } else if !self.is_deaf {
                let answers = alive.map(|host| host.take(&bytes));
                let answers: Vec<_> = answers.filter(|one| one.step == Step::TRANSMIT).collect();
                assert!(answers.len() == 1 || self.dead.is_some(), "who answers {bytes:02x?}?");
                answers.iter().for_each(|answer| self.feed(answer.frame.bytes()));
            }
        }
        asked
    }

    /// A frame arrives at the port.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let packet = self.near.take(bytes);
        if packet.step == Step::REPLY
            && let Some((_, replies)) = &mut self.rings
        {
            let _ = replies.push(packet);
        }
    }
}

/// The query in a frame that left by this queue.
pub(super) fn read(frame: &[u8], queue: usize) -> Option<Asked> {
    let packet = &frame[ip::ETHERNET_LEN..];
    let address = |at: usize, len: usize| -> Option<IpAddr> {
        let bytes = packet.get(at..at + len)?;
        match len {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        }
    };
    let (l4, protocol, from, to) = match be16(frame, ip::ETHERTYPE)? {
        ip::TYPE_IPV4 => (20, packet[9], address(12, 4)?, address(16, 4)?),
        ip::TYPE_IPV6 => (40, packet[6], address(8, 16)?, address(24, 16)?),
        _ => return None,
    };
    if protocol != ip::PROTOCOL_UDP {
        return None;
    }
    let [from_port, to_port] = [be16(packet, l4)?, be16(packet, l4 + 2)?];
    Some(Asked {
        from: (from, from_port).into(),
        to: (to, to_port).into(),
        message: packet[l4 + ip::UDP_LEN..].to_vec(),
        packet: packet.to_vec(),
        queue,
    })
}

/// An ICMP error of this kind, with the whole query quoted.
fn icmp_error(asked: &Asked, to_mac: [u8; 6], (kinds, more): IcmpKind) -> Vec<u8> {
    let len = (8 + asked.packet.len()) as u16;
    let [kind, code] = kinds[usize::from(asked.to.is_ipv6())];
    let mut icmp = [&[kind, code, 0, 0][..], &more, &asked.packet].concat();
    let mut frame = [&to_mac[..], &FAR_MAC].concat();
    let header = match (asked.to.ip(), asked.from.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let checksum = Sum::default().add_bytes(&icmp).checksum();
            put16(&mut icmp, 2, checksum);
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, ip::PROTOCOL_ICMP, 0, 0];
            header.extend(from.octets().iter().chain(&to.octets()));
            put16(&mut header, ip::v4::TOTAL_LEN, 20 + len);
            ip::seal_ipv4(&mut header);
            frame.extend(ip::TYPE_IPV4.to_be_bytes());
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, ip::PROTOCOL_ICMPV6, 64];
            header.extend(from.octets().iter().chain(&to.octets()));
            put16(&mut header, ip::v6::PAYLOAD_LEN, len);
            let pseudo = ip::pseudo_header(&header[8..], ip::PROTOCOL_ICMPV6, len);
            let checksum = pseudo.add_bytes(&icmp).checksum();
            put16(&mut icmp, 2, checksum);
            frame.extend(ip::TYPE_IPV6.to_be_bytes());
            header
        }
        _ => panic!("a query has addresses of one family"),
    };
    [frame, header, icmp].concat()
}
