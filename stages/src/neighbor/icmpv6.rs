//! Neighbour discovery (RFC 4861) and ping over IPv6 (RFC 4443 section 4).

use pmdns_config::narrow::to_u16;
use pmdns_nics::Frame;

use super::ethernet::{HOPS, address_ethernet};
use crate::ports::Port;
use crate::step::{Exception, Step};
use crate::wire::ip::{
    ETHERNET_SOURCE, FROM_THIS_LINK, IPV6_LEN, PROTOCOL_ICMPV6, pseudo_header, turn_round, v6,
};
use crate::wire::layout::Layout;
use crate::wire::{be16, put16};

pub(super) const CODE: usize = 1;
const CHECKSUM: usize = 2;
/// The shortest ICMPv6 message of any type in use.
const MIN_LEN: usize = 8;

pub(super) const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
pub(crate) const SOLICITATION: u8 = 135;
pub(crate) const ADVERTISEMENT: u8 = 136;

// Offsets in solicitations and advertisements (RFC 4861 sections 4.3 and 4.4).
pub(super) const TARGET: usize = 8;
pub(super) const OPTIONS: usize = 24;
/// An advertisement with our link-layer address, the only option we send.
const ADVERTISEMENT_LEN: usize = OPTIONS + OPTION_UNIT;

/// A solicitation of ours with its header. Our link-layer address is the only option.
pub(super) const QUESTION_LEN: usize = IPV6_LEN + OPTIONS + OPTION_UNIT;

/// Options count their length in units of eight bytes (RFC 4861 section 4.6).
const OPTION_UNIT: usize = 8;
const SOURCE_LINK_ADDRESS: u8 = 1;
pub(super) const TARGET_LINK_ADDRESS: u8 = 2;

pub(super) const SOLICITED: u8 = 0x40;
pub(super) const OVERRIDE: u8 = 0x20;

const UNSPECIFIED: [u8; 16] = [0; 16];
const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// ff02::1, and the group MAC address that stands for it (RFC 2464 section 7).
const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(super) const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// ff02::1:ff00:0/104, where addresses are asked for (RFC 4291 section 2.7.1).
const SOLICITED_NODE: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];

/// An ICMPv6 message whose checksum is right, and the header it came with.
pub(super) struct Received<'f> {
    frame: &'f [u8],
    pub(super) hop_limit: u8,
    source: [u8; 16],
    pub(super) destination: [u8; 16],
    pub(super) message: &'f [u8],
    pub(super) sender: [u8; 6],
}

impl<'f> Received<'f> {
    /// Reads the message behind the IPv6 header at `l3`. `None`: it is cut off or damaged.
    pub(super) fn read(frame: &'f [u8], l3: usize) -> Option<Self> {
        let l4 = l3 + IPV6_LEN;
        let header = frame.get(l3..l4)?;
        let len = be16(header, v6::PAYLOAD_LEN)?;
        let message = frame.get(l4..l4 + usize::from(len))?;
        let sum = pseudo_header(&header[v6::SOURCE..], PROTOCOL_ICMPV6, len).add_bytes(message);
        if message.len() < MIN_LEN || !sum.is_right() {
            return None;
        }
        Some(Self {
            frame,
            hop_limit: header[v6::HOP_LIMIT],
            source: header[v6::SOURCE..v6::DESTINATION].try_into().ok()?,
            destination: header[v6::DESTINATION..].try_into().ok()?,
            message,
            sender: frame[ETHERNET_SOURCE..2 * ETHERNET_SOURCE].try_into().ok()?,
        })
    }

    /// Whether the source is one that another host can have.
    fn is_from_a_host(&self, port: &Port) -> bool {
        self.source[0] != 0xff
            && self.source != UNSPECIFIED
            && self.source != LOOPBACK
            && !port.has_v6(self.source)
    }

