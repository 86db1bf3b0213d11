//! The servers on loopback: handshakes, DNS over TLS, proxies, and QUIC clients that have to show their address.

mod hostile;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use super::*;
use crate::listeners::Listeners;
use crate::stub::{Line, NAME, Pem, QUERY, answer, long_answer};
use crate::testing::size_of_task;
use crate::tls::DOQ;

/// All encrypted transports of a line.
struct Rig {
    pem: Pem,
    tls: SocketAddr,
    https: SocketAddr,
    quic: SocketAddr,
    line: Line,
}

fn quick(query: &[u8]) -> Option<Vec<u8>> {
    Some(answer(query, 60))
}

impl Rig {
    fn new(line: Line) -> Self {
        let pem = Pem::new();
        let any = || vec!["127.0.0.1:0".parse().unwrap()];
        let settings = Streams {
            tls: any(),
            https: any(),
            quic: any(),
            certificate: Some(pem.certificate.clone()),
            key: Some(pem.key.clone()),
            ..Streams::default()
        };
        let encryption = Encryption::load(&settings).unwrap().unwrap();
        let Listeners { mut tls, mut https, mut quic, generation, .. } =
            Listeners::bind(&settings, &mut |_, _| None, QuicGeneration::default()).unwrap();
        let (tls, https, quic) = (tls.remove(0), https.remove(0), quic.remove(0));
        let rig = Self {
            pem,
            tls: tls.local_addr().unwrap(),
            https: https.local_addr().unwrap(),
            quic: quic.local_addr().unwrap(),
            line,
        };
        let service = || rig.line.service.clone();
        tokio::spawn(encryption.clone().serve_tls(tls, service()));
        tokio::spawn(encryption.clone().serve_https(https, service()));
        encryption.serve_quic(quic, generation, service()).unwrap();
        rig
    }

    fn counted(&self, transport: Transport) -> crate::counters::StreamSnapshot {
        self.line.counted(transport)
    }
}

/// A TLS connection over which `begin` was sent before.
async fn connect(
    to: SocketAddr,
    settings: &Arc<ClientConfig>,
    begin: &[u8],
) -> io::Result<client::TlsStream<TcpStream>> {
    let mut stream = TcpStream::connect(to).await?;
    stream.write_all(begin).await?;
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::clone(settings)).connect(name, stream).await
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Asks over a connection, and reads the answer.
async fn ask(stream: &mut client::TlsStream<TcpStream>) -> io::Result<Vec<u8>> {
    stream.write_all(&framed(QUERY)).await?;
    stream.flush().await?;
    let length = usize::from(stream.read_u16().await?);
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

#[tokio::test]
async fn queries_over_tls_are_answered_with_and_without_alpn() {
    let rig = Rig::new(Line::new("", long_answer));
    for alpn in [&[DOT][..], &[]] {
        let settings = Arc::new(rig.pem.client(alpn));
        let mut stream = connect(rig.tls, &settings, b"").await.unwrap();
        for _ in 0..3 {
            assert_eq!(ask(&mut stream).await.unwrap().len(), 65_535);
        }
    }
    assert_eq!(rig.line.asked.lock().unwrap()[0], (Transport::Tls, QUERY.to_vec()));
    for (to, alpn) in [(rig.tls, H2), (rig.https, DOT), (rig.https, b"h3")] {
        let settings = Arc::new(rig.pem.client(&[alpn]));
        assert!(connect(to, &settings, b"").await.is_err(), "another protocol's name");
    }
}

#[tokio::test]
async fn sessions_are_resumed_in_tls_1_2_and_1_3_and_nothing_is_sent_early() {
    let rig = Rig::new(Line::new("", quick));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut settings = rig.pem.client_of(&[version], &[DOT]);
        settings.enable_early_data = true;
        let settings = Arc::new(settings);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut stream = connect(rig.tls, &settings, b"").await.unwrap();
            ask(&mut stream).await.unwrap();
            let (_, connection) = stream.get_ref();
            assert_eq!(connection.handshake_kind(), Some(kind), "{version:?}");
            assert!(!connection.is_early_data_accepted());
        }
    }
}

