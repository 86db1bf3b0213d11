//! Stage: is it for us, is it DNS, what does it ask.
//!
//! Everything later stages rely on is checked here, once: lengths, checksums, addresses, and the whole
//! query. What is wrong below DNS is dropped with its reason; what is wrong in DNS gets an rcode.

use pmdns_nics::Verified;

use crate::packet::{Answer, Flags, Packet};
use crate::ports::{Port, Ports};
use crate::step::{Reason, Step};
use crate::wire::checksum::Sum;
use crate::wire::dns::{Asked, HEADER_LEN, flag, header, question_len};
use crate::wire::ip::{
    ETHERNET_LEN, ETHERNET_SOURCE, ETHERTYPE, IPV4_MIN_LEN, IPV6_LEN, MAX_VLAN_TAGS, PROTOCOL_ICMP,
    PROTOCOL_ICMPV6, PROTOCOL_UDP, TYPE_ARP, TYPE_IPV4, TYPE_IPV6, TYPE_QINQ, TYPE_VLAN, UDP_LEN,
    VLAN_LEN, udp, v4, v6,
};
use crate::wire::name::Seed;
use crate::wire::{be16, dns, field16};
use crate::{Context, Stage, StageName};

/// First byte of an IPv4 header without options.
const IPV4_PLAIN: u8 = 0x45;
/// IPv6 next headers that are extension headers (RFC 8200 section 4, RFC 7045).
const IPV6_EXTENSIONS: [u8; 7] = [0, 43, 50, 51, 60, 135, 139];
/// IPv6 fragment header.
const IPV6_FRAGMENT: u8 = 44;
/// More-fragments flag and fragment offset of an IPv4 header.
const IPV4_FRAGMENTED: u16 = 0x3fff;

/// The first stage.
#[derive(Clone, Debug)]
pub struct Parse {
    ports: Ports,
    seed: Seed,
}

impl Parse {
    /// A parse stage for frames of these ports; names are hashed with `seed`.
    pub fn new(ports: Ports, seed: Seed) -> Self {
        Self { ports, seed }
    }

