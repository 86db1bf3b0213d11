//! ARP (RFC 826): finding the server's hardware address, and telling where the clients are.

use std::net::Ipv4Addr;

use pmdns_stages::wire::ip::{ETHERNET_LEN, ETHERNET_SOURCE, ETHERTYPE, TYPE_ARP};
use pmdns_stages::wire::{be16, put16};

/// Bytes of an ARP frame for IPv4 over Ethernet.
pub const FRAME_LEN: usize = ETHERNET_LEN + 28;
const BROADCAST: [u8; 6] = [0xff; 6];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;
/// Hardware and protocol types and the lengths of their addresses: Ethernet and IPv4.
const TYPES: [u8; 6] = [0, 1, 8, 0, 6, 4];

const OPERATION: usize = ETHERNET_LEN + 6;
const SENDER_MAC: usize = ETHERNET_LEN + 8;
const SENDER: usize = ETHERNET_LEN + 14;
const TARGET_MAC: usize = ETHERNET_LEN + 18;
const TARGET: usize = ETHERNET_LEN + 24;

/// One end of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Hardware address.
    pub mac: [u8; 6],
    /// IPv4 address.
    pub address: Ipv4Addr,
}

/// What an ARP frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arp {
    /// `Host` wants to know where an address is.
    Request(Host, Ipv4Addr),
    /// A host tells where it is.
    Reply(Host),
}

impl Arp {
    /// Reads a frame; `None` if it is no ARP frame.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let is_arp = be16(frame, ETHERTYPE)? == TYPE_ARP;
        if !is_arp || frame.get(ETHERNET_LEN..OPERATION)? != TYPES {
            return None;
        }
        let address = |at: usize| -> Option<Ipv4Addr> {
            let octets: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
            Some(octets.into())
        };
        let mac = frame.get(SENDER_MAC..SENDER)?.try_into().ok()?;
        let sender = Host { mac, address: address(SENDER)? };
        match be16(frame, OPERATION)? {
            REQUEST => Some(Self::Request(sender, address(TARGET)?)),
            REPLY => Some(Self::Reply(sender)),
            _ => None,
        }
    }
}

/// The question of `asker` where `wanted` is.
pub fn request(asker: Host, wanted: Ipv4Addr) -> [u8; FRAME_LEN] {
    frame(REQUEST, asker, Host { mac: [0; 6], address: wanted }, BROADCAST)
}

/// The answer of `ours` to `asker`.
pub fn reply(ours: Host, asker: Host) -> [u8; FRAME_LEN] {
    frame(REPLY, ours, asker, asker.mac)
}

fn frame(operation: u16, sender: Host, target: Host, to: [u8; 6]) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    frame[..ETHERNET_SOURCE].copy_from_slice(&to);
    frame[ETHERNET_SOURCE..ETHERTYPE].copy_from_slice(&sender.mac);
    put16(&mut frame, ETHERTYPE, TYPE_ARP);
    frame[ETHERNET_LEN..OPERATION].copy_from_slice(&TYPES);
    put16(&mut frame, OPERATION, operation);
    frame[SENDER_MAC..SENDER].copy_from_slice(&sender.mac);
    frame[SENDER..TARGET_MAC].copy_from_slice(&sender.address.octets());
    frame[TARGET_MAC..TARGET].copy_from_slice(&target.mac);
    frame[TARGET..].copy_from_slice(&target.address.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Host = Host { mac: [2, 0, 0, 0, 0, 1], address: Ipv4Addr::new(10, 0, 0, 1) };
    const THEM: Host = Host { mac: [2, 0, 0, 0, 0, 2], address: Ipv4Addr::new(10, 0, 0, 2) };

    #[test]
    fn what_is_asked_is_read_and_answered() {
        let question = request(US, THEM.address);
        assert_eq!(Arp::read(&question), Some(Arp::Request(US, THEM.address)));
        assert_eq!(question[..6], BROADCAST);
        let answer = reply(THEM, US);
        assert_eq!(Arp::read(&answer), Some(Arp::Reply(THEM)));
        assert_eq!(answer[..6], US.mac);
    }

    #[test]
    fn other_frames_are_not_taken_for_arp() {
        let good = request(US, THEM.address);
        assert_eq!(Arp::read(&good[..FRAME_LEN - 1]), None);
        for (at, value) in [(12, 0x86), (15, 6), (21, 3)] {
            let mut other = good;
            other[at] = value;
            assert_eq!(Arp::read(&other), None, "byte {at}");
        }
    }
}