#[tokio::test]
async fn cve_2024_0760_a_client_over_tls_that_never_reads_is_dropped() {
    let rig = Rig::new(Line::new("io_timeout_ms = 200", long_answer));
    let settings = Arc::new(rig.pem.client(&[DOT]));
    let mut stream = connect(rig.tls, &settings, b"").await.unwrap();
    let queries = framed(QUERY).repeat(100);
    while stream.write_all(&queries).await.is_ok() && stream.flush().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while rig.counted(Transport::Tls).open > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rig.counted(Transport::Tls).slow_readers, 1);
}

#[tokio::test]
async fn a_handshake_that_does_not_come_in_time_ends_the_connection() {
    let rig = Rig::new(Line::new("io_timeout_ms = 100", quick));
    for (to, transport) in [(rig.tls, Transport::Tls), (rig.https, Transport::Https)] {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(b"\x16\x03\x01\x02\0").await.unwrap();
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        assert_eq!(rig.counted(transport).slow_queries, 1);
        assert_eq!(rig.counted(transport).open, 0, "its place is free");
    }
}

/// A PROXY header of a TCP connection over IPv4 from this address.
fn proxied(client: [u8; 4]) -> Vec<u8> {
    let begin = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice();
    [begin, &client, &[127, 0, 0, 1], &[0x10, 0, 3, 0x55]].concat()
}

#[tokio::test]
async fn cve_2026_54478_the_client_behind_a_proxy_is_who_asks() {
    let settings =
        "proxy_protocol = [\"127.0.0.1\"]\nmax_connections_per_prefix = 1\nio_timeout_ms = 500";
    let rig = Rig::new(Line::new(settings, quick));
    let settings = Arc::new(rig.pem.client(&[DOT]));
    let mut first = connect(rig.tls, &settings, &proxied([192, 0, 2, 7])).await.unwrap();
    ask(&mut first).await.unwrap();
    assert_eq!(*rig.line.clients.lock().unwrap(), [Ipv4Addr::new(192, 0, 2, 7)]);
    // The proxy's own prefix has its place again, and each client's prefix has one.
    let again = connect(rig.tls, &settings, &proxied([192, 0, 2, 9])).await;
    assert!(again.is_err(), "the prefix has its connection");
    let mut other = connect(rig.tls, &settings, &proxied([198, 51, 100, 7])).await.unwrap();
    ask(&mut other).await.unwrap();
    assert_eq!(rig.counted(Transport::Tls).refused_prefix, 1);
    // Without a header the TLS handshake stands in its place.
    assert!(connect(rig.tls, &settings, b"").await.is_err());
    assert_eq!(rig.counted(Transport::Tls).malformed, 1);
}

#[tokio::test]
async fn attack_a_who_may_not_ask_takes_no_place_behind_a_proxy_nor_over_quic() {
    let settings = "proxy_protocol = [\"127.0.0.1\"]\nmax_connections = 1";
    let rig = Rig::new(Line::new(settings, quick));
    rig.line.service.access.set(Arc::new(|client| client == Ipv4Addr::new(192, 0, 2, 7)));
    let settings = Arc::new(rig.pem.client(&[DOT]));
    let denied = connect(rig.tls, &settings, &proxied([192, 0, 2, 8])).await;
    assert!(denied.is_err());
    assert_eq!(rig.counted(Transport::Tls).denied, 1);
    let mut allowed = connect(rig.tls, &settings, &proxied([192, 0, 2, 7])).await.unwrap();
    ask(&mut allowed).await.unwrap();
    let (endpoint, settings) = quic_client(&rig.pem);
    let connecting = endpoint.connect_with(settings, rig.quic, NAME).unwrap();
    while rig.counted(Transport::Quic).denied == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(connecting);
    assert_eq!(rig.counted(Transport::Quic).accepted, 0);
}

