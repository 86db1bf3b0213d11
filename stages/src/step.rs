//! Where a packet goes next, and the table that counts it.

use pmdns_config::StageName;
use pmdns_config::narrow::to_u8;

/// Where a packet goes next: on to a stage, out of the port, to the slow path, off the line, or nowhere. It is
/// one number, its place in an [`Exits`] table, because every packet's is compared at every stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Step(u8);

/// Declares an enum together with the names and sentences that reports use.
macro_rules! reasons {
    ($(#[doc = $about:literal])* $reason:ident: $($(#[doc = $text:literal])* $variant:ident = $name:literal,)*) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $reason { $($(#[doc = $text])* $variant,)* }

        impl $reason {
            /// Each of them, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name used in counters.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($text,)*),)* }
            }
        }
    };
}

reasons! {
    /// The kinds of packets for this host that are not for us.
    Exception:
    /// TCP to an address of ours: DNS over TCP, BGP, SSH.
    Tcp = "tcp",
    /// UDP to an address of ours, and not to the port that queries come to.
    UdpPort = "udp_port",
    /// Another protocol over IP.
    Protocol = "protocol",
    /// A fragment to an address of ours, on a port with a TAP.
    Fragment = "fragment",
    /// Neither IP nor ARP: LLDP, spanning tree.
    Ethertype = "ethertype",
    /// An ARP reply of a host that is no next hop; on a port with a TAP announcements as well.
    Arp = "arp",
    /// ICMP other than an echo request: errors, mostly.
    Icmp = "icmp",
    /// ICMPv6 that is neither an echo request nor a solicitation: advertisements, routers, errors.
    Icmpv6 = "icmpv6",
}

reasons! {
    /// Why a packet was dropped.
    Reason:
    /// The frame ends before the header it promises.
    Runt = "runt",
    /// More VLAN tags than two.
    VlanDepth = "vlan_depth",
    /// A VLAN that the port is not on: other tags than `vlans` of the port lists, or none.
    Vlan = "vlan",
    /// The IPv4 header's version, length or total length is wrong.
    Ipv4Header = "ipv4_header",
    /// The IPv4 header checksum is wrong.
    Ipv4Checksum = "ipv4_checksum",
    /// An IPv4 fragment; DNS queries never need any.
    Ipv4Fragment = "ipv4_fragment",
    /// The IPv6 header's version or payload length is wrong.
    Ipv6Header = "ipv6_header",
    /// An IPv6 fragment.
    Ipv6Fragment = "ipv6_fragment",
    /// An IPv6 extension header other than a fragment header.
    Ipv6Extension = "ipv6_extension",
    /// The source address is not valid for a sender (IP: multicast, loopback, unspecified, our own; MAC: a group).
    SourceAddress = "source_address",
    /// The destination address is not one of ours.
    NotOurAddress = "not_our_address",
    /// A query or a reply sent to another hardware address, or to a group of them (RFC 1122 section 3.3.6).
    NotOurMac = "not_our_mac",
    /// The UDP length does not fit the IP length, or the source port is zero.
    UdpHeader = "udp_header",
    /// The source port is that of a service that answers anything (7, 9, 11, 13, 17, 19, 37, 69, 123, 464): a reply
    /// could start a loop.
    ReflectorPort = "reflector_port",
    /// The UDP checksum is wrong, or absent over IPv6.
    UdpChecksum = "udp_checksum",
    /// The UDP payload is shorter than a DNS header.
    DnsHeader = "dns_header",
    /// A DNS response to an address that queries come to. pmdns asks upstreams from other addresses.
    DnsResponse = "dns_response",
    /// A datagram to a query source, at a UDP port where no query waits for a reply.
    NoQuery = "no_query",
    /// A later fragment of a reply to a query source. The first one has the query asked again over TCP.
    ReplyFragment = "reply_fragment",
    /// A packet to a query source that is neither a reply nor a sound ICMP error about a query. Or it is in another
    /// VLAN than the port's first.
    QuerySource = "query_source",
    /// ARP, neighbour discovery or echo that asks nothing of us, or is malformed.
    NeighborIgnored = "neighbor_ignored",
    /// A multicast listener query (MLD), which a report of its own answers a little later.
    MldQuery = "mld_query",
    /// The access list drops this client.
    AclDrop = "acl_drop",
    /// The client's rate limit is used up.
    RateLimited = "rate_limited",
    /// The client's rate limit on queries that the cache cannot answer is used up.
    MissRateLimited = "miss_rate_limited",
    /// The zone of the name has had its misses of this second, and `hitters.limit_answer` is `drop`.
    ZoneLimited = "zone_limited",
    /// The client prefix has had its error replies of this second (`ratelimit.error_replies_per_second`).
    ErrorLimited = "error_limited",
    /// The client prefix has had its ping replies of this second (`ratelimit.error_replies_per_second`, counted apart from errors).
    EchoLimited = "echo_limited",
    /// A block list or policy zone drops queries for this name, or of this client.
    Blocked = "blocked",
    /// The answer did not fit the frame.
    AnswerTooLong = "answer_too_long",
}

