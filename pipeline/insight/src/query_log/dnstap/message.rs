//! A record as a dnstap message (`dnstap.proto`): CLIENT_RESPONSE if there was an answer, else CLIENT_QUERY.

use std::net::IpAddr;

use pmdns_engine::answers::ClientTransport;
use pmdns_stages::wire::dns::{HEADER_LEN, flag, header};
use pmdns_stages::wire::{be16, put16};

use super::protobuf::{bytes, fixed, number};
use crate::query_log::batch::Batch;
use crate::query_log::clients::ClientName;
use crate::records::{QueryRecord, Source};

/// Fields of `Dnstap`.
mod dnstap {
    pub(super) const IDENTITY: u32 = 1;
    pub(super) const VERSION: u32 = 2;
    pub(super) const EXTRA: u32 = 3;
    pub(super) const MESSAGE: u32 = 14;
    pub(super) const TYPE: u32 = 15;
}

/// Fields of `Message`.
mod field {
    pub(super) const TYPE: u32 = 1;
    pub(super) const SOCKET_FAMILY: u32 = 2;
    pub(super) const SOCKET_PROTOCOL: u32 = 3;
    pub(super) const QUERY_ADDRESS: u32 = 4;
    pub(super) const RESPONSE_ADDRESS: u32 = 5;
    pub(super) const QUERY_PORT: u32 = 6;
    pub(super) const RESPONSE_PORT: u32 = 7;
    pub(super) const QUERY_TIME_SEC: u32 = 8;
    pub(super) const QUERY_TIME_NSEC: u32 = 9;
    pub(super) const QUERY_MESSAGE: u32 = 10;
    pub(super) const RESPONSE_TIME_SEC: u32 = 12;
    pub(super) const RESPONSE_TIME_NSEC: u32 = 13;
    pub(super) const RESPONSE_MESSAGE: u32 = 14;
}

/// `Dnstap.Type`
const MESSAGE: u64 = 1;
/// `Message.Type`
const CLIENT_QUERY: u64 = 5;
const CLIENT_RESPONSE: u64 = 6;
/// Bytes of a message besides the DNS message, about.
const ROOM: usize = 128;

/// Who we are, as fields that stand in every message.
pub(super) struct Identity(Vec<u8>);

impl Identity {
    pub(super) fn new(name: String) -> Self {
        let mut fields = Vec::new();
        bytes(&mut fields, dnstap::IDENTITY, name.as_bytes());
        let version = concat!("pmdns ", env!("CARGO_PKG_VERSION"));
        bytes(&mut fields, dnstap::VERSION, version.as_bytes());
        Self(fields)
    }
}

/// Writes the message of a record into `out`, which is emptied first.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    identity: &Identity,
    batch: &Batch,
    record: &QueryRecord<'_>,
    client: ClientName,
) {
    out.clear();
    out.extend_from_slice(&identity.0);
    if let ClientName::Hash(_) = client {
        bytes(out, dnstap::EXTRA, client.to_string().as_bytes());
    }
    let mut inner = Vec::with_capacity(ROOM + record.message.len());
    put_inner(&mut inner, batch, record, client);
    bytes(out, dnstap::MESSAGE, &inner);
    number(out, dnstap::TYPE, MESSAGE);
}

fn put_inner(out: &mut Vec<u8>, batch: &Batch, record: &QueryRecord<'_>, client: ClientName) {
    let head = &record.head;
    let is_answer = head.source != Source::Drop;
    number(out, field::TYPE, if is_answer { CLIENT_RESPONSE } else { CLIENT_QUERY });
    number(out, field::SOCKET_FAMILY, if head.client.is_ipv4() { 1 } else { 2 });
    number(out, field::SOCKET_PROTOCOL, protocol(head.asked));
    if let ClientName::Full(address) | ClientName::Prefix(address) = client {
        put_address(out, field::QUERY_ADDRESS, address);
    }
    if let Some((server, port)) = head.server {
        put_address(out, field::RESPONSE_ADDRESS, server);
        number(out, field::RESPONSE_PORT, port.into());
    }
    // A port tells clients behind one address apart. So it goes with all of the address only.
    if let ClientName::Full(_) = client
        && head.client_port != 0
    {
        number(out, field::QUERY_PORT, head.client_port.into());
    }
    put_time(out, [field::QUERY_TIME_SEC, field::QUERY_TIME_NSEC], batch.time_us(head.received));
    // The client's network stands in the option that it sent.
    let hides = head.has_subnet && !matches!(client, ClientName::Full(_));
    let message = match head.is_cut || hides {
        true => &*question_alone(record.message, is_answer),
        false => record.message,
    };
    if is_answer {
        let fields = [field::RESPONSE_TIME_SEC, field::RESPONSE_TIME_NSEC];
        put_time(out, fields, batch.time_us(head.left));
        bytes(out, field::RESPONSE_MESSAGE, message);
    } else {
        bytes(out, field::QUERY_MESSAGE, message);
    }
}

