//! Connections for the fuzzer: a client sends some bytes, and reads all that comes back.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::framing::{self, MAX_QUERY};
use crate::https::{self, Site};
use crate::proxy;
use crate::query_sender::Transport;
use crate::stub::{Line, answer};

/// Queries that the line has room for.
const CAPACITY: usize = 8;
/// Bytes that the network holds in each direction.
const NETWORK: usize = 4096;
/// Bytes of a client's answers that are read.
const MAX_ANSWERS: u64 = 1 << 20;

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// Messages behind their lengths.
    Framed,
    /// Requests of HTTP/1.1.
    Http1,
    /// Frames of HTTP/2.
    Http2,
}

/// Serves a connection on which these bytes come, and then no more. Returns the bytes that the client got, and the queries that the
/// line was asked. The clock moves only while everybody waits. Panics if a query is left behind.
pub fn serve(kind: FirstBytes, bytes: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("there is memory for one").block_on(async {
        let line = Line::with_capacity("", CAPACITY, |query| Some(answer(query, 60)));
        let (ours, theirs) = duplex(NETWORK);
        let service = line.service.clone();
        let served = tokio::spawn(async move {
            let address = ([192, 0, 2, 7], 4000).into();
            let transport =
                if kind == FirstBytes::Framed { Transport::Tcp } else { Transport::Https };
            let (place, _lost) = service.places.enter(address, transport).expect("all are free");
            if kind == FirstBytes::Framed {
                return framing::serve(theirs, address, &place, &service).await;
            }
            let client = crate::client::Client::new(address, &place, service.clone());
            let site = Site { path: "/dns-query".into() };
            https::serve(theirs, kind == FirstBytes::Http2, &site, &client).await;
        });
        let (reader, mut writer) = split(ours);
        let mut got = Vec::new();
        let mut reader = reader.take(MAX_ANSWERS);
        // The server may end the connection before it has read everything.
        let send = async {
            let _ended = writer.write_all(bytes).await;
            let _ended = writer.shutdown().await;
        };
        let (_, read) = tokio::join!(send, reader.read_to_end(&mut got));
        read.expect("memory does not fail");
        served.await.expect("it does not panic");
        // The line looks for queries each millisecond of that time.
        if line.under_way() > 0 {
            sleep(line.service.limits.longest_wait).await;
        }
        assert_eq!(line.under_way(), 0, "a query is left behind");
        let asked = crate::lock::lock(&line.asked).iter().map(|(_, query)| query.clone()).collect();
        (got, asked)
    })
}

/// The client that a header of the PROXY protocol names.
pub fn proxied(mut bytes: &[u8]) -> Option<std::net::SocketAddr> {
    let runtime = Builder::new_current_thread().build().expect("there is memory for one");
    let peer = ([192, 0, 2, 7], 4000).into();
    runtime.block_on(proxy::read(&mut bytes, peer)).ok()
}

/// The longest query that is read of a stream.
pub const LONGEST_QUERY: usize = MAX_QUERY;
