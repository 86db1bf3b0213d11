//! Connections of HTTPS: TLS, HTTP/2 and HTTP/1.1 with hyper as the client, in memory. The clock only moves while
//! everybody waits.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode, Version};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::framing::MAX_QUERY;
use crate::query_sender::Transport;
use crate::stub::{Line, NAME, Pem, QUERY, answer, long_answer};
use crate::tls::{Certificate, H2, HTTP_1_1};

/// Bytes that the network holds in each direction.
const NETWORK: usize = 16 << 10;

/// A connection with its server.
struct Rig {
    stream: TlsStream<DuplexStream>,
    line: Line,
    client: Arc<Client>,
    served: JoinHandle<()>,
}

async fn connect(line: Line, alpn: &[u8]) -> Rig {
    let pem = Pem::new();
    let certificate = Certificate::load("streams", &pem.certificate, &pem.key).unwrap();
    let server = Arc::new(certificate.server(&[H2, HTTP_1_1]).unwrap());
    let (ours, theirs) = duplex(NETWORK);
    let client = line.client(Transport::Https);
    let its = Arc::clone(&client);
    let served = tokio::spawn(async move {
        let stream = TlsAcceptor::from(server).accept(theirs).await.unwrap();
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        serve(stream, is_http2, &Site { path: "/dns-query".into() }, &its).await;
    });
    let connector = TlsConnector::from(Arc::new(pem.client(&[alpn])));
    let stream = connector.connect(ServerName::try_from(NAME).unwrap(), ours).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn));
    Rig { stream, line, client, served }
}