    /// Reads Ethernet, then goes by the EtherType.
    #[inline(always)]
    fn read(&self, packet: &mut Packet) -> Result<Step, Reason> {
        let frame = packet.frame.bytes();
        let port = &self.ports[usize::from(packet.frame.port())];
        // Nearly every query looks like this. The code for it is the code for all others, with offsets that
        // the compiler knows.
        if let Some(start) = frame.first_chunk::<{ ETHERNET_LEN + IPV4_MIN_LEN }>()
            && field16(start, ETHERTYPE) == TYPE_IPV4
            && start[ETHERNET_LEN] == IPV4_PLAIN
        {
            packet.layout.l3 = ETHERNET_LEN as u8;
            return self.read_ipv4(packet, port, ETHERNET_LEN, IPV4_MIN_LEN);
        }
        let Some(ethernet) = frame.first_chunk::<ETHERNET_LEN>() else { return Err(Reason::Runt) };
        let mut ethertype = field16(ethernet, ETHERTYPE);
        let mut l3 = ETHERNET_LEN;
        while ethertype == TYPE_VLAN || ethertype == TYPE_QINQ {
            l3 += VLAN_LEN;
            if l3 > ETHERNET_LEN + MAX_VLAN_TAGS * VLAN_LEN {
                return Err(Reason::VlanDepth);
            }
            ethertype = be16(frame, l3 - 2).ok_or(Reason::Runt)?;
        }
        packet.layout.l3 = l3 as u8;
        match ethertype {
            TYPE_IPV4 => {
                let first = frame.get(l3).ok_or(Reason::Ipv4Header)?;
                let header_len = usize::from(first & 0xf) * 4;
                self.read_ipv4(packet, port, l3, header_len)
            }
            TYPE_IPV6 => self.read_ipv6(packet, port, l3),
            TYPE_ARP => Ok(Step::at(StageName::Neighbor)),
            _ => Ok(Step::EXCEPTION),
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
        if packet.frame.verified() != Verified::Good {
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
        packet.layout.l4 = (l3 + header_len) as u8;
        match header[v4::PROTOCOL] {
            PROTOCOL_UDP => {
                let addresses = header.last_chunk::<8>().expect("both stand at its end");
                let addresses = Sum::default().add_bytes(addresses);
                self.read_udp(packet, port, addresses, l3 + header_len, l3 + total_len)
            }
            PROTOCOL_ICMP => Ok(Step::at(StageName::Neighbor)),
            _ => Ok(Step::EXCEPTION),
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
        packet.layout.l4 = (l3 + IPV6_LEN) as u8;
        let protocol = header[v6::NEXT_HEADER];
        let source = address_at(header, v6::SOURCE);
        let destination: [u8; 16] = address_at(header, v6::DESTINATION);
        // Neighbour discovery asks by multicast; which address it asks for, the neighbor stage checks.
        let ours =
            port.is_ours_v6(destination) || (destination[0] == 0xff && protocol == PROTOCOL_ICMPV6);
        if !ours {
            return Err(Reason::NotOurAddress);
        }
        if protocol != PROTOCOL_ICMPV6 && ipv6_source_is_impossible(source, port) {
            return Err(Reason::SourceAddress);
        }
        match protocol {
            PROTOCOL_UDP => {
                let addresses = Sum::default().add_bytes(&source).add_bytes(&destination);
                let l4 = l3 + IPV6_LEN;
                self.read_udp(packet, port, addresses, l4, l4 + payload_len)
            }
            PROTOCOL_ICMPV6 => Ok(Step::at(StageName::Neighbor)),
            IPV6_FRAGMENT => Err(Reason::Ipv6Fragment),
            extension if IPV6_EXTENSIONS.contains(&extension) => Err(Reason::Ipv6Extension),
            _ => Ok(Step::EXCEPTION),
        }
    }

    /// Reads UDP, which stands between `l4` and `end` of the frame. `addresses` is the sum of source and
    /// destination, for the pseudo-header.
    #[inline(always)]
    fn read_udp(
        &self,
        packet: &mut Packet,
        port: &Port,
        addresses: Sum,
        l4: usize,
        end: usize,
    ) -> Result<Step, Reason> {
        let frame = packet.frame.bytes();
        let datagram = &frame[l4..end];
        let Some(header) = datagram.first_chunk::<UDP_LEN>() else { return Err(Reason::UdpHeader) };
        let len = field16(header, udp::LEN);
        if usize::from(len) != datagram.len() {
            return Err(Reason::UdpHeader);
        }
        if field16(header, udp::DESTINATION) != port.dns_port {
            return Ok(Step::EXCEPTION);
        }
        // The answer goes back to the source and comes from the destination, so both must be one host's.
        if frame.first_chunk() != Some(&port.mac) {
            return Err(Reason::NotOurMac);
        }
        if frame[ETHERNET_SOURCE] & 1 != 0 {
            return Err(Reason::SourceAddress);
        }
        if field16(header, udp::SOURCE) == 0 {
            return Err(Reason::UdpHeader);
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
        if has_sum && packet.frame.verified() != Verified::Good {
            let pseudo = addresses.add16(u16::from(PROTOCOL_UDP)).add16(len);
            if !pseudo.add_bytes(headers).add_at(0, rest_sum).is_right() {
                return Err(Reason::UdpChecksum);
            }
        }
        self.read_dns(packet, rest_sum, l4 + UDP_LEN, end)
    }

    /// Reads a message that has a whole header, between `dns` and `end` of the frame. `rest_sum` is the sum of what
    /// follows the header.
    #[inline(always)]
    fn read_dns(
        &self,
        packet: &mut Packet,
        rest_sum: Sum,
        dns: usize,
        end: usize,
    ) -> Result<Step, Reason> {
        let message = &packet.frame.bytes()[dns..end];
        let flags = be16(message, header::FLAGS).unwrap_or(0);
        if flags & flag::QR != 0 {
            return Err(Reason::DnsResponse);
        }
        let asked = Asked::read(message);
        packet.key = self.seed.hash(&message[HEADER_LEN..][..usize::from(asked.name_len)]);
        let question = question_len(asked.name_len);
        let rest = &message[HEADER_LEN..];
        packet.question_sum = if question == rest.len() {
            rest_sum
        } else {
            Sum::default().add_bytes(&rest[..question])
        }
        .folded();
        let layout = &mut packet.layout;
        layout.dns = dns as u8;
        layout.name_len = asked.name_len;
        layout.qtype = asked.qtype;
        layout.qclass = asked.qclass;
        if flags & flag::CD != 0 {
            layout.flags.set(Flags::CD);
        }
        if let Some(edns) = asked.edns {
            layout.flags.set(Flags::EDNS);
            // RFC 6891 section 6.2.3: sizes below 512 mean 512.
            layout.udp_size = edns.udp_size.max(dns::PLAIN_UDP_SIZE);
            if edns.dnssec_ok {
                layout.flags.set(Flags::DO);
            }
        }
        if let Some(rcode) = asked.error {
            packet.answer = Answer::Rcode(rcode);
        }
        Ok(Step::at(StageName::Acl))
    }
}

impl Stage for Parse {
    const NAME: StageName = StageName::Parse;

    #[inline(always)]
    fn hint(&self, packet: &Packet) {
        packet.frame.prefetch();
    }

    #[inline]
    fn act(&mut self, packet: &mut Packet, _context: &Context) -> Step {
        match self.read(packet) {
            Ok(step) => step,
            Err(reason) => Step::drop(reason),
        }
    }
}

/// The address at a constant offset of a header.
#[inline(always)]
fn address_at<const N: usize, const HEADER: usize>(header: &[u8; HEADER], at: usize) -> [u8; N] {
    std::array::from_fn(|index| header[at + index])
}

/// Whether no host may send from this address: answering it would reach somebody else, or ourselves.
#[inline]
fn ipv4_source_is_impossible(source: [u8; 4], port: &Port) -> bool {
    // RFC 1122 section 3.2.1.3: this-network, loopback, multicast and limited broadcast.
    matches!(source[0], 0 | 127 | 224..) || port.is_ours_v4(source)
}

/// The same for IPv6: unspecified, loopback and multicast (RFC 4291 section 2).
#[inline]
fn ipv6_source_is_impossible(source: [u8; 16], port: &Port) -> bool {
    source[0] == 0xff || (source[..15] == [0; 15] && source[15] <= 1) || port.is_ours_v6(source)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{
        CLIENT_MAC, OUR_IPV4, OUR_IPV6, OUR_MAC, Query, act_once, at, frame_of, query,
    };
    use crate::wire::dns::Rcode;
    use crate::wire::ip::seal_ipv4;
    use crate::wire::put16;

    fn parse() -> Parse {
        let addresses = [std::net::IpAddr::from(OUR_IPV4), std::net::IpAddr::from(OUR_IPV6)];
        Parse::new([Port::new(OUR_MAC, addresses)].into(), Seed::new([1; 16]))
    }

    fn parsed(bytes: &[u8]) -> Packet {
        act_once(&mut parse(), Packet::arrived(frame_of(bytes), 0), &at(0))
    }

    /// Where a frame goes after `change` was made to it.
    fn step_after(query: &Query, change: impl FnOnce(&mut Vec<u8>)) -> Step {
        let mut bytes = query.frame_bytes();
        change(&mut bytes);
        parsed(&bytes).step
    }

    /// Where the DNS message `message` goes, and what it is to be answered.
    fn outcome(message: &[u8]) -> (Step, Answer) {
        let packet = parsed(&query("a. A").frame_around(message));
        (packet.step, packet.answer)
    }

    type Change = fn(&mut Vec<u8>);
    /// A change to a message whose question ends at the number given.
    type ChangeFrom = fn(&mut Vec<u8>, usize);

    const ON: Step = Step::at(StageName::Acl);

    #[test]
    fn a_query_is_found_under_any_headers() {
        let plain = query("www.Example. AAAA").edns(1400, true);
        let mut tagged = plain.clone();
        tagged.vlans = vec![7, 8];
        let mut optioned = plain.clone();
        optioned.ipv4_options = vec![1; 40];
        let mut padded = query(". NS");
        padded.padding = 1;
        for (case, l3, l4) in [
            (plain.clone(), 14, 34),
            (plain.over_ipv6(), 14, 54),
            (tagged.clone(), 22, 42),
            (tagged.over_ipv6(), 22, 62),
            (optioned, 14, 74),
            (padded, 14, 34),
        ] {
            let packet = parsed(&case.frame_bytes());
            assert_eq!((packet.step, packet.answer), (ON, Answer::None), "{case:?}");
            let layout = packet.layout;
            assert_eq!((layout.l3, layout.l4, layout.dns), (l3, l4, l4 + 8));
            assert_eq!(packet.query().name(), case.name);
            assert_eq!(packet.query().id(), case.id);
            assert_eq!((layout.qtype, layout.qclass), (case.qtype, case.qclass));
            assert_eq!(layout.flags.has(Flags::EDNS), case.edns.is_some());
            assert_eq!(layout.udp_size, case.edns.map_or(0, |edns| edns.0));
        }
    }

    #[test]
    fn the_key_does_not_depend_on_letter_case() {
        let key = |text| parsed(&query(text).frame_bytes()).key;
        assert_eq!(key("WwW.eXample. A"), key("www.example. A"));
        assert_ne!(key("www.example. A"), key("wwv.example. A"));
    }

    #[test]
    fn bad_headers_are_dropped_with_their_reason() {
        let v4 = query("a.example. A");
        let v6 = v4.clone().over_ipv6();
        let cases: [(&Query, Reason, Change); 17] = [
            (&v4, Reason::Runt, |f| f.truncate(13)),
            (&v4, Reason::Ipv4Header, |f| f.truncate(33)),
            (&v4, Reason::Ipv4Header, |f| f[14] = 0x55),
            (&v4, Reason::Ipv4Header, |f| f[14] = 0x44),
            (&v4, Reason::Ipv4Header, |f| put16(f, 16, 0xffff)),
            (&v4, Reason::Ipv4Checksum, |f| f[24] ^= 1),
            (&v4, Reason::UdpChecksum, |f| *f.last_mut().unwrap() ^= 1),
            (&v4, Reason::UdpHeader, |f| put16(f, 38, 9)),
            (&v4, Reason::NotOurAddress, |f| {
                f[33] ^= 1;
                seal_ipv4(&mut f[14..34]);
            }),
            (&v4, Reason::SourceAddress, |f| {
                f[26] = 224;
                seal_ipv4(&mut f[14..34]);
            }),
            (&v4, Reason::Ipv4Fragment, |f| {
                put16(f, 20, 0x2000);
                seal_ipv4(&mut f[14..34]);
            }),
            (&v6, Reason::Ipv6Header, |f| f[14] = 0x40),
            (&v6, Reason::Ipv6Header, |f| put16(f, 18, 2000)),
            (&v6, Reason::Ipv6Fragment, |f| f[20] = 44),
            (&v6, Reason::Ipv6Extension, |f| f[20] = 0),
            (&v6, Reason::UdpChecksum, |f| put16(f, 60, 0)),
            (&v6, Reason::SourceAddress, |f| f[22] = 0xff),
        ];
        for (index, (query, reason, change)) in cases.into_iter().enumerate() {
            assert_eq!(step_after(query, change), Step::drop(reason), "case {index}");
        }
    }

    #[test]
    fn three_vlan_tags_are_too_many() {
        let mut tagged = query("a. A");
        tagged.vlans = vec![1, 2, 3];
        assert_eq!(step_after(&tagged, |_| ()), Step::drop(Reason::VlanDepth));
    }

    #[test]
    fn what_is_for_this_host_but_not_dns_is_an_exception() {
        let tcp = |frame: &mut Vec<u8>| {
            frame[23] = 6;
            seal_ipv4(&mut frame[14..34]);
        };
        assert_eq!(step_after(&query("a. A"), tcp), Step::EXCEPTION);
        assert_eq!(step_after(&query("a. A"), |f| put16(f, 36, 54)), Step::EXCEPTION);
        assert_eq!(step_after(&query("a. A"), |f| put16(f, 12, 0x88cc)), Step::EXCEPTION);
        let arp = |frame: &mut Vec<u8>| put16(frame, 12, TYPE_ARP);
        assert_eq!(step_after(&query("a. A"), arp), Step::at(StageName::Neighbor));
    }

    #[test]
    fn a_query_without_udp_checksum_is_read_over_ipv4() {
        assert_eq!(step_after(&query("a. A"), |f| put16(f, 40, 0)), ON);
    }

    #[test]
    fn only_queries_from_one_host_to_our_own_mac_are_answered() {
        let to_all = |frame: &mut Vec<u8>| frame[..6].fill(0xff);
        assert_eq!(step_after(&query("a. A"), to_all), Step::drop(Reason::NotOurMac));
        let to_another = |frame: &mut Vec<u8>| frame[5] ^= 1;
        assert_eq!(step_after(&query("a. A"), to_another), Step::drop(Reason::NotOurMac));
        let from_a_group = |frame: &mut Vec<u8>| frame[6] |= 1;
        assert_eq!(step_after(&query("a. A"), from_a_group), Step::drop(Reason::SourceAddress));
    }

    #[test]
    fn no_port_can_verify_a_checksum_that_is_not_there() {
        let mut bytes = query("a. A").over_ipv6().frame_bytes();
        put16(&mut bytes, 60, 0);
        let mut packet = Packet::arrived(frame_of(&bytes), 0);
        packet.frame.set_verified(Verified::Good);
        let packet = act_once(&mut parse(), packet, &at(0));
        assert_eq!(packet.step, Step::drop(Reason::UdpChecksum));
    }

    #[test]
    fn a_port_that_verified_the_checksums_is_believed() {
        let mut bytes = query("a. A").frame_bytes();
        *bytes.last_mut().unwrap() = 0xff;
        let mut packet = Packet::arrived(frame_of(&bytes), 0);
        packet.frame.set_verified(Verified::Good);
        assert_eq!(act_once(&mut parse(), packet, &at(0)).step, ON);
    }

    #[test]
    fn responses_and_stubs_of_messages_are_never_answered() {
        let mut message = query("a. A").message();
        message[2] |= 0x80;
        assert_eq!(outcome(&message).0, Step::drop(Reason::DnsResponse));
        assert_eq!(outcome(&message[..11]).0, Step::drop(Reason::DnsHeader));
    }

    #[test]
    fn queries_we_do_not_do_get_their_rcode() {
        let plain = query("a. A").message();
        let with_edns = query("a. A").edns(1232, false).message();
        let opt = plain.len();
        let changed = |message: &[u8], change: ChangeFrom| {
            let mut message = message.to_vec();
            change(&mut message, opt);
            outcome(&message)
        };
        let cases: [(Rcode, &[u8], ChangeFrom); 15] = [
            (Rcode::NOTIMP, &plain, |m, _| m[2] |= 5 << 3),
            (Rcode::FORMERR, &plain, |m, _| m[5] = 0),
            (Rcode::FORMERR, &plain, |m, _| m[5] = 2),
            (Rcode::FORMERR, &plain, |m, _| m[7] = 1),
            (Rcode::FORMERR, &plain, |m, _| m.truncate(13)),
            (Rcode::FORMERR, &plain, |m, _| m[12] = 0xc0),
            (Rcode::FORMERR, &plain, |m, _| m.push(0)),
            (Rcode::FORMERR, &with_edns, |m, opt| m[opt + 10] = 1),
            (Rcode::FORMERR, &with_edns, |m, opt| {
                m[11] = 2;
                m.extend_from_within(opt..);
            }),
            (Rcode::BADVERS, &with_edns, |m, opt| m[opt + 6] = 1),
            (Rcode::FORMERR, &plain, |m, opt| put16(m, opt - 4, 41)),
            (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 4, 252)),
            // IXFR with its SOA in the authority section (RFC 1995 section 3).
            (Rcode::REFUSED, &plain, |m, opt| {
                put16(m, opt - 4, 251);
                m[9] = 1;
                m.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22]);
                m.extend_from_slice(&[0; 22]);
            }),
            (Rcode::NOTIMP, &plain, |m, opt| put16(m, opt - 4, 254)),
            (Rcode::REFUSED, &plain, |m, opt| put16(m, opt - 2, 3)),
        ];
        for (index, (rcode, message, change)) in cases.into_iter().enumerate() {
            assert_eq!(changed(message, change), (ON, Answer::Rcode(rcode)), "case {index}");
        }
    }

    #[test]
    fn a_formerr_keeps_the_opt_record_that_could_be_read() {
        for (change, name_len) in [(4usize, 0), (6, 3)] {
            // QDCOUNT 0 without a question, ANCOUNT 1 with a record before the OPT.
            let mut message = query("a. A").edns(1232, true).message();
            if change == 4 {
                message[5] = 0;
                message.drain(HEADER_LEN..HEADER_LEN + 7);
            } else {
                message[7] = 1;
                let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
                message.splice(HEADER_LEN + 7..HEADER_LEN + 7, record);
            }
            let packet = parsed(&query("a. A").frame_around(&message));
            assert_eq!(packet.answer, Answer::Rcode(Rcode::FORMERR));
            assert!(packet.layout.flags.has(Flags::EDNS), "RFC 6891 section 6.1.1");
            assert_eq!(packet.layout.name_len, name_len);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_go_somewhere(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parsed(&bytes);
        }

        #[test]
        fn a_changed_query_goes_somewhere(
            at in 0usize..100, value: u8, cut in 0usize..100, ipv6: bool, verified: bool,
        ) {
            let mut case = query("www.example. TXT").edns(1232, true);
            if ipv6 {
                case = case.over_ipv6();
            }
            let mut bytes = case.frame_bytes();
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(bytes.len() - cut % bytes.len());
            let mut packet = Packet::arrived(frame_of(&bytes), 0);
            if verified {
                packet.frame.set_verified(Verified::Good);
            }
            let packet = act_once(&mut parse(), packet, &at_start());
            if packet.step == ON {
                let _ = (packet.query().question(), packet.layout.client(packet.frame.bytes()));
            }
        }
    }

    fn at_start() -> Context {
        at(0)
    }

    #[test]
    fn the_frames_of_the_tests_are_what_they_seem() {
        let bytes = query("a. A").frame_bytes();
        assert_eq!(bytes[..6], OUR_MAC);
        assert_eq!(bytes[6..12], CLIENT_MAC);
    }
}