impl Step {
    /// How many different steps there are, and so the length of an [`Exits`] table.
    pub const COUNT: usize = StageName::COUNT + 3 + Exception::ALL.len() + Reason::ALL.len();

    /// Out of the port it came from.
    pub const TRANSMIT: Self = Self(to_u8(StageName::COUNT));
    /// To the slow path, which asks upstream.
    pub const SLOW_PATH: Self = Self(Self::TRANSMIT.0 + 1);
    /// To the slow path, which has asked: the packet's key says what has come ([`Arrival`](crate::Arrival)).
    pub const REPLY: Self = Self(Self::TRANSMIT.0 + 2);
    const FIRST_EXCEPTION: u8 = Self::TRANSMIT.0 + 3;
    const FIRST_REASON: u8 = Self::FIRST_EXCEPTION + to_u8(Exception::ALL.len());

    /// To the stage that writes what the packet is answered with.
    pub const ANSWER: Self = Self::at(StageName::Encode);

    /// On from `stage` to the next that queries come to; behind the last one, out of the port.
    pub const fn after(stage: StageName) -> Self {
        let mut next = stage as usize + 1;
        while next < StageName::COUNT && StageName::ALL[next].is_aside() {
            next += 1;
        }
        Self(to_u8(next))
    }

    /// At a stage, or on to it, further down the line.
    #[inline(always)]
    pub const fn at(stage: StageName) -> Self {
        Self(stage as u8)
    }

    /// Off the line: it is for this host, but not DNS. It goes to the port's TAP. Without one it is counted and dropped.
    #[inline(always)]
    pub const fn exception(what: Exception) -> Self {
        Self(Self::FIRST_EXCEPTION + what as u8)
    }

    /// Nowhere.
    #[inline(always)]
    pub const fn drop(reason: Reason) -> Self {
        Self(Self::FIRST_REASON + reason as u8)
    }

    /// The step's place in an [`Exits`] table.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Every step, by index.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|index| Self(to_u8(index)))
    }

    /// The stage it leads to, if any.
    pub fn stage(self) -> Option<StageName> {
        StageName::ALL.get(self.index()).copied()
    }

    /// Why the packet goes nowhere, if it does.
    pub fn reason(self) -> Option<Reason> {
        Reason::ALL.get(self.index().checked_sub(Self::FIRST_REASON.into())?).copied()
    }

    /// The kind of exception, if the packet is for this host but not for us.
    pub fn as_exception(self) -> Option<Exception> {
        Exception::ALL.get(self.index().checked_sub(Self::FIRST_EXCEPTION.into())?).copied()
    }

    /// Whether the packet stays on the line.
    #[inline(always)]
    pub fn is_on_the_line(self) -> bool {
        self.0 < Self::TRANSMIT.0
    }

    /// Whether a packet at `stage` may take this step.
    #[inline(always)]
    pub fn is_below(self, stage: StageName) -> bool {
        self.0 > stage as u8
    }
}

const _: () = assert!(Step::COUNT <= u8::MAX as usize);

