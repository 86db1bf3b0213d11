//! Stage: is it for us, is it DNS, and which question does it ask.
//!
//! Everything later stages rely on is checked here, once: lengths, checksums, addresses, and the whole
//! query. An error below DNS is dropped with its reason. An error in DNS gets an rcode.

mod for_kernel;
mod ip;
mod plain;
mod reflectors;
mod replies;
mod stream;
#[cfg(test)]
mod tests;
mod unusual;

use std::ops::Range;
use std::sync::Arc;

use pmdns_config::SubnetPolicy;
use pmdns_config::narrow::to_u8;
use pmdns_nics::FRAME_ROOM;

use self::ip::{
    IPV4_FRAGMENTED, IPV6_EXTENSIONS, IPV6_FRAGMENT, address_at, ipv4_source_is_impossible,
    ipv6_source_is_impossible,
};
use crate::acl::Dropped;
use crate::cookie::{CookieCounts, Cookies};
use crate::fixed::FixedAnswers;
use crate::neighbor::{ALL_MLD_ROUTERS, HOP_BY_HOP};
use crate::packet::Packet;
use crate::ports::{Port, Ports};
use crate::step::{Exception, Reason, Step};
use crate::vlan::Tags;
use crate::wire::checksum::Sum;
use crate::wire::dns::{HEADER_LEN, PLAIN_UDP_SIZE, flag, header, question_len};
use crate::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_ICMP, PROTOCOL_ICMPV6,
    PROTOCOL_TCP, PROTOCOL_UDP, TYPE_ARP, TYPE_IPV4, TYPE_IPV6, UDP_LEN, udp, v4, v6,
};
use crate::wire::layout::Flags;
use crate::wire::name::{self, Seed};
use crate::wire::query::{ParsedQuery, name_len};
use crate::wire::{be16, field16};
use crate::{Context, Stage, StageName};

/// Where a packet stays whose query is not like nearly all, until it is read.
const HERE: Step = Step::at(StageName::Parse);
/// Where a DNS message starts at most: behind two tags, an IPv4 header with all options, and UDP.
const MAX_DNS: usize = ETHERNET_LEN + 2 * 4 + 60 + UDP_LEN;

/// The first stage.
#[derive(Clone, Debug)]
pub struct Parse {
    ports: Ports,
    seed: Seed,
    /// `None`: cookies are options like any other that we do not know.
    cookies: Option<Cookies>,
    cookie_counts: CookieCounts,
    /// Whether a client's subnet is read; it is an option that we do not know otherwise.
    reads_subnets: bool,
    fixed: Option<Arc<FixedAnswers>>,
    dropped: Dropped,
}

impl Parse {
    /// A parse stage for frames of these ports; names are hashed with `seed`.
    pub fn new(ports: Ports, seed: Seed) -> Self {
        Self {
            ports,
            seed,
            cookies: None,
            cookie_counts: CookieCounts::default(),
            reads_subnets: false,
            fixed: None,
            dropped: Dropped::nobody(),
        }
    }

    /// The same stage, which spends no time on the queries of these clients.
    pub fn with_dropped(self, dropped: Dropped) -> Self {
        Self { dropped, ..self }
    }

    /// Drops these clients from now on, and gives back those it had.
    pub fn swap_rules(&mut self, dropped: &mut Dropped) {
        std::mem::swap(&mut self.dropped, dropped);
    }

    /// The same stage, which checks cookies and gives new ones.
    pub fn with_cookies(self, cookies: Option<Cookies>) -> Self {
        Self { cookies, ..self }
    }

    /// The same stage, which reads clients' subnets if `policy` has a use for them.
    pub fn with_subnet_policy(self, policy: SubnetPolicy) -> Self {
        Self { reads_subnets: policy != SubnetPolicy::Strip, ..self }
    }

    /// The same stage, which answers questions about this server.
    pub fn with_fixed_answers(self, fixed: Arc<FixedAnswers>) -> Self {
        Self { fixed: Some(fixed), ..self }
    }

    /// Swaps the check of cookies for another, or for none.
    pub fn swap_cookies(&mut self, cookies: &mut Option<Cookies>) {
        std::mem::swap(&mut self.cookies, cookies);
    }

