//! Where the headers of a frame are, and parse's facts about it and its client.

use pmdns_nics::stream::STREAM_UDP;

use super::be16;
use super::dns::{HEADER_LEN, question_len};
use super::edns::COOKIE_LEN;
use super::ip::{UDP_LEN, udp, v4, v6};
use super::subnet::SUBNET_LEN;

/// Where a packet's headers are, and what it asks. Offsets count from the start of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Start of the IP header, after Ethernet and VLAN tags: 14, 18 or 22.
    pub l3: u8,
    /// Start of the UDP (or ICMP) header.
    pub l4: u8,
    /// The kind of packet.
    pub flags: Flags,
    /// Length of the qname in wire format, 1 to 255; 0: there is no question to repeat.
    pub name_len: u8,
    /// Who asks.
    pub who: Who,
    /// Type asked for.
    pub qtype: u16,
    /// Class asked for.
    pub qclass: u16,
    /// UDP size the client's OPT record announces; 0 without OPT.
    pub udp_size: u16,
}

impl Layout {
    /// Start of the DNS header; at most 90 (two tags, IPv4 with all options).
    #[inline(always)]
    pub fn dns(self) -> usize {
        usize::from(self.l4) + UDP_LEN
    }

    /// Where the question ends.
    #[inline(always)]
    pub fn question_end(self) -> usize {
        self.dns() + HEADER_LEN + question_len(self.name_len)
    }

    /// Where ends what an answer needs of the frame: the question, and behind it the answer's cookie and subnet.
    #[inline(always)]
    pub fn kept_end(self) -> usize {
        self.subnet_at() + if self.flags.has(Flags::SUBNET) { SUBNET_LEN } else { 0 }
    }

    /// Where the subnet of the answer starts, if it has one.
    #[inline(always)]
    pub fn subnet_at(self) -> usize {
        self.question_end() + if self.flags.has(Flags::COOKIE) { COOKIE_LEN } else { 0 }
    }

    /// Whether the client asks over a stream. No header of a frame from a wire ends as early.
    #[inline(always)]
    pub fn is_stream(self) -> bool {
        self.l4 == STREAM_UDP
    }

    /// The client's IP address in the frame that this layout describes: 4 or 16 bytes.
    #[inline]
    pub fn client(self, frame: &[u8]) -> &[u8] {
        let l3 = usize::from(self.l3);
        if self.flags.has(Flags::IPV6) {
            &frame[l3 + v6::SOURCE..l3 + v6::SOURCE + 16]
        } else {
            &frame[l3 + v4::SOURCE..l3 + v4::SOURCE + 4]
        }
    }

    /// The client's port in that frame.
    #[inline]
    pub fn client_port(self, frame: &[u8]) -> u16 {
        be16(frame, usize::from(self.l4) + udp::SOURCE).unwrap_or(0)
    }
}

/// The properties of a client by its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who(u16);

impl Who {
    /// No rate limit holds for the client.
    pub const EXEMPT: Self = Self(1 << 10);
    /// A policy zone has a rule about the client.
    pub const RULED: Self = Self(1 << 11);

    /// Bits of a view, and of a scope.
    const BITS: u32 = 5;
    const MASK: u16 = (1 << Self::BITS) - 1;

    /// A client in this view of this scope, each at most 31.
    pub fn in_view(view: u8, scope: u8) -> Self {
        debug_assert!(u16::from(view.max(scope)) <= Self::MASK, "there are at most 32 views");
        Self(u16::from(view) & Self::MASK | (u16::from(scope) & Self::MASK) << Self::BITS)
    }

    /// The client's view, which says what rules hold for it; 0: it is in none.
    #[inline(always)]
    pub fn view(self) -> u8 {
        (self.0 & Self::MASK) as u8
    }

    /// The scope of that view: clients of one scope share cached answers.
    #[inline(always)]
    pub fn scope(self) -> u8 {
        (self.0 >> Self::BITS & Self::MASK) as u8
    }

    /// Whether the fact `other` holds.
    #[inline(always)]
    pub fn is(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The same client in the view and scope of `other`.
    #[inline(always)]
    pub(crate) fn moved_to(self, other: Self) -> Self {
        const VIEWS: u16 = Who::MASK << Who::BITS | Who::MASK;
        Self(self.0 & !VIEWS | other.0 & VIEWS)
    }

    /// What is known together. One of both has no view.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Yes-or-no facts about a packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// It came over IPv6.
    pub const IPV6: Self = Self(1 << 0);
    /// The query has an OPT record.
    pub const EDNS: Self = Self(1 << 1);
    /// The OPT record has the DO bit (RFC 3225).
    pub const DO: Self = Self(1 << 2);
    /// The client checks signatures itself (RFC 4035 section 3.2.2).
    pub const CD: Self = Self(1 << 3);
    /// The client said which network it is in (RFC 7871), and that was read. The option's data stands in the frame,
    /// behind the question and the cookie.
    pub const SUBNET: Self = Self(1 << 4);
    /// The client asks for our name (RFC 5001).
    pub const NSID: Self = Self(1 << 5);
    /// The client sent a cookie. The answer's cookie stands in the frame, right behind the question.
    pub const COOKIE: Self = Self(1 << 6);
    /// That cookie was one of ours: the client is at the address it sends from (RFC 7873).
    pub const RIGHT_COOKIE: Self = Self(1 << 7);

    /// Whether any fact of `other` holds.
    #[inline(always)]
    pub fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The facts of both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every fact of `other` holds.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The facts that different answers belong to, in three bits: [`Flags::DO`], [`Flags::CD`] and [`Flags::SUBNET`].
    #[inline(always)]
    pub const fn of_answer(self) -> u8 {
        self.0 >> 2 & 7
    }

    /// Notes that the facts of `other` hold.
    #[inline]
    pub fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let facts = [
            (Self::IPV6, "IPV6"),
            (Self::EDNS, "EDNS"),
            (Self::DO, "DO"),
            (Self::CD, "CD"),
            (Self::SUBNET, "SUBNET"),
            (Self::NSID, "NSID"),
            (Self::COOKIE, "COOKIE"),
            (Self::RIGHT_COOKIE, "RIGHT_COOKIE"),
        ];
        f.debug_set()
            .entries(facts.iter().filter(|(flag, _)| self.has(*flag)).map(|f| f.1))
            .finish()
    }
}
