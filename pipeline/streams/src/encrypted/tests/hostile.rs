//! QUIC clients that write their first packets by hand: from forged addresses, and with what no library sends.

use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, Version};
use tokio::net::UdpSocket;

use super::*;

/// Types of long packets (RFC 9000 section 17.2), with the two bits that all have.
const INITIAL: u8 = 0xc0;
const RETRY: u8 = 0xf0;
/// The type of a CRYPTO frame (section 19.6).
const CRYPTO: u8 = 6;
/// Bytes of frames in a packet: a client's first datagram has 1200 bytes at least (section 14.1).
const ROOM: usize = 1200;
/// Bytes of an AEAD tag.
const TAG: usize = 16;
/// The one transport parameter that a client has to have: the connection ID that it has chosen, which is empty here (section 18.2).
const OUR_ID: [u8; 2] = [0x0f, 0];

/// A client with an address of its own.
struct Forger {
    socket: UdpSocket,
    /// The connection ID of the server, until the server has chosen one.
    id: [u8; 8],
}

impl Forger {
    async fn new(rig: &Rig, host: u8) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).await.unwrap();
        socket.connect(rig.quic).await.unwrap();
        Self { socket, id: [host; 8] }
    }

    async fn send(&self, number: u8, frames: &[u8]) {
        self.socket.send(&initial(self.id, number, frames)).await.unwrap();
    }

    /// The type of the next packet from the server.
    async fn receive(&self) -> u8 {
        let mut packet = [0; 2000];
        timeout(Duration::from_secs(5), self.socket.recv(&mut packet)).await.unwrap().unwrap();
        packet[0] & 0xf0
    }
}

/// An Initial packet (RFC 9000 section 17.2.2), under the keys that everybody can derive (RFC 9001 section 5.2).
fn initial(id: [u8; 8], number: u8, frames: &[u8]) -> Vec<u8> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
    let keys = suite.keys(&id, Side::Client, Version::V1).local;
    let mut payload = frames.to_vec();
    payload.resize(ROOM.max(frames.len()), 0);
    let length = varint(1 + payload.len() + TAG);
    let begin = [INITIAL, 0, 0, 0, 1, 8];
    let mut header = [&begin[..], &id, &[0, 0], &length, &[number]].concat();
    let tag = keys.packet.encrypt_in_place(number.into(), &header, &mut payload).unwrap();
    payload.extend(tag.as_ref());
    // The sample begins where a packet number of four bytes would end.
    let sample = &payload[3..][..keys.header.sample_len()];
    let [first, .., number] = &mut header[..] else { panic!("a header is longer") };
    keys.header.encrypt_in_place(sample, first, std::slice::from_mut(number)).unwrap();
    [header, payload].concat()
}

/// A number below 2^14 (section 16).
fn varint(number: usize) -> [u8; 2] {
    assert!(number < 1 << 14);
    (1 << 14 | number as u16).to_be_bytes()
}

fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    [&[CRYPTO][..], &varint(offset), &varint(data.len()), data].concat()
}

/// A frame with the ClientHello of a client that has these transport parameters.
fn hello(rig: &Rig, parameters: &[u8]) -> Vec<u8> {
    let (settings, name) = (Arc::new(rig.pem.client(&[DOQ])), ServerName::try_from(NAME).unwrap());
    let parameters = parameters.to_vec();
    let mut client = ClientConnection::new(settings, Version::V1, name, parameters).unwrap();
    let mut hello = Vec::new();
    assert!(client.write_hs(&mut hello).is_none(), "there are no keys yet");
    crypto(0, &hello)
}

/// Checks that an honest client of QUIC is served.
async fn is_served(rig: &Rig) {
    let (endpoint, settings) = quic_client(&rig.pem);
    let connection = endpoint.connect_with(settings, rig.quic, NAME).unwrap().await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(&framed(QUERY)).await.unwrap();
    send.finish().unwrap();
    assert_eq!(receive.read_to_end(512).await.unwrap(), framed(&answer(QUERY, 60)));
}

#[tokio::test]
async fn forged_addresses_leave_the_places_of_a_prefix_to_its_clients() {
    let rig = Rig::new(Line::new("max_connections_per_prefix = 8", quick));
    let (mut forgers, mut replies) = (Vec::new(), Vec::new());
    for host in 2..12 {
        let forger = Forger::new(&rig, host).await;
        forger.send(0, &hello(&rig, &OUR_ID)).await;
        replies.push(forger.receive().await);
        forgers.push(forger);
    }
    assert_eq!(replies[..2], [INITIAL; 2], "a quarter of its places");
    assert_eq!(replies[2..], [RETRY; 8], "the others have to show their address");
    let quic = rig.counted(Transport::Quic);
    assert_eq!((quic.accepted, quic.refused_prefix), (2, 0));
    let settings = Arc::new(rig.pem.client(&[DOT]));
    ask(&mut connect(rig.tls, &settings, b"").await.unwrap()).await.unwrap();
    is_served(&rig).await;
}

#[tokio::test]
async fn rustsec_2026_0037_transport_parameters_that_cannot_be_read_end_their_connection_alone() {
    // Nothing but the parameters ends it.
    let rig = Rig::new(Line::new("io_timeout_ms = 60000", quick));
    let bad: [&[u8]; 10] = [
        // A number that is cut off, and one that is not there; an ID, a length and data that are cut off.
        &[1, 1, 0xc0],
        &[1, 0],
        &[0xc0],
        &[1, 0xff],
        &[4, 8, 1],
        // The same parameter again; a connection ID of 21 bytes; values that are not allowed (section 18.2).
        &OUR_ID,
        &[2, 21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[3, 2, 0x41, 0],
        &[0x0a, 1, 21],
        &[0x0e, 1, 1],
    ];
    for (host, parameters) in (2..).zip(bad) {
        let forger = Forger::new(&rig, host).await;
        forger.send(0, &hello(&rig, &[&OUR_ID, parameters].concat())).await;
        assert_eq!(forger.receive().await, INITIAL, "{parameters:?}");
        until_closed(&rig).await;
    }
    is_served(&rig).await;
}

#[tokio::test]
async fn rustsec_2026_0185_fragments_with_gaps_end_their_connection() {
    // Nothing but the fragments ends it.
    let rig = Rig::new(Line::new("io_timeout_ms = 60000", quick));
    let forger = Forger::new(&rig, 2).await;
    // The first byte is missing, and so is every second one.
    let fragments: Vec<Vec<u8>> = (1..8192).step_by(2).map(|offset| crypto(offset, &[1])).collect();
    for (number, frames) in (0..).zip(fragments.chunks(ROOM / fragments[0].len())) {
        forger.send(number, &frames.concat()).await;
    }
    assert_eq!(forger.receive().await, INITIAL);
    until_closed(&rig).await;
    is_served(&rig).await;
}

/// Waits until the one connection over QUIC that there has been has no place any more.
async fn until_closed(rig: &Rig) {
    while rig.counted(Transport::Quic).open > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