    /// The counts of clients' cookies so far.
    pub fn cookie_counts(&self) -> CookieCounts {
        self.cookie_counts
    }

    /// Reads a packet that is to none of the addresses that queries come to.
    #[cold]
    #[inline(never)]
    fn read_elsewhere(&self, packet: &mut Packet) -> Step {
        let port = &self.ports[usize::from(packet.frame.port())];
        replies::read(packet, port).unwrap_or_else(Step::drop)
    }

    /// Reads Ethernet, then goes by the EtherType.
    #[inline(never)]
    fn read(&self, packet: &mut Packet) -> Result<Step, Reason> {
        let frame = packet.frame.bytes();
        let port = &self.ports[usize::from(packet.frame.port())];
        if port.is_streams {
            return self.read_stream(packet);
        }
        let tags = Tags::read(frame)?;
        if !port.vlans.have(tags) {
            return Err(Reason::Vlan);
        }
        let l3 = tags.l3;
        packet.layout.l3 = to_u8(l3);
        match tags.ethertype {
            TYPE_IPV4 => {
                let first = frame.get(l3).ok_or(Reason::Ipv4Header)?;
                let header_len = usize::from(first & 0xf) * 4;
                self.read_ipv4(packet, port, l3, header_len)
            }
            TYPE_IPV6 => self.read_ipv6(packet, port, l3),
            TYPE_ARP => Ok(Step::at(StageName::Neighbor)),
            _ => Ok(Step::exception(Exception::Ethertype)),
        }
    }

    #[inline(always)]
    fn read_ipv4(
        &self,
        packet: &mut Packet,
        port: &Port,
        l3: usize,
        header_len: usize,
    ) -> Result<Step, Reason> {
        let ip = packet.frame.bytes().get(l3..).unwrap_or_default();
        let Some(header) = ip.first_chunk::<IPV4_MIN_LEN>() else { return Err(Reason::Ipv4Header) };
        let total_len = usize::from(field16(header, v4::TOTAL_LEN));
        // The frame may be longer than the packet: Ethernet pads to its minimum.
        let fits = header_len >= IPV4_MIN_LEN && header_len <= total_len && total_len <= ip.len();
        if header[0] >> 4 != 4 || !fits {
            return Err(Reason::Ipv4Header);
        }
        if !packet.frame.verified().ip {
            let sum = Sum::default().add_bytes(header);
            let options = &ip[IPV4_MIN_LEN..header_len];
            if !if options.is_empty() { sum } else { sum.add_bytes(options) }.is_right() {
                return Err(Reason::Ipv4Checksum);
            }
        }
        let source = address_at(header, v4::SOURCE);
        if !port.is_ours_v4(address_at(header, v4::DESTINATION)) {
            return Err(Reason::NotOurAddress);
        }
        if ipv4_source_is_impossible(source, port) {
            return Err(Reason::SourceAddress);
        }
        if field16(header, v4::FRAGMENT) & IPV4_FRAGMENTED != 0 {
            return Err(Reason::Ipv4Fragment);
        }
        packet.layout.l4 = to_u8(l3 + header_len);
        match header[v4::PROTOCOL] {
            PROTOCOL_UDP => {
                let addresses = header.last_chunk::<8>().expect("both stand at its end");
                let addresses = Sum::default().add_bytes(addresses);
                self.read_udp(packet, port, addresses, l3 + header_len..l3 + total_len)
            }
            PROTOCOL_ICMP => Ok(Step::at(StageName::Neighbor)),
            other => Ok(Step::exception(exception_of(other))),
        }
    }