    /// The address it solicits, if it is a valid solicitation for one of ours (RFC 4861 section 7.1.1).
    fn solicited(&self, port: &Port) -> Option<[u8; 16]> {
        let target: [u8; 16] = self.message.get(TARGET..OPTIONS)?.try_into().ok()?;
        let has_link_address =
            find_option(&self.message[OPTIONS..], SOURCE_LINK_ADDRESS)?.is_some();
        // A node that makes sure its address is free has none yet (RFC 4862 section 5.4.2).
        let probes = self.source == UNSPECIFIED
            && self.destination.starts_with(&SOLICITED_NODE)
            && !has_link_address;
        let valid = self.hop_limit == FROM_THIS_LINK
            && self.message[CODE] == 0
            && (probes || self.is_from_a_host(port))
            && port.answers_for_v6(target, self.frame);
        valid.then_some(target)
    }
}

/// Answers the ICMPv6 message behind the IPv6 header at `layout.l3`, if it is an echo request to us or
/// solicits an address of ours.
pub(super) fn answer(frame: &mut Frame, layout: Layout, port: &Port) -> Option<Step> {
    let l3 = usize::from(layout.l3);
    let received = Received::read(frame.bytes(), l3)?;
    let sender = received.sender;
    match received.message[0] {
        ECHO_REQUEST => {
            // A ping to a group could be answered (RFC 4443 section 4.2), but would make us amplify.
            let to_us = port.is_ours_v6(received.destination);
            if received.message[CODE] != 0 || !to_us || !received.is_from_a_host(port) {
                return None;
            }
            let end = l3 + IPV6_LEN + received.message.len();
            echo(frame, l3, end)?;
            address_ethernet(frame.bytes_mut(), sender, port.mac);
        }
        SOLICITATION => {
            let target = received.solicited(port)?;
            let source = received.source;
            advertise(frame, l3, target, source, port)?;
            let destination = if source == UNSPECIFIED { ALL_NODES_MAC } else { sender };
            address_ethernet(frame.bytes_mut(), destination, port.mac);
        }
        _ => return Some(Step::exception(Exception::Icmpv6)),
    }
    Some(Step::TRANSMIT)
}

/// Turns the echo request, which ends at `end`, into its reply.
fn echo(frame: &mut Frame, l3: usize, end: usize) -> Option<()> {
    // The frame may be longer than the packet: Ethernet pads to its minimum.
    frame.resize(end).ok()?;
    let bytes = frame.bytes_mut();
    turn_round(bytes, l3, true);
    bytes[l3 + v6::HOP_LIMIT] = HOPS;
    bytes[l3 + IPV6_LEN] = ECHO_REPLY;
    seal(&mut bytes[l3..]);
    Some(())
}

/// Writes a neighbour advertisement over the solicitation that came from `source` (RFC 4861 section 7.2.4).
fn advertise(
    frame: &mut Frame,
    l3: usize,
    target: [u8; 16],
    source: [u8; 16],
    port: &Port,
) -> Option<()> {
    // A probe is answered to everybody, and solicited by nobody in particular; so is an announcement.
    let (destination, flags) = match source {
        UNSPECIFIED => (ALL_NODES, OVERRIDE),
        host => (host, SOLICITED | OVERRIDE),
    };
    frame.resize(l3 + IPV6_LEN + ADVERTISEMENT_LEN).ok()?;
    let (header, message) = frame.bytes_mut()[l3..].split_at_mut(IPV6_LEN);
    put_header(header, to_u16(ADVERTISEMENT_LEN), target, destination);
    message[..TARGET].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
    message[TARGET..OPTIONS].copy_from_slice(&target);
    message[OPTIONS..OPTIONS + 2].copy_from_slice(&[TARGET_LINK_ADDRESS, 1]);
    message[OPTIONS + 2..].copy_from_slice(&port.mac);
    seal(&mut frame.bytes_mut()[l3..]);
    Some(())
}

/// Writes at `l3` that an address of ours is here, to everybody on the link.
pub(super) fn announce(frame: &mut Frame, l3: usize, address: [u8; 16], port: &Port) -> Option<()> {
    advertise(frame, l3, address, UNSPECIFIED, port)
}

