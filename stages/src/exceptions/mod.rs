//! Packets for the kernel behind a port: classes with rates of their own, and checksums that the kernel believes.
//!
//! A packet is an exception if it is for this host, but not for us ([`Exception`]). Classes keep floods apart: a flood of
//! one class takes nothing from another. Nothing that comes from afar is in the class of the link, and only packets of known
//! routers ([`KnownRouters`]) are in the class control. Within a class no client prefix gets more than a share, nor does all that
//! has no client, as ARP. What all have is shared by prefix ([`FairRate`]).

mod peers;

use pmdns_config::narrow::to_u16;

use crate::fair_rate::FairRate;
use crate::packet::Packet;
use crate::ratelimit::{Budget, ClientPrefixes, Limiter};
use crate::step::Exception;
use crate::wire::ip::{
    FROM_THIS_LINK, IPV4_MIN_LEN, IPV6_LEN, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP,
    pseudo_header, udp, v4, v6,
};
use crate::wire::layout::Flags;
use crate::wire::name::Seed;
use crate::wire::{be16, put16};
pub use peers::KnownRouters;

/// Port of BGP (RFC 4271 section 1).
const BGP: u16 = 179;
/// Ports of BFD over one hop and of its echoes (RFC 5881 section 4), and over several hops (RFC 5883 section 5).
const BFD: [u16; 2] = [3784, 3785];
const BFD_OVER_HOPS: u16 = 4784;
/// TCP ports of DNS: plain, over HTTPS, over TLS (RFC 7766, RFC 8484, RFC 7858).
const TCP_STREAMS: [u16; 3] = [53, 443, 853];
/// UDP ports of DNS over QUIC: with HTTP/3, and alone (RFC 9114, RFC 9250).
const UDP_STREAMS: [u16; 2] = [443, 853];
/// ICMPv6 types of router and neighbour discovery (RFC 4861 section 4).
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// The types of redirects: of ICMP (RFC 792) and of ICMPv6 (RFC 4861 section 4.5).
const ICMP_REDIRECT: u8 = 5;
const ICMPV6_REDIRECT: u8 = 137;
/// The part of an IPv4 header's field that is the offset of a fragment.
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Offsets in a TCP header (RFC 9293 section 3.1): its flags, and its checksum.
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const SYN: u8 = 1 << 1;
const ACK: u8 = 1 << 4;

/// No client prefix gets more than this part of a class.
const SHARE: u32 = 4;
/// A burst is what comes in this part of a second.
const BURST_PART: u32 = 10;
/// The shortest burst.
const MIN_BURST: u32 = 32;
/// Client prefixes that a core remembers of each port and class.
const SHARE_TABLE: u32 = 1024;
/// Cells in which a core counts the client prefixes of each port and class.
const CELLS: usize = 8192;

/// A class of packets for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceptionClass {
    /// ARP, neighbour discovery and BFD over one hop: nothing that a router has forwarded.
    Link,
    /// BGP except new connections, and BFD over several hops, of known routers.
    Control,
    /// DNS over TCP, TLS, HTTPS and QUIC.
    Streams,
    /// Everything else.
    Rest,
}

impl ExceptionClass {
    /// All of them; the first are served first.
    pub const ALL: [Self; 4] = [Self::Link, Self::Control, Self::Streams, Self::Rest];