fn protocol(asked: ClientTransport) -> u64 {
    match asked {
        ClientTransport::Udp => 1,
        ClientTransport::Tcp => 2,
        ClientTransport::Tls => 3,
        ClientTransport::Https => 4,
        ClientTransport::Quic => 7,
    }
}

fn put_address(out: &mut Vec<u8>, field: u32, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => bytes(out, field, &v4.octets()),
        IpAddr::V6(v6) => bytes(out, field, &v6.octets()),
    }
}

fn put_time(out: &mut Vec<u8>, [seconds, nanoseconds]: [u32; 2], time_us: u64) {
    number(out, seconds, time_us / 1_000_000);
    let rest = u32::try_from(time_us % 1_000_000 * 1000).unwrap_or(0);
    fixed(out, nanoseconds, rest);
}

/// Header and question of a message, without records. An answer says by TC that it had some.
fn question_alone(message: &[u8], is_answer: bool) -> Vec<u8> {
    let question = crate::records::question(message);
    let len = question.map_or(0, |(name, _)| name.len() + 4);
    let mut alone = message.get(..HEADER_LEN + len).unwrap_or_default().to_vec();
    if alone.len() >= HEADER_LEN {
        for count in [header::ANCOUNT, header::NSCOUNT, header::ARCOUNT] {
            put16(&mut alone, count, 0);
        }
        let flags = be16(&alone, header::FLAGS).unwrap_or(0);
        put16(&mut alone, header::FLAGS, if is_answer { flags | flag::TC } else { flags });
    }
    alone
}

#[cfg(test)]
mod tests {
    use pmdns_engine::clock::Clock;

    use super::*;
    use crate::records::QueryRecordHead;

    const ANSWER: &[u8] =
        b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x05\0\x04\xc0\0\x02\x01";

    fn head() -> QueryRecordHead {
        QueryRecordHead {
            received: 0,
            left: 0,
            client: "192.0.2.77".parse().unwrap(),
            client_port: 4242,
            server: Some(("192.0.2.53".parse().unwrap(), 53)),
            asked: ClientTransport::Udp,
            view: 0,
            source: Source::Hit,
            upstream: None,
            is_cut: false,
            has_subnet: false,
        }
    }

    fn contains(all: &[u8], part: &[u8]) -> bool {
        all.windows(part.len()).any(|window| window == part)
    }

    fn message(head: QueryRecordHead, client: ClientName) -> Vec<u8> {
        let batch = Batch::new(Vec::new(), Clock::start());
        let mut out = Vec::new();
        let record = QueryRecord { head, message: ANSWER };
        put_message(&mut out, &Identity::new("here".to_owned()), &batch, &record, client);
        out
    }

    #[test]
    fn an_answer_is_a_client_response_with_all_of_it() {
        let out = message(head(), ClientName::Full(head().client));
        assert!(out.starts_with(b"\x0a\x04here\x12"));
        assert!(out.ends_with(b"\x78\x01"), "a message");
        assert!(contains(
            &out,
            b"\x08\x06\x10\x01\x18\x01\x22\x04\xc0\0\x02\x4d\x2a\x04\xc0\0\x02\x35"
        ));
        assert!(contains(&out, b"\x30\x92\x21"), "the client's port");
        assert!(contains(&out, ANSWER));
    }

    #[test]
    fn nothing_tells_more_of_a_client_than_its_name_in_the_log() {
        let own = head().client;
        let seen = QueryRecordHead { has_subnet: true, ..head() };
        for (client, name) in [
            (ClientName::Prefix("192.0.2.0".parse().unwrap()), &b"\x22\x04\xc0\0\x02\0"[..]),
            (ClientName::Hash(7), b"\x1a\x11#0000000000000007"),
        ] {
            let out = message(seen, client);
            assert!(contains(&out, name));
            let IpAddr::V4(v4) = own else { unreachable!() };
            assert!(!contains(&out, &v4.octets()), "its address");
            assert!(!contains(&out, b"\x30\x92\x21"), "its port");
            assert!(!contains(&out, ANSWER), "the network it is in");
            let alone = b"\x12\x34\x83\x80\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
            assert!(contains(&out, alone), "the question is there");
        }
        assert!(contains(&message(seen, ClientName::Full(own)), ANSWER));
    }

    #[test]
    fn a_query_without_an_answer_is_a_client_query() {
        let dropped = QueryRecordHead {
            source: Source::Drop,
            is_cut: true,
            asked: ClientTransport::Quic,
            ..head()
        };
        let out = message(dropped, ClientName::Full(head().client));
        assert!(contains(&out, b"\x08\x05\x10\x01\x18\x07"));
        assert!(contains(&out, b"\x52\x13\x12\x34\x81\x80\0\x01\0\0"), "the query");
    }
}