/// Writes over `packet`, which is [`QUESTION_LEN`] long, the solicitation of `from` at `mac`: where is `target`? It goes
/// to the target or to its group (RFC 4861 section 4.3).
pub(super) fn solicit(
    packet: &mut [u8],
    mac: [u8; 6],
    from: [u8; 16],
    target: [u8; 16],
    destination: [u8; 16],
) {
    let (header, message) = packet.split_at_mut(IPV6_LEN);
    put_header(header, to_u16(message.len()), from, destination);
    message[..TARGET].copy_from_slice(&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    message[TARGET..OPTIONS].copy_from_slice(&target);
    message[OPTIONS..OPTIONS + 2].copy_from_slice(&[SOURCE_LINK_ADDRESS, 1]);
    message[OPTIONS + 2..].copy_from_slice(&mac);
    seal(packet);
}

/// Writes the IPv6 header of a neighbour discovery message of so many bytes.
fn put_header(header: &mut [u8], len: u16, source: [u8; 16], destination: [u8; 16]) {
    header[..v6::PAYLOAD_LEN].copy_from_slice(&[0x60, 0, 0, 0]);
    put16(header, v6::PAYLOAD_LEN, len);
    header[v6::NEXT_HEADER] = PROTOCOL_ICMPV6;
    header[v6::HOP_LIMIT] = FROM_THIS_LINK;
    header[v6::SOURCE..v6::DESTINATION].copy_from_slice(&source);
    header[v6::DESTINATION..].copy_from_slice(&destination);
}

/// The MAC address of an IPv6 group (RFC 2464 section 7).
pub(super) fn group_mac(group: [u8; 16]) -> [u8; 6] {
    let [.., a, b, c, d] = group;
    [0x33, 0x33, a, b, c, d]
}

/// The group in which an address is asked for.
pub(super) fn solicited_node(address: [u8; 16]) -> [u8; 16] {
    let mut group = address;
    group[..SOLICITED_NODE.len()].copy_from_slice(&SOLICITED_NODE);
    group
}

/// Computes the checksum of the ICMPv6 message in `packet`, which starts with its IPv6 header.
pub(super) fn seal(packet: &mut [u8]) {
    let (header, message) = packet.split_at_mut(IPV6_LEN);
    put16(message, CHECKSUM, 0);
    let pseudo = pseudo_header(&header[v6::SOURCE..], PROTOCOL_ICMPV6, to_u16(message.len()));
    let sum = pseudo.add_bytes(message).checksum();
    put16(message, CHECKSUM, sum);
}

/// The first link-layer address of this kind among the options, if there is one; `None`: they are not whole.
pub(super) fn find_option(mut options: &[u8], wanted: u8) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    while let Some(kind) = options.first() {
        let units = usize::from(*options.get(1)?);
        let (option, rest) = options.split_at_checked(units * OPTION_UNIT)?;
        // A length of zero would go on for ever.
        let address = option.get(2..)?.first_chunk().copied()?;
        if *kind == wanted && found.is_none() {
            found = Some(address);
        }
        options = rest;
    }
    Some(found)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbor::tests::{IGNORED, hex, reply};

    /// fd77::1 pings fd77::2 with an odd number of bytes.
    pub(in crate::neighbor) const ECHO_REQUEST: &str = "020000000001 0200000000c1 86dd \
        60012345 000f3a3d fd770000000000000000000000000001 fd770000000000000000000000000002 \
        8000618e beef0007 70696e67206d65";
    const ECHO_REPLY: &str = "0200000000c1 020000000001 86dd \
        60012345 000f3a40 fd770000000000000000000000000002 fd770000000000000000000000000001 \
        8100608e beef0007 70696e67206d65";
    /// fd77::1 asks ff02::1:ff00:2 who has fd77::2.
    pub(in crate::neighbor) const SOLICITATION: &str = "3333ff000002 0200000000c1 86dd \
        60000000 00203aff fd770000000000000000000000000001 ff0200000000000000000001ff000002 \
        87007be9 00000000 fd770000000000000000000000000002 0101 0200000000c1";
    /// The same without its link-layer address, to fd77::2 alone: is it still there?
    pub(in crate::neighbor) const UNICAST_SOLICITATION: &str = "020000000001 0200000000c1 86dd \
        60000000 00183aff fd770000000000000000000000000001 fd770000000000000000000000000002 \
        87008040 00000000 fd770000000000000000000000000002";
    /// The same with it, as we write it ourselves.
    pub(in crate::neighbor) const UNICAST_WITH_ADDRESS: &str = "020000000001 0200000000c1 86dd \
        60000000 00203aff fd770000000000000000000000000001 fd770000000000000000000000000002 \
        87007c76 00000000 fd770000000000000000000000000002 0101 0200000000c1";
    const ADVERTISEMENT: &str = "0200000000c1 020000000001 86dd \
        60000000 00203aff fd770000000000000000000000000002 fd770000000000000000000000000001 \
        88001b36 60000000 fd770000000000000000000000000002 0201 020000000001";
    /// Somebody is about to take fd77::2.
    pub(in crate::neighbor) const PROBE: &str = "3333ff000002 0200000000c1 86dd \
        60000000 00183aff 00000000000000000000000000000000 ff0200000000000000000001ff000002 \
        87007d2c 00000000 fd770000000000000000000000000002";
    const ANSWER_TO_ALL: &str = "333300000001 020000000001 86dd \
        60000000 00203aff fd770000000000000000000000000002 ff020000000000000000000000000001 \
        880059ab 20000000 fd770000000000000000000000000002 0201 020000000001";

    const IP: usize = 14;
    const MESSAGE: usize = IP + IPV6_LEN;

    fn ask(bytes: &[u8]) -> (Step, Vec<u8>) {
        reply(bytes, IP as u8, IPV6_LEN as u8, true)
    }

    /// The frame with the bytes at `at` replaced and the checksum made right again.
    pub(in crate::neighbor) fn with(text: &str, at: usize, change: &str) -> Vec<u8> {
        let mut frame = hex(text);
        let change = hex(change);
        frame[at..at + change.len()].copy_from_slice(&change);
        seal(&mut frame[IP..]);
        frame
    }

    /// The frame with only the first `len` bytes of its message, made right again.
    pub(in crate::neighbor) fn cut(text: &str, len: usize) -> Vec<u8> {
        let mut frame = hex(text);
        frame.truncate(MESSAGE + len);
        put16(&mut frame, IP + v6::PAYLOAD_LEN, len as u16);
        seal(&mut frame[IP..]);
        frame
    }

    /// The solicitation with other options.
    fn with_options(options: &str) -> Vec<u8> {
        let mut frame = [cut(SOLICITATION, OPTIONS), hex(options)].concat();
        let len = frame.len() - MESSAGE;
        put16(&mut frame, IP + v6::PAYLOAD_LEN, len as u16);
        seal(&mut frame[IP..]);
        frame
    }

    #[test]
    fn an_echo_request_is_answered() {
        assert_eq!(ask(&hex(ECHO_REQUEST)), (Step::TRANSMIT, hex(ECHO_REPLY)));
        let padded = [hex(ECHO_REQUEST), vec![0xaa; 5]].concat();
        assert_eq!(ask(&padded), (Step::TRANSMIT, hex(ECHO_REPLY)), "without its padding");
    }

    #[test]
    fn an_echo_request_to_or_from_no_single_host_is_ignored() {
        for (at, address, what) in [
            (v6::DESTINATION, "ff020000000000000000000000000001", "to all nodes"),
            (v6::SOURCE, "ff020000000000000000000000000001", "from a group"),
            (v6::SOURCE, "00000000000000000000000000000000", "from no address"),
            (v6::SOURCE, "00000000000000000000000000000001", "from the loopback address"),
            (v6::SOURCE, "fd770000000000000000000000000002", "from our own address"),
        ] {
            let request = with(ECHO_REQUEST, IP + at, address);
            assert_eq!(ask(&request), (IGNORED, request), "{what}");
        }
        assert_eq!(ask(&with(ECHO_REQUEST, MESSAGE + CODE, "01")).0, IGNORED);
        assert_eq!(ask(&cut(ECHO_REQUEST, 7)).0, IGNORED, "without a sequence number");
    }

    #[test]
    fn a_solicitation_is_answered() {
        assert_eq!(ask(&hex(SOLICITATION)), (Step::TRANSMIT, hex(ADVERTISEMENT)));
        let unicast = hex(UNICAST_SOLICITATION);
        assert_eq!(ask(&unicast), (Step::TRANSMIT, hex(ADVERTISEMENT)), "the frame grows");
        assert_eq!(ask(&hex(UNICAST_WITH_ADDRESS)), (Step::TRANSMIT, hex(ADVERTISEMENT)));
    }

    #[test]
    fn vlan_tags_stay_in_place() {
        let tagged = |text: &str| {
            let frame = hex(text);
            [&frame[..12], &hex("88a8 0064 8100 2007"), &frame[12..]].concat()
        };
        let (step, frame) = reply(&tagged(SOLICITATION), 22, IPV6_LEN as u8, true);
        assert_eq!((step, frame), (Step::TRANSMIT, tagged(ADVERTISEMENT)));
        let (step, frame) = reply(&tagged(ECHO_REQUEST), 22, IPV6_LEN as u8, true);
        assert_eq!((step, frame), (Step::TRANSMIT, tagged(ECHO_REPLY)));
    }

    #[test]
    fn bound_b2_an_announcement_is_an_answer_to_all() {
        let whole = hex(ANSWER_TO_ALL);
        let mut frame = crate::testing::frame_of(&whole[..IP]);
        let ours: [u8; 16] = hex("fd770000000000000000000000000002").try_into().unwrap();
        let port = Port::new([2, 0, 0, 0, 0, 1], []);
        assert_eq!(announce(&mut frame, IP, ours, &port), Some(()));
        assert_eq!(frame.bytes(), whole);
        assert_eq!(solicited_node(ours)[..], hex(SOLICITATION)[IP + v6::DESTINATION..][..16]);
    }

    #[test]
    fn a_probe_is_answered_to_everybody() {
        assert_eq!(ask(&hex(PROBE)), (Step::TRANSMIT, hex(ANSWER_TO_ALL)));
    }

    /// RFC 4861 section 7.1.1, rule by rule.
    #[test]
    fn invalid_solicitations_are_ignored() {
        for (text, at, change, rule) in [
            (SOLICITATION, IP + v6::HOP_LIMIT, "fe", "the hop limit is 255"),
            (SOLICITATION, MESSAGE + CODE, "01", "the code is 0"),
            (SOLICITATION, MESSAGE + TARGET + 15, "03", "the target is ours"),
            (SOLICITATION, IP + v6::SOURCE, "ff02", "the source is no group"),
            (PROBE, IP + v6::DESTINATION + 11, "02", "probes go to a solicited-node address"),
            (SOLICITATION, IP + v6::SOURCE, &"00".repeat(16), "probes have no link-layer address"),
        ] {
            let request = with(text, at, change);
            assert_eq!(ask(&request), (IGNORED, request), "{rule}");
        }
        let mut wrong_sum = hex(SOLICITATION);
        wrong_sum[MESSAGE + CHECKSUM] ^= 1;
        assert_eq!(ask(&wrong_sum).0, IGNORED, "the checksum is right");
        assert_eq!(ask(&cut(UNICAST_SOLICITATION, 23)).0, IGNORED, "there are at least 24 bytes");
    }

    #[test]
    fn options_are_whole_or_the_solicitation_is_ignored() {
        let link_address = "0101 0200000000c1";
        let nonce = "0e01 000102030405";
        assert_eq!(ask(&with_options(&format!("{nonce} {link_address}"))).0, Step::TRANSMIT);
        for (options, what) in [
            ("0e00 000102030405", "a length of zero"),
            ("0e02 000102030405", "longer than the message"),
            ("0e01 0001020304", "cut off"),
            ("0e", "without a length"),
        ] {
            assert_eq!(ask(&with_options(options)).0, IGNORED, "{what}");
        }
    }

    #[test]
    fn other_messages_go_to_the_host() {
        for kind in ["88", "86", "02"] {
            let frame = with(SOLICITATION, MESSAGE, kind);
            assert_eq!(ask(&frame), (Step::exception(Exception::Icmpv6), frame), "type {kind}");
        }
    }

    #[test]
    fn frames_that_end_early_are_ignored() {
        for text in [ECHO_REQUEST, SOLICITATION, PROBE] {
            let whole = hex(text);
            for len in IP..whole.len() {
                assert_eq!(ask(&whole[..len]).0, IGNORED, "{len} bytes");
            }
        }
    }
}
