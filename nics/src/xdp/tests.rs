//! The program in the kernel, frame by frame. Needs root; without it, it says so and passes.

use std::net::{Ipv4Addr, Ipv6Addr};

use pmdns_config::{PortSettings, Vlan};

use super::run::Verdict::{Kernel, Ours};
use super::run::{Program, Verdict};
use super::{check_settings, settings};

const SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 60);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVICE_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);
const SOURCE_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x60);
const OTHER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

fn port() -> PortSettings {
    let mut port = PortSettings::new("edge", "net_af_xdp0,iface=eth0");
    port.addresses = ["192.0.2.53/24", "2001:db8::53/64"].map(|text| text.parse().unwrap()).into();
    port.query_sources = vec![SOURCE.into(), SOURCE_6.into()];
    port
}

fn ethernet(tags: &[(u16, u16)], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (kind, tag) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A packet to `to`, with options if the header is longer, of the fragment that `fragment` says.
fn ipv4(to: Ipv4Addr, words: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; usize::from(words.max(5)) * 4];
    packet[0] = 0x40 | words;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[16..20].copy_from_slice(&to.octets());
    packet.extend(payload);
    packet
}

fn ipv6(to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    (packet[0], packet[6]) = (0x60, next);
    packet[24..40].copy_from_slice(&to.octets());
    packet.extend(payload);
    packet
}

fn udp(port: u16) -> Vec<u8> {
    let mut datagram = vec![0; 8 + 20];
    datagram[2..4].copy_from_slice(&port.to_be_bytes());
    datagram
}

fn arp(operation: u8, target: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 28];
    packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
    packet[24..].copy_from_slice(&target.octets());
    ethernet(&[], 0x0806, &packet)
}

fn icmpv6(to: Ipv6Addr, kind: u8, target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![0; 24];
    message[0] = kind;
    message[8..].copy_from_slice(&target.octets());
    ethernet(&[], 0x86dd, &ipv6(to, ICMPV6, &message))
}

/// A query, but for what is changed.
fn query(to: Ipv4Addr, words: u8, fragment: u16, protocol: u8, port: u16) -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(to, words, fragment, protocol, &udp(port)))
}

fn query_6(to: Ipv6Addr, next: u8, port: u16) -> Vec<u8> {
    ethernet(&[], 0x86dd, &ipv6(to, next, &udp(port)))
}

fn check(program: &Program, cases: &[(&str, Vec<u8>, Verdict)]) {
    for (name, frame, expected) in cases {
        assert_eq!(program.verdict(frame), *expected, "{name}");
    }
}

#[test]
fn queries_are_ours_and_the_rest_is_the_kernels() {
    let Some(program) = Program::load(&port()) else { return };
    let ping = |kind: u8| ethernet(&[], 0x0800, &ipv4(SERVICE, 5, 0, ICMP, &[kind; 8]));
    check(
        &program,
        &[
            ("a query", query(SERVICE, 5, 0, UDP, 53), Ours),
            ("do not fragment", query(SERVICE, 5, 0x4000, UDP, 53), Ours),
            ("options", query(SERVICE, 15, 0, UDP, 53), Ours),
            ("a header too short", query(SERVICE, 4, 0, UDP, 53), Kernel),
            ("a first fragment", query(SERVICE, 5, 0x2000, UDP, 53), Kernel),
            ("a later fragment", query(SERVICE, 5, 1, UDP, 53), Kernel),
            ("another port", query(SERVICE, 5, 0, UDP, 54), Kernel),
            ("DNS over TCP", query(SERVICE, 5, 0, TCP, 53), Kernel),
            ("a query for the kernel", query(OTHER, 5, 0, UDP, 53), Kernel),
            ("ping", ping(8), Ours),
            ("a ping's reply", ping(0), Kernel),
            ("fragmentation needed", ping(3), Kernel),
            ("a reply of an upstream", query(SOURCE, 5, 0, UDP, 40_000), Ours),
            ("TCP to a query source", query(SOURCE, 5, 0, TCP, 40_000), Ours),
            ("who has our address", arp(1, SERVICE), Ours),
            ("who has a query source", arp(1, SOURCE), Ours),
            ("what the kernel asked for", arp(2, SERVICE), Kernel),
            ("what we asked for", arp(2, SOURCE), Ours),
            ("who has the kernel's", arp(1, OTHER), Kernel),
            ("LLDP", ethernet(&[], 0x88cc, &[0; 60]), Kernel),
        ],
    );
}

#[test]
fn the_same_holds_for_ipv6() {
    let Some(program) = Program::load(&port()) else { return };
    let group = |of: Ipv6Addr| {
        let [.., a, b, c] = of.octets();
        Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
    };
    let all_nodes = "ff02::1".parse().unwrap();
    check(
        &program,
        &[
            ("a query", query_6(SERVICE_6, UDP, 53), Ours),
            ("another port", query_6(SERVICE_6, UDP, 5353), Kernel),
            ("TCP", query_6(SERVICE_6, TCP, 53), Kernel),
            ("another address", query_6(OTHER_6, UDP, 53), Kernel),
            ("hop-by-hop options", query_6(SERVICE_6, 0, 53), Kernel),
            ("a fragment", query_6(SERVICE_6, 44, 53), Kernel),
            ("destination options", query_6(SERVICE_6, 60, 53), Kernel),
            ("a reply of an upstream", query_6(SOURCE_6, UDP, 40_000), Ours),
            ("an extension to a query source", query_6(SOURCE_6, 44, 0), Ours),
            ("ping", icmpv6(SERVICE_6, 128, OTHER_6), Ours),
            ("packet too big", icmpv6(SERVICE_6, 2, OTHER_6), Kernel),
            ("who has ours", icmpv6(group(SERVICE_6), 135, SERVICE_6), Ours),
            ("are you there", icmpv6(SERVICE_6, 135, SERVICE_6), Ours),
            ("who has a query source", icmpv6(group(SOURCE_6), 135, SOURCE_6), Ours),
            ("who has the kernel's", icmpv6(group(OTHER_6), 135, OTHER_6), Kernel),
            ("the kernel's neighbour", icmpv6(SERVICE_6, 136, OTHER_6), Kernel),
            ("our neighbour", icmpv6(SOURCE_6, 136, OTHER_6), Ours),
            ("a router", icmpv6(all_nodes, 134, OTHER_6), Kernel),
            ("an MLD query", ethernet(&[], 0x86dd, &ipv6(all_nodes, 0, &[58; 40])), Kernel),
        ],
    );
}

