//! Messages of neighbours about addresses: ARP replies and announcements (RFC 826, RFC 5227), and neighbour advertisements
//! (RFC 4861). It is read here; whether it is believed, the owner of the next hops decides.

use std::net::IpAddr;

use super::arp::Arp;
use super::ethernet::is_group;
use super::icmpv6::{
    ADVERTISEMENT, CODE, OPTIONS, OVERRIDE, Received, SOLICITED, TARGET, TARGET_LINK_ADDRESS,
    find_option,
};
use crate::ports::Port;
use crate::wire::be16;
use crate::wire::ip::{FROM_THIS_LINK, IPV6_LEN, PROTOCOL_ICMPV6, TYPE_ARP, v6};
use crate::wire::layout::{Flags, Layout};

/// Flags of an advertisement, in its fifth byte (RFC 4861 section 4.4).
const FLAGS: usize = 4;

/// A neighbour's message about an address. Whether it is a router is not read: the operator says who is one. A host on the link
/// could take a gateway out by saying that it is none (RFC 4861 section 7.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborMessage {
    /// The address it speaks of.
    pub address: IpAddr,
    /// Where that is. An advertisement need not say, if it answers a probe to its sender alone (RFC 4861 section 4.4). Then it
    /// is the address that the frame came from, and [`NeighborMessage::override_`] is not set.
    pub mac: [u8; 6],
    /// It answers a question of ours; if not, it is said unasked.
    pub solicited: bool,
    /// It replaces another hardware address (RFC 4861 section 7.2.5). ARP always does.
    pub override_: bool,
    /// It is an ARP reply or an advertisement. If not, it is an announcement that has the form of an ARP request.
    pub is_reply: bool,
}

impl NeighborMessage {
    /// Reads an ARP packet or a neighbour advertisement from a frame with this layout. `None`: it is another one, it says
    /// nothing of where its sender is, or it breaks a rule of RFC 826 or of RFC 4861 section 7.1.2.
    pub fn read(frame: &[u8], layout: Layout) -> Option<Self> {
        let l3 = usize::from(layout.l3);
        if layout.flags.has(Flags::IPV6) {
            return Self::read_v6(frame, l3);
        }
        if be16(frame, l3.checked_sub(2)?)? != TYPE_ARP {
            return None;
        }
        let arp = Arp::read(frame, l3)?;
        let is_reply = arp.is_reply();
        let is_announcement = arp.sender_ip == arp.target_ip && (is_reply || arp.is_request());
        // What is said to one host answers it. Replies to everybody that announce nothing are nobody's.
        let solicited = is_reply
            && !is_announcement
            && !is_group(arp.target[0])
            && frame.starts_with(&arp.target);
        (is_announcement || solicited).then_some(Self {
            address: arp.sender_ip.into(),
            mac: arp.sender,
            solicited,
            override_: true,
            is_reply,
        })
    }

    fn read_v6(frame: &[u8], l3: usize) -> Option<Self> {
        // Most of ICMPv6 is something else, and its checksum is dear.
        let is_icmp = frame.get(l3 + v6::NEXT_HEADER) == Some(&PROTOCOL_ICMPV6);
        if !is_icmp || frame.get(l3 + IPV6_LEN) != Some(&ADVERTISEMENT) {
            return None;
        }
        let received = Received::read(frame, l3)?;
        let target: [u8; 16] = received.message.get(TARGET..OPTIONS)?.try_into().ok()?;
        let link_address = find_option(&received.message[OPTIONS..], TARGET_LINK_ADDRESS)?;
        let flags = received.message[FLAGS];
        let solicited = flags & SOLICITED != 0;
        let valid = received.hop_limit == FROM_THIS_LINK
            && received.message[CODE] == 0
            && target[0] != 0xff
            && !(solicited && received.destination[0] == 0xff);
        valid.then_some(Self {
            address: target.into(),
            mac: link_address.unwrap_or(received.sender),
            solicited,
            override_: flags & OVERRIDE != 0 && link_address.is_some(),
            is_reply: true,
        })
    }
}