    /// The name of the class, for its rings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link exceptions",
            Self::Control => "control exceptions",
            Self::Streams => "stream exceptions",
            Self::Rest => "other exceptions",
        }
    }

    /// The class of an exception, where `peers` are the known routers. Without reading beyond its headers.
    pub fn of(packet: &Packet, peers: &KnownRouters) -> Self {
        let l4 = packet.frame.bytes().get(usize::from(packet.layout.l4)..).unwrap_or_default();
        match packet.step.as_exception() {
            Some(Exception::Arp) => Self::Link,
            Some(Exception::Icmpv6)
                if l4.first().is_some_and(|it| DISCOVERY.contains(it))
                    && is_from_this_link(packet) =>
            {
                Self::Link
            }
            Some(Exception::Tcp) => Self::of_tcp(l4, || peers.know(client(packet))),
            Some(Exception::UdpPort) => Self::of_udp(l4, packet, peers),
            _ => Self::Rest,
        }
    }

    fn of_tcp(header: &[u8], is_known: impl Fn() -> bool) -> Self {
        let ports = [udp::SOURCE, udp::DESTINATION].map(|at| be16(header, at));
        let flags = header.get(TCP_FLAGS).copied().unwrap_or(SYN);
        // Anybody can send a SYN. A session that is up must not share with them.
        if ports.contains(&Some(BGP)) && flags & (SYN | ACK) != SYN && is_known() {
            return Self::Control;
        }
        match ports[1] {
            Some(to) if TCP_STREAMS.contains(&to) => Self::Streams,
            _ => Self::Rest,
        }
    }

    fn of_udp(header: &[u8], packet: &Packet, peers: &KnownRouters) -> Self {
        match be16(header, udp::DESTINATION) {
            Some(to) if BFD.contains(&to) && is_from_this_link(packet) => Self::Link,
            Some(BFD_OVER_HOPS) if peers.know(client(packet)) => Self::Control,
            Some(to) if UDP_STREAMS.contains(&to) => Self::Streams,
            _ => Self::Rest,
        }
    }

    fn rate(self, rates: &pmdns_config::Exceptions) -> u32 {
        match self {
            Self::Link => rates.link_per_second,
            Self::Control => rates.control_per_second,
            Self::Streams => rates.streams_per_second,
            Self::Rest => rates.rest_per_second,
        }
    }
}

/// How much of one class one core passes from one port.
#[derive(Debug)]
pub struct ClassLimit {
    /// `None`: there is no limit.
    all: Option<FairRate>,
    prefixes: ClientPrefixes,
    shares: Limiter,
    /// The share of packets without a client.
    of_nobody: Budget,
}

impl ClassLimit {
    /// The limits of all classes, on a clock with that many ticks a second.
    pub fn of_all(config: &pmdns_config::Config, ticks_per_second: u64, seed: Seed) -> [Self; 4] {
        let burst = |rate: u32| (rate / BURST_PART).max(MIN_BURST);
        ExceptionClass::ALL.map(|class| {
            let rate = class.rate(&config.exceptions);
            let share = rate.div_ceil(SHARE);
            let prefixes = pmdns_config::RateLimitSettings {
                slip: 0,
                table: SHARE_TABLE,
                dry_run: false,
                ..config.ratelimit.clone()
            };
            let shares = (share, burst(share));
            Self {
                all: FairRate::new(rate, burst(rate), ticks_per_second, CELLS),
                prefixes: ClientPrefixes::new(&prefixes, seed),
                shares: Limiter::of_rate(shares, &prefixes, ticks_per_second, seed),
                of_nobody: Budget::new(share, burst(share), ticks_per_second),
            }
        })
    }

    /// Counts a packet of the class, and says whether it may pass. What a share refuses takes nothing from the class.
    pub fn passes(&mut self, packet: &Packet) -> bool {
        let now = packet.received;
        let has_share = match has_client(packet) {
            true => !self.shares.is_exceeded(packet, now),
            false => self.of_nobody.take(now),
        };
        let prefix = if has_client(packet) { self.prefixes.hash(packet) } else { 0 };
        has_share && self.all.as_ref().is_none_or(|all| all.take(prefix, now))
    }
}

/// Whether the packet has an IP header, and so a client.
fn has_client(packet: &Packet) -> bool {
    let is_ip = |what| !matches!(what, Exception::Arp | Exception::Ethertype);
    packet.step.as_exception().is_some_and(is_ip)
}