    #[inline]
    fn read_ipv6(&self, packet: &mut Packet, port: &Port, l3: usize) -> Result<Step, Reason> {
        packet.layout.flags.set(Flags::IPV6);
        let ip = packet.frame.bytes().get(l3..).unwrap_or_default();
        let Some(header) = ip.first_chunk::<IPV6_LEN>() else { return Err(Reason::Ipv6Header) };
        let payload_len = usize::from(field16(header, v6::PAYLOAD_LEN));
        if header[0] >> 4 != 6 || IPV6_LEN + payload_len > ip.len() {
            return Err(Reason::Ipv6Header);
        }
        packet.layout.l4 = to_u8(l3 + IPV6_LEN);
        let protocol = header[v6::NEXT_HEADER];
        let source = address_at(header, v6::SOURCE);
        let destination: [u8; 16] = address_at(header, v6::DESTINATION);
        // Neighbour discovery asks by multicast; which address it asks for, the neighbor stage checks.
        let ours =
            port.is_ours_v6(destination) || (destination[0] == 0xff && protocol == PROTOCOL_ICMPV6);
        if !ours {
            // MLD queries go to all nodes or to the group that is asked for; the neighbor stage knows which are ours.
            let is_mld = is_link_local_group(destination) && protocol == HOP_BY_HOP;
            if is_mld && destination != ALL_MLD_ROUTERS {
                return Ok(Step::at(StageName::Neighbor));
            }
            return Err(Reason::NotOurAddress);
        }
        if protocol != PROTOCOL_ICMPV6 && ipv6_source_is_impossible(source, port) {
            return Err(Reason::SourceAddress);
        }
        match protocol {
            PROTOCOL_UDP => {
                let addresses = Sum::default().add_bytes(&source).add_bytes(&destination);
                let l4 = l3 + IPV6_LEN;
                self.read_udp(packet, port, addresses, l4..l4 + payload_len)
            }
            PROTOCOL_ICMPV6 => Ok(Step::at(StageName::Neighbor)),
            IPV6_FRAGMENT => Err(Reason::Ipv6Fragment),
            extension if IPV6_EXTENSIONS.contains(&extension) => Err(Reason::Ipv6Extension),
            other => Ok(Step::exception(exception_of(other))),
        }
    }

    /// Reads UDP, which stands at `place` in the frame. `addresses` is the sum of source and destination, for
    /// the pseudo-header.
    #[inline(always)]
    fn read_udp(
        &self,
        packet: &mut Packet,
        port: &Port,
        addresses: Sum,
        place: Range<usize>,
    ) -> Result<Step, Reason> {
        let frame = packet.frame.bytes();
        let datagram = &frame[place.clone()];
        let Some(header) = datagram.first_chunk::<UDP_LEN>() else { return Err(Reason::UdpHeader) };
        let len = field16(header, udp::LEN);
        if usize::from(len) != datagram.len() {
            return Err(Reason::UdpHeader);
        }
        if field16(header, udp::DESTINATION) != port.dns_port {
            return Ok(Step::exception(Exception::UdpPort));
        }
        // The answer goes back to the source and comes from the destination, so both must be one host's.
        if frame.first_chunk() != Some(&port.mac) {
            return Err(Reason::NotOurMac);
        }
        if frame[ETHERNET_SOURCE] & 1 != 0 {
            return Err(Reason::SourceAddress);
        }
        let source = field16(header, udp::SOURCE);
        if source < reflectors::SERVICES_END {
            if source == 0 {
                return Err(Reason::UdpHeader);
            }
            if reflectors::answers_anything(source) {
                return Err(Reason::ReflectorPort);
            }
        }
        // The checksum may be absent over IPv4 (RFC 768), but not over IPv6 (RFC 8200 section 8.1).
        let has_sum = field16(header, udp::CHECKSUM) != 0;
        if packet.layout.flags.has(Flags::IPV6) && !has_sum {
            return Err(Reason::UdpChecksum);
        }
        let Some((headers, rest)) = datagram.split_first_chunk::<{ UDP_LEN + HEADER_LEN }>() else {
            return Err(Reason::DnsHeader);
        };
        // What follows the DNS header is the question, and nothing else in most queries.
        let rest_sum = Sum::default().add_bytes(rest);
        if has_sum && !packet.frame.verified().udp {
            let pseudo = addresses.add16(u16::from(PROTOCOL_UDP)).add16(len);
            // A sender on this host leaves the sum of the pseudo-header there, for hardware to go on from.
            let is_right = pseudo.add_bytes(headers).add_at(0, rest_sum).is_right();
            let is_partial = || field16(header, udp::CHECKSUM) == pseudo.folded();
            if !(is_right || port.partial_checksums && is_partial()) {
                return Err(Reason::UdpChecksum);
            }
        }
        self.read_dns(packet, rest_sum, place.start + UDP_LEN..place.end)
    }

