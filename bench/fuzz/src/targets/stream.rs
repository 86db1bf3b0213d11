//! Fuzz target: the first bytes of a connection of clients. The first byte says what they are: a header of the PROXY protocol,
//! messages behind their lengths, HTTP/1.1, or HTTP/2. TLS and QUIC below them are those of rustls and quinn.

use crate::input::Input;
use pmdns_streams::fuzzing::{FirstBytes, LONGEST_QUERY, proxied, serve};

/// Bytes of a DNS header.
const HEADER: usize = 12;
/// What HTTP/2 begins with (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, bytes) = match input.byte() % 4 {
        0 => {
            let _client = proxied(input.rest());
            return;
        }
        1 => (FirstBytes::Framed, input.rest().to_vec()),
        2 => (FirstBytes::Http1, input.rest().to_vec()),
        _ => (FirstBytes::Http2, [PREFACE, input.rest()].concat()),
    };
    let (got, asked) = serve(kind, &bytes);
    for query in &asked {
        assert!(query.len() >= HEADER && query.len() <= LONGEST_QUERY, "no query: {query:?}");
        assert_eq!(query[2] & 0x80, 0, "a response is no query");
    }
    match kind {
        FirstBytes::Framed => check_framed(&got, &bytes),
        FirstBytes::Http1 => assert!(got.is_empty() || got.starts_with(b"HTTP/1."), "{got:?}"),
        FirstBytes::Http2 => {}
    }
}

/// The client got whole answers, no more than it sent messages.
fn check_framed(got: &[u8], sent: &[u8]) {
    let mut answers = 0;
    for message in messages(got) {
        assert!(message.len() >= HEADER && message[2] & 0x80 != 0, "no answer: {message:?}");
        answers += 1;
    }
    let queries = messages(sent).count();
    assert!(answers <= queries, "{answers} answers to {queries} queries");
}

/// The messages behind their lengths. The last one may be cut off.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let message;
        (message, bytes) = rest.split_at(rest.len().min(u16::from_be_bytes(*length).into()));
        Some(message)
    })
}
