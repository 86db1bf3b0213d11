//! Downloads from a server over HTTPS that says what a test gives it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::thread::JoinHandle;

use http_body_util::Full;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

const HOST: &str = "lists.example";
const ETAGGED: &str = "HTTP/1.1 200 OK\r\nETag: W/\"a b\"\r\nLast-Modified: yesterday, I think\r\n\
    Content-Length: 11\r\n\r\nads.example";

/// A server that gives each of these answers to one connection, and ends with the requests that it got.
fn serve(answers: &'static [&'static str]) -> (Source, JoinHandle<Vec<String>>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec![HOST.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(default_provider());
    let ours = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key);
    let ours = Arc::new(ours.unwrap());
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let theirs = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = Server {
        protocol: Protocol::Https("/ads.txt".into()),
        host: Host::Name(HOST.into()),
        port: listener.local_addr().unwrap().port(),
    };
    let source = Source {
        server,
        address: Some(Ipv4Addr::LOCALHOST.into()),
        tls: Arc::new(theirs),
        reach: Reach::Anywhere,
    };
    let serving = std::thread::spawn(move || {
        let served = answers.iter().map(|answer| {
            let (tcp, _) = listener.accept().unwrap();
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::clone(&ours)).unwrap(), tcp);
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            stream.conn.send_close_notify();
            let _ = stream.flush();
            String::from_utf8(request).unwrap().to_lowercase()
        });
        served.collect()
    });
    (source, serving)
}

/// Runs what needs a reactor and local tasks.
fn run<T>(task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, task)
}

#[test]
fn what_the_server_said_of_a_version_goes_back_word_for_word() {
    let (source, serving) = serve(&[ETAGGED, "HTTP/1.1 304 Not Modified\r\n\r\n"]);
    run(async {
        let fetched = fetch(&source, &Version::default()).await.unwrap();
        let Fetched::New(bytes, version) = fetched else { panic!("{fetched:?}") };
        assert_eq!(bytes, b"ads.example");
        assert_eq!(fetch(&source, &version).await, Ok(Fetched::Unchanged));
    });
    let requests = serving.join().unwrap();
    assert!(requests[0].starts_with("get /ads.txt http/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains(&format!("host: {HOST}:{}\r\n", source.server.port)));
    assert!(!requests[0].contains("if-"), "{}", requests[0]);
    assert!(requests[1].contains("if-none-match: w/\"a b\"\r\n"), "{}", requests[1]);
    assert!(requests[1].contains("if-modified-since: yesterday, i think\r\n"), "{}", requests[1]);
}

#[test]
fn answers_that_are_no_list_are_told_with_what_to_change() {
    let (source, serving) = serve(&[
        "HTTP/1.1 301 Moved\r\nLocation: https://new.example/\x1b[2J\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: https://new.example/ads\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nads.exam",
        "no HTTP\r\n\r\n",
    ]);
    let told: Vec<String> = run(async {
        let mut told = Vec::new();
        for _ in 0..5 {
            told.push(fetch(&source, &Version::default()).await.unwrap_err().to_string());
        }
        told
    });
    serving.join().unwrap();
    assert!(!told[0].contains('\x1b'), "{}", told[0]);
    assert_eq!(told[1], "the server redirects to https://new.example/ads; write that as `url`");
    assert_eq!(told[2], "the server answers with status 404 Not Found");
    assert!(told[3].starts_with("the list did not come to its end"), "{}", told[3]);
    assert!(told[4].starts_with("the response"), "{}", told[4]);
}

#[test]
fn a_list_may_have_so_many_bytes_and_no_more() {
    let ten = || Full::new(Bytes::from_static(b"0123456789"));
    run(async {
        assert_eq!(whole_body(ten(), 10).await.unwrap().len(), 10);
        assert_eq!(whole_body(ten(), 9).await, Err("it has more than 9 bytes".to_owned()));
    });
}

#[test]
fn a_server_whose_certificate_nobody_trusts_gets_no_request() {
    let (source, serving) = serve(&[ETAGGED]);
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let source = Source { tls: Arc::new(tls), ..source };
    let why = run(fetch(&source, &Version::default())).unwrap_err();
    let FetchError::Unreached(why) = why else { panic!("{why}") };
    assert!(why.starts_with("the handshake of TLS: invalid peer certificate"), "{why}");
    assert!(serving.join().is_err(), "it heard no request");
}

#[test]
fn a_server_within_the_network_is_not_even_connected_to() {
    let (source, _serving) = serve(&[]);
    let source = Source { reach: Reach::Public(Vec::new()), ..source };
    let why = run(fetch(&source, &Version::default())).unwrap_err();
    let expected = "127.0.0.1 is neither public nor in `control.list_networks`";
    assert_eq!(why, FetchError::Unreached(expected.to_owned()));
}

/// What comes of one answer, without TLS.
fn answered(version: &Version, answer: &'static str) -> Result<Fetched, String> {
    run(async {
        let (ours, mut theirs) = duplex(1 << 16);
        let server = tokio::task::spawn_local(async move {
            let mut head = [0; 1024];
            assert!(theirs.read(&mut head).await.unwrap() > 0);
            theirs.write_all(answer.as_bytes()).await.unwrap();
        });
        let request = Request::get("/ads.txt").body(Empty::new()).unwrap();
        let fetched = exchange(ours, request, version).await;
        server.await.unwrap();
        fetched
    })
}

#[test]
fn nothing_new_is_news_only_of_a_version_that_is_kept() {
    let known = Version { etag: Some(HeaderValue::from_static("\"7\"")), modified: None };
    let unchanged = "HTTP/1.1 304 Not Modified\r\n\r\n";
    assert_eq!(answered(&known, unchanged), Ok(Fetched::Unchanged));
    let unasked = answered(&Version::default(), unchanged).unwrap_err();
    assert!(unasked.contains("status 304"), "{unasked}");
}

#[test]
fn what_a_server_says_is_bounded_where_it_is_shown() {
    let far = format!("HTTP/1.1 302 Found\r\nLocation: /{}\r\n\r\n", "a".repeat(5000));
    let why = answered(&Version::default(), far.leak()).unwrap_err();
    assert!(why.contains("redirects to /aaa") && why.len() < 300, "{why}");
}
