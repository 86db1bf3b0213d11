//! ARP (RFC 826): requests for our IPv4 addresses, and announcements of them.

use pmdns_nics::Frame;

use super::ethernet::{address_ethernet, is_group};
use crate::ports::Port;
use crate::step::{Exception, Step};
use crate::wire::ip::TYPE_IPV4;
use crate::wire::layout::Layout;
use crate::wire::{be16, put16};

// Offsets in an ARP packet for Ethernet and IPv4, and its length.
const HARDWARE_TYPE: usize = 0;
const PROTOCOL_TYPE: usize = 2;
const ADDRESS_LENGTHS: usize = 4;
const OPERATION: usize = 6;
const SENDER_MAC: usize = 8;
const SENDER_IP: usize = 14;
const TARGET_MAC: usize = 18;
const TARGET_IP: usize = 24;
pub(super) const LEN: usize = 28;

/// The hardware type of Ethernet.
const ETHERNET: u16 = 1;
/// Six bytes of MAC address, four of IP address.
const SIX_AND_FOUR: u16 = 0x0604;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// An ARP packet for Ethernet and IPv4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arp {
    operation: u16,
    pub(super) sender: [u8; 6],
    pub(super) sender_ip: [u8; 4],
    pub(super) target: [u8; 6],
    pub(super) target_ip: [u8; 4],
}

impl Arp {
    /// Reads the packet at `l3`. `None`: it is cut off, or about other addresses.
    pub(super) fn read(frame: &[u8], l3: usize) -> Option<Self> {
        let arp = frame.get(l3..l3 + LEN)?;
        let kind = [HARDWARE_TYPE, PROTOCOL_TYPE, ADDRESS_LENGTHS].map(|at| be16(arp, at));
        if kind != [ETHERNET, TYPE_IPV4, SIX_AND_FOUR].map(Some) {
            return None;
        }
        Some(Self {
            operation: be16(arp, OPERATION)?,
            sender: arp[SENDER_MAC..SENDER_IP].try_into().ok()?,
            sender_ip: arp[SENDER_IP..TARGET_MAC].try_into().ok()?,
            target: arp[TARGET_MAC..TARGET_IP].try_into().ok()?,
            target_ip: arp[TARGET_IP..].try_into().ok()?,
        })
    }

    pub(super) fn is_request(self) -> bool {
        self.operation == REQUEST
    }

    pub(super) fn is_reply(self) -> bool {
        self.operation == REPLY
    }

    /// Whether the sender tells everybody where it is (RFC 5227 section 3).
    fn announces(self) -> bool {
        self.sender_ip == self.target_ip
    }
}

/// Answers the ARP packet at `layout.l3` if it asks for an address of ours.
pub(super) fn answer(frame: &mut Frame, layout: Layout, port: &Port) -> Option<Step> {
    let l3 = usize::from(layout.l3);
    let asked = Arp::read(frame.bytes(), l3)?;
    let Arp { sender, sender_ip, target_ip, .. } = asked;
    // An announcement (RFC 5227 section 3) asks nothing. A probe, whose sender has no address yet (section
    // 2.1.1), does: whether the address is taken.
    let is_ours = port.answers_for_v4(target_ip, frame.bytes());
    if is_group(sender[0]) || port.has_v4(sender_ip) {
        return None;
    }
    if is_ours && asked.is_reply() || port.has_tap && asked.announces() {
        // It answers the kernel, or tells it a new place: what next hops say does not come here.
        return Some(Step::exception(Exception::Arp));
    }
    if !is_ours || !asked.is_request() {
        return None;
    }
    // Padding stays behind: what it holds is the sender's, and the port pads again.
    frame.resize(l3 + LEN).ok()?;
    let bytes = frame.bytes_mut();
    address_ethernet(bytes, sender, port.mac);
    let arp = &mut bytes[l3..];
    put16(arp, OPERATION, REPLY);
    arp[SENDER_MAC..SENDER_IP].copy_from_slice(&port.mac);
    arp[SENDER_IP..TARGET_MAC].copy_from_slice(&target_ip);
    arp[TARGET_MAC..TARGET_IP].copy_from_slice(&sender);
    arp[TARGET_IP..].copy_from_slice(&sender_ip);
    Some(Step::TRANSMIT)
}

/// Writes the announcement of an address of ours over `arp`, which is zero (RFC 5227 section 3). Switches and hosts
/// that know another place of it learn the new one.
pub(super) fn announce(arp: &mut [u8], port: &Port, address: [u8; 4]) {
    ask(arp, port.mac, address, address);
}

