//! What stands below IP: VLANs and MAC addresses.

use super::*;

#[test]
fn three_vlan_tags_are_too_many() {
    let mut tagged = query("a. A");
    tagged.vlans = vec![1, 2, 3];
    assert_eq!(step_after(&tagged, |_| ()), Step::drop(Reason::VlanDepth));
}

/// Where a query with these tags goes, on a port in these VLANs.
fn step_in(vlans: &[Vlan], tags: &[u16], ipv6: bool) -> Step {
    let mut case = query("a. A");
    case.vlans = tags.to_vec();
    let case = if ipv6 { case.over_ipv6() } else { case };
    let mut parse = parse();
    let ports = parse.ports.iter().map(|port| Port { vlans: Vlans::of(vlans), ..port.clone() });
    parse.ports = ports.collect();
    act_once(&mut parse, case.packet(), &at(0)).step
}

#[test]
fn bound_b3_only_frames_of_the_port_s_vlans_are_read() {
    use Vlan::{Double, Tagged, Untagged};
    let not_ours = Step::drop(Reason::Vlan);
    let cases: [(&[Vlan], &[u16], Step); 9] = [
        (&[Untagged], &[], ON),
        (&[Untagged], &[0x6000], ON),
        (&[Untagged], &[7], not_ours),
        (&[Untagged, Tagged(7)], &[], ON),
        (&[Untagged, Tagged(7)], &[0x6007], ON),
        (&[Tagged(7)], &[], not_ours),
        (&[Tagged(7)], &[8], not_ours),
        (&[Double(7, 8)], &[7, 8], ON),
        (&[Double(7, 8)], &[8, 7], not_ours),
    ];
    for (vlans, tags, expected) in cases {
        for ipv6 in [false, true] {
            assert_eq!(step_in(vlans, tags, ipv6), expected, "{tags:?} on a port in {vlans:?}");
        }
    }
}

#[test]
fn bound_b3_arp_of_another_vlan_is_dropped_too() {
    let arp = |frame: &mut Vec<u8>| {
        let at = frame.len() - 2;
        frame[12..14].copy_from_slice(&crate::wire::ip::TYPE_VLAN.to_be_bytes());
        frame[14..16].copy_from_slice(&9u16.to_be_bytes());
        frame[16..18].copy_from_slice(&TYPE_ARP.to_be_bytes());
        frame.truncate(at);
    };
    assert_eq!(step_after(&query("a. A"), arp), Step::drop(Reason::Vlan));
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
