//! Processes take over from each other while clients ask over TCP, TLS and HTTPS. Connections that are open stay with the process
//! that has accepted them, and no new one is refused.

use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::handover::{DRAINS, EACH, QUERY, answered, ask, connect_to, longer, until};
use crate::harness::{isolated, sh};
use crate::nsd;
use crate::pmdns::{COMMON, IS_ALONE, Pmdns, TAP_PORT, set_up_tap, upstream};
use crate::secure_streams::{NAME, SERVER, stream_settings, write_certificate};

/// Seconds of processes that follow the first one.
const SECONDS: u32 = 12;

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Connections of every transport.
struct Clients {
    trust: Arc<RootCertStore>,
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn connections_of_every_transport_outlive_a_hand_over() {
    isolated("handover_streams::connections_of_every_transport_outlive_a_hand_over", || {
        let _nsd = nsd::start();
        sh(&format!("ip address add {SERVER}/32 dev lo"));
        let certificate = write_certificate();
        let streams = format!("[streams]\ntcp = [\"{SERVER}:53\"]\n{}", stream_settings());
        let config = format!("{TAP_PORT}{COMMON}{}{streams}", upstream(nsd::PORT));
        let mut running = Pmdns::start(&config);
        set_up_tap();
        let mut trust = RootCertStore::empty();
        trust.add(certificate).unwrap();
        let clients = Clients { trust: Arc::new(trust) };
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            let (tcp, tls, https) = (
                threads.spawn(|| until(&is_over, || ask(&mut clients.tcp()))),
                threads.spawn(|| until(&is_over, || ask(&mut clients.tls()))),
                threads.spawn(|| until(&is_over, || ask_https(&mut clients.https()))),
            );
            let processes = longer("SECONDS", SECONDS) / EACH;
            for number in 0..processes {
                let (mut half, mut tls, mut https) =
                    (clients.tcp(), clients.tls(), clients.https());
                half.write_all(&QUERY[..QUERY.len() / 2]).unwrap();
                ask(&mut tls);
                ask_https(&mut https);
                let mut next = Pmdns::launch_as(&format!("next-{number}"), &config);
                running.wait_for_times(DRAINS, 1);
                // The process before still has these.
                half.write_all(&QUERY[QUERY.len() / 2..]).unwrap();
                answered(&mut half);
                ask(&mut tls);
                ask_https(&mut https);
                assert!(!next.log().contains("has ended"), "{}", next.log());
                drop((half, tls, https));
                next.wait_for(IS_ALONE);
                assert_eq!(running.ended(), Some(0), "{}", running.log());
                running = next;
            }
            is_over.store(true, Ordering::Relaxed);
            let counts = [tcp, tls, https].map(|thread| thread.join().unwrap());
            println!("{processes} hand-overs, connections over TCP, TLS and HTTPS: {counts:?}");
            assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        });
        running.stop();
    });
}

impl Clients {
    fn tcp(&self) -> TcpStream {
        connect_to((SERVER, 53))
    }

    fn tls(&self) -> Encrypted {
        self.encrypted(853, b"dot")
    }

    fn https(&self) -> Encrypted {
        self.encrypted(443, b"http/1.1")
    }

    fn encrypted(&self, port: u16, protocol: &[u8]) -> Encrypted {
        let config = ClientConfig::builder().with_root_certificates(Arc::clone(&self.trust));
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(connection, connect_to((SERVER, port)))
    }
}

/// Asks in a request over HTTP/1.1 (RFC 8484, section 4.1), and waits for the answer.
fn ask_https(stream: &mut Encrypted) {
    let query = &QUERY[2..];
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/dns-message\r\n\
         content-length: {}\r\n\r\n",
        query.len()
    );
    stream.write_all(&[head.as_bytes(), query].concat()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut reply = vec![0; length.unwrap_or_else(|| panic!("{head}")).parse().unwrap()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[3] & 15, 0, "NOERROR");
}