/// A client of HTTP/2 over this stream.
async fn http2_client(stream: TlsStream<DuplexStream>) -> SendRequest<Full<Bytes>> {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

fn post() -> Request<Full<Bytes>> {
    Request::post("https://dns.example/dns-query")
        .header("host", NAME)
        .header(CONTENT_TYPE, "application/dns-message")
        .body(Full::new(Bytes::from_static(QUERY)))
        .unwrap()
}

fn get() -> Request<Full<Bytes>> {
    let query = BASE64_URL_SAFE_NO_PAD.encode(QUERY);
    let request = Request::get(format!("https://dns.example/dns-query?dns={query}"));
    request.header("host", NAME).body(Full::default()).unwrap()
}

async fn message(response: Response<hyper::body::Incoming>, version: Version) -> Bytes {
    assert_eq!((response.status(), response.version()), (StatusCode::OK, version));
    response.into_body().collect().await.unwrap().to_bytes()
}

/// A line that drops all queries.
fn silent() -> Line {
    Line::new("", |_| None)
}

fn quick(query: &[u8]) -> Option<Vec<u8>> {
    Some(answer(query, 60))
}

#[tokio::test(start_paused = true)]
async fn http2_and_http1_1_have_the_same_answers() {
    let rig = connect(Line::new("", long_answer), H2).await;
    let mut sender = http2_client(rig.stream).await;
    for request in [post(), get()] {
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(message(response, Version::HTTP_2).await.len(), 65_535);
    }
    let rig = connect(Line::new("", long_answer), HTTP_1_1).await;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(rig.stream)).await.unwrap();
    tokio::spawn(connection);
    for request in [post(), get()] {
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(message(response, Version::HTTP_11).await.len(), 65_535);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_request_has_no_body_and_leaves_its_connection_as_it_was() {
    let head = || {
        let mut request = get();
        *request.method_mut() = Method::HEAD;
        request
    };
    let check = |response: Response<hyper::body::Incoming>| async {
        assert_eq!(response.headers()[CONTENT_LENGTH], "65535");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    };
    let rig = connect(Line::new("", long_answer), H2).await;
    let mut sender = http2_client(rig.stream).await;
    check(sender.send_request(head()).await.unwrap()).await;
    let response = sender.send_request(get()).await.unwrap();
    assert_eq!(message(response, Version::HTTP_2).await.len(), 65_535);
    let rig = connect(Line::new("", long_answer), HTTP_1_1).await;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(rig.stream)).await.unwrap();
    tokio::spawn(connection);
    check(sender.send_request(head()).await.unwrap()).await;
    let response = sender.send_request(get()).await.unwrap();
    assert_eq!(message(response, Version::HTTP_11).await.len(), 65_535);
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_get_each_its_own_answer() {
    let rig = connect(Line::new("", long_answer), H2).await;
    let sender = http2_client(rig.stream).await;
    let ask = |number: u8| {
        let mut sender = sender.clone();
        async move {
            let query = [&[number, 9][..], &QUERY[2..]].concat();
            let request = post().map(|_| Full::new(Bytes::from(query)));
            let answer =
                message(sender.send_request(request).await.unwrap(), Version::HTTP_2).await;
            assert_eq!((&answer[..2], answer.len()), ([number, 9].as_slice(), 65_535));
        }
    };
    let asked: Vec<_> = (0..3).map(|number| tokio::spawn(ask(number))).collect();
    for one in asked {
        one.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connections_end_and_so_do_those_that_had_their_share() {
    let rig = connect(silent(), H2).await;
    rig.served.await.unwrap();
    let rig = connect(silent(), HTTP_1_1).await;
    rig.served.await.unwrap();
    let rig = connect(Line::new("max_queries_per_connection = 3", quick), H2).await;
    let line = rig.line;
    let mut sender = http2_client(rig.stream).await;
    for _ in 0..3 {
        let response = sender.send_request(post()).await.unwrap();
        message(response, Version::HTTP_2).await;
    }
    rig.served.await.unwrap();
    assert!(sender.send_request(post()).await.is_err());
    assert_eq!((line.asked(), line.counted(Transport::Https).exhausted), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn headers_have_a_bound() {
    let mut rig = connect(silent(), HTTP_1_1).await;
    let request = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let _ = rig.stream.write_all(request.as_bytes()).await;
    let mut response = Vec::new();
    let _ = rig.stream.read_to_end(&mut response).await;
    let text = String::from_utf8_lossy(&response);
    assert!(text.starts_with("HTTP/1.1 4"), "{text}");
    rig.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cve_2025_30194_a_stream_that_is_reset_takes_its_query_along() {
    let rig = connect(silent(), H2).await;
    let line = rig.line;
    let mut sender = http2_client(rig.stream).await;
    for _ in 0..8 {
        let request = sender.send_request(post());
        timeout(Duration::from_secs(1), request).await.unwrap_err();
    }
    timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!((line.asked(), line.under_way()), (8, 0));
    drop(sender);
    rig.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cve_2026_40211_bodies_of_refused_requests_do_not_stay_until_the_connection_ends() {
    let rig = connect(Line::new("", quick), H2).await;
    let mut sender = http2_client(rig.stream).await;
    let body = |_| Full::new(Bytes::from_static(&[0; MAX_QUERY + 1]));
    let no_type = || {
        let mut request = post();
        request.headers_mut().remove(CONTENT_TYPE);
        request
    };
    // Together they are ten times as long as the connection's window.
    for _ in 0..WINDOW as usize * 10 / (3 * MAX_QUERY) {
        for (request, status) in [(post(), 413), (no_type(), 415), (get(), 200)] {
            let response = sender.send_request(request.map(body)).await.unwrap();
            assert_eq!(response.status(), status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_has_its_time() {
    for sent in [
        "GET /dns-q",
        "POST /dns-query HTTP/1.1\r\ncontent-length: 9\r\ncontent-type: application/dns-message\r\n\r\n1",
    ] {
        let mut rig = connect(silent(), HTTP_1_1).await;
        rig.stream.write_all(sent.as_bytes()).await.unwrap();
        rig.stream.flush().await.unwrap();
        rig.served.await.unwrap();
    }
}

/// A hostile client, which writes frames by hand.
mod hostile {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const CONTINUATION: u8 = 9;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// The fields of a GET request for [`QUERY`], as HPACK literals that are not indexed.
    fn fields() -> Vec<u8> {
        let path = format!("/dns-query?dns={}", BASE64_URL_SAFE_NO_PAD.encode(QUERY));
        // Static table: 2 is GET, 7 is https, 4 is :path, 1 is :authority.
        let mut fields = vec![0x82, 0x87, 0x04, path.len() as u8];
        fields.extend(path.as_bytes());
        fields.extend([0x01, NAME.len() as u8]);
        fields.extend(NAME.as_bytes());
        fields
    }

    fn request(number: u32) -> Vec<u8> {
        frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &fields())
    }

    /// Sends without ever reading, and waits until the server has ended the connection. Returns the bytes sent.
    async fn flood(rig: Rig, mut next: impl FnMut(u32) -> Option<Vec<u8>>) -> (usize, Line) {
        const ENOUGH: usize = 4 << 20;
        let Rig { mut stream, served, line, .. } = rig;
        let mut sent = 0;
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        stream.write_all(&begin).await.unwrap();
        for number in 0.. {
            let Some(frame) = next(number) else { break };
            if stream.write_all(&frame).await.is_err() || stream.flush().await.is_err() {
                break;
            }
            sent += frame.len();
            assert!(sent < ENOUGH, "the server takes everything");
        }
        served.await.unwrap();
        (sent, line)
    }

    #[tokio::test(start_paused = true)]
    async fn cve_2024_12705_a_client_that_asks_and_never_reads_is_dropped() {
        let rig = connect(Line::new("", long_answer), H2).await;
        let client = Arc::clone(&rig.client);
        // As many as may be under way, so that nothing else ends the connection.
        let (_, line) = flood(rig, |number| (number < 60).then(|| request(number))).await;
        assert_eq!(line.counted(Transport::Https).slow_readers, 1);
        assert_eq!(client.unread_bytes(), 0, "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn cve_2026_3593_a_flood_of_settings_during_an_answer_is_not_buffered() {
        let rig = connect(Line::new("", long_answer), H2).await;
        let sent = flood(rig, |number| match number {
            0 => Some(request(0)),
            _ => Some(frame(SETTINGS, 0, 0, &[]).repeat(100)),
        });
        // What two networks and the buffers of TLS hold, because nothing is read before it was acknowledged.
        assert!(sent.await.0 < 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn cve_2023_44487_streams_that_are_reset_at_once_end_the_connection() {
        let rig = connect(silent(), H2).await;
        let reset = |number| frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]);
        let (sent, line) =
            flood(rig, |number| Some([request(number), reset(number)].concat())).await;
        assert!(sent < 1 << 20, "{sent}");
        assert_eq!(line.under_way(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rustsec_2024_0003_requests_that_we_have_to_reset_end_the_connection() {
        let rig = connect(silent(), H2).await;
        // Number 28 of the static table is content-length, which is not a number here.
        let fields = [&fields()[..], &[0x0f, 13, 1, b'x']].concat();
        let bad = |number| frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &fields);
        let (sent, line) = flood(rig, |number| Some(bad(number))).await;
        assert!(sent < 256 << 10, "{sent}");
        assert_eq!(line.asked(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rustsec_2024_0332_headers_that_go_on_and_on_end_the_connection() {
        let rig = connect(silent(), H2).await;
        let field = [&[0, 1, b'a', 100], "b".repeat(100).as_bytes()].concat();
        let sent = flood(rig, |number| match number {
            0 => Some(frame(HEADERS, END_STREAM, 1, &fields())),
            _ => Some(frame(CONTINUATION, 0, 1, &field)),
        });
        assert!(sent.await.0 < 256 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn rustsec_2026_0258_data_frames_without_data_end_with_the_time_of_a_request() {
        let rig = connect(silent(), H2).await;
        let client = Arc::clone(&rig.client);
        let mut post = vec![0x83, 0x87, 0x04, 10];
        post.extend(b"/dns-query\x01\x0bdns.example\x0f\x10\x17application/dns-message");
        // The server reads them as fast as they come, and keeps nothing of them.
        let Rig { mut stream, served, .. } = rig;
        let begin =
            [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS, 1, &post)].concat();
        stream.write_all(&begin).await.unwrap();
        let empty = frame(DATA, 0, 1, &[]).repeat(10);
        while stream.write_all(&empty).await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        served.await.unwrap();
        assert_eq!(client.unread_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn cve_2026_40208_a_get_request_with_a_body_is_answered_and_its_body_dropped() {
        let Rig { mut stream, line, .. } = connect(Line::new("", quick), H2).await;
        let begin =
            [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_HEADERS, 1, &fields())]
                .concat();
        stream.write_all(&begin).await.unwrap();
        stream.write_all(&frame(DATA, END_STREAM, 1, &[0; 1000])).await.unwrap();
        stream.flush().await.unwrap();
        let mut seen = Vec::new();
        let wanted = answer(QUERY, 60);
        while !seen.windows(wanted.len()).any(|window| window == wanted) {
            assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "the answer comes");
        }
        assert_eq!(line.asked(), 1);
    }
}
