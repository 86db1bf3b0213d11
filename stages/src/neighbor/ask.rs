//! Questions of ours: at which hardware address somebody on the link is.

use std::net::IpAddr;

use pmdns_nics::Frame;

use super::ethernet::{BROADCAST, begin};
use super::{arp, icmpv6};
use crate::ports::Port;
use crate::wire::ip::{TYPE_ARP, TYPE_IPV6};

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The address that is looked for.
    pub(crate) target: IpAddr,
    /// The address of ours that asks, of the same family.
    pub(crate) from: IpAddr,
    /// Where the target is thought to be. `None`: everybody on the link is asked.
    pub(crate) last_known: Option<[u8; 6]>,
}

impl Question {
    /// Writes it into `frame`, for the first VLAN of port `number`. `None`: the port is in no VLAN, the addresses are of
    /// two families, or the frame has no room.
    pub(crate) fn write(self, frame: &mut Frame, number: usize, port: &Port) -> Option<()> {
        let vlan = *port.vlans.listed().first()?;
        match (self.from, self.target) {
            (IpAddr::V4(from), IpAddr::V4(target)) => {
                let to = self.last_known.unwrap_or(BROADCAST);
                let l3 = begin(frame, number, port, vlan, to, TYPE_ARP, arp::LEN)?;
                let packet = &mut frame.bytes_mut()[l3..];
                arp::ask(packet, port.mac, from.octets(), target.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(target)) => {
                let (from, target) = (from.octets(), target.octets());
                let group = icmpv6::solicited_node(target);
                // RFC 4861 section 7.2.2: a node that is thought to be there is asked alone.
                let (to, destination) = match self.last_known {
                    Some(mac) => (mac, target),
                    None => (icmpv6::group_mac(group), group),
                };
                let l3 = begin(frame, number, port, vlan, to, TYPE_IPV6, icmpv6::QUESTION_LEN)?;
                let packet = &mut frame.bytes_mut()[l3..];
                icmpv6::solicit(packet, port.mac, from, target, destination);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use pmdns_config::Vlan;

    use super::*;
    use crate::neighbor::tests::hex;
    use crate::testing::{CLIENT_MAC, OUR_IPV4, OUR_IPV6, OUR_MAC, frame_of};
    use crate::vlan::Vlans;

    /// The question as the neighbour at our tests' client address asks it.
    fn asked(target: IpAddr, last_known: Option<[u8; 6]>, vlans: &[Vlan]) -> Option<Vec<u8>> {
        let from = match target {
            IpAddr::V4(_) => IpAddr::from([10, 77, 0, 1]),
            IpAddr::V6(_) => "fd77::1".parse().unwrap(),
        };
        let port = Port { vlans: Vlans::of(vlans), ..Port::new(CLIENT_MAC, [from]) };
        let mut frame = frame_of(&[0xaa; 200]);
        Question { target, from, last_known }.write(&mut frame, 3, &port)?;
        assert_eq!(frame.port(), 3);
        Some(frame.bytes().to_vec())
    }

    #[test]
    fn a_request_is_written_as_rfc_826_says() {
        let whole = asked(OUR_IPV4.into(), None, &[Vlan::Untagged]);
        assert_eq!(whole.unwrap(), hex(arp::tests::REQUEST));
        let unicast = asked(OUR_IPV4.into(), Some(OUR_MAC), &[Vlan::Untagged]).unwrap();
        assert_eq!(unicast[..6], OUR_MAC, "to one host alone");
        assert_eq!(unicast[6..], hex(arp::tests::REQUEST)[6..], "and the rest is the same");
    }

    #[test]
    fn a_solicitation_is_written_as_rfc_4861_says() {
        let whole = asked(OUR_IPV6.into(), None, &[Vlan::Untagged]);
        assert_eq!(whole.unwrap(), hex(icmpv6::tests::SOLICITATION));
        let unicast = asked(OUR_IPV6.into(), Some(OUR_MAC), &[Vlan::Untagged]);
        assert_eq!(unicast.unwrap(), hex(icmpv6::tests::UNICAST_WITH_ADDRESS));
    }

    #[test]
    fn questions_go_to_the_first_vlan() {
        let vlans = [Vlan::Double(100, 7), Vlan::Tagged(9)];
        let frame = asked(OUR_IPV4.into(), None, &vlans).unwrap();
        assert_eq!(frame[12..22], hex("88a8 0064 8100 0007 0806"));
        assert_eq!(frame[22..], hex(arp::tests::REQUEST)[14..]);
        assert_eq!(asked(OUR_IPV4.into(), None, &[]), None, "there is none");
    }

    #[test]
    fn families_are_not_mixed() {
        let question =
            Question { target: OUR_IPV6.into(), from: OUR_IPV4.into(), last_known: None };
        let port = Port::new(OUR_MAC, []);
        assert_eq!(question.write(&mut frame_of(&[]), 0, &port), None);
    }
}
