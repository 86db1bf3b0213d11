//! DNS over QUIC, with quinn as the client, over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, Endpoint, ReadError, ReadToEndError};
use tokio::task::JoinHandle;

use super::*;
use crate::query_sender::Transport;
use crate::stub::{Line, NAME, Pem, QUERY, answer, long_answer};

/// A server of one connection, and that connection.
struct Rig {
    _endpoint: Endpoint,
    connection: Connection,
    line: Line,
    served: JoinHandle<()>,
}

impl Rig {
    async fn new(line: Line) -> Self {
        let pem = Pem::new();
        let certificate = Certificate::load("streams", &pem.certificate, &pem.key).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server =
            Endpoint::server(config(&certificate, &line.service.limits).unwrap(), address).unwrap();
        let to = server.local_addr().unwrap();
        let client = line.client(Transport::Quic);
        let served = tokio::spawn(async move {
            let connection = server.accept().await.unwrap().await.unwrap();
            let (_hold, lost) = tokio::sync::oneshot::channel();
            serve(connection, &client, lost).await;
            server.wait_idle().await;
        });
        let endpoint = Endpoint::client(address).unwrap();
        let tls = QuicClientConfig::try_from(pem.client(&[DOQ])).unwrap();
        let settings = ClientConfig::new(Arc::new(tls));
        let connection = endpoint.connect_with(settings, to, NAME).unwrap().await.unwrap();
        Self { _endpoint: endpoint, connection, line, served }
    }

    /// What comes back on the stream that these bytes were sent on.
    async fn send(&self, bytes: &[u8]) -> Result<Vec<u8>, ReadToEndError> {
        let (mut send, mut receive) = self.connection.open_bi().await.unwrap();
        send.write_all(bytes).await.unwrap();
        send.finish().unwrap();
        receive.read_to_end(70_000).await
    }

    /// The code by which the server has ended the connection.
    async fn closed(self) -> u64 {
        let ConnectionError::ApplicationClosed(close) = self.connection.closed().await else {
            panic!("the application has not closed the connection")
        };
        self.served.await.unwrap();
        close.error_code.into_inner()
    }
}

