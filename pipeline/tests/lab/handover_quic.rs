//! Processes take over from each other while clients ask over QUIC. Connections that are open stay with the process that has
//! accepted them, until it closes them; new ones come to the process that serves.

use std::cell::Cell;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, ConnectionError, Endpoint, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;

use crate::handover::{DRAINS, QUERY, until};
use crate::harness::{isolated, path, sh};
use crate::nsd;
use crate::pmdns::{COMMON, IS_ALONE, Pmdns, TAP_PORT, set_up_tap, upstream};
use crate::secure_streams::{NAME, SERVER, write_certificate};

/// Processes that follow the first one.
const PROCESSES: usize = 4;
/// Clients that ask over one connection after another, at the same time.
const CLIENTS: usize = 4;
/// Queries of an open connection while its process drains.
const QUERIES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(10);
/// A process that ends says so (RFC 9250 section 4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0);

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn clients_over_quic_lose_no_query() {
    isolated("handover_quic::clients_over_quic_lose_no_query", || {
        let _nsd = nsd::start();
        let (config, clients) = set_up();
        let mut running = Pmdns::start(&config);
        set_up_tap();
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            let one_by_one =
                [(); CLIENTS].map(|()| threads.spawn(|| clients.another().one_by_one(&is_over)));
            let kdig = threads.spawn(|| until(&is_over, ask_by_kdig));
            for number in 0..PROCESSES {
                let kept = clients.connect();
                clients.ask(&kept).unwrap();
                let mut next = Pmdns::launch_as(&format!("next-{number}"), &config);
                running.wait_for_times(DRAINS, 1);
                for _ in 0..QUERIES {
                    clients.ask(&kept).unwrap();
                }
                assert!(!next.log().contains(IS_ALONE), "{}", next.log());
                if number == 0 {
                    clients.ask_until_it_is_closed(&kept);
                }
                drop(kept);
                next.wait_for(IS_ALONE);
                assert_eq!(running.ended(), Some(0), "{}", running.log());
                running = next;
            }
            is_over.store(true, Ordering::Relaxed);
            let counted = one_by_one.map(|thread| thread.join().unwrap());
            let count: u32 = counted.iter().map(|(count, _)| count).sum();
            let slowest = counted.iter().map(|(_, slowest)| slowest).max().unwrap();
            let kdig = kdig.join().unwrap();
            println!(
                "{PROCESSES} hand-overs: {count} connections, the slowest took {slowest:?}; {kdig} of kdig"
            );
            assert!(count > 100 && kdig > 20, "{count}, {kdig}");
        });
        let stats = running.stop();
        assert_eq!(stats.number("/streams/3/queries"), stats.number("/streams/3/answers"));
    });
}

#[test]
#[ignore = "needs root, DPDK and network namespaces: scripts/test.sh runs it"]
fn whoever_is_killed_its_clients_over_quic_learn_of_it_at_once() {
    isolated("handover_quic::whoever_is_killed_its_clients_over_quic_learn_of_it_at_once", || {
        let _nsd = nsd::start();
        let (config, clients) = set_up();
        let running = Pmdns::start(&config);
        set_up_tap();
        let kept = clients.connect();
        clients.ask(&kept).unwrap();
        for (times, step) in (1..).zip(["frozen", "serving"]) {
            let next = Pmdns::launch_held(step, &config, step);
            clients.ask(&kept).unwrap();
            thread::scope(|threads| {
                // It may come to the process that stands still.
                let late = threads.spawn(|| clients.another().connect_and_ask());
                thread::sleep(Duration::from_millis(200));
                next.kill();
                running.wait_for_times("this one goes on", times);
                late.join().unwrap();
            });
            clients.ask(&kept).unwrap();
        }
        let mut next = Pmdns::launch_as("next", &config);
        running.wait_for_times(DRAINS, 1);
        running.kill();
        // The next process resets what it does not know.
        let begun = Instant::now();
        assert_eq!(clients.ask(&kept), Err(ConnectionError::Reset));
        println!("known after {:?}", begun.elapsed());
        clients.connect_and_ask();
        next.wait_for(IS_ALONE);
        clients.connect_and_ask();
        next.stop();
    });
}

