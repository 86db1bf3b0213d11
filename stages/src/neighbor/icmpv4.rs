//! Ping over IPv4 (RFC 792, RFC 1122 section 3.2.2.6).

use pmdns_nics::Frame;

use super::ethernet::{HOPS, address_ethernet};
use crate::ports::Port;
use crate::step::{Exception, Step};
use crate::wire::checksum::Sum;
use crate::wire::ip::{ETHERNET_SOURCE, IPV4_MIN_LEN, seal_ipv4, turn_round, v4};
use crate::wire::layout::Layout;
use crate::wire::{be16, put16};

const CODE: usize = 1;
const CHECKSUM: usize = 2;
/// The shortest ICMP message.
const MIN_LEN: usize = 8;

const ECHO_REPLY: u8 = 0;
pub(super) const ECHO_REQUEST: u8 = 8;

/// Answers the ICMP message at `layout.l4`, which came to an address of ours, if it is an echo request.
pub(super) fn answer(frame: &mut Frame, layout: Layout, port: &Port) -> Option<Step> {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let bytes = frame.bytes();
    let end = l3 + usize::from(be16(bytes, l3 + v4::TOTAL_LEN)?);
    let message = bytes.get(l4..end)?;
    let damaged = !Sum::default().add_bytes(message).is_right();
    if l4 < l3 + IPV4_MIN_LEN || message.len() < MIN_LEN || damaged {
        return None;
    }
    match (message[0], message[CODE]) {
        (ECHO_REQUEST, 0) => {}
        (ECHO_REQUEST, _) => return None,
        _ => return Some(Step::exception(Exception::Icmp)),
    }
    let sender: [u8; 6] = bytes.get(ETHERNET_SOURCE..2 * ETHERNET_SOURCE)?.try_into().ok()?;

    // The frame may be longer than the packet: Ethernet pads to its minimum.
    frame.resize(end).ok()?;
    let bytes = frame.bytes_mut();
    turn_round(bytes, l3, false);
    address_ethernet(bytes, sender, port.mac);
    let header = &mut bytes[l3..l4];
    header[v4::TTL] = HOPS;
    // The sender's IP options are not ours to send back (RFC 791 section 3.1: 0 ends the list).
    header[IPV4_MIN_LEN..].fill(0);
    seal_ipv4(header);
    let message = &mut bytes[l4..];
    message[0] = ECHO_REPLY;
    put16(message, CHECKSUM, 0);
    let sum = Sum::default().add_bytes(message).checksum();
    put16(message, CHECKSUM, sum);
    Some(Step::TRANSMIT)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::neighbor::tests::{IGNORED, hex, reply};
    use crate::wire::ip::ETHERNET_LEN;

    /// 10.77.0.1 pings 10.77.0.2 with an odd number of bytes.
    pub(in crate::neighbor) const REQUEST: &str = "020000000001 0200000000c1 0800 \
        45000023 47110000 3d01222d 0a4d0001 0a4d0002 0800d4ca beef0007 70696e67206d65";
    const REPLY: &str = "0200000000c1 020000000001 0800 \
        45000023 47110000 40011f2d 0a4d0002 0a4d0001 0000dcca beef0007 70696e67206d65";

    fn ping(bytes: &[u8]) -> (Step, Vec<u8>) {
        reply(bytes, 14, 20, false)
    }

    #[test]
    fn an_echo_request_is_answered() {
        assert_eq!(ping(&hex(REQUEST)), (Step::TRANSMIT, hex(REPLY)));
    }

    #[test]
    fn padding_is_not_sent_back() {
        let padded = [hex(REQUEST), vec![0xaa; 11]].concat();
        assert_eq!(ping(&padded), (Step::TRANSMIT, hex(REPLY)));
    }

    #[test]
    fn vlan_tags_stay_in_place() {
        let tagged = |text: &str| {
            let frame = hex(text);
            [&frame[..12], &hex("8100 2007"), &frame[12..]].concat()
        };
        assert_eq!(reply(&tagged(REQUEST), 18, 20, false), (Step::TRANSMIT, tagged(REPLY)));
    }

    #[test]
    fn ip_options_are_blanked() {
        let request = hex("020000000001 0200000000c1 0800 \
            4700002b 47110000 3d010f1a 0a4d0001 0a4d0002 0707040102030400 \
            0800d4ca beef0007 70696e67206d65");
        let expected = hex("0200000000c1 020000000001 0800 \
            4700002b 47110000 40011d25 0a4d0002 0a4d0001 0000000000000000 \
            0000dcca beef0007 70696e67206d65");
        assert_eq!(reply(&request, 14, 28, false), (Step::TRANSMIT, expected));
    }

    #[test]
    fn other_messages_go_to_the_host() {
        // A timestamp request, with a checksum to match.
        let mut message = hex(REQUEST);
        message[34] = 13;
        message[36..38].copy_from_slice(&[0xcf, 0xca]);
        assert_eq!(ping(&message), (Step::exception(Exception::Icmp), message));
    }

    #[test]
    fn damaged_messages_are_ignored() {
        let request = hex(REQUEST);
        let mut wrong_sum = request.clone();
        wrong_sum[45] ^= 1;
        assert_eq!(ping(&wrong_sum).0, IGNORED);
        let mut wrong_code = request.clone();
        (wrong_code[35], wrong_code[37]) = (1, 0xc9);
        assert_eq!(ping(&wrong_code).0, IGNORED);
        assert_eq!(ping(&request[..request.len() - 1]).0, IGNORED, "cut off");
        // Seven bytes, with a checksum to match.
        let mut short = hex(REQUEST);
        short[14 + v4::TOTAL_LEN + 1] = 27;
        short[36..38].copy_from_slice(&[0x39, 0x10]);
        assert!(Sum::default().add_bytes(&short[34..41]).is_right());
        assert_eq!(ping(&short).0, IGNORED);
    }
    #[test]
    fn a_header_shorter_than_any_is_ignored() {
        // As if the message began where the header does: 28 bytes whose sum is right.
        let mut frame = hex("020000000001 0200000000c1 0800 0800 001c f7e3");
        frame.resize(ETHERNET_LEN + 28, 0);
        assert!(Sum::default().add_bytes(&frame[ETHERNET_LEN..]).is_right());
        assert_eq!(reply(&frame, 14, 0, false), (IGNORED, frame));
    }
}