fn reset_code(result: Result<Vec<u8>, ReadToEndError>) -> u64 {
    match result {
        Err(ReadToEndError::Read(ReadError::Reset(code))) => code.into_inner(),
        other => panic!("the stream was not reset: {other:?}"),
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

#[tokio::test]
async fn each_query_has_a_stream_and_long_answers_come_whole() {
    let rig = Rig::new(Line::new("", long_answer)).await;
    for _ in 0..3 {
        let reply = rig.send(&framed(QUERY)).await.unwrap();
        assert_eq!((reply.len(), &reply[..2]), (65_537, [0xff, 0xff].as_slice()));
    }
    assert_eq!(rig.line.asked(), 3);
    assert_eq!(rig.line.asked.lock().unwrap()[0], (Transport::Quic, QUERY.to_vec()));
}

#[tokio::test]
async fn cve_2025_30187_what_is_not_one_whole_query_ends_the_connection() {
    let mut with_id = framed(QUERY);
    with_id[3] = 1;
    let mut keepalive = QUERY.to_vec();
    keepalive[11] = 1;
    keepalive.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\x04\0\x0b\0\0");
    let whole = framed(QUERY);
    let twice = [whole.clone(), whole.clone()].concat();
    let short = framed(&QUERY[..11]);
    let cut = whole[..whole.len() - 1].to_vec();
    for bad in [Vec::new(), vec![0], vec![0, 0], cut, short, with_id, framed(&keepalive), twice] {
        let rig = Rig::new(Line::new("", |query| Some(answer(query, 60)))).await;
        let what = &bad[..bad.len().min(20)];
        assert!(rig.send(&bad).await.is_err(), "{what:?}");
        assert_eq!(rig.closed().await, PROTOCOL_ERROR.into_inner(), "{what:?}");
    }
}

#[tokio::test]
async fn cve_2026_24030_a_query_that_is_too_long_loses_its_stream_alone() {
    let rig = Rig::new(Line::new("", |query| Some(answer(query, 60)))).await;
    for length in [MAX_QUERY + 1, 65_535] {
        let (mut send, mut receive) = rig.connection.open_bi().await.unwrap();
        // The server may stop it before it is written.
        let _ = send.write_all(&framed(&vec![0; length])).await;
        let reset = receive.read_to_end(9).await;
        assert_eq!(reset_code(reset), EXCESSIVE_LOAD.into_inner(), "{length}");
    }
    assert_eq!(rig.send(&framed(QUERY)).await.unwrap(), framed(&answer(QUERY, 60)));
}

#[tokio::test]
async fn a_stream_without_an_answer_is_reset_and_the_connection_stays() {
    let rig = Rig::new(Line::full()).await;
    for _ in 0..2 {
        let refused = rig.send(&framed(QUERY)).await.unwrap();
        assert_eq!((refused.len(), refused[5] & 0x0f), (2 + QUERY.len(), 2), "SERVFAIL");
    }
    let rig = Rig::new(Line::new("", |_| None)).await;
    assert_eq!(reset_code(rig.send(&framed(QUERY)).await), INTERNAL_ERROR.into_inner());
}

#[tokio::test]
async fn cve_2026_41637_queries_that_are_cancelled_are_forgotten_and_count_no_more() {
    const RECURSION: u8 = 1;
    let line = Line::new("max_queries_in_flight = 4", |query| {
        (query[2] & RECURSION == 0).then(|| answer(query, 60))
    });
    let rig = Rig::new(line).await;
    for number in 1..=12 {
        let (mut send, mut receive) = rig.connection.open_bi().await.unwrap();
        send.write_all(&framed(QUERY)).await.unwrap();
        send.finish().unwrap();
        until(|| rig.line.asked() == number && rig.line.under_way() == 1).await;
        receive.stop(VarInt::from_u32(3)).unwrap();
        until(|| rig.line.under_way() == 0).await;
    }
    let mut last = QUERY.to_vec();
    last[2] &= !RECURSION;
    assert_eq!(rig.send(&framed(&last)).await.unwrap(), framed(&answer(&last, 60)));
}

#[tokio::test]
async fn cve_2026_33254_a_client_that_is_gone_leaves_no_query_behind() {
    let rig = Rig::new(Line::new("", |_| None)).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let (mut send, receive) = rig.connection.open_bi().await.unwrap();
        send.write_all(&framed(QUERY)).await.unwrap();
        send.finish().unwrap();
        streams.push((send, receive));
    }
    until(|| rig.line.under_way() == 5).await;
    rig.connection.close(NO_ERROR, b"");
    until(|| rig.line.under_way() == 0).await;
}

#[tokio::test]
async fn cve_2026_32665_queries_that_never_end_have_bounds_and_their_time() {
    let settings = "max_queries_in_flight = 8\nio_timeout_ms = 300";
    let rig = Rig::new(Line::new(settings, |_| None)).await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        let (mut send, receive) = rig.connection.open_bi().await.unwrap();
        send.write_all(&[0x0f; MAX_QUERY]).await.unwrap();
        streams.push((send, receive));
    }
    let uni = tokio::time::timeout(Duration::from_millis(50), rig.connection.open_uni()).await;
    assert!(uni.is_err(), "clients open no streams without an answer");
    assert_eq!(rig.connection.max_datagram_size(), None, "there are no datagrams");
    for (_send, mut receive) in streams {
        let reset = receive.read_to_end(9).await;
        assert_eq!(reset_code(reset), UNSPECIFIED_ERROR.into_inner());
    }
    assert!(rig.connection.open_bi().await.is_ok(), "there is room when others are over");
    assert_eq!(rig.line.asked(), 0);
}

#[tokio::test]
async fn a_connection_ends_when_it_is_idle_or_has_had_its_share() {
    let settings = "max_queries_per_connection = 2";
    let rig = Rig::new(Line::new(settings, |query| Some(answer(query, 60)))).await;
    for _ in 0..2 {
        // The last answer may meet the end of the connection.
        let _ = rig.send(&framed(QUERY)).await;
    }
    assert_eq!(rig.closed().await, NO_ERROR.into_inner());
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