/// The bytes of the address of a packet that has an IP header; none if it is cut off.
fn client(packet: &Packet) -> &[u8] {
    let (at, len) = match packet.layout.flags.has(Flags::IPV6) {
        true => (v6::SOURCE, 16),
        false => (v4::SOURCE, 4),
    };
    let from = usize::from(packet.layout.l3) + at;
    packet.frame.bytes().get(from..from + len).unwrap_or_default()
}

/// Whether a packet tells of a better router. Routes behind a TAP are the operator's: whoever can send in a gateway's name
/// would change them. The kernel follows a redirect if the setting of any interface allows it, so none goes there.
pub fn is_redirect(packet: &Packet) -> bool {
    let l3 = packet.frame.bytes().get(usize::from(packet.layout.l3)..).unwrap_or_default();
    match packet.step.as_exception() {
        Some(Exception::Icmpv6) => {
            let l4 = packet.frame.bytes().get(usize::from(packet.layout.l4));
            l4 == Some(&ICMPV6_REDIRECT)
        }
        // The first fragment of one is one as well.
        Some(Exception::Icmp | Exception::Fragment | Exception::Protocol) => {
            let header = l3.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
            let is_first = be16(l3, v4::FRAGMENT).is_some_and(|field| field & FRAGMENT_OFFSET == 0);
            !packet.layout.flags.has(Flags::IPV6)
                && is_first
                && l3.get(v4::PROTOCOL) == Some(&PROTOCOL_ICMP)
                && l3.get(header) == Some(&ICMP_REDIRECT)
        }
        _ => false,
    }
}

/// Whether no router has forwarded the packet.
fn is_from_this_link(packet: &Packet) -> bool {
    let hops = if packet.layout.flags.has(Flags::IPV6) { v6::HOP_LIMIT } else { v4::TTL };
    packet.frame.bytes().get(usize::from(packet.layout.l3) + hops) == Some(&FROM_THIS_LINK)
}

/// Completes the TCP or UDP checksum of an exception, if its sender left that to hardware. The sender is on this machine,
/// and has written the sum of the pseudo-header. `may_be_partial`: the port has such senders and does not say which
/// frames are theirs. A checksum that is wrong otherwise stays wrong: the kernel drops the packet and counts it.
pub fn finish_checksum(packet: &mut Packet, may_be_partial: bool) {
    if may_be_partial || packet.frame.verified().udp {
        let _ = finish(packet);
    }
}

fn finish(packet: &mut Packet) -> Option<()> {
    let at = match packet.step.as_exception()? {
        Exception::Tcp => TCP_CHECKSUM,
        Exception::UdpPort => udp::CHECKSUM,
        _ => return None,
    };
    let (l3, l4) = (usize::from(packet.layout.l3), usize::from(packet.layout.l4));
    let bytes = packet.frame.bytes_mut();
    let (addresses, len) = match packet.layout.flags.has(Flags::IPV6) {
        true => (l3 + v6::SOURCE..l3 + IPV6_LEN, be16(bytes, l3 + v6::PAYLOAD_LEN)?),
        false => {
            let total = usize::from(be16(bytes, l3 + v4::TOTAL_LEN)?);
            (l3 + v4::SOURCE..l3 + IPV4_MIN_LEN, to_u16((l3 + total).checked_sub(l4)?))
        }
    };
    let protocol = if at == TCP_CHECKSUM { PROTOCOL_TCP } else { PROTOCOL_UDP };
    let pseudo = pseudo_header(bytes.get(addresses)?, protocol, len);
    let segment = bytes.get_mut(l4..l4 + usize::from(len))?;
    let is_partial = be16(segment, at)? == pseudo.folded();
    if is_partial && !pseudo.add_bytes(segment).is_right() {
        put16(segment, at, 0);
        let sum = pseudo.add_bytes(segment).checksum();
        // Zero would mean that there is no UDP checksum (RFC 768). In TCP both stand for the same number.
        put16(segment, at, if sum == 0 { u16::MAX } else { sum });
    }
    Some(())
}

#[cfg(test)]
mod tests;