/// Whether a frame with this layout tells where a next hop of this port is. It has to come from the VLAN that upstreams are
/// asked in, and an answer has to be sent to us.
pub(super) fn is_of_next_hop(frame: &[u8], layout: Layout, port: &Port) -> bool {
    if port.next_hops.is_empty() {
        return false;
    }
    NeighborMessage::read(frame, layout).is_some_and(|message| {
        port.next_hops.contains(&message.address)
            && (!message.solicited || is_for_us(frame, layout, port))
            && port.asks_in_vlan_of(frame)
    })
}

/// Whether an answer in a frame with this layout is to us. The destination over IPv6 was checked by parse.
fn is_for_us(frame: &[u8], layout: Layout, port: &Port) -> bool {
    let is_ours =
        || Arp::read(frame, layout.l3.into()).is_some_and(|arp| port.has_v4(arp.target_ip));
    frame.starts_with(&port.mac) && (layout.flags.has(Flags::IPV6) || is_ours())
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::neighbor::icmpv6::tests::{cut, with};
    use crate::neighbor::tests::hex;
    use crate::testing::CLIENT_MAC;

    /// 10.77.0.1 is at 02:00:00:00:00:c1, says that host to us.
    pub(in crate::neighbor) const REPLY: &str = "020000000001 0200000000c1 0806 \
        0001 0800 06 04 0002 0200000000c1 0a4d0001 020000000001 0a4d0002";
    /// The same to everybody, unasked (RFC 5227 section 3).
    const ANNOUNCEMENT: &str = "ffffffffffff 0200000000c1 0806 \
        0001 0800 06 04 0001 0200000000c1 0a4d0001 000000000000 0a4d0001";
    /// fd77::1 is a router at 02:00:00:00:00:c1, says it to us. The checksum is made right later.
    pub(in crate::neighbor) const ADVERTISEMENT: &str = "020000000001 0200000000c1 86dd \
        60000000 00203aff fd770000000000000000000000000001 fd770000000000000000000000000002 \
        88000000 e0000000 fd770000000000000000000000000001 0201 0200000000c1";

    const ARP: usize = 14;
    const IP: usize = 14;
    const MESSAGE: usize = IP + IPV6_LEN;
    const ALL_NODES: &str = "ff020000000000000000000000000001";

    fn read(frame: &[u8]) -> Option<NeighborMessage> {
        let is_ipv6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let mut layout = Layout { l3: 14, ..Layout::default() };
        if is_ipv6 {
            layout.l4 = 54;
            layout.flags.set(Flags::IPV6);
        }
        NeighborMessage::read(frame, layout)
    }

    fn arp_with(text: &str, at: usize, change: &str) -> Vec<u8> {
        let (mut frame, change) = (hex(text), hex(change));
        frame[at..at + change.len()].copy_from_slice(&change);
        frame
    }

    fn advertisement() -> Vec<u8> {
        with(ADVERTISEMENT, 0, "")
    }

    const MESSAGE_V4: NeighborMessage = NeighborMessage {
        address: IpAddr::V4(std::net::Ipv4Addr::new(10, 77, 0, 1)),
        mac: CLIENT_MAC,
        solicited: true,
        override_: true,
        is_reply: true,
    };

    fn message_v6() -> NeighborMessage {
        NeighborMessage { address: "fd77::1".parse().unwrap(), ..MESSAGE_V4 }
    }

    #[test]
    fn an_arp_reply_says_where_its_sender_is() {
        assert_eq!(read(&hex(REPLY)), Some(MESSAGE_V4));
        let padded = [hex(REPLY), vec![0xaa; 18]].concat();
        assert_eq!(read(&padded), Some(MESSAGE_V4));
    }

    #[test]
    fn an_arp_announcement_is_unasked_in_either_form() {
        let unasked = NeighborMessage { solicited: false, ..MESSAGE_V4 };
        let request = NeighborMessage { is_reply: false, ..unasked };
        assert_eq!(read(&hex(ANNOUNCEMENT)), Some(request));
        assert_eq!(read(&arp_with(ANNOUNCEMENT, ARP + 6, "0002")), Some(unasked));
        let to_us = arp_with(ANNOUNCEMENT, 0, "020000000001");
        assert_eq!(read(&to_us), Some(request), "whoever it is sent to");
    }

    #[test]
    fn arp_that_tells_us_nothing_is_not_heard() {
        for (text, at, change, what) in [
            (REPLY, ARP + 6, "0001", "a question"),
            (REPLY, ARP + 6, "0008", "another operation"),
            (ANNOUNCEMENT, ARP + 6, "0003", "a reverse request"),
            (ANNOUNCEMENT, ARP + 24, "0a4d0002", "a question to everybody"),
            (REPLY, 0, "ffffffffffff", "an answer to everybody"),
            (REPLY, 0, "020000000002", "an answer to another host"),
            (REPLY, ARP, "0006", "other hardware"),
            (REPLY, ARP + 2, "86dd", "another protocol"),
            (REPLY, ARP + 4, "0804", "longer hardware addresses"),
            (REPLY, 12, "0800", "another EtherType"),
        ] {
            assert_eq!(read(&arp_with(text, at, change)), None, "{what}");
        }
        let mut to_a_group = arp_with(REPLY, 0, "010000000001");
        to_a_group[ARP + 18..ARP + 24].copy_from_slice(&[1, 0, 0, 0, 0, 1]);
        assert_eq!(read(&to_a_group), None, "an answer to a group");
    }

    #[test]
    fn an_advertisement_says_where_its_target_is() {
        assert_eq!(read(&advertisement()), Some(message_v6()));
        // The last one is that it is a router.
        for (flags, solicited, override_) in
            [("00", false, false), ("20", false, true), ("40", true, false), ("80", false, false)]
        {
            let expected = NeighborMessage { solicited, override_, ..message_v6() };
            assert_eq!(read(&with(ADVERTISEMENT, MESSAGE + 4, flags)), Some(expected));
        }
        let other = with(ADVERTISEMENT, MESSAGE + 26, "02aabbccddee");
        let mac = [2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
        assert_eq!(
            read(&other),
            Some(NeighborMessage { mac, ..message_v6() }),
            "not whoever sent the frame"
        );
    }

    #[test]
    fn an_advertisement_without_link_address_replaces_none() {
        let expected = NeighborMessage { override_: false, ..message_v6() };
        assert_eq!(read(&cut(ADVERTISEMENT, OPTIONS)), Some(expected));
        let nonce = with(ADVERTISEMENT, MESSAGE + OPTIONS, "0e01");
        assert_eq!(read(&nonce), Some(expected), "options that nobody knows are passed over");
    }

    /// RFC 4861 section 7.1.2, rule by rule.
    #[test]
    fn invalid_advertisements_are_not_heard() {
        for (at, change, rule) in [
            (IP + v6::HOP_LIMIT, "fe", "the hop limit is 255"),
            (MESSAGE + CODE, "01", "the code is 0"),
            (MESSAGE + TARGET, "ff02", "the target is no group"),
            (IP + v6::DESTINATION, ALL_NODES, "what is sent to a group answers nobody"),
            (MESSAGE + OPTIONS + 1, "00", "no option is empty"),
            (MESSAGE + OPTIONS + 1, "02", "options are whole"),
            (MESSAGE, "87", "it is an advertisement"),
        ] {
            assert_eq!(read(&with(ADVERTISEMENT, at, change)), None, "{rule}");
        }
        let mut damaged = advertisement();
        damaged[MESSAGE + 30] ^= 1;
        assert_eq!(read(&damaged), None, "the checksum is right");
        assert_eq!(read(&cut(ADVERTISEMENT, OPTIONS - 1)), None, "there are 24 bytes at least");
        let whole = advertisement();
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), None, "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            l3 in prop_oneof![Just(0u8), Just(14), Just(18), Just(22), any::<u8>()],
            is_ipv6: bool,
        ) {
            let mut layout = Layout { l3, ..Layout::default() };
            if is_ipv6 {
                layout.flags.set(Flags::IPV6);
            }
            NeighborMessage::read(&bytes, layout);
        }

        #[test]
        fn nearly_right_ones_do_not_either(
            which in 0usize..3, at in any::<prop::sample::Index>(), value: u8,
            len in any::<prop::sample::Index>(),
        ) {
            let mut frame = [hex(REPLY), hex(ANNOUNCEMENT), advertisement()][which].clone();
            let at = at.index(frame.len());
            frame[at] = value;
            frame.truncate(len.index(frame.len()) + 1);
            read(&frame);
        }
    }
}