/// The configuration, and clients that trust its certificate.
fn set_up() -> (String, Clients) {
    sh(&format!("ip address add {SERVER}/32 dev lo"));
    let certificate = write_certificate();
    let files = [path("certificate.pem"), path("key.pem")];
    let streams = format!(
        "[streams]\nquic = [\"{SERVER}:853\"]\ncertificate = {:?}\nkey = {:?}\n",
        files[0], files[1]
    );
    (format!("{TAP_PORT}{COMMON}{}{streams}", upstream(nsd::PORT)), Clients::new(certificate))
}

/// A client of others, with a connection for its query. It asks once.
fn ask_by_kdig() {
    let authority = path("certificate.pem");
    let trust = format!("+tls-ca={} +tls-hostname={NAME}", authority.display());
    let asked = format!("kdig @{SERVER} {trust} +quic +retry=0 +timeout=5 n1.bulk.test A");
    let said = sh(&format!("{asked} 2>&1 || true"));
    assert!(said.contains("status: NOERROR"), "{said}");
}

/// Clients at one address.
struct Clients {
    certificate: CertificateDer<'static>,
    handle: Handle,
    endpoint: Endpoint,
    settings: ClientConfig,
}

impl Clients {
    fn new(certificate: CertificateDer<'static>) -> Self {
        let mut trust = RootCertStore::empty();
        trust.add(certificate.clone()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ));
        let tls = tls.with_safe_default_protocol_versions().unwrap();
        let mut tls = tls.with_root_certificates(trust).with_no_client_auth();
        tls.alpn_protocols = vec![b"doq".to_vec()];
        let settings = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = runtime.block_on(async { Endpoint::client(any).unwrap() });
        let handle = runtime.handle().clone();
        // A thread of its own sends and receives, as long as the lab lasts.
        thread::spawn(move || runtime.block_on(pending::<()>()));
        Self { certificate, handle, endpoint, settings }
    }

    /// The same with another address.
    fn another(&self) -> Self {
        Self::new(self.certificate.clone())
    }

    fn connect(&self) -> Connection {
        let server = format!("{SERVER}:853").parse().unwrap();
        let settings = self.settings.clone();
        self.handle.block_on(async {
            let connecting = self.endpoint.connect_with(settings, server, NAME).unwrap();
            timeout(PATIENCE, connecting).await.unwrap().unwrap()
        })
    }

    /// Asks over one connection after another. Returns how many were answered, which are all, and the longest time for one.
    fn one_by_one(&self, is_over: &AtomicBool) -> (u32, Duration) {
        let slowest = Cell::new(Duration::ZERO);
        let count = until(is_over, || {
            let begun = Instant::now();
            let connection = self.connect();
            self.ask(&connection).unwrap();
            connection.close(NO_ERROR, b"");
            slowest.set(slowest.get().max(begun.elapsed()));
        });
        (count, slowest.get())
    }

    fn connect_and_ask(&self) {
        self.ask(&self.connect()).unwrap();
    }

    /// Asks, and waits for the answer. An error: the connection is lost, so the client asks over another one.
    fn ask(&self, connection: &Connection) -> Result<(), ConnectionError> {
        let asked = self.handle.block_on(async {
            timeout(PATIENCE, async {
                let (mut send, mut receive) = connection.open_bi().await.ok()?;
                // The ID is zero (section 4.2.1).
                let query = [&QUERY[..2], &[0, 0][..], &QUERY[4..]].concat();
                send.write_all(&query).await.ok()?;
                send.finish().ok()?;
                let reply = receive.read_to_end(512).await.ok()?;
                assert_eq!(reply[5] & 15, 0, "NOERROR");
                Some(())
            })
            .await
        });
        match asked.expect("an answer, or an end of the connection") {
            Some(()) => Ok(()),
            None => Err(connection.close_reason().expect("it has ended")),
        }
    }

    /// Asks until the process that has the connection ends. The query that was under way then is asked again.
    fn ask_until_it_is_closed(&self, connection: &Connection) {
        let (begun, mut answered) = (Instant::now(), 0);
        let why = loop {
            match self.ask(connection) {
                Ok(()) => answered += 1,
                Err(why) => break why,
            }
            thread::sleep(Duration::from_millis(1));
        };
        let closed = begun.elapsed();
        assert!(
            matches!(&why, ConnectionError::ApplicationClosed(close) if close.error_code == NO_ERROR),
            "{why}"
        );
        let retried = Instant::now();
        self.connect_and_ask();
        println!(
            "{answered} queries over a connection that was closed after {closed:?}; the next one was answered after {:?}",
            retried.elapsed()
        );
    }
}