/// A QUIC client on loopback, and what it connects with.
fn quic_client(pem: &Pem) -> (Endpoint, quinn::ClientConfig) {
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let tls = QuicClientConfig::try_from(pem.client(&[DOQ])).unwrap();
    (endpoint, quinn::ClientConfig::new(Arc::new(tls)))
}

/// Stands between a client and a server of QUIC. Counts the Retry packets of the server (RFC 9000 section 17.2.5).
async fn counting_retries(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let bind = || tokio::net::UdpSocket::bind("127.0.0.1:0");
    let (near, far) = (bind().await.unwrap(), bind().await.unwrap());
    let (address, retries) = (near.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&retries);
    tokio::spawn(async move {
        let (mut sent, mut got, mut client) = ([0; 65_536], [0; 65_536], None);
        loop {
            tokio::select! {
                Ok((length, from)) = near.recv_from(&mut sent) => {
                    client = Some(from);
                    far.send_to(&sent[..length], server).await.unwrap();
                }
                Ok(length) = far.recv(&mut got) => {
                    counted.fetch_add(usize::from(got[0] & 0xf0 == 0xf0), Ordering::Relaxed);
                    near.send_to(&got[..length], client.unwrap()).await.unwrap();
                }
            }
        }
    });
    (address, retries)
}

#[tokio::test]
async fn a_quic_client_shows_its_address_while_few_places_are_free() {
    let rig = Rig::new(Line::new("max_connections = 4\nmax_connections_per_prefix = 16", quick));
    let (endpoint, settings) = quic_client(&rig.pem);
    let (server, retries) = counting_retries(rig.quic).await;
    let mut held = Vec::new();
    for told_to_come_again in [0, 0, 0, 1] {
        let connecting = endpoint.connect_with(settings.clone(), server, NAME).unwrap();
        held.push(connecting.await.unwrap());
        assert_eq!(retries.load(Ordering::Relaxed), told_to_come_again);
    }
    // Connections that ask nothing end soon while places are few, so the test takes those places itself.
    drop(held);
    let mut places = Vec::new();
    while places.len() < 4 {
        places.extend(rig.line.service.places.enter(rig.quic, Transport::Tcp));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let fifth = endpoint.connect_with(settings, rig.quic, NAME).unwrap().await;
    assert!(fifth.is_err(), "all places are taken by its own prefix");
    assert_eq!(rig.counted(Transport::Quic).refused_full, 1);
    assert_eq!(rig.counted(Transport::Quic).accepted, 4);
}

#[tokio::test(start_paused = true)]
async fn attack_q_a_client_that_never_goes_on_gets_three_times_its_bytes_at_most() {
    let rig = Rig::new(Line::new("", quick));
    // Between both stands the test: it passes on the first datagram, and counts what comes back.
    let between = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (endpoint, settings) = quic_client(&rig.pem);
    let to = between.local_addr().unwrap();
    let _connecting = endpoint.connect_with(settings, to, NAME).unwrap();
    let mut buffer = vec![0; 65_536];
    let sent = between.recv(&mut buffer).await.unwrap();
    between.send_to(&buffer[..sent], rig.quic).await.unwrap();
    let (mut got, mut seen) = (0, [0; 65_536]);
    // Until the server has given the handshake up, and a while longer.
    for _ in 0..2000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        while let Ok((length, from)) = between.try_recv_from(&mut seen) {
            got += if from == rig.quic { length } else { 0 };
        }
    }
    assert_eq!(rig.counted(Transport::Quic).slow_queries, 1);
    assert!(got > sent && got <= 3 * sent, "{got} bytes for {sent}");
}

#[test]
fn an_idle_connection_over_tls_takes_little_memory() {
    let pem = Pem::new();
    let certificate = Certificate::load("streams", &pem.certificate, &pem.key).unwrap();
    let tls = Arc::new(certificate.server(&[DOT]).unwrap());
    let size =
        size_of_task(|stream, client, place, service| secure(tls, stream, client, place, service));
    assert!(size <= 4096, "{size} bytes");
}
