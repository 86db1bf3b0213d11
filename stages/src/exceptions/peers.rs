//! The routers that this host has sessions with, as far as ports know.
//!
//! Gateways of the configuration are known from the start. Others are known once the kernel has sent them what only a session
//! makes it send: bytes over TCP from or to the port of BGP, or BFD over several hops. Nobody from afar can cause that with
//! forged packets: the kernel answers those with a SYN, a reset or a bare ACK.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pmdns_config::narrow::{low_u64, to_usize};

use super::{BFD_OVER_HOPS, BGP, SYN, TCP_FLAGS};
use crate::wire::be16;
use crate::wire::ip::{IPV6_LEN, PROTOCOL_TCP, PROTOCOL_UDP, udp, v4, v6};
use crate::wire::name::Seed;

/// Sets of places for those that were seen, and places in each. A set that is full forgets one of its own.
const SETS: usize = 64;
const WAYS: usize = 4;
/// The flag of a reset in a TCP header, and where the header has its length in words.
const RST: u8 = 1 << 2;
const TCP_WORDS: usize = 12;
/// Where a frame has its type, and the types of a tag (IEEE 802.1Q) and of both families.
const ETHERTYPE: usize = 12;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// The most tags of a frame.
const MAX_TAGS: usize = 2;

/// Known routers. Threads of TAPs add to them, and data cores ask; neither waits for the other.
#[derive(Debug)]
pub struct KnownRouters {
    configured: Box<[IpAddr]>,
    /// Hashes of addresses; 0: a free place.
    seen: Box<[AtomicU64]>,
    /// Which place of a full set is used next.
    next: AtomicUsize,
    seed: Seed,
}

impl KnownRouters {
    /// These, and whoever will be seen. Addresses are hashed with `seed`.
    pub fn new(configured: impl IntoIterator<Item = IpAddr>, seed: Seed) -> Self {
        let seen = (0..SETS * WAYS).map(|_| AtomicU64::new(0)).collect();
        Self { configured: configured.into_iter().collect(), seen, next: AtomicUsize::new(0), seed }
    }

    /// Whether the address of 4 or 16 bytes is that of a known router.
    pub(super) fn know(&self, address: &[u8]) -> bool {
        let is_it = |known: &IpAddr| match known {
            IpAddr::V4(v4) => address == v4.octets(),
            IpAddr::V6(v6) => address == v6.octets(),
        };
        self.configured.iter().any(is_it)
            || self.hash(address).is_some_and(|hash| {
                self.set(hash).iter().any(|place| place.load(Ordering::Relaxed) == hash)
            })
    }

    /// Looks at a frame that the kernel sends.
    pub fn note_sent(&self, frame: &[u8]) {
        let Some(to) = session_with(frame) else { return };
        let Some(hash) = self.hash(to) else { return };
        let set = self.set(hash);
        if set.iter().any(|place| place.load(Ordering::Relaxed) == hash) {
            return;
        }
        let free = set.iter().position(|place| place.load(Ordering::Relaxed) == 0);
        let at = free.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed) % WAYS);
        set[at].store(hash, Ordering::Relaxed);
    }

    fn set(&self, hash: u64) -> &[AtomicU64] {
        let first = to_usize(hash % SETS as u64) * WAYS;
        &self.seen[first..first + WAYS]
    }

    /// Never 0. `None`: it is no address.
    fn hash(&self, address: &[u8]) -> Option<u64> {
        let (family, bits) = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
            (Ok(v4), _) => (4, u32::from_be_bytes(v4).into()),
            (_, Ok(v6)) => (6, u128::from_be_bytes(v6)),
            _ => return None,
        };
        let high = self.seed.mix(family, low_u64(bits >> 64));
        Some(self.seed.mix(high, low_u64(bits)).max(1))
    }
}