    /// Reads a message that has a whole header, at `place` in the frame. `rest_sum` is the sum of what follows
    /// the header.
    #[inline(always)]
    fn read_dns(
        &self,
        packet: &mut Packet,
        rest_sum: Sum,
        place: Range<usize>,
    ) -> Result<Step, Reason> {
        let message = &packet.frame.bytes()[place.clone()];
        let flags = be16(message, header::FLAGS).unwrap_or(0);
        if flags & flag::QR != 0 {
            return Err(Reason::DnsResponse);
        }
        // Nothing in a query is dearer to read than its name: not before it has to be.
        if !ParsedQuery::may_be_plain(message) {
            packet.question_sum = rest_sum.folded();
            return Ok(HERE);
        }
        let name_len = first_name_len(packet, place.start);
        let Some(asked) = ParsedQuery::read_plain(message, name_len) else {
            packet.layout.name_len = name_len;
            packet.question_sum = rest_sum.folded();
            return Ok(HERE);
        };
        let rest = &message[HEADER_LEN..];
        let question = question_len(asked.name_len);
        let question_sum = match question == rest.len() {
            true => rest_sum,
            false => Sum::default().add_bytes(&rest[..question]),
        };
        self.note(packet, place.start, flags, asked, question_sum);
        Ok(Self::CONTINUE)
    }

    /// Notes what a query asks whose message starts at `dns`, with these flags.
    #[inline(always)]
    fn note(
        &self,
        packet: &mut Packet,
        dns: usize,
        flags: u16,
        asked: ParsedQuery,
        question_sum: Sum,
    ) {
        // Nobody looks up what is answered with an error.
        if asked.error.is_none() {
            let name = &packet.frame.bytes()[dns + HEADER_LEN..][..usize::from(asked.name_len)];
            packet.key = self.seed.hash(name);
        }
        packet.question_sum = question_sum.folded();
        let layout = &mut packet.layout;
        layout.name_len = asked.name_len;
        layout.qtype = asked.qtype;
        layout.qclass = asked.qclass;
        if flags & flag::CD != 0 {
            layout.flags.set(Flags::CD);
        }
        if let Some(edns) = asked.edns {
            layout.flags.set(Flags::EDNS);
            // RFC 6891 section 6.2.3: sizes below 512 mean 512.
            layout.udp_size = edns.udp_size.max(PLAIN_UDP_SIZE);
            if edns.dnssec_ok {
                layout.flags.set(Flags::DO);
            }
        }
    }
}

impl Stage for Parse {
    const NAME: StageName = StageName::Parse;

    #[inline(always)]
    fn hint(&self, packet: &Packet) {
        packet.frame.prefetch();
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, context: &Context) -> Step {
        let read = match self.read_plain(packet) {
            Some(read) => read,
            None => self.read(packet),
        };
        match read {
            Ok(HERE) => self.read_unusual(packet, context.seconds),
            Ok(step) => step,
            Err(Reason::NotOurAddress) => self.read_elsewhere(packet),
            Err(reason) => for_kernel::step_of(packet, &self.ports, reason),
        }
    }
}

const _: () = assert!(MAX_DNS + HEADER_LEN + name::ROOM <= FRAME_ROOM as usize);

/// Length of the name behind the header of the message at `dns`; 0: there is none. Bytes in the buffer behind the frame
/// may be taken for a part of it. Then the name does not end in the message.
#[inline(always)]
fn first_name_len(packet: &Packet, dns: usize) -> u8 {
    let room = packet.frame.buffer().get(dns + HEADER_LEN..).and_then(<[u8]>::first_chunk);
    debug_assert!(room.is_some(), "frames have room for more than headers and a name");
    name_len(room.and_then(name::length_in))
}

/// The kind of a packet of another protocol over IP.
#[cold]
fn exception_of(protocol: u8) -> Exception {
    match protocol {
        PROTOCOL_TCP => Exception::Tcp,
        _ => Exception::Protocol,
    }
}

/// Whether it is a group on this link (RFC 4291 section 2.7).
#[inline]
fn is_link_local_group(address: [u8; 16]) -> bool {
    address[0] == 0xff && address[1] & 0xf == 2
}
