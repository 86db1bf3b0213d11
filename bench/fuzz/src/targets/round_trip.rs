//! Fuzz target: any records, written and compressed by another library as an upstream would, to any client and back.
//!
//! Unlike `reply`, every input is a well-formed message: none may be refused, but where aliases contradict each other.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::check::question;
use crate::exchange::exchange;
use crate::forwarder::Forwarder;
use crate::input::Input;
use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, MX, NS, NULL, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pmdns_stages::cache::Lifetimes;
use pmdns_stages::testing::query;

/// Records of one message, at most.
const MAX_RECORDS: usize = 40;
/// Labels that names are made of: few, so that names share ends and are compressed.
const LABELS: [&str; 8] = ["www", "example", "com", "a", "ns1", "MiXed", "_tcp", "xn--nxasmq6b"];

thread_local! {
    static FORWARDER: RefCell<Forwarder> = RefCell::new(Forwarder::new(""));
}

/// A name of up to four labels; one byte says how many, and two which.
fn name(input: &mut Input<'_>) -> Name {
    let (count, which) = (input.byte() % 5, input.number());
    let labels = (0..count).map(|number| LABELS[usize::from(which >> (3 * number) & 7)]);
    Name::from_labels(labels.map(str::as_bytes)).expect("short labels")
}

fn data(input: &mut Input<'_>) -> RData {
    match input.byte() % 10 {
        0 => RData::A(A(Ipv4Addr::from_bits(u32::from(input.number())))),
        1 => RData::AAAA(AAAA(Ipv6Addr::from_bits(u128::from(input.number())))),
        2 => RData::CNAME(CNAME(name(input))),
        3 => RData::NS(NS(name(input))),
        4 => RData::MX(MX::new(input.number(), name(input))),
        5 => RData::SOA(SOA::new(name(input), name(input), 1, 2, 3, 4, input.number().into())),
        6 => RData::SRV(SRV::new(1, 2, input.number(), name(input))),
        7 => {
            let len = usize::from(input.byte());
            RData::TXT(TXT::from_bytes(vec![input.bytes(len)]))
        }
        8 => RData::PTR(PTR(name(input))),
        _ => {
            let (code, len) = (65_280 + input.number() % 16, usize::from(input.byte()));
            // Some libraries refuse a whole message for data that is empty, so it is not passed on.
            let bytes = Some(input.bytes(len)).filter(|bytes| !bytes.is_empty());
            let rdata = NULL::with(bytes.unwrap_or(&[0]).to_vec());
            RData::Unknown { code: RecordType::Unknown(code), rdata }
        }
    }
}

fn message(input: &mut Input<'_>) -> Message {
    let mut message = Message::response(7, OpCode::Query);
    let how = input.byte();
    message.metadata.recursion_available = true;
    message.metadata.authentic_data = how & 1 == 1;
    message.metadata.response_code =
        if how & 2 == 0 { ResponseCode::NoError } else { ResponseCode::NXDomain };
    let (asked, answer) = (name(input), data(input));
    message.add_query(Query::query(asked.clone(), answer.record_type()));
    message.add_answer(Record::from_rdata(asked, u32::from(input.number()), answer));
    for _ in 0..MAX_RECORDS {
        if input.is_empty() {
            break;
        }
        let section = input.byte() % 3;
        let record = Record::from_rdata(name(input), u32::from(input.number()) << 4, data(input));
        match section {
            0 => message.add_answer(record),
            1 => message.add_authority(record),
            _ => message.add_additional(record),
        };
    }
    message
}

/// One input.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut client = input.dress(query("a. A"));
    let later = u32::from(input.byte());
    let message = message(&mut input);
    let is_alias = |record: &Record| record.record_type() == RecordType::CNAME;
    let may_contradict = message.answers.iter().any(is_alias);
    let Ok(bytes) = message.to_vec() else { return };
    let (name, qtype, _) = question(&bytes).expect("hickory writes a whole question");
    client.qtype = qtype;
    // In the client's own letter case, which need not be the upstream's.
    let upper = client.name.iter().any(u8::is_ascii_uppercase);
    client.name = if upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
    let lifetimes =
        Lifetimes { min_ttl: 0, max_ttl: 86_400, max_negative_ttl: 900, max_body: 1232 };
    FORWARDER.with_borrow_mut(|forwarder| {
        let outcome = exchange(forwarder, &client, &bytes, &lifetimes, later);
        assert!(
            outcome == Some(Ok(())) || may_contradict && matches!(outcome, Some(Err(_))),
            "a well-formed reply is used: {outcome:?}"
        );
    });
}
