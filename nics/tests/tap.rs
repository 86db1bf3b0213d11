//! The DPDK driver and the kernel at the two ends of a TAP, in a network namespace of its own.
//! Needs root; without it, it says so and passes.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use pmdns_nics::dpdk::{Eal, EalError, Mempool};
use pmdns_nics::{Burst, Frame, Nic, PortPlan, Queues, Rss, Verified, release};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];
const ETHERNET: usize = 14;
const UDP: usize = 8;

#[test]
fn the_kernel_takes_our_checksums_and_we_take_its() {
    if !own_network() {
        eprintln!("skipped: needs root and /dev/net/tun");
        return;
    }
    let arguments = ["--no-huge", "--no-shconf", "--no-pci", "-m", "64"].map(str::to_owned);
    let eal = Eal::init("pmdns-test", &arguments).unwrap();
    let pool = Mempool::new("frames", 4095, None).unwrap();
    let port = eal.open(&settings(), 1).unwrap();
    assert_eq!((port.facts().mac, port.facts().checksum_offload), (OUR_MAC, true));
    let plan = PortPlan { rx_queues: 1, tx_queues: 1, rss: Rss::None, interrupts: false };
    let (nic, mut queues) = port.start(&plan, &pool).unwrap();
    assert!(nic.facts().checksum_offload && nic.link_up());
    for words in [
        "addr add 10.97.0.1/24 dev pmtest0",
        "addr add fd97::1/64 dev pmtest0 nodad",
        "neigh add 10.97.0.2 lladdr 02:00:00:00:00:bb dev pmtest0",
        "neigh add fd97::2 lladdr 02:00:00:00:00:bb dev pmtest0",
    ] {
        assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
    }

    for (local, remote, ipv6) in
        [("10.97.0.1:5353", "10.97.0.2:53", false), ("[fd97::1]:5353", "[fd97::2]:53", true)]
    {
        let socket = UdpSocket::bind(local).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.send_to(b"to the port", remote).unwrap();
        let frame = receive_udp(&mut queues, ipv6);
        assert_eq!(frame.verified(), Verified { ip: !ipv6, udp: true });
        assert!(frame.bytes().ends_with(b"to the port"));

        let mut burst: Burst = [datagram(&pool, ipv6, b"to the kernel")].into_iter().collect();
        assert_eq!(queues.tx[0].transmit(&mut burst), 1);
        let mut buffer = [0; 64];
        let (len, from) = socket.recv_from(&mut buffer).expect("the kernel takes the checksums");
        assert_eq!((&buffer[..len], from), (b"to the kernel".as_slice(), remote.parse().unwrap()));
    }

    assert!(interface_exists());
    drop(queues);
    Box::new(nic).close();
    assert!(!interface_exists(), "the interface goes with the port");
    assert_eq!(pool.in_use(), 0);
    let held = pool.take();
    drop(pool);
    drop(held);
    assert!(matches!(eal.close(), Err(EalError::InUse)), "a frame outlived its pool");
}

/// Moves this thread into a network namespace of its own, where nothing it does can be seen.
fn own_network() -> bool {
    // SAFETY: changes only which network this thread is in.
    let moved = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    moved && std::path::Path::new("/dev/net/tun").exists()
}

fn interface_exists() -> bool {
    // SAFETY: the name is a C string.
    unsafe { libc::if_nametoindex(c"pmtest0".as_ptr()) != 0 }
}

fn settings() -> pmdns_config::PortSettings {
    pmdns_config::PortSettings {
        rx_descriptors: 256,
        tx_descriptors: 256,
        promiscuous: true,
        link_wait_ms: 2000,
        ..pmdns_config::PortSettings::new("lab", "net_tap0,iface=pmtest0,mac=02:00:00:00:00:aa")
    }
}

/// The next UDP frame to port 53. The kernel sends neighbour and router discovery as well.
fn receive_udp(queues: &mut Queues, ipv6: bool) -> Frame {
    let deadline = Instant::now() + Duration::from_secs(2);
    let (protocol, to_port) = if ipv6 { (20, 56) } else { (23, 36) };
    let wanted = |frame: &Frame| {
        let bytes = frame.bytes();
        bytes.len() > to_port + 1
            && bytes[12] == if ipv6 { 0x86 } else { 8 }
            && bytes[protocol] == 17
            && bytes[to_port..to_port + 2] == [0, 53]
    };
    let mut burst = Burst::new();
    while Instant::now() < deadline {
        queues.rx[0].receive(&mut burst, 32);
        if let Some(place) = burst.iter().position(wanted) {
            return burst.swap_remove(place);
        }
        release(&mut burst);
    }
    panic!("no UDP frame came");
}

/// A datagram from the peer to us, its checksums left to the port.
fn datagram(pool: &Mempool, ipv6: bool, payload: &[u8]) -> Frame {
    let udp_len = (UDP + payload.len()) as u16;
    let (ip, addresses) = if ipv6 { ipv6_header(udp_len) } else { ipv4_header(udp_len) };
    let mut bytes = [OUR_MAC, PEER_MAC].concat();
    bytes.extend(if ipv6 { [0x86, 0xdd] } else { [8, 0] });
    bytes.extend(&ip);
    bytes.extend([0, 53, 0x14, 0xe9]);
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend(pseudo_header_sum(&addresses, udp_len).to_be_bytes());
    bytes.extend(payload);
    let mut frame = pool.take().unwrap();
    frame.resize(bytes.len()).unwrap();
    frame.bytes_mut().copy_from_slice(&bytes);
    frame.offload_checksums(ETHERNET as u8, ip.len() as u8, ipv6);
    frame
}

fn ipv4_header(udp_len: u16) -> (Vec<u8>, Vec<u8>) {
    let addresses = vec![10, 97, 0, 2, 10, 97, 0, 1];
    let total = (20 + udp_len).to_be_bytes();
    let mut header = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0];
    header.extend(&addresses);
    (header, addresses)
}

fn ipv6_header(udp_len: u16) -> (Vec<u8>, Vec<u8>) {
    let mut addresses = vec![0; 32];
    for (start, last) in [(0, 2), (16, 1)] {
        addresses[start..start + 2].copy_from_slice(&[0xfd, 0x97]);
        addresses[start + 15] = last;
    }
    let len = udp_len.to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, len[0], len[1], 17, 64];
    header.extend(&addresses);
    (header, addresses)
}

/// The sum of the pseudo-header, folded and not complemented, as ports want it (RFC 768, RFC 8200
/// section 8.1).
fn pseudo_header_sum(addresses: &[u8], udp_len: u16) -> u16 {
    let words = addresses.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum = words.sum::<u32>() + 17 + u32::from(udp_len);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