impl std::fmt::Display for Step {
    /// The name used in counters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::TRANSMIT => f.write_str("transmit"),
            Self::SLOW_PATH => f.write_str("slow_path"),
            Self::REPLY => f.write_str("reply"),
            step => match (step.stage(), step.as_exception(), step.reason()) {
                (Some(stage), ..) => f.write_str(stage.name()),
                (_, Some(what), _) => write!(f, "exception.{}", what.name()),
                (.., Some(reason)) => write!(f, "drop.{}", reason.name()),
                (None, None, None) => write!(f, "step {}", self.0),
            },
        }
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// How often a stage sent packets on each step. This table is the counters: a hit is
/// `lookup` × `encode`, a miss is `policy` × `slow_path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exits {
    counts: [u64; Step::COUNT],
}

impl Exits {
    /// How many packets took `step`.
    pub fn of(&self, step: Step) -> u64 {
        self.counts[step.index()]
    }

    /// How many packets there were in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A table with these counts, by [`Step::index`].
    pub fn from_counts(counts: [u64; Step::COUNT]) -> Self {
        Self { counts }
    }

    /// The counts by [`Step::index`].
    pub fn counts(&self) -> &[u64; Step::COUNT] {
        &self.counts
    }
}

/// Counts steps in a local number as long as they are the same, which in most batches they all are.
#[derive(Debug)]
pub struct Run<'e> {
    exits: &'e mut Exits,
    step: Step,
    length: u64,
}

impl<'e> Run<'e> {
    /// A run of nothing, to be counted in `exits`.
    #[inline(always)]
    pub fn new(exits: &'e mut Exits) -> Self {
        Self { exits, step: Step::TRANSMIT, length: 0 }
    }

    /// Counts one packet that takes `step`.
    #[inline(always)]
    pub fn count(&mut self, step: Step) {
        if step != self.step {
            self.settle();
            self.step = step;
        }
        self.length += 1;
    }

    #[inline(always)]
    fn settle(&mut self) {
        self.exits.counts[self.step.index()] += std::mem::take(&mut self.length);
    }
}

impl Drop for Run<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.settle();
    }
}

impl Default for Exits {
    fn default() -> Self {
        Self { counts: [0; Step::COUNT] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_own_place_in_the_table() {
        for (index, step) in Step::all().enumerate() {
            assert_eq!(step.index(), index);
        }
        assert_eq!(Step::all().count(), Step::COUNT);
        let names: std::collections::BTreeSet<String> =
            Step::all().map(|step| step.to_string()).collect();
        assert_eq!(names.len(), Step::COUNT, "each has a name of its own");
        for what in Exception::ALL {
            assert_eq!(Step::exception(*what).as_exception(), Some(*what));
            assert_eq!(Step::exception(*what).reason(), None);
        }
        for reason in Reason::ALL {
            assert_eq!(Step::drop(*reason).reason(), Some(*reason));
            assert_eq!(Step::drop(*reason).as_exception(), None);
        }
    }

    #[test]
    fn every_reason_is_explained_to_operators() {
        let docs = include_str!("../../docs/operations.md");
        let drops = Reason::ALL.iter().map(|it| ("drop", it.name(), it.meaning()));
        let exceptions = Exception::ALL.iter().map(|it| ("exception", it.name(), it.meaning()));
        for (kind, name, meaning) in drops.chain(exceptions) {
            let row = format!("| `{kind}.{name}` | {} |", meaning.trim());
            assert!(docs.contains(&row), "docs/operations.md lacks: {row}");
        }
    }

    #[test]
    fn steps_only_go_down() {
        assert!(Step::at(StageName::Encode).is_below(StageName::Parse));
        assert!(!Step::at(StageName::Parse).is_below(StageName::Encode));
        assert!(!Step::at(StageName::Acl).is_below(StageName::Acl));
    }

    #[test]
    fn a_query_goes_on_to_the_next_stage_but_round_those_aside() {
        assert_eq!(Step::after(StageName::Parse), Step::at(StageName::Acl));
        assert_eq!(Step::after(StageName::Acl), Step::at(StageName::RateLimit));
        assert_eq!(Step::after(StageName::Encode), Step::TRANSMIT);
    }
}