#[test]
fn only_the_ports_vlans_are_ours() {
    let tagged = |tags: &[(u16, u16)]| ethernet(tags, 0x0800, &ipv4(SERVICE, 5, 0, UDP, &udp(53)));
    let (customer, provider) = (0x8100, 0x88a8);
    let Some(untagged) = Program::load(&port()) else { return };
    check(
        &untagged,
        &[
            ("a priority", tagged(&[(customer, 0xe000)]), Ours),
            ("a provider's priority", tagged(&[(provider, 0xe000)]), Kernel),
            ("a VLAN", tagged(&[(customer, 7)]), Kernel),
        ],
    );
    let vlans = vec![Vlan::Tagged(7), Vlan::Double(7, 8), Vlan::Tagged(4094)];
    let Some(program) = Program::load(&PortSettings { vlans, dns_port: 5353, ..port() }) else {
        return;
    };
    let other_port =
        |tags: &[(u16, u16)]| ethernet(tags, 0x0800, &ipv4(SERVICE, 5, 0, UDP, &udp(5353)));
    check(
        &program,
        &[
            ("untagged", other_port(&[]), Kernel),
            ("a VLAN", other_port(&[(customer, 7)]), Ours),
            ("a VLAN and a priority", other_port(&[(customer, 0xf007)]), Ours),
            ("the last VLAN", other_port(&[(customer, 4094)]), Ours),
            ("another VLAN", other_port(&[(customer, 8)]), Kernel),
            ("a provider's VLAN", other_port(&[(provider, 7)]), Kernel),
            ("a pair", other_port(&[(provider, 7), (customer, 8)]), Ours),
            ("a pair of customers", other_port(&[(customer, 7), (customer, 8)]), Ours),
            ("a pair of providers", other_port(&[(customer, 7), (provider, 8)]), Kernel),
            ("the pair the other way round", other_port(&[(provider, 8), (customer, 7)]), Kernel),
            ("a pair without an outer id", other_port(&[(customer, 0), (customer, 7)]), Kernel),
            ("a pair without an inner id", other_port(&[(customer, 7), (customer, 0)]), Kernel),
            ("three", other_port(&[(provider, 7), (customer, 8), (customer, 8)]), Kernel),
            ("the port of others", tagged(&[(customer, 7)]), Kernel),
        ],
    );
}

#[test]
fn what_is_cut_short_is_the_kernels() {
    let Some(program) = Program::load(&port()) else { return };
    // Of a query the ports are read, with the whole header; of a ping the type; of a solicitation the target.
    for (whole, needed) in [
        (query(SERVICE, 5, 0, UDP, 53), 14 + 20 + 8),
        (query(SERVICE, 15, 0, UDP, 53), 14 + 60 + 8),
        (query_6(SERVICE_6, UDP, 53), 14 + 40 + 8),
        (arp(1, SERVICE), 14 + 28),
        (icmpv6(OTHER_6, 135, SERVICE_6), 14 + 40 + 24),
        (ethernet(&[], 0x0800, &ipv4(SERVICE, 5, 0, ICMP, &[8])), 14 + 20 + 1),
    ] {
        for len in 14..=whole.len() {
            let expected = if len < needed { Kernel } else { Ours };
            assert_eq!(program.verdict(&whole[..len]), expected, "{len} of {} bytes", whole.len());
        }
    }
}

#[test]
fn as_many_addresses_and_vlans_as_a_port_may_have_are_known() {
    let mut port = port();
    let address = |number: u32| Ipv4Addr::from(0x0a00_0000 + number);
    port.addresses = (1..=1024).map(|n| format!("{}/8", address(n)).parse().unwrap()).collect();
    port.vlans = (1..=64).map(Vlan::Tagged).collect();
    let Some(program) = Program::load(&port) else { return };
    let frame =
        |number| ethernet(&[(0x8100, 64)], 0x0800, &ipv4(address(number), 5, 0, UDP, &udp(53)));
    for number in 0..=1100 {
        let expected = if (1..=1024).contains(&number) { Ours } else { Kernel };
        assert_eq!(program.verdict(&frame(number)), expected, "{number}");
    }
}

#[test]
fn only_the_program_of_this_port_may_stay_on_its_interface() {
    let open = PortSettings::new("p", "net_af_xdp0,iface=eth1");
    let shared = PortSettings { share_with_kernel: true, ..open.clone() };
    let other = PortSettings { dns_port: 5353, ..shared.clone() };
    let there = || Some(settings::bytes(&shared));
    assert!(check_settings(there(), &shared).is_ok());
    assert!(check_settings(None, &open).is_ok());
    for (there, port) in [(there(), &other), (there(), &open), (None, &shared)] {
        assert!(check_settings(there, port).unwrap_err().to_string().contains("`dns_port`"));
    }
}