/// Writes over `arp`, which is zero, the request of `from` at `mac`: where is `target`?
pub(super) fn ask(arp: &mut [u8], mac: [u8; 6], from: [u8; 4], target: [u8; 4]) {
    for (at, value) in [
        (HARDWARE_TYPE, ETHERNET),
        (PROTOCOL_TYPE, TYPE_IPV4),
        (ADDRESS_LENGTHS, SIX_AND_FOUR),
        (OPERATION, REQUEST),
    ] {
        put16(arp, at, value);
    }
    arp[SENDER_MAC..SENDER_IP].copy_from_slice(&mac);
    arp[SENDER_IP..TARGET_MAC].copy_from_slice(&from);
    arp[TARGET_IP..LEN].copy_from_slice(&target);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbor::tests::{IGNORED, hex, reply};

    /// Who has 10.77.0.2? Tell 10.77.0.1.
    pub(in crate::neighbor) const REQUEST: &str = "ffffffffffff 0200000000c1 0806 \
        0001 0800 06 04 0001 0200000000c1 0a4d0001 000000000000 0a4d0002";
    /// 10.77.0.2 is at 02:00:00:00:00:01.
    const ANSWER: &str = "0200000000c1 020000000001 0806 \
        0001 0800 06 04 0002 020000000001 0a4d0002 0200000000c1 0a4d0001";

    fn ask(bytes: &[u8]) -> (Step, Vec<u8>) {
        reply(bytes, 14, 0, false)
    }

    /// The request with the bytes at `at` of the ARP packet replaced.
    fn request_with(at: usize, hexed: &str) -> Vec<u8> {
        let mut request = hex(REQUEST);
        let change = hex(hexed);
        request[14 + at..14 + at + change.len()].copy_from_slice(&change);
        request
    }

    #[test]
    fn a_request_for_our_address_is_answered() {
        assert_eq!(ask(&hex(REQUEST)), (Step::TRANSMIT, hex(ANSWER)));
    }

    #[test]
    fn padding_is_not_sent_back() {
        let padded = [hex(REQUEST), vec![0xaa; 18]].concat();
        assert_eq!(ask(&padded), (Step::TRANSMIT, hex(ANSWER)));
    }

    #[test]
    fn bound_b2_an_announcement_says_where_our_address_is() {
        let mut arp = [0; LEN];
        let port = Port::new([2, 0, 0, 0, 0, 1], []);
        announce(&mut arp, &port, [10, 77, 0, 2]);
        let expected = "0001 0800 06 04 0001 020000000001 0a4d0002 000000000000 0a4d0002";
        assert_eq!(arp[..], hex(expected));
    }

    #[test]
    fn vlan_tags_stay_in_place() {
        let tags = hex("88a8 0064 8100 2007");
        let tagged = |text: &str| {
            let frame = hex(text);
            [&frame[..12], &tags, &frame[12..]].concat()
        };
        assert_eq!(reply(&tagged(REQUEST), 22, 0, false), (Step::TRANSMIT, tagged(ANSWER)));
    }

    #[test]
    fn a_probe_for_our_address_is_answered() {
        let (step, reply) = ask(&request_with(SENDER_IP, "00000000"));
        assert_eq!(step, Step::TRANSMIT);
        assert_eq!(reply[..14 + TARGET_IP], hex(ANSWER)[..14 + TARGET_IP]);
        assert_eq!(reply[14 + TARGET_IP..], [0; 4]);
    }

    #[test]
    fn what_asks_nothing_of_us_is_ignored() {
        for (at, change, what) in [
            (TARGET_IP, "0a4d0003", "somebody else's address"),
            (SENDER_IP, "0a4d0002", "an announcement of our own address"),
            (SENDER_MAC, "ffffffffffff", "a sender at the broadcast address"),
            (OPERATION, "0003", "a reverse request"),
            (HARDWARE_TYPE, "0006", "other hardware"),
            (PROTOCOL_TYPE, "86dd", "another protocol"),
            (ADDRESS_LENGTHS, "0804", "longer hardware addresses"),
        ] {
            let request = request_with(at, change);
            assert_eq!(ask(&request), (IGNORED, request), "{what}");
        }
        let whole = hex(REQUEST);
        assert_eq!(ask(&whole[..whole.len() - 1]).0, IGNORED, "cut off");
    }

    #[test]
    fn a_reply_goes_to_whoever_asked_behind_us() {
        let answer = request_with(OPERATION, "0002");
        assert_eq!(ask(&answer), (Step::exception(Exception::Arp), answer));
    }
}