/// The other end of a session that a frame of the kernel belongs to.
fn session_with(frame: &[u8]) -> Option<&[u8]> {
    let mut at = ETHERTYPE;
    for _ in 0..MAX_TAGS {
        if TAGS.contains(&be16(frame, at)?) {
            at += 4;
        }
    }
    let ip = frame.get(at + 2..)?;
    let (protocol, to, l4, end) = match be16(frame, at)? {
        IPV4 => {
            let header = usize::from(ip.first()? & 0x0f) * 4;
            let total = usize::from(be16(ip, v4::TOTAL_LEN)?);
            (*ip.get(v4::PROTOCOL)?, ip.get(v4::DESTINATION..)?.get(..4)?, header, total)
        }
        IPV6 => {
            let total = IPV6_LEN + usize::from(be16(ip, v6::PAYLOAD_LEN)?);
            (*ip.get(v6::NEXT_HEADER)?, ip.get(v6::DESTINATION..)?.get(..16)?, IPV6_LEN, total)
        }
        _ => return None,
    };
    let header = ip.get(l4..)?;
    let ports = [udp::SOURCE, udp::DESTINATION].map(|at| be16(header, at));
    let is_session = match protocol {
        PROTOCOL_TCP => {
            let words = usize::from(header.get(TCP_WORDS)? >> 4);
            let has_bytes = end > l4 + 4 * words;
            ports.contains(&Some(BGP)) && header.get(TCP_FLAGS)? & (SYN | RST) == 0 && has_bytes
        }
        PROTOCOL_UDP => ports[1] == Some(BFD_OVER_HOPS),
        _ => false,
    };
    is_session.then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> KnownRouters {
        KnownRouters::new(["192.0.2.1".parse().unwrap()], Seed::new([3; 16]))
    }

    /// A frame that the kernel sends to 198.51.100.7, with a header of 20 bytes and this many behind it.
    fn sent(protocol: u8, ports: [u16; 2], flags: u8, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 40 + bytes];
        frame[ETHERTYPE..14].copy_from_slice(&IPV4.to_be_bytes());
        let ip = &mut frame[14..];
        ip[0] = 0x45;
        let total = u16::try_from(40 + bytes).unwrap();
        ip[v4::TOTAL_LEN..][..2].copy_from_slice(&total.to_be_bytes());
        ip[v4::PROTOCOL] = protocol;
        ip[v4::DESTINATION..][..4].copy_from_slice(&[198, 51, 100, 7]);
        ip[20..22].copy_from_slice(&ports[0].to_be_bytes());
        ip[22..24].copy_from_slice(&ports[1].to_be_bytes());
        (ip[20 + TCP_WORDS], ip[20 + TCP_FLAGS]) = (5 << 4, flags);
        frame
    }

    fn knows_after(frame: &[u8]) -> bool {
        let peers = peers();
        peers.note_sent(frame);
        peers.know(&[198, 51, 100, 7])
    }

    #[test]
    fn attack_e_only_what_a_session_makes_the_kernel_send_makes_a_router_known() {
        const ACK: u8 = 1 << 4;
        assert!(peers().know(&[192, 0, 2, 1]) && !peers().know(&[192, 0, 2, 2]));
        for ports in [[179, 40_000], [40_000, 179]] {
            assert!(knows_after(&sent(PROTOCOL_TCP, ports, ACK, 19)), "a message of BGP");
            for flags in [SYN, SYN | ACK, RST, RST | ACK] {
                assert!(!knows_after(&sent(PROTOCOL_TCP, ports, flags, 19)), "{flags}");
            }
            assert!(!knows_after(&sent(PROTOCOL_TCP, ports, ACK, 0)), "anybody gets a bare ACK");
        }
        assert!(!knows_after(&sent(PROTOCOL_TCP, [22, 40_000], ACK, 19)));
        assert!(knows_after(&sent(PROTOCOL_UDP, [49_152, 4784], 0, 24)));
        assert!(!knows_after(&sent(PROTOCOL_UDP, [4784, 49_152], 0, 24)));
    }

    #[test]
    fn tags_and_both_families_are_read_and_no_bytes_make_it_panic() {
        let mut tagged = sent(PROTOCOL_UDP, [49_152, 4784], 0, 24);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert!(knows_after(&tagged));
        let mut v6 = vec![0; 14 + 40 + 8];
        v6[ETHERTYPE..14].copy_from_slice(&IPV6.to_be_bytes());
        v6[14 + v6::NEXT_HEADER] = PROTOCOL_UDP;
        v6[14 + v6::DESTINATION + 15] = 9;
        v6[56..58].copy_from_slice(&4784_u16.to_be_bytes());
        let peers = peers();
        peers.note_sent(&v6);
        let mut address = [0; 16];
        assert!(!peers.know(&address));
        address[15] = 9;
        assert!(peers.know(&address));
        for frame in [tagged, v6, vec![0xff; 80]] {
            (0..frame.len()).for_each(|len| peers.note_sent(&frame[..len]));
        }
    }

    #[test]
    fn memory_is_bounded_and_the_newest_is_known() {
        let peers = peers();
        let mut frame = sent(PROTOCOL_UDP, [49_152, 4784], 0, 24);
        for number in 0..5000_u16 {
            frame[14 + v4::DESTINATION..][..2].copy_from_slice(&number.to_be_bytes());
            peers.note_sent(&frame);
            let [high, low] = number.to_be_bytes();
            assert!(peers.know(&[high, low, 100, 7]), "{number}");
        }
        assert_eq!(peers.seen.len(), SETS * WAYS);
    }
}
